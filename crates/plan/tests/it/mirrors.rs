//! Downloads from several sources in simulated time: the plan, the control and the mirrors, driven as a job drives them.

use std::time::Duration;

use haul_plan::{
    Claim, ClaimRequest, ConnectionControl, ConnectionControlOptions, IntegrityEvidence,
    ProgressSample, RangeSet, RequestFailure, ResourceVersion, SegmentOptions, SegmentPlan,
    SourceContent, SourceFailure, SourceRecovery, SourceSet, SourceSetOptions,
};

const MIB: f64 = 1_048_576.0;
const STEP: Duration = Duration::from_millis(5);
const LATENCY: Duration = Duration::from_millis(20);
/// After so long without a byte a request has failed.
const STALL: Duration = Duration::from_secs(10);

/// A mirror as the network has it.
#[derive(Debug, Clone, Copy)]
struct SimulatedMirror {
    /// Bytes a second that each connection gets, and that all get.
    each: f64,
    total: f64,
    /// From then on it resets what comes and what runs.
    dies: Duration,
    /// From then on it says nothing any more.
    stalls: Duration,
    /// What it says the length is, where that is another.
    length: Option<u64>,
}

impl SimulatedMirror {
    fn of(total: f64) -> Self {
        Self {
            each: f64::INFINITY,
            total: total * MIB,
            dies: Duration::MAX,
            stalls: Duration::MAX,
            length: None,
        }
    }
}

#[derive(Debug)]
struct SimulatedMirrorWorker {
    source: usize,
    claim: Claim,
    answers: Duration,
    flowing: bool,
    heard: Duration,
    written: u64,
    owed: f64,
}

/// What came of it.
#[derive(Debug)]
struct MirrorRunOutcome {
    time: f64,
    bytes: Vec<u64>,
    dropped: Vec<usize>,
}

struct MirrorJob {
    sites: Vec<SimulatedMirror>,
    plan: SegmentPlan,
    control: ConnectionControl,
    mirrors: SourceSet,
    workers: Vec<SimulatedMirrorWorker>,
    now: Duration,
    bytes: Vec<u64>,
}

fn version(length: u64) -> ResourceVersion {
    ResourceVersion {
        length: Some(length),
        etag: "\"v\"".parse().ok(),
        ..ResourceVersion::default()
    }
}

impl MirrorJob {
    fn new(sites: &[SimulatedMirror], length: u64) -> Self {
        let control = ConnectionControlOptions {
            max: 16 * sites.len(),
            min: sites.len(),
            ..ConnectionControlOptions::default()
        };
        let options = SegmentOptions {
            connections: control.max,
            ..SegmentOptions::default()
        };
        let mut mirrors = SourceSet::new(SourceSetOptions::default());
        for _ in sites {
            mirrors.add(true);
        }
        let found = SourceContent {
            version: &version(length),
            digests: &[],
        };
        mirrors.begin(0, &found, IntegrityEvidence::default());
        Self {
            sites: sites.to_vec(),
            plan: SegmentPlan::new(length, &RangeSet::new(), options),
            control: ConnectionControl::new(control),
            mirrors,
            workers: Vec::new(),
            now: Duration::ZERO,
            bytes: vec![0; sites.len()],
        }
    }

    fn run(mut self) -> MirrorRunOutcome {
        let length = self.plan.length();
        while !self.plan.is_complete() {
            assert!(self.now < Duration::from_secs(3600), "never done");
            self.staff();
            self.answer();
            self.flow();
            self.sample();
            self.now += STEP;
        }
        assert_eq!(self.bytes.iter().sum::<u64>(), length, "each byte once");
        MirrorRunOutcome {
            time: self.now.as_secs_f64(),
            dropped: self.mirrors.dropped().map(|(source, _)| source).collect(),
            bytes: self.bytes,
        }
    }

    fn staff(&mut self) {
        while self.workers.len() < self.control.target() {
            let now = self.now;
            let claimed = self.mirrors.order(now).into_iter().find_map(|source| {
                let rate = self.mirrors.rate(source);
                let claimer = ClaimRequest {
                    rate,
                    excluded: None,
                };
                Some((source, self.plan.claim_for(&claimer, now)?))
            });
            let Some((source, claim)) = claimed else {
                return;
            };
            self.mirrors.opens(source);
            self.assign(source, claim, self.now + 2 * LATENCY);
        }
    }

    fn assign(&mut self, source: usize, claim: Claim, answers: Duration) {
        if let Some(over) = claim.taken_from.filter(|over| over.victim_emptied)
            && let Some(at) = self.workers.iter().position(|w| w.claim.id == over.victim)
        {
            let victim = self.workers.swap_remove(at);
            self.plan.release(victim.claim.id);
            self.mirrors.closes(victim.source);
        }
        self.workers.push(SimulatedMirrorWorker {
            source,
            claim,
            answers,
            flowing: false,
            heard: self.now,
            written: 0,
            owed: 0.0,
        });
    }

    fn fail(&mut self, at: usize, trouble: RequestFailure) {
        let worker = self.workers.swap_remove(at);
        self.plan.release(worker.claim.id);
        self.mirrors.closes(worker.source);
        let place = SourceFailure {
            source: worker.source,
            now: self.now,
            flowing: self.flowing(worker.source),
            redirected: false,
            why: "it failed",
            jitter: 0.5,
        };
        if self.mirrors.on_trouble(trouble, &place) == SourceRecovery::Dropped {
            self.drop_workers(worker.source);
        }
    }

    fn flowing(&self, source: usize) -> usize {
        let of = |worker: &&SimulatedMirrorWorker| worker.flowing && worker.source == source;
        self.workers.iter().filter(of).count()
    }

    fn drop_workers(&mut self, source: usize) {
        for worker in self.workers.extract_if(.., |w| w.source == source) {
            self.plan.release(worker.claim.id);
            self.mirrors.closes(source);
        }
        self.control.set_min(self.mirrors.in_play());
    }

    fn answer(&mut self) {
        let mut at = 0;
        while at < self.workers.len() {
            let worker = &self.workers[at];
            let site = self.sites[worker.source];
            let due = !worker.flowing && worker.answers <= self.now;
            if self.now >= site.dies && (due || worker.flowing) {
                let answered = worker.flowing;
                self.fail(
                    at,
                    RequestFailure::Transport {
                        transient: true,
                        answered,
                    },
                );
                at = 0;
                continue;
            }
            if self.now.saturating_sub(worker.heard) >= STALL {
                self.fail(
                    at,
                    RequestFailure::Transport {
                        transient: true,
                        answered: true,
                    },
                );
                at = 0;
                continue;
            }
            if due && self.now < site.stalls {
                let source = worker.source;
                if self.mirrors.pinned(source).is_none() {
                    let version = version(site.length.unwrap_or_else(|| self.plan.length()));
                    let found = SourceContent {
                        version: &version,
                        digests: &[],
                    };
                    if let Err(why) = self.mirrors.admit(source, &found) {
                        self.mirrors.drop_source(source, &why.to_string());
                        self.drop_workers(source);
                        at = 0;
                        continue;
                    }
                }
                let worker = &mut self.workers[at];
                (worker.flowing, worker.heard) = (true, self.now);
                self.plan.response_started(worker.claim.id, self.now);
            }
            at += 1;
        }
    }

    fn flow(&mut self) {
        let counts: Vec<usize> = (0..self.sites.len())
            .map(|source| self.flowing(source))
            .collect();
        let mut through = Vec::new();
        for worker in &mut self.workers {
            let site = self.sites[worker.source];
            if !worker.flowing || self.now >= site.stalls {
                continue;
            }
            let rate = site.each.min(site.total / counts[worker.source] as f64);
            worker.owed += rate * STEP.as_secs_f64();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "whole bytes, never negative"
            )]
            let whole = worker.owed as u64;
            worker.owed -= whole as f64;
            assert!(
                self.mirrors.is_living(worker.source),
                "a byte of a dropped one"
            );
            let granted = self.plan.reserve(worker.claim.id, whole, self.now);
            self.plan.mark_written(worker.claim.id, granted);
            self.mirrors.on_bytes(worker.source, granted);
            self.bytes[worker.source] += granted;
            worker.written += granted;
            worker.heard = self.now;
            if worker.claim.range.start + worker.written >= self.plan.claim_end(worker.claim.id) {
                through.push(worker.claim.id);
            }
        }
        for id in through {
            let Some(at) = self.workers.iter().position(|w| w.claim.id == id) else {
                continue;
            };
            let worker = self.workers.swap_remove(at);
            self.plan.release(id);
            let source = worker.source;
            let surplus = self.workers.len() >= self.control.target();
            let leaves = (surplus && self.mirrors.goes_first(source))
                || !self.mirrors.stays(source, self.now);
            let rate = self.mirrors.rate(source);
            let claimer = ClaimRequest {
                rate,
                excluded: None,
            };
            match (!leaves)
                .then(|| self.plan.claim_for(&claimer, self.now))
                .flatten()
            {
                Some(claim) => self.assign(source, claim, self.now + LATENCY),
                None => self.mirrors.closes(source),
            }
        }
    }

    fn sample(&mut self) {
        if self.now.as_millis().is_multiple_of(100) {
            self.mirrors.on_sample(self.now);
        }
        if self.now >= self.control.next_sample_at() {
            self.control.on_sample(ProgressSample {
                now: self.now,
                bytes: self.bytes.iter().sum(),
                delivering: self.workers.iter().filter(|w| w.flowing).count(),
                remaining: self.plan.remaining(),
                latency: self.plan.latency(),
            });
        }
    }
}

/// The rate that a job of `mib` got, in MiB a second.
fn rate(sites: &[SimulatedMirror], mib: u64) -> (f64, MirrorRunOutcome) {
    let outcome = MirrorJob::new(sites, mib << 20).run();
    (mib as f64 / outcome.time, outcome)
}

#[test]
fn the_rate_is_the_sum_of_what_the_mirrors_give() {
    for totals in [[10.0, 10.0, 10.0], [20.0, 5.0, 5.0], [2.0, 4.0, 24.0]] {
        let (got, outcome) = rate(&totals.map(SimulatedMirror::of), 600);
        assert!(got > 0.9 * 30.0, "{totals:?}: {got} {outcome:?}");
        assert_eq!(outcome.dropped, []);
    }
}

#[test]
fn where_connections_are_limited_there_are_many_to_each() {
    let limited = SimulatedMirror {
        each: MIB,
        ..SimulatedMirror::of(f64::INFINITY)
    };
    let (got, outcome) = rate(&[limited; 3], 1200);
    assert!(got > 0.75 * 48.0, "{got} {outcome:?}");
}

#[test]
fn a_fast_mirror_gets_the_connections() {
    let fast = SimulatedMirror {
        each: 2.0 * MIB,
        ..SimulatedMirror::of(f64::INFINITY)
    };
    let (got, outcome) = rate(&[SimulatedMirror::of(1.0), fast], 1000);
    assert!(got > 20.0, "{got} {outcome:?}");
}

#[test]
fn one_dead_one_slow_one_wrong_hold_up_nothing() {
    let dead = SimulatedMirror {
        dies: Duration::ZERO,
        ..SimulatedMirror::of(10.0)
    };
    let silent = SimulatedMirror {
        stalls: Duration::ZERO,
        ..SimulatedMirror::of(10.0)
    };
    let wrong = SimulatedMirror {
        length: Some(7),
        ..SimulatedMirror::of(10.0)
    };
    let slow = SimulatedMirror::of(0.05);
    let good = SimulatedMirror::of(10.0);
    let (alone, _) = rate(&[good], 200);
    let (got, outcome) = rate(&[good, dead, silent, wrong, slow, good], 400);
    assert!(got > 1.8 * alone, "{got} of twice {alone}: {outcome:?}");
    assert!(outcome.dropped.contains(&1) && outcome.dropped.contains(&3));
    assert!(!outcome.dropped.contains(&0) && !outcome.dropped.contains(&5));
    assert_eq!(
        (outcome.bytes[1], outcome.bytes[2], outcome.bytes[3]),
        (0, 0, 0)
    );
}

#[test]
fn one_that_dies_or_falls_silent_in_the_middle_costs_little() {
    for silent in [false, true] {
        let mut ill = SimulatedMirror::of(10.0);
        let when = Duration::from_secs(5);
        if silent {
            ill.stalls = when;
        } else {
            ill.dies = when;
        }
        // Five seconds at twenty, the rest at ten.
        let (_, outcome) = rate(&[ill, SimulatedMirror::of(10.0)], 300);
        assert!(outcome.time < 25.0 * 1.15, "{silent}: {outcome:?}");
        assert_eq!(outcome.dropped, if silent { vec![] } else { vec![0] });
    }
}

#[test]
fn a_small_file_waits_for_no_slow_mirror() {
    for mib in [1, 4, 20] {
        let (_, alone) = rate(&[SimulatedMirror::of(10.0)], mib);
        let (_, outcome) = rate(&[SimulatedMirror::of(10.0), SimulatedMirror::of(0.02)], mib);
        assert!(
            outcome.time < alone.time * 1.3 + 0.5,
            "{mib} MiB: {outcome:?}"
        );
    }
}
