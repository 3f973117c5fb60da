//! Downloads from several sources in simulated time: the segment plan, the connection control and the recovery policy, driven as a
//! job drives them.

use std::time::Duration;

use haul_plan::ResourceVersion;

use crate::connection_control::{ConnectionControl, ConnectionControlOptions, ProgressSample};
use crate::get::segment_plan::{Claim, ClaimRequest, SegmentOptions, SegmentPlan};
use crate::range_set::RangeSet;
use crate::recovery::{FailureContext, RecoveryAction, RecoveryPolicy, RetryOptions};
use crate::response::RequestFailure;
use crate::sources::{IntegrityEvidence, SourceContent, SourceSet};

const MIB: f64 = 1_048_576.0;
const STEP: Duration = Duration::from_millis(5);
const LATENCY: Duration = Duration::from_millis(20);
/// A request that brings no byte for so long has failed.
const STALL: Duration = Duration::from_secs(10);

/// A mirror and its link.
#[derive(Debug, Clone, Copy)]
struct SimulatedMirror {
    /// Bytes a second for each connection, and for all together.
    connection_rate: f64,
    total_rate: f64,
    /// From then on it resets every connection.
    dies_at: Duration,
    /// From then on it sends nothing any more.
    stalls_at: Duration,
    /// The length that it announces, if that is wrong.
    wrong_length: Option<u64>,
    /// When it restarts.
    restarts: SimulatedRestarts,
}

/// Moments in which everything fails together: all connections break, and no connection is accepted for a while.
#[derive(Debug, Clone, Copy, Default)]
struct SimulatedRestarts {
    /// How many there are.
    count: u32,
    /// The time until the first one, and from the end of each to the next one.
    up_for: Duration,
    /// How long each takes.
    down_for: Duration,
}

impl SimulatedRestarts {
    fn is_down(&self, now: Duration) -> bool {
        let period = (self.up_for + self.down_for).as_nanos();
        let number = now.as_nanos().checked_div(period);
        number.is_some_and(|number| {
            number < self.count.into() && now.as_nanos() % period >= self.up_for.as_nanos()
        })
    }
}

impl SimulatedMirror {
    fn with_rate(mib: f64) -> Self {
        Self {
            connection_rate: f64::INFINITY,
            total_rate: mib * MIB,
            dies_at: Duration::MAX,
            stalls_at: Duration::MAX,
            wrong_length: None,
            restarts: SimulatedRestarts::default(),
        }
    }
}

#[derive(Debug)]
struct SimulatedMirrorWorker {
    source: usize,
    claim: Claim,
    requested_at: Duration,
    response_at: Duration,
    has_response: bool,
    last_byte_at: Duration,
    written: u64,
    /// The fraction of a byte that has arrived after the written bytes.
    fraction: f64,
}

#[derive(Debug)]
struct MirrorRunOutcome {
    seconds: f64,
    /// Bytes of each mirror.
    bytes: Vec<u64>,
    dropped: Vec<usize>,
}

struct MirrorJob {
    mirrors: Vec<SimulatedMirror>,
    plan: SegmentPlan,
    control: ConnectionControl,
    recovery: RecoveryPolicy,
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
    fn new(mirrors: &[SimulatedMirror], length: u64) -> Self {
        let control = ConnectionControlOptions {
            max: 16 * mirrors.len(),
            min: mirrors.len(),
            ..ConnectionControlOptions::default()
        };
        let options = SegmentOptions {
            connections: control.max,
            ..SegmentOptions::default()
        };
        let mut recovery = RecoveryPolicy::new(RetryOptions {
            base_delay: Duration::from_millis(250),
            max_delay: Duration::from_secs(8),
            ..RetryOptions::default()
        });
        for _ in mirrors {
            recovery.add_source(true);
        }
        let content = SourceContent {
            version: &version(length),
            digests: &[],
        };
        let evidence = IntegrityEvidence::default();
        recovery.sources_mut().begin(0, &content, evidence);
        Self {
            mirrors: mirrors.to_vec(),
            plan: SegmentPlan::new(length, &RangeSet::new(), options),
            control: ConnectionControl::new(control),
            recovery,
            workers: Vec::new(),
            now: Duration::ZERO,
            bytes: vec![0; mirrors.len()],
        }
    }

    fn sources(&self) -> &SourceSet {
        self.recovery.sources()
    }

    fn run(mut self) -> MirrorRunOutcome {
        let length = self.plan.length();
        while !self.plan.is_complete() {
            assert!(self.now < Duration::from_secs(3600), "never done");
            self.start_workers();
            self.begin_responses();
            self.transfer();
            self.sample();
            self.now += STEP;
        }
        assert_eq!(self.bytes.iter().sum::<u64>(), length, "each byte once");
        let dropped = self.sources().dropped().map(|(source, _)| source);
        MirrorRunOutcome {
            seconds: self.now.as_secs_f64(),
            dropped: dropped.collect(),
            bytes: self.bytes,
        }
    }

    fn claim(&mut self, source: usize) -> Option<Claim> {
        let rate = self.sources().connection_rate(source);
        let request = ClaimRequest {
            rate,
            excluded: None,
        };
        self.plan.claim_for(&request, self.now)
    }

    fn start_workers(&mut self) {
        while self.workers.len() < self.control.target() {
            let candidates = self.sources().candidates(self.now).into_iter();
            let mut claims = candidates.map(|source| Some((source, self.claim(source)?)));
            let Some((source, claim)) = claims.find_map(|claimed| claimed) else {
                return;
            };
            drop(claims);
            self.recovery.sources_mut().connection_opened(source);
            self.assign(source, claim, self.now + 2 * LATENCY);
        }
    }

    fn assign(&mut self, source: usize, claim: Claim, response_at: Duration) {
        if let Some(over) = claim.taken_from.filter(|over| over.victim_emptied)
            && let Some(at) = self.workers.iter().position(|w| w.claim.id == over.victim)
        {
            self.remove_worker(at);
        }
        self.workers.push(SimulatedMirrorWorker {
            source,
            claim,
            requested_at: self.now,
            response_at,
            has_response: false,
            last_byte_at: self.now,
            written: 0,
            fraction: 0.0,
        });
    }

    /// Ends a worker and closes its connection; which source it had.
    fn remove_worker(&mut self, at: usize) -> usize {
        let worker = self.workers.swap_remove(at);
        self.plan.release(worker.claim.id);
        let sources = self.recovery.sources_mut();
        sources.connection_closed(worker.source);
        worker.source
    }

    fn fail(&mut self, at: usize, failure: &RequestFailure) {
        let (requested_at, received) = (self.workers[at].requested_at, self.workers[at].written);
        let source = self.remove_worker(at);
        let context = FailureContext {
            source,
            now: self.now,
            requested_at,
            received,
            lost_body: None,
            host_has_answered: false,
            delivering: self.delivering(source),
            redirected: false,
            keeps_source: false,
            forbidden_may_mean_overload: false,
            jitter: 0.5,
            reason: "it failed",
        };
        let action = self.recovery.on_failure(failure, &context);
        assert_ne!(action, RecoveryAction::GiveUp, "at {:?}", self.now);
        if action == RecoveryAction::DropSource {
            self.remove_workers_of(source);
        }
    }

    /// Workers of a source in the middle of a body.
    fn delivering(&self, source: usize) -> usize {
        let delivers =
            |worker: &&SimulatedMirrorWorker| worker.has_response && worker.source == source;
        self.workers.iter().filter(delivers).count()
    }

    fn remove_workers_of(&mut self, source: usize) {
        while let Some(at) = self.workers.iter().position(|w| w.source == source) {
            self.remove_worker(at);
        }
        self.control.set_min(self.sources().active_count());
    }

    /// How a worker's request fails now, if it does.
    fn failure(&self, worker: &SimulatedMirrorWorker) -> Option<RequestFailure> {
        let mirror = self.mirrors[worker.source];
        let answered = worker.has_response;
        let is_dead = self.now >= mirror.dies_at && (answered || worker.response_at <= self.now);
        if is_dead {
            return Some(RequestFailure::Disconnected { answered });
        }
        if mirror.restarts.is_down(self.now) {
            return if answered {
                Some(RequestFailure::Disconnected { answered })
            } else {
                (worker.response_at <= self.now)
                    .then_some(RequestFailure::Unreachable { transient: true })
            };
        }
        let is_stalled = self.now.saturating_sub(worker.last_byte_at) >= STALL;
        is_stalled.then_some(RequestFailure::Transport {
            transient: true,
            answered: true,
        })
    }

    fn begin_responses(&mut self) {
        let mut at = 0;
        while at < self.workers.len() {
            let worker = &self.workers[at];
            if let Some(failure) = self.failure(worker) {
                self.fail(at, &failure);
                at = 0;
                continue;
            }
            let (source, mirror) = (worker.source, self.mirrors[worker.source]);
            let due = !worker.has_response && worker.response_at <= self.now;
            if due && self.now < mirror.stalls_at {
                if !self.admit(source) {
                    self.remove_workers_of(source);
                    at = 0;
                    continue;
                }
                let worker = &mut self.workers[at];
                (worker.has_response, worker.last_byte_at) = (true, self.now);
                self.plan.response_started(worker.claim.id, self.now);
            }
            at += 1;
        }
    }

    /// A source's first response: whether it has the file. A source that does not is dropped.
    fn admit(&mut self, source: usize) -> bool {
        if self.sources().pinned_version(source).is_some() {
            return true;
        }
        let length = self.mirrors[source].wrong_length;
        let content = SourceContent {
            version: &version(length.unwrap_or_else(|| self.plan.length())),
            digests: &[],
        };
        let sources = self.recovery.sources_mut();
        let admitted = sources.admit(source, &content);
        if let Err(mismatch) = &admitted {
            sources.drop_source(source, &mismatch.to_string());
        }
        admitted.is_ok()
    }

    fn transfer(&mut self) {
        let sources = 0..self.mirrors.len();
        let delivering: Vec<usize> = sources.map(|source| self.delivering(source)).collect();
        let mut finished = Vec::new();
        for worker in &mut self.workers {
            let mirror = self.mirrors[worker.source];
            if !worker.has_response || self.now >= mirror.stalls_at {
                continue;
            }
            let share = mirror.total_rate / delivering[worker.source] as f64;
            worker.fraction += mirror.connection_rate.min(share) * STEP.as_secs_f64();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "whole bytes, never negative"
            )]
            let whole = worker.fraction as u64;
            worker.fraction -= whole as f64;
            assert!(
                self.recovery.sources().is_live(worker.source),
                "a byte of a dropped source"
            );
            let granted = self.plan.reserve(worker.claim.id, whole, self.now);
            self.plan.mark_written(worker.claim.id, granted);
            self.recovery.on_bytes(worker.source, granted);
            self.bytes[worker.source] += granted;
            worker.written += granted;
            worker.last_byte_at = self.now;
            if worker.claim.range.start + worker.written >= self.plan.claim_end(worker.claim.id) {
                finished.push(worker.claim.id);
            }
        }
        for id in finished {
            if let Some(at) = self.workers.iter().position(|w| w.claim.id == id) {
                self.next_claim(at);
            }
        }
    }

    /// A worker has finished its claim: it takes the next one, or its connection goes.
    fn next_claim(&mut self, at: usize) {
        let worker = self.workers.swap_remove(at);
        self.plan.release(worker.claim.id);
        let source = worker.source;
        let surplus = self.workers.len() >= self.control.target();
        let leaves = (surplus && self.sources().should_release(source))
            || !self.sources().should_stay(source, self.now);
        let claim = if leaves { None } else { self.claim(source) };
        match claim {
            Some(claim) => self.assign(source, claim, self.now + LATENCY),
            None => self.recovery.sources_mut().connection_closed(source),
        }
    }

    fn sample(&mut self) {
        if self.now.as_millis().is_multiple_of(100) {
            self.recovery.sources_mut().on_sample(self.now);
        }
        if self.now >= self.control.next_sample_at() {
            self.control.on_sample(ProgressSample {
                now: self.now,
                bytes: self.bytes.iter().sum(),
                delivering: self.workers.iter().filter(|w| w.has_response).count(),
                remaining: self.plan.remaining(),
                latency: self.plan.latency(),
            });
        }
    }
}

/// The rate of a download of this size in MiB, in MiB a second.
fn rate(mirrors: &[SimulatedMirror], mib: u64) -> (f64, MirrorRunOutcome) {
    let outcome = MirrorJob::new(mirrors, mib << 20).run();
    (mib as f64 / outcome.seconds, outcome)
}

#[test]
fn the_rate_is_the_sum_of_the_mirrors_rates() {
    for totals in [[10.0, 10.0, 10.0], [20.0, 5.0, 5.0], [2.0, 4.0, 24.0]] {
        let (got, outcome) = rate(&totals.map(SimulatedMirror::with_rate), 600);
        assert!(got > 0.9 * 30.0, "{totals:?}: {got} {outcome:?}");
        assert!(outcome.dropped.is_empty(), "{outcome:?}");
    }
}

#[test]
fn where_each_connection_is_limited_every_mirror_gets_many() {
    let limited = SimulatedMirror {
        connection_rate: MIB,
        ..SimulatedMirror::with_rate(f64::INFINITY)
    };
    let (got, outcome) = rate(&[limited; 3], 1200);
    assert!(got > 0.75 * 48.0, "{got} {outcome:?}");
}

#[test]
fn a_fast_mirror_gets_most_connections() {
    let fast = SimulatedMirror {
        connection_rate: 2.0 * MIB,
        ..SimulatedMirror::with_rate(f64::INFINITY)
    };
    let (got, outcome) = rate(&[SimulatedMirror::with_rate(1.0), fast], 1000);
    assert!(got > 20.0, "{got} {outcome:?}");
}

#[test]
fn a_dead_a_slow_and_a_wrong_mirror_hold_up_nothing() {
    let dead = SimulatedMirror {
        dies_at: Duration::ZERO,
        ..SimulatedMirror::with_rate(10.0)
    };
    let silent = SimulatedMirror {
        stalls_at: Duration::ZERO,
        ..SimulatedMirror::with_rate(10.0)
    };
    let wrong = SimulatedMirror {
        wrong_length: Some(7),
        ..SimulatedMirror::with_rate(10.0)
    };
    let slow = SimulatedMirror::with_rate(0.05);
    let good = SimulatedMirror::with_rate(10.0);
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
fn a_mirror_that_dies_or_stalls_in_the_middle_costs_little() {
    for stalls in [false, true] {
        let mut failing = SimulatedMirror::with_rate(10.0);
        let when = Duration::from_secs(5);
        if stalls {
            failing.stalls_at = when;
        } else {
            failing.dies_at = when;
        }
        // Five seconds at twenty, the rest at ten.
        let (_, outcome) = rate(&[failing, SimulatedMirror::with_rate(10.0)], 300);
        assert!(outcome.seconds < 25.0 * 1.15, "{stalls}: {outcome:?}");
        assert_eq!(outcome.dropped, if stalls { vec![] } else { vec![0] });
    }
}

#[test]
fn a_small_file_does_not_wait_for_a_slow_mirror() {
    for mib in [1, 4, 20] {
        let (_, alone) = rate(&[SimulatedMirror::with_rate(10.0)], mib);
        let (_, outcome) = rate(
            &[
                SimulatedMirror::with_rate(10.0),
                SimulatedMirror::with_rate(0.02),
            ],
            mib,
        );
        assert!(
            outcome.seconds < alone.seconds * 1.3 + 0.5,
            "{mib} MiB: {outcome:?}"
        );
    }
}

#[test]
fn a34_an_origin_that_restarts_delays_the_download_by_about_that_time() {
    for down_ms in [300, 1000, 5000, 20_000] {
        for count in [1, 3] {
            // One connection is enough, or sixteen are needed.
            for (connection_rate, total_rate) in [(f64::INFINITY, 40.0), (2.5, f64::INFINITY)] {
                let steady = SimulatedMirror {
                    connection_rate: connection_rate * MIB,
                    ..SimulatedMirror::with_rate(total_rate)
                };
                let restarts = SimulatedRestarts {
                    count,
                    up_for: Duration::from_secs(8),
                    down_for: Duration::from_millis(down_ms),
                };
                let restarting = SimulatedMirror { restarts, ..steady };
                let (_, undisturbed) = rate(&[steady], 2000);
                let (_, outcome) = rate(&[restarting], 2000);
                // The wait doubles, so that the last one is at most as long as all before it together. Then the number of
                // connections is measured anew.
                let restart = 2.0 * restarts.down_for.as_secs_f64() + 10.0;
                let longest = undisturbed.seconds + f64::from(count) * restart;
                assert!(
                    outcome.seconds < longest,
                    "{restarts:?}: {outcome:?}, not {longest}"
                );
            }
        }
    }
}
