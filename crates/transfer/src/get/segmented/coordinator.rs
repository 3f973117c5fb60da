//! The owner of a job's workers, and of everything that changes their number.
//!
//! `select!` only makes a [`CoordinatorEvent`]; [`SegmentCoordinator::on_event`] carries out what is decided about it: how many
//! connections ([`ConnectionControl`]), which source gets the next one, what a failure leads to
//! ([`RecoveryPolicy`](crate::recovery::RecoveryPolicy)).

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use haul_net::FetchResponse;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::piece_check::{BadPiece, PieceCheck};
use super::retry_report::{RetriedFailure, RetryReports};
use super::state::SegmentedState;
use super::worker::{
    ActiveBodyGuard, FailedRequest, FirstSegmentResponse, SegmentWorker, WorkerExit,
};
use crate::checksum::DigestFollower;
use crate::connection_control::{
    ConnectionControl, ConnectionCountLimit, ConnectionRefusal, ProgressSample,
};
use crate::error::GetError;
use crate::event::TransferEvent;
use crate::get::checkpoint::Checkpointer;
use crate::get::context::{JobContext, PROGRESS_INTERVAL};
use crate::get::host_limits::HostPermit;
use crate::get::piece_verifier::CheckedPiece;
use crate::get::snapshot::ConnectionReport;
use crate::get::strategy::RestartReason;
use crate::recovery::{FailureContext, RecoveryAction};
use crate::response::RequestFailure;
use crate::warning::TransferWarning;

/// How the workers ended, when not with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SegmentedEnd {
    /// Every byte is in the file.
    Complete,
    /// The download begins again.
    Restart(RestartReason),
}

/// A connection that a worker may use.
#[derive(Debug)]
pub(super) struct WorkerConnection {
    /// The job's first response, if its body is still to be read, and its range.
    pub(super) response: Option<(FetchResponse, Range<u64>)>,
    pub(super) source: usize,
    pub(super) permit: HostPermit,
}

/// Drives a job's workers.
#[derive(Debug)]
pub(super) struct SegmentCoordinator<'a> {
    pub(super) context: &'a JobContext<'a>,
    pub(super) shared: Arc<SegmentedState>,
    /// Decides how many workers there are.
    pub(super) control: ConnectionControl,
    /// Keeps the journal.
    pub(super) checkpointer: Checkpointer,
    /// Computes digests behind the download.
    pub(super) follower: Option<DigestFollower>,
    pub(super) pieces: PieceCheck,
    pub(super) retry_reports: RetryReports,
    pub(super) workers: JoinSet<WorkerExit>,
    /// The numbers of the workers.
    pub(super) numbers: Vec<usize>,
    /// The round trip that the first response showed.
    pub(super) round_trip: Option<Duration>,
    /// The permit of the last worker, while none runs: what is given up could be other jobs' for as long as they last.
    pub(super) last_permit: Option<HostPermit>,
}

enum CoordinatorEvent {
    WorkerExited(Result<WorkerExit, JoinError>),
    CheckpointDone(std::io::Result<()>),
    PiecesChecked(std::io::Result<Vec<CheckedPiece>>),
    Tick,
    Stop,
}

impl SegmentCoordinator<'_> {
    /// Runs the job to its end. Where that is an error, the journal claims everything that was written by then.
    ///
    /// # Errors
    /// The error that ends the strategy.
    pub(super) async fn run(&mut self, first: WorkerConnection) -> Result<SegmentedEnd, GetError> {
        let end = self.run_workers(first).await;
        // Workers stop at their next await; a write that runs is waited for, so that its bytes are claimed below.
        self.workers.shutdown().await;
        self.pieces.close().await;
        if matches!(end, Ok(SegmentedEnd::Complete)) {
            self.report_connections().await;
        }
        let unsynced = {
            let mut table = self.shared.table();
            let sources = table.sources.recovery.sources_mut();
            sources.all_connections_closed();
            end.is_err().then(|| table.unsynced.take())
        };
        if let Some(unsynced) = unsynced {
            // The first error is the one that matters; one that follows from it here says no more.
            let _ = self.checkpointer.close(unsynced).await;
        }
        end
    }

    async fn run_workers(&mut self, first: WorkerConnection) -> Result<SegmentedEnd, GetError> {
        if let Some((response, _)) = &first.response {
            self.on_first_response(response.timings.round_trip());
        }
        let mut first = Some(first);
        loop {
            self.pieces.start_round(&self.shared.table());
            if self.shared.table().plan.is_complete() && self.pieces.is_complete() {
                let closed = self.checkpointer.close(Vec::new()).await;
                closed.map_err(|e| self.local("sync", e))?;
                return Ok(SegmentedEnd::Complete);
            }
            self.start_workers(&mut first);
            let event = self.next_event().await;
            if let Some(end) = self.on_event(event).await? {
                return Ok(end);
            }
        }
    }

    /// The first response has begun: the plan and the control learn how long the path is.
    fn on_first_response(&mut self, round_trip: Duration) {
        let mut table = self.shared.table();
        table.plan.set_round_trip(round_trip);
        let remaining = table.plan.remaining();
        drop(table);
        self.round_trip = Some(round_trip);
        let now = self.shared.now();
        let rate_limit = self.context.engine.client.connector().rate_limit();
        self.control
            .on_first_response(remaining, round_trip, rate_limit, now);
    }

    async fn report_connections(&self) {
        let bytes = std::mem::take(&mut *self.shared.worker_bytes());
        let report = TransferEvent::Connections {
            job: self.context.job.id,
            connections: self.control.settled_target(),
            bytes,
            round_trip: self.round_trip,
            limit: self.connection_limit(),
        };
        self.context.send(report).await;
    }

    /// Why there are no more connections.
    fn connection_limit(&self) -> ConnectionCountLimit {
        if self.is_rate_limited() {
            ConnectionCountLimit::RateLimit
        } else {
            self.control.limit()
        }
    }

    /// Whether the download was about as fast as the user's limit for all connections.
    fn is_rate_limited(&self) -> bool {
        let rate = self.shared.fetched() as f64 / self.shared.now().as_secs_f64();
        self.shared.table().plan.is_at_rate_limit(rate)
    }

    /// Starts workers up to the target, as far as there is work for them.
    fn start_workers(&mut self, first: &mut Option<WorkerConnection>) {
        let (target, running) = (self.control.target(), self.numbers.len());
        self.shared.counts.set_wanted(target);
        let free: Vec<usize> = (0..)
            .filter(|number| !self.numbers.contains(number))
            .take(target.saturating_sub(running))
            .collect();
        for number in free {
            match first.take().or_else(|| self.next_connection()) {
                Some(connection) => self.start_worker(number, connection),
                // Nothing is left to claim, every source rests, or the hosts' limits are reached by this job and others.
                None => return self.lift_exclusive(),
            }
        }
    }

    /// The source of the next worker, with a permit for a connection to it. `None` when no source has work for one more, or room: the
    /// workers that run go on.
    fn next_connection(&mut self) -> Option<WorkerConnection> {
        let (now, job_now) = (self.shared.now(), self.shared.job_now());
        let candidates = self.shared.table().source_set().candidates(job_now);
        candidates.into_iter().find_map(|source| {
            let table = self.shared.table();
            let host = Arc::clone(&table.sources.get(source).host);
            if !table.has_work(source, now) {
                return None;
            }
            drop(table);
            Some(WorkerConnection {
                response: None,
                source,
                permit: host.try_acquire_next(&mut self.last_permit)?,
            })
        })
    }

    /// Where no worker runs, lets any source fetch the ranges that one alone was to send, if that one can send nothing now: the next
    /// tick then finds work for some.
    fn lift_exclusive(&self) {
        let (now, job_now) = (self.shared.now(), self.shared.job_now());
        let is_idle = self.numbers.is_empty() && !self.pieces.has_bad_ranges();
        let mut table = self.shared.table();
        if is_idle && !table.plan.is_complete() {
            table.lift_exclusive(now, job_now);
        }
    }

    fn start_worker(&mut self, number: usize, connection: WorkerConnection) {
        let WorkerConnection {
            response,
            source,
            permit,
        } = connection;
        let worker = SegmentWorker {
            number,
            job: self.context.job.id,
            source,
            shared: Arc::clone(&self.shared),
            events: self.context.engine.events.clone(),
            permit,
        };
        let now = self.shared.now();
        let mut table = self.shared.table();
        let first = response.and_then(|(response, range)| {
            let claim = table.claim_first_response(number, source, range, now)?;
            Some((response, claim))
        });
        let sources = table.sources.recovery.sources_mut();
        sources.connection_opened(source);
        drop(table);
        let first = first.map(|(response, held)| FirstSegmentResponse {
            response,
            held,
            active: ActiveBodyGuard::new(Arc::clone(&self.shared), source),
        });
        self.numbers.push(number);
        self.last_permit = None;
        self.shared.counts.worker_started();
        self.workers.spawn(worker.run(first));
    }

    async fn next_event(&mut self) -> CoordinatorEvent {
        let tick = self.next_tick();
        tokio::select! {
            biased;
            () = self.context.stop.cancelled() => CoordinatorEvent::Stop,
            Some(exit) = self.workers.join_next() => CoordinatorEvent::WorkerExited(exit),
            done = self.checkpointer.wait() => CoordinatorEvent::CheckpointDone(done),
            checked = self.pieces.next_results() => CoordinatorEvent::PiecesChecked(checked),
            () = tokio::time::sleep_until(tick) => CoordinatorEvent::Tick,
        }
    }

    /// The time of the next report, of the control's next sample, or of the end of a rest of all sources.
    fn next_tick(&self) -> Instant {
        let now = Instant::now();
        let sample = self.shared.epoch + self.control.next_sample_at();
        let tick = (now + PROGRESS_INTERVAL).min(sample);
        let tick = tick.min(self.retry_reports.next_due().unwrap_or(tick));
        let job_now = self.shared.job_now();
        let soonest = self.shared.table().source_set().soonest(job_now);
        match soonest {
            Some(next) if !next.wait.is_zero() => tick.min(now + next.wait),
            _ => tick,
        }
    }

    async fn on_event(
        &mut self,
        event: CoordinatorEvent,
    ) -> Result<Option<SegmentedEnd>, GetError> {
        match event {
            CoordinatorEvent::Stop => return Err(GetError::INTERRUPTED),
            CoordinatorEvent::CheckpointDone(result) => {
                result.map_err(|e| self.local("sync", e))?;
                for range in self.checkpointer.take_discarded() {
                    let mut table = self.shared.table();
                    self.pieces.on_discarded(range, &mut table);
                }
            }
            CoordinatorEvent::PiecesChecked(checked) => {
                let checked = checked.map_err(|e| self.local("read", e))?;
                self.on_checked_pieces(checked).await?;
                self.begin_checkpoint_if_due();
            }
            CoordinatorEvent::Tick => {
                self.on_tick();
                let due = self
                    .retry_reports
                    .take_due(self.context.job.id, Instant::now());
                for event in due {
                    self.context.send(event).await;
                }
            }
            CoordinatorEvent::WorkerExited(Ok(exit)) => {
                self.numbers.retain(|number| *number != exit.number);
                self.close_connection(exit.source);
                self.last_permit = self.numbers.is_empty().then_some(exit.permit);
                if let Some(failed) = exit.failed {
                    return self.on_failure(failed).await;
                }
            }
            // A worker is aborted only after this loop has ended, so it panicked: the bug is passed on.
            CoordinatorEvent::WorkerExited(Err(error)) => {
                std::panic::resume_unwind(error.into_panic())
            }
        }
        Ok(None)
    }

    /// Takes a sample, reports the progress, begins a checkpoint if one is due.
    fn on_tick(&mut self) {
        let (now, job_now) = (self.shared.now(), self.shared.job_now());
        let mut table = self.shared.table();
        table.sources.recovery.sources_mut().on_sample(job_now);
        let (done, delivering) = (table.plan.done(), table.active_bodies());
        let written = done.prefix_end();
        let progress = TransferEvent::Progress {
            job: self.context.job.id,
            done: done.total_bytes(),
            length: Some(table.plan.length()),
            connections: delivering,
        };
        let sample = ProgressSample {
            now,
            bytes: self.shared.fetched(),
            delivering,
            remaining: table.plan.remaining(),
            latency: table.plan.latency(),
        };
        drop(table);
        if now >= self.control.next_sample_at() {
            self.control.on_sample(sample);
        }
        if let Some(steering) = self.context.steering {
            if let Some(number) = steering.connections() {
                let most = self.context.options().connections.max();
                self.control.set_number(number.min(most));
            }
            steering.note_control(ConnectionReport {
                target: self.control.target(),
                limit: self.connection_limit(),
                round_trip: self.round_trip,
            });
        }
        if let Some(follower) = &self.follower {
            follower.advance(written.min(self.pieces.verified_prefix()));
        }
        self.begin_checkpoint_if_due();
        // A renderer that is behind will see the next one.
        let _ = self.context.engine.events.try_send(progress);
    }

    fn begin_checkpoint_if_due(&mut self) {
        let unsynced = self.shared.table().unsynced.bytes();
        if self.checkpointer.is_due(unsynced) {
            let ranges = self.shared.table().unsynced.take();
            self.checkpointer.begin(ranges);
        }
    }

    /// Carries out what the recovery policy decides about a failed request.
    async fn on_failure(
        &mut self,
        failed: FailedRequest,
    ) -> Result<Option<SegmentedEnd>, GetError> {
        let (number, reason) = (failed.number, failed.error.reason());
        let Some(failure) = &failed.error.failure else {
            return Err(failed.error.error);
        };
        let (action, delivering) = self.decide(&failed, failure, &reason);
        tracing::debug!(source = number, ?action, "{reason}");
        match action {
            RecoveryAction::GiveUp => return Err(failed.error.error),
            RecoveryAction::StartOver => {
                return Ok(Some(SegmentedEnd::Restart(RestartReason::Changed)));
            }
            RecoveryAction::OneStream => {
                return Ok(Some(SegmentedEnd::Restart(RestartReason::UnusableRanges)));
            }
            RecoveryAction::Ignore => {}
            RecoveryAction::DropSource => self.drop_source(number, &reason).await,
            RecoveryAction::WithoutIfRange => {
                let mut table = self.shared.table();
                table.sources.get_mut(number).may_send_if_range = false;
            }
            RecoveryAction::ResolveAgain(wait) => {
                self.resolve_again(number);
                self.report_retry(&failed, wait, reason).await;
            }
            RecoveryAction::FewerConnections(wait) => {
                self.control.on_refused(ConnectionRefusal {
                    now: self.shared.now(),
                    requested_at: failed.requested_at,
                    open_connections: self.numbers.len(),
                    overloaded: matches!(failure, RequestFailure::Busy { .. }),
                });
                match delivering {
                    0 => self.report_retry(&failed, wait, reason).await,
                    _ => self.report_fewer_connections(wait, reason).await,
                }
            }
            RecoveryAction::Retry(wait) => {
                self.control.on_failed(self.shared.now(), delivering);
                self.report_retry(&failed, wait, reason).await;
            }
            RecoveryAction::UseOtherSources(wait) => {
                let url = haul_net::redacted_url(&failed.source.url);
                let reason = format!("{url}: {reason}");
                match delivering {
                    0 => self.report_retry(&failed, wait, reason).await,
                    _ => self.report_fewer_connections(wait, reason).await,
                }
            }
        }
        Ok(None)
    }

    /// Asks the recovery policy. Returns also how many connections of the source deliver.
    fn decide(
        &self,
        failed: &FailedRequest,
        failure: &RequestFailure,
        reason: &str,
    ) -> (RecoveryAction, usize) {
        let source = failed.number;
        let mut table = self.shared.table();
        // A redirect that expired is not followed any more: the next worker goes where requests go now.
        let may_be_expired = matches!(
            failure,
            RequestFailure::Denied { .. }
                | RequestFailure::RangeRefused { .. }
                | RequestFailure::ErrorPage
        );
        if may_be_expired && table.sources.get(source).location != failed.source.location {
            return (RecoveryAction::Ignore, 0);
        }
        let now = self.shared.job_now();
        let ago = self.shared.now().saturating_sub(failed.requested_at);
        let delivering = table.active_bodies_of(source);
        let action = table.sources.recovery.on_failure(
            failure,
            &FailureContext {
                source,
                now,
                requested_at: now.saturating_sub(ago),
                received: failed.received,
                lost_body: None,
                host_has_answered: false,
                delivering,
                redirected: failed.source.is_redirected(),
                keeps_source: false,
                forbidden_may_mean_overload: false,
                jitter: rand::random(),
                reason,
            },
        );
        (action, delivering)
    }

    fn close_connection(&self, source: usize) {
        let mut table = self.shared.table();
        let sources = table.sources.recovery.sources_mut();
        sources.connection_closed(source);
    }

    fn resolve_again(&self, source: usize) {
        let mut table = self.shared.table();
        let hosts = &self.shared.host_limits;
        table.sources.get_mut(source).resolve_again(hosts);
    }

    /// Reports a retry: at once where there is no wait, else together with others of the same moment.
    async fn report_retry(&mut self, failed: &FailedRequest, wait: Duration, reason: String) {
        if wait.is_zero() {
            return self.report_fewer_connections(wait, reason).await;
        }
        let now = Instant::now();
        let source = failed.number;
        let retried = RetriedFailure {
            source,
            retry: self.shared.table().sources.recovery.retry_number(source),
            resume_at: now + wait,
            is_close: (failed.error.failure.as_ref()).is_some_and(RetriedFailure::is_close),
            reason,
        };
        self.retry_reports.add(retried, now);
    }

    /// Reports what costs no retry.
    async fn report_fewer_connections(&self, wait: Duration, reason: String) {
        let event = TransferEvent::Retry {
            job: self.context.job.id,
            attempt: 0,
            limit: 0,
            wait,
            reason: reason.into(),
        };
        self.context.send(event).await;
    }

    /// Requests nothing from a source any more. The bytes that it sent stay: they are of the version that was pinned, or each piece of
    /// them is verified.
    async fn drop_source(&mut self, source: usize, reason: &str) {
        let (active, live, url) = {
            let mut table = self.shared.table();
            table.drop_source(source, reason);
            let url = haul_net::redacted_url(&table.sources.get(source).url);
            let sources = table.source_set();
            (sources.active_count(), sources.live_count(), url)
        };
        self.control.set_min(active);
        if live > 0 {
            let reason = reason.to_owned();
            let warning = TransferWarning::SourceDropped { url, reason };
            self.context.warn(warning).await;
        }
    }

    /// Pieces were compared with their digests.
    async fn on_checked_pieces(&mut self, checked: Vec<CheckedPiece>) -> Result<(), GetError> {
        for piece in checked {
            if piece.bad_count == 0 {
                self.shared.table().on_good_piece(&piece.range);
                continue;
            }
            let bad = self.pieces.on_bad_piece(&piece, &self.shared);
            self.checkpointer.discard(piece.range);
            let BadPiece { warning, dropped } = bad?;
            self.context.warn(warning).await;
            for source in dropped {
                let reason = "a piece from it does not match its digest";
                self.drop_source(source, reason).await;
            }
        }
        Ok(())
    }

    fn local(&self, action: &'static str, source: std::io::Error) -> GetError {
        GetError::io(action, self.shared.path.clone(), source)
    }
}
