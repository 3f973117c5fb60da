//! Whole downloads in simulated time: control and plan together, against the best fixed number of connections.

use std::time::Duration;

use haul_plan::{
    Claim, ConnectionControl, ControlOptions, RangeSet, Sample, SegmentOptions, SegmentPlan,
};

use crate::link::{Bursts, Flow, Limits, Link, MIB};

/// One step of simulated time.
const STEP: Duration = Duration::from_millis(1);

/// A worker with its connection.
struct Worker {
    connection: usize,
    claim: Claim,
    /// When its answer begins.
    answers: Duration,
    /// Whether it has begun.
    flowing: bool,
    /// Bytes of the present answer, and those of them that are not whole yet.
    sent: f64,
    owed: f64,
}

/// A download.
struct Download<'a> {
    link: &'a dyn Link,
    plan: SegmentPlan,
    control: ConnectionControl,
    workers: Vec<Worker>,
    now: Duration,
    bytes: u64,
    made: usize,
    /// When the target first was sixteen.
    sixteen: Option<Duration>,
}

impl<'a> Download<'a> {
    fn new(link: &'a dyn Link, length: u64, control: ControlOptions) -> Self {
        let options = SegmentOptions {
            connections: control.max,
            ..SegmentOptions::default()
        };
        let plan = SegmentPlan::new(length, &RangeSet::new(), options);
        let control = ConnectionControl::new(control);
        Self {
            link,
            plan,
            control,
            workers: Vec::new(),
            now: Duration::ZERO,
            bytes: 0,
            made: 0,
            sixteen: None,
        }
    }

    fn run(mut self) -> (Duration, usize, Option<Duration>) {
        while !self.plan.is_complete() {
            assert!(self.now < Duration::from_secs(7200), "never done");
            self.staff();
            self.flow();
            self.sample();
            self.now += STEP;
        }
        (self.now, self.control.settled(), self.sixteen)
    }

    fn staff(&mut self) {
        while self.workers.len() < self.control.target() {
            // A segment is only worth claiming over a connection that there is.
            if !self.plan.has_work(self.now) {
                return;
            }
            if self.link.refuses(self.workers.len()) {
                self.control.on_refused(self.now, self.workers.len());
                return;
            }
            let connection = self.made;
            self.made += 1;
            // A connection to make and a request to answer.
            let answers = self.now + self.link.latency() * 2;
            self.assign(connection, answers);
        }
    }

    fn assign(&mut self, connection: usize, answers: Duration) {
        let Some(claim) = self.plan.claim(self.now) else {
            return;
        };
        if let Some(over) = claim.taken_from.filter(|over| over.voided)
            && let Some(at) = self
                .workers
                .iter()
                .position(|worker| worker.claim.id == over.victim)
        {
            let victim = self.workers.swap_remove(at);
            self.plan.release(victim.claim.id);
        }
        self.workers.push(Worker {
            connection,
            claim,
            answers,
            flowing: false,
            sent: 0.0,
            owed: 0.0,
        });
    }

    fn flow(&mut self) {
        for worker in self
            .workers
            .iter_mut()
            .filter(|worker| !worker.flowing && worker.answers <= self.now)
        {
            worker.flowing = true;
            self.plan.first_byte(worker.claim.id, self.now);
        }
        let flowing: Vec<usize> = (0..self.workers.len())
            .filter(|n| self.workers[*n].flowing)
            .collect();
        let flows: Vec<Flow> = flowing
            .iter()
            .map(|n| self.workers[*n].view(self.now))
            .collect();
        let given = self.link.give(self.now, STEP.as_secs_f64(), &flows);
        let mut ended = Vec::new();
        for (n, bytes) in flowing.into_iter().zip(given) {
            let worker = &mut self.workers[n];
            worker.sent += bytes;
            worker.owed += bytes;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "whole bytes, never negative"
            )]
            let whole = worker.owed as u64;
            worker.owed -= whole as f64;
            let granted = if whole > 0 {
                self.plan.reserve(worker.claim.id, whole, self.now)
            } else {
                0
            };
            self.plan.wrote(worker.claim.id, granted);
            self.bytes += granted;
            if granted < whole
                || (whole > 0
                    && self.plan.reserve(worker.claim.id, 0, self.now) == 0
                    && self.is_through(n))
            {
                ended.push((n, granted < whole));
            }
        }
        for (n, _) in ended.into_iter().rev() {
            let worker = self.workers.swap_remove(n);
            let cut = worker.claim.range.end != self.plan.end(worker.claim.id);
            self.plan.release(worker.claim.id);
            if self.workers.len() < self.control.target() && self.plan.has_work(self.now) {
                // A connection whose answer was cut short is made anew; else it takes the next request.
                let latency = self.link.latency() * if cut { 2 } else { 1 };
                self.assign(worker.connection, self.now + latency);
            }
        }
    }

    /// Whether a worker has all of its claim.
    fn is_through(&self, n: usize) -> bool {
        let claim = &self.workers[n].claim;
        self.plan
            .done()
            .covers(&(claim.range.start..self.plan.end(claim.id)))
    }

    fn sample(&mut self) {
        if self.now >= self.control.next_sample() {
            let flowing = self.workers.iter().filter(|worker| worker.flowing).count();
            let (remaining, latency) = (self.plan.remaining(), self.plan.latency());
            self.control.on_sample(Sample {
                now: self.now,
                bytes: self.bytes,
                flowing,
                remaining,
                latency,
            });
            if self.control.target() == 16 {
                self.sixteen.get_or_insert(self.now);
            }
        }
    }
}

impl Worker {
    fn view(&self, now: Duration) -> Flow {
        Flow {
            connection: self.connection,
            since: now.saturating_sub(self.answers),
            sent: self.sent,
        }
    }
}

fn fixed(connections: usize) -> ControlOptions {
    ControlOptions {
        max: connections,
        fixed: true,
        ..ControlOptions::default()
    }
}

fn mib(count: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a test's own number"
    )]
    let bytes = (count * MIB) as u64;
    bytes
}

/// The control's time must be within 5 % of that of the best fixed number.
#[track_caller]
fn near_the_best(link: &dyn Link, length: u64) -> usize {
    let time = |options| Download::new(link, length, options).run();
    let (best, number) = (1..=16).map(|n| (time(fixed(n)).0, n)).min().unwrap();
    let (found, settled, _) = time(ControlOptions::default());
    assert!(
        found <= best.mul_f64(1.05),
        "{found:?} and {settled} connections, where {number} fixed ones take {best:?}"
    );
    settled
}

#[test]
fn a_limit_on_each_connection() {
    let link = Limits {
        rate: 8.0 * MIB,
        ..Limits::default()
    };
    assert_eq!(near_the_best(&link, mib(1536.0)), 16);
}

#[test]
fn a_limit_shared_by_all_where_surplus_connections_cost() {
    let link = Limits {
        total: 12.0 * MIB,
        loss: 0.01,
        ..Limits::default()
    };
    assert!(near_the_best(&link, mib(240.0)) <= 2);
}

#[test]
fn a_limit_on_each_and_one_on_all() {
    let link = Limits {
        rate: 5.0 * MIB,
        total: 20.0 * MIB,
        loss: 0.01,
        ..Limits::default()
    };
    let settled = near_the_best(&link, mib(600.0));
    assert!((4..=6).contains(&settled), "settled on {settled}");
}

#[test]
fn a18_an_origin_that_refuses_the_fifth_connection() {
    let link = Limits {
        rate: 8.0 * MIB,
        most: 4,
        ..Limits::default()
    };
    assert_eq!(near_the_best(&link, mib(960.0)), 4);
}

#[test]
fn a20_one_slow_connection_costs_next_to_nothing() {
    let link = Limits {
        rate: 8.0 * MIB,
        slow: Some(1),
        ..Limits::default()
    };
    near_the_best(&link, mib(1536.0));
    // And the total is what the fast ones give: fifteen and a tenth, where sixteen would be without the slow one.
    let (time, ..) = Download::new(&link, mib(1536.0), fixed(16)).run();
    assert!(
        time.as_secs_f64() < 1536.0 / (15.1 * 8.0) * 1.05,
        "{time:?}"
    );
}

#[test]
fn a19_a_stalled_connection_costs_next_to_nothing() {
    let link = Limits {
        rate: 8.0 * MIB,
        stalled: Some(2),
        ..Limits::default()
    };
    let (time, ..) = Download::new(&link, mib(1536.0), fixed(16)).run();
    assert!(
        time.as_secs_f64() < 1536.0 / (15.0 * 8.0) * 1.10,
        "{time:?}"
    );
}

#[test]
fn a_link_that_becomes_wider_half_way() {
    let later = Limits {
        rate: 4.0 * MIB,
        ..Limits::default()
    };
    let early = Limits {
        total: 4.0 * MIB,
        loss: 0.01,
        ..Limits::default()
    };
    let link = Limits {
        later: Some((Duration::from_secs(40), Box::new(later))),
        ..early
    };
    near_the_best(&link, mib(160.0 + 64.0 * 240.0));
}

#[test]
fn a_link_that_becomes_narrower_half_way() {
    let later = Limits {
        total: 8.0 * MIB,
        loss: 0.01,
        ..Limits::default()
    };
    let early = Limits {
        rate: 4.0 * MIB,
        ..Limits::default()
    };
    let link = Limits {
        later: Some((Duration::from_secs(20), Box::new(later))),
        ..early
    };
    near_the_best(&link, mib(64.0 * 20.0 + 8.0 * 60.0));
}

#[test]
fn an_origin_that_paces_in_bursts_gets_sixteen_connections_at_once() {
    let (time, settled, sixteen) =
        Download::new(&Bursts, mib(256.0), ControlOptions::default()).run();
    assert_eq!(settled, 16);
    assert!(
        sixteen.unwrap() <= Duration::from_millis(400),
        "sixteen after {sixteen:?}"
    );
    // Sixteen even shares would take three and a half seconds.
    assert!(time <= Duration::from_millis(3600), "{time:?}");
}

#[test]
fn a_limit_on_each_connection_is_met_within_a_third_of_a_second() {
    let link = Limits {
        latency: Duration::from_millis(1),
        rate: 4.0 * MIB,
        ..Limits::default()
    };
    let (_, _, sixteen) = Download::new(&link, mib(256.0), ControlOptions::default()).run();
    assert!(
        sixteen.unwrap() <= Duration::from_millis(350),
        "sixteen after {sixteen:?}"
    );
}

#[test]
fn a_very_fast_link_is_not_slowed_by_looking() {
    let link = Limits {
        latency: Duration::from_micros(200),
        rate: 1300.0 * MIB,
        total: 2048.0 * MIB,
        loss: 0.01,
        ..Limits::default()
    };
    let settled = near_the_best(&link, mib(8.0 * 4096.0));
    assert!((2..=3).contains(&settled), "settled on {settled}");
}
