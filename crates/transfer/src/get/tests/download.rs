//! A download in simulated time: the plan and the control, driven as a job drives them, over a simulated link.
//!
//! Like a job, the driver carries the decisions out: a connect takes a round trip and a request another one, a connection with an
//! incomplete response is replaced, and one that is silent for [`STALL`] is closed.

use std::time::Duration;

use super::simulated_link::{SimulatedConnection, SimulatedLink};
use crate::connection_control::{
    ConnectionControl, ConnectionControlOptions, ConnectionRefusal, ProgressSample,
};
use crate::get::segment_plan::{Claim, ClaimId, SegmentOptions, SegmentPlan};
use crate::range_set::RangeSet;

/// After so long without a byte a request has failed.
const STALL: Duration = Duration::from_secs(30);

/// The result of a download.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimulatedDownloadOutcome {
    /// From the head of the first answer to the last byte.
    pub(crate) time: Duration,
    /// The number of connections that the control settled on.
    pub(crate) settled: usize,
    /// When sixteen connections were first wanted.
    pub(crate) sixteen: Option<Duration>,
    /// Requests made.
    pub(crate) requests: usize,
    /// Connections made.
    pub(crate) connections: usize,
    /// Connections that the origin refused.
    pub(crate) refusals: usize,
}

/// A worker with its connection.
#[derive(Debug)]
struct SimulatedWorker {
    /// The connection's number.
    connection: usize,
    /// What it fetches.
    claim: Claim,
    /// When it was requested.
    requested_at: Duration,
    /// When its answer begins.
    response_at: Duration,
    /// Whether it has begun.
    delivering: bool,
    /// When something last arrived, or the request was sent.
    last_bytes_at: Duration,
    /// Bytes of the present answer.
    sent: f64,
    /// The part of a byte that has come beyond them.
    owed: f64,
    /// Bytes of the claim in the file.
    written: u64,
}

/// How a worker's part in a claim ended.
#[derive(Debug, PartialEq, Eq)]
enum SimulatedClaimEnd {
    /// With its last byte: the connection takes the next request.
    Whole,
    /// Before the answer's end: the connection goes.
    Short,
}

/// A download under way.
pub(crate) struct SimulatedDownload<'a> {
    link: &'a dyn SimulatedLink,
    plan: SegmentPlan,
    control: ConnectionControl,
    workers: Vec<SimulatedWorker>,
    /// Until when the origin counts connections that were closed before their answer's end.
    lingering: Vec<Duration>,
    now: Duration,
    bytes: u64,
    outcome: SimulatedDownloadOutcome,
}

impl<'a> SimulatedDownload<'a> {
    /// Time begins with the head of the first response, which has the length.
    pub(crate) fn new(
        link: &'a dyn SimulatedLink,
        length: u64,
        control: ConnectionControlOptions,
    ) -> Self {
        Self::with(link, length, control, Self::segment_options(control), None)
    }

    /// The same where the round trip is known, as a job knows it from its first connection.
    pub(crate) fn with_known_round_trip(
        link: &'a dyn SimulatedLink,
        length: u64,
        control: ConnectionControlOptions,
    ) -> Self {
        let round_trip = Some(link.latency());
        Self::with(
            link,
            length,
            control,
            Self::segment_options(control),
            round_trip,
        )
    }

    fn segment_options(control: ConnectionControlOptions) -> SegmentOptions {
        SegmentOptions {
            connections: control.max,
            ..SegmentOptions::default()
        }
    }

    fn with(
        link: &'a dyn SimulatedLink,
        length: u64,
        control: ConnectionControlOptions,
        options: SegmentOptions,
        round_trip: Option<Duration>,
    ) -> Self {
        let nothing = RangeSet::new();
        let first = SegmentPlan::first_range(&options, &nothing, None, Duration::ZERO, false);
        let mut plan = SegmentPlan::new(length, &nothing, options);
        let mut control = ConnectionControl::new(control);
        if let Some(round_trip) = round_trip {
            plan.set_round_trip(round_trip);
            control.on_first_response(length, round_trip, None, Duration::ZERO);
        }
        let adopted = plan.claim_first_response(first, Duration::ZERO);
        Self {
            link,
            plan,
            control,
            workers: adopted
                .map(|claim| SimulatedWorker::new(0, claim, Duration::ZERO, Duration::ZERO))
                .into_iter()
                .collect(),
            lingering: Vec::new(),
            now: Duration::ZERO,
            bytes: 0,
            outcome: SimulatedDownloadOutcome {
                time: Duration::ZERO,
                settled: 1,
                sixteen: None,
                requests: 1,
                connections: 1,
                refusals: 0,
            },
        }
    }

    /// Runs the download to its end.
    pub(crate) fn run(mut self) -> SimulatedDownloadOutcome {
        while !self.plan.is_complete() {
            assert!(self.now < Duration::from_secs(7200), "never done");
            self.start_workers();
            self.begin_responses();
            self.transfer();
            self.sample();
            self.now += self.link.step();
        }
        assert_eq!(self.bytes, self.plan.length(), "each byte is written once");
        self.outcome.time = self.now;
        self.outcome.settled = self.control.settled_target();
        self.outcome
    }

    /// Opens connections up to the target, while there is work for them.
    fn start_workers(&mut self) {
        while self.workers.len() < self.control.target() && self.plan.has_work(self.now) {
            if self.link.refuses_connection(self.workers.len()) {
                self.outcome.refusals += 1;
                self.report_refusal(self.now, false);
                return;
            }
            let connection = self.open_connection();
            // A round trip to connect, and one for the request.
            let response_at = self.now + self.link.latency() + self.link.response_latency();
            self.assign(connection, response_at);
        }
    }

    /// Opens a connection, and returns its number.
    fn open_connection(&mut self) -> usize {
        self.outcome.connections += 1;
        self.outcome.connections - 1
    }

    fn assign(&mut self, connection: usize, response_at: Duration) {
        let Some(claim) = self.plan.claim(self.now) else {
            return;
        };
        self.outcome.requests += 1;
        if let Some(over) = claim.taken_from.filter(|over| over.victim_emptied) {
            self.remove_worker(over.victim);
        }
        let worker = SimulatedWorker::new(connection, claim, self.now, response_at);
        self.workers.push(worker);
    }

    /// Removes a worker and releases its claim.
    fn remove_worker(&mut self, id: ClaimId) -> Option<SimulatedWorker> {
        let at = self
            .workers
            .iter()
            .position(|worker| worker.claim.id == id)?;
        let worker = self.workers.swap_remove(at);
        if worker.delivering && worker.end(&self.plan, self.now) != Some(SimulatedClaimEnd::Whole) {
            self.lingering
                .push(self.now + self.link.counts_closed_for());
        }
        self.plan.release(id);
        Some(worker)
    }

    /// Reports a refusal to the connection control.
    fn report_refusal(&mut self, requested_at: Duration, busy: bool) {
        self.control.on_refused(ConnectionRefusal {
            now: self.now,
            requested_at,
            open_connections: self.workers.len(),
            overloaded: busy,
        });
    }

    /// Begins the responses that are due, or refuses their requests.
    fn begin_responses(&mut self) {
        self.lingering.retain(|until| *until > self.now);
        let due = |worker: &&SimulatedWorker| !worker.delivering && worker.response_at <= self.now;
        let due: Vec<ClaimId> = self
            .workers
            .iter()
            .filter(due)
            .map(|w| w.claim.id)
            .collect();
        for id in due {
            let delivering = self
                .workers
                .iter()
                .filter(|worker| worker.delivering)
                .count();
            if self.link.responds_503(delivering + self.lingering.len()) {
                if let Some(worker) = self.remove_worker(id) {
                    self.report_refusal(worker.requested_at, true);
                }
            } else if let Some(worker) = self.workers.iter_mut().find(|w| w.claim.id == id) {
                worker.delivering = true;
                worker.last_bytes_at = self.now;
                self.plan.response_started(id, self.now);
            }
        }
    }

    /// Writes the bytes that arrive in one step.
    fn transfer(&mut self) {
        let delivering = self.workers.iter().filter(|worker| worker.delivering);
        let connections: Vec<SimulatedConnection> =
            delivering.map(|worker| worker.view(self.now)).collect();
        let given = self
            .link
            .bytes_in_step(self.now, self.link.step().as_secs_f64(), &connections);
        let delivering = self.workers.iter_mut().filter(|worker| worker.delivering);
        for (worker, bytes) in delivering.zip(given) {
            self.bytes += worker.take(bytes, &mut self.plan, self.now);
        }
        let ended: Vec<(ClaimId, SimulatedClaimEnd)> = self
            .workers
            .iter()
            .filter_map(|worker| Some((worker.claim.id, worker.end(&self.plan, self.now)?)))
            .collect();
        for (id, end) in ended {
            self.finish_claim(id, &end);
        }
    }

    /// Ends a worker's claim, and gives its connection the next one, if the target allows it.
    fn finish_claim(&mut self, id: ClaimId, end: &SimulatedClaimEnd) {
        let Some(worker) = self.remove_worker(id) else {
            return;
        };
        if self.workers.len() >= self.control.target() || !self.plan.has_work(self.now) {
            return;
        }
        let response_at = self.now + self.link.response_latency();
        match end {
            SimulatedClaimEnd::Whole => self.assign(worker.connection, response_at),
            SimulatedClaimEnd::Short => {
                let connection = self.open_connection();
                self.assign(connection, response_at + self.link.latency());
            }
        }
    }

    fn sample(&mut self) {
        if self.now < self.control.next_sample_at() {
            return;
        }
        let delivering = self
            .workers
            .iter()
            .filter(|worker| worker.delivering)
            .count();
        let target = self.control.on_sample(ProgressSample {
            now: self.now,
            bytes: self.bytes,
            delivering,
            remaining: self.plan.remaining(),
            latency: self.plan.latency(),
        });
        if target == 16 {
            self.outcome.sixteen.get_or_insert(self.now);
        }
    }
}

impl SimulatedWorker {
    fn new(connection: usize, claim: Claim, now: Duration, response_at: Duration) -> Self {
        Self {
            connection,
            requested_at: now,
            claim,
            response_at,
            delivering: false,
            last_bytes_at: now,
            sent: 0.0,
            owed: 0.0,
            written: 0,
        }
    }

    /// Bytes arrived: those that are still this worker's are written.
    fn take(&mut self, bytes: f64, plan: &mut SegmentPlan, now: Duration) -> u64 {
        self.sent += bytes;
        self.owed += bytes;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole bytes, never negative"
        )]
        let whole = self.owed as u64;
        if whole == 0 {
            return 0;
        }
        self.owed -= whole as f64;
        self.last_bytes_at = now;
        let granted = plan.reserve(self.claim.id, whole, now);
        plan.mark_written(self.claim.id, granted);
        self.written += granted;
        granted
    }

    /// Whether and how the worker is through.
    fn end(&self, plan: &SegmentPlan, now: Duration) -> Option<SimulatedClaimEnd> {
        let end = plan.claim_end(self.claim.id);
        if now.saturating_sub(self.last_bytes_at) >= STALL {
            return Some(SimulatedClaimEnd::Short);
        }
        let through = self.claim.range.start + self.written >= end;
        through.then_some(if end == self.claim.range.end {
            SimulatedClaimEnd::Whole
        } else {
            SimulatedClaimEnd::Short
        })
    }

    fn view(&self, now: Duration) -> SimulatedConnection {
        SimulatedConnection {
            number: self.connection,
            response_age: now.saturating_sub(self.response_at),
            sent: self.sent,
        }
    }
}
