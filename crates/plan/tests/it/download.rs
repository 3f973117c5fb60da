//! A download in simulated time: the plan and the control, driven as a job drives them, over a simulated link.
//!
//! Like a job, the driver carries the decisions out: a connect takes a round trip and a request another one, a connection with an
//! incomplete response is replaced, and one that is silent for [`STALL`] is closed.

use std::time::Duration;

use haul_plan::{
    Claim, ClaimId, ConnectionControl, ConnectionControlOptions, ConnectionRefusal, ProgressSample,
    RangeSet, SegmentOptions, SegmentPlan,
};

use crate::simulated_link::{SimulatedConnection, SimulatedLink};

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
    answers: Duration,
    /// Whether it has begun.
    flowing: bool,
    /// When something last arrived, or the request was sent.
    heard: Duration,
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
    /// Time begins with the head of the first answer, which has the length.
    pub(crate) fn new(
        link: &'a dyn SimulatedLink,
        length: u64,
        control: ConnectionControlOptions,
    ) -> Self {
        let options = SegmentOptions {
            connections: control.max,
            ..SegmentOptions::default()
        };
        Self::with(link, length, control, options)
    }

    pub(crate) fn with(
        link: &'a dyn SimulatedLink,
        length: u64,
        control: ConnectionControlOptions,
        options: SegmentOptions,
    ) -> Self {
        let nothing = RangeSet::new();
        let first = SegmentPlan::first_range(&options, &nothing, None);
        let mut plan = SegmentPlan::new(length, &nothing, options);
        let adopted = plan.claim_first_response(first, Duration::ZERO);
        Self {
            link,
            plan,
            control: ConnectionControl::new(control),
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

    /// Runs it to its end.
    pub(crate) fn run(mut self) -> SimulatedDownloadOutcome {
        while !self.plan.is_complete() {
            assert!(self.now < Duration::from_secs(7200), "never done");
            self.staff();
            self.answer();
            self.flow();
            self.sample();
            self.now += self.link.step();
        }
        assert_eq!(self.bytes, self.plan.length(), "each byte is written once");
        self.outcome.time = self.now;
        self.outcome.settled = self.control.settled_target();
        self.outcome
    }

    /// Makes connections up to the target, as far as there is work for them.
    fn staff(&mut self) {
        while self.workers.len() < self.control.target() && self.plan.has_work(self.now) {
            if self.link.refuses_connection(self.workers.len()) {
                self.outcome.refusals += 1;
                self.refused(self.now, false);
                return;
            }
            let connection = self.made();
            // A connection to make and a request to answer.
            let answers = self.now + self.link.latency() + self.link.response_latency();
            self.assign(connection, answers);
        }
    }

    /// The number of a connection that is made now.
    fn made(&mut self) -> usize {
        self.outcome.connections += 1;
        self.outcome.connections - 1
    }

    fn assign(&mut self, connection: usize, answers: Duration) {
        let Some(claim) = self.plan.claim(self.now) else {
            return;
        };
        self.outcome.requests += 1;
        if let Some(over) = claim.taken_from.filter(|over| over.victim_emptied) {
            self.dismiss(over.victim);
        }
        let worker = SimulatedWorker::new(connection, claim, self.now, answers);
        self.workers.push(worker);
    }

    /// Takes a worker out and gives its claim back.
    fn dismiss(&mut self, id: ClaimId) -> Option<SimulatedWorker> {
        let at = self
            .workers
            .iter()
            .position(|worker| worker.claim.id == id)?;
        let worker = self.workers.swap_remove(at);
        if worker.flowing && worker.end(&self.plan, self.now) != Some(SimulatedClaimEnd::Whole) {
            self.lingering
                .push(self.now + self.link.counts_closed_for());
        }
        self.plan.release(id);
        Some(worker)
    }

    /// The control gets a refusal.
    fn refused(&mut self, requested_at: Duration, busy: bool) {
        self.control.on_refused(ConnectionRefusal {
            now: self.now,
            requested_at,
            open_connections: self.workers.len(),
            overloaded: busy,
        });
    }

    /// Answers begin, or are refused.
    fn answer(&mut self) {
        self.lingering.retain(|until| *until > self.now);
        let due = |worker: &&SimulatedWorker| !worker.flowing && worker.answers <= self.now;
        let due: Vec<ClaimId> = self
            .workers
            .iter()
            .filter(due)
            .map(|w| w.claim.id)
            .collect();
        for id in due {
            let flowing = self.workers.iter().filter(|worker| worker.flowing).count();
            if self.link.responds_503(flowing + self.lingering.len()) {
                if let Some(worker) = self.dismiss(id) {
                    self.refused(worker.requested_at, true);
                }
            } else if let Some(worker) = self.workers.iter_mut().find(|w| w.claim.id == id) {
                worker.flowing = true;
                worker.heard = self.now;
                self.plan.response_started(id, self.now);
            }
        }
    }

    /// A step's bytes arrive and are written.
    fn flow(&mut self) {
        let flowing = self.workers.iter().filter(|worker| worker.flowing);
        let flows: Vec<SimulatedConnection> = flowing.map(|worker| worker.view(self.now)).collect();
        let given = self
            .link
            .bytes_in_step(self.now, self.link.step().as_secs_f64(), &flows);
        let flowing = self.workers.iter_mut().filter(|worker| worker.flowing);
        for (worker, bytes) in flowing.zip(given) {
            self.bytes += worker.take(bytes, &mut self.plan, self.now);
        }
        let ended: Vec<(ClaimId, SimulatedClaimEnd)> = self
            .workers
            .iter()
            .filter_map(|worker| Some((worker.claim.id, worker.end(&self.plan, self.now)?)))
            .collect();
        for (id, end) in ended {
            self.next(id, &end);
        }
    }

    /// A worker is through with a claim: it goes on with the next one, if it is still wanted.
    fn next(&mut self, id: ClaimId, end: &SimulatedClaimEnd) {
        let Some(worker) = self.dismiss(id) else {
            return;
        };
        if self.workers.len() >= self.control.target() || !self.plan.has_work(self.now) {
            return;
        }
        let answers = self.now + self.link.response_latency();
        match end {
            SimulatedClaimEnd::Whole => self.assign(worker.connection, answers),
            SimulatedClaimEnd::Short => {
                let connection = self.made();
                self.assign(connection, answers + self.link.latency());
            }
        }
    }

    fn sample(&mut self) {
        if self.now < self.control.next_sample_at() {
            return;
        }
        let flowing = self.workers.iter().filter(|worker| worker.flowing).count();
        let target = self.control.on_sample(ProgressSample {
            now: self.now,
            bytes: self.bytes,
            delivering: flowing,
            remaining: self.plan.remaining(),
            latency: self.plan.latency(),
        });
        if target == 16 {
            self.outcome.sixteen.get_or_insert(self.now);
        }
    }
}

impl SimulatedWorker {
    fn new(connection: usize, claim: Claim, now: Duration, answers: Duration) -> Self {
        Self {
            connection,
            requested_at: now,
            claim,
            answers,
            flowing: false,
            heard: now,
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
        self.heard = now;
        let granted = plan.reserve(self.claim.id, whole, now);
        plan.mark_written(self.claim.id, granted);
        self.written += granted;
        granted
    }

    /// Whether and how the worker is through.
    fn end(&self, plan: &SegmentPlan, now: Duration) -> Option<SimulatedClaimEnd> {
        let end = plan.claim_end(self.claim.id);
        if now.saturating_sub(self.heard) >= STALL {
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
            response_age: now.saturating_sub(self.answers),
            sent: self.sent,
        }
    }
}
