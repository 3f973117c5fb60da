//! A download over a link with TCP: the plan and the control, driven as the engine drives them.
//!
//! As in the engine, the first response is older than the plan, a worker that has ended its claim claims the next bytes on the same
//! connection, one whose rest was taken over needs a new connection, and workers start when another one has ended or a tick has come.

use std::time::Duration;

use super::tcp_link::{TcpLink, TcpPath, whole};
use crate::connection_control::{ConnectionControl, ConnectionControlOptions, ProgressSample};
use crate::get::segment_plan::{Claim, ClaimId, SegmentOptions, SegmentPlan};
use crate::range_set::RangeSet;

/// The engine looks for work at least this often.
const TICK: Duration = Duration::from_millis(100);

/// The result of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TcpDownloadOutcome {
    /// From the first connect to the last byte.
    pub(crate) time: Duration,
    pub(crate) requests: usize,
    pub(crate) connections: usize,
    /// The number of connections that the control settled on.
    pub(crate) settled: usize,
    /// Bytes that the client read.
    pub(crate) received: u64,
}

/// A worker in the middle of a claim.
#[derive(Debug)]
struct TcpWorker {
    connection: usize,
    claim: Claim,
    /// Bytes that the response still brings.
    expected: u64,
    is_delivering: bool,
}

/// A download under way.
pub(crate) struct TcpDownload {
    link: TcpLink,
    plan: SegmentPlan,
    control: ConnectionControl,
    workers: Vec<TcpWorker>,
    /// Connections whose response was read to its end, and that no worker has.
    idle: Vec<usize>,
    /// When the first response began: the plan's times count from then.
    epoch: Duration,
    now: Duration,
    next_tick: Duration,
    outcome: TcpDownloadOutcome,
}

impl TcpDownload {
    /// Downloads a file of `length` bytes, if that takes no longer than a limit.
    pub(crate) fn run(
        path: TcpPath,
        length: u64,
        control: ConnectionControlOptions,
        limit: Duration,
    ) -> Option<TcpDownloadOutcome> {
        let mut download = Self::begin(path, length, control);
        while !download.plan.is_complete() {
            if download.now > limit {
                return None;
            }
            download.advance();
        }
        download.outcome.time = download.now;
        download.outcome.settled = download.control.settled_target();
        Some(download.outcome)
    }

    /// Runs until the first response has begun.
    fn begin(path: TcpPath, length: u64, control: ConnectionControlOptions) -> Self {
        let options = SegmentOptions {
            connections: control.max,
            first_request: if control.max == 1 {
                u64::MAX
            } else {
                SegmentOptions::default().first_request
            },
            ..SegmentOptions::default()
        };
        let nothing = RangeSet::new();
        let has_tls = path.setup_round_trips > 1;
        let range = SegmentPlan::first_range(&options, &nothing, None, path.round_trip, has_tls);
        let mut link = TcpLink::new(path);
        let connection = link.connect(Duration::ZERO);
        let expected = range.end.min(length);
        link.request(connection, expected, Duration::ZERO);
        let (now, arrived) = loop {
            let now = link.next_event().unwrap();
            if let Some(arrived) = link.advance() {
                break (now, arrived.bytes);
            }
        };
        let mut plan = SegmentPlan::new(length, &nothing, options);
        let mut control = ConnectionControl::new(control);
        plan.set_round_trip(path.round_trip);
        control.on_first_response(length, path.round_trip, None, Duration::ZERO);
        let claim = plan
            .claim_first_response(range.start..expected, Duration::ZERO)
            .unwrap();
        let mut download = Self {
            link,
            plan,
            control,
            workers: vec![TcpWorker {
                connection,
                claim,
                expected,
                is_delivering: true,
            }],
            idle: Vec::new(),
            epoch: now,
            now,
            next_tick: now,
            outcome: TcpDownloadOutcome {
                time: Duration::ZERO,
                requests: 1,
                connections: 1,
                settled: 1,
                received: 0,
            },
        };
        download.start_workers();
        download.on_bytes(connection, whole(arrived));
        download
    }

    /// The plan's time.
    fn plan_now(&self) -> Duration {
        self.now - self.epoch
    }

    /// Carries out what comes next: an event of the link, or a tick.
    fn advance(&mut self) {
        match self.link.next_event().filter(|at| *at <= self.next_tick) {
            Some(at) => {
                self.now = at;
                if let Some(arrived) = self.link.advance() {
                    self.on_bytes(arrived.connection, whole(arrived.bytes));
                }
            }
            None => {
                self.now = self.next_tick;
                self.on_tick();
            }
        }
    }

    fn on_tick(&mut self) {
        let now = self.plan_now();
        if now >= self.control.next_sample_at() {
            self.control.on_sample(ProgressSample {
                now,
                bytes: self.outcome.received,
                delivering: self
                    .workers
                    .iter()
                    .filter(|worker| worker.is_delivering)
                    .count(),
                remaining: self.plan.remaining(),
                latency: self.plan.latency(),
            });
        }
        self.start_workers();
        let sample = self.epoch + self.control.next_sample_at();
        self.next_tick = (self.now + TICK).min(sample.max(self.now + Duration::from_millis(1)));
    }

    /// Starts workers up to the target, while there is work for them.
    fn start_workers(&mut self) {
        while self.workers.len() < self.control.target() && self.plan.has_work(self.plan_now()) {
            let connection = self.idle.pop();
            self.claim(connection);
        }
    }

    /// Lets a worker claim bytes and request them, on a connection of its own if there is none.
    fn claim(&mut self, connection: Option<usize>) {
        if self.workers.len() >= self.control.target() {
            self.idle.extend(connection);
            return;
        }
        let Some(claim) = self.plan.claim(self.plan_now()) else {
            self.idle.extend(connection);
            return;
        };
        let connection = connection.unwrap_or_else(|| {
            self.outcome.connections += 1;
            self.link.connect(self.now)
        });
        self.outcome.requests += 1;
        let expected = claim.range.end - claim.range.start;
        self.link.request(connection, expected, self.now);
        let emptied = claim.taken_from.filter(|taken| taken.victim_emptied);
        self.workers.push(TcpWorker {
            connection,
            claim,
            expected,
            is_delivering: false,
        });
        if let Some(taken) = emptied {
            // The victim's connection goes, and its worker claims other bytes.
            self.end_claim(taken.victim, true);
        }
    }

    /// Ends a claim. Its worker claims the next bytes: on the same connection unless the rest of the response was cut.
    fn end_claim(&mut self, id: ClaimId, is_cut: bool) {
        let Some(at) = self.workers.iter().position(|worker| worker.claim.id == id) else {
            return;
        };
        let worker = self.workers.swap_remove(at);
        self.plan.release(id);
        if is_cut {
            self.link.close(worker.connection);
        }
        self.claim(Some(worker.connection).filter(|_| !is_cut));
        self.start_workers();
    }

    /// A worker gets bytes, and writes those that are still its own.
    fn on_bytes(&mut self, connection: usize, bytes: u64) {
        let now = self.plan_now();
        self.outcome.received += bytes;
        let Some(worker) = self
            .workers
            .iter_mut()
            .find(|worker| worker.connection == connection)
        else {
            return;
        };
        let id = worker.claim.id;
        worker.expected -= bytes;
        worker.is_delivering = true;
        let is_whole = worker.expected == 0;
        self.plan.response_started(id, now);
        let granted = self.plan.reserve(id, bytes, now);
        self.plan.mark_written(id, granted);
        if granted < bytes || is_whole {
            self.end_claim(id, granted < bytes);
        }
    }
}
