//! The segmented road: several workers, one plan, one file.
//!
//! The coordinator owns the workers and everything that changes their number. `select!` only makes a [`CoordinatorEvent`];
//! [`SegmentCoordinator::on_event`] carries out what `plan` decides about it: how many connections ([`ConnectionControl`]),
//! what a failure means ([`FailurePolicy`]).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use haul_net::FetchResponse;
use haul_plan::{
    ConnectionControl, ConnectionRefusal, FailureContext, FailurePolicy, ProgressSample, RangeSet,
    RecoveryAction, RequestFailure,
};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::PROGRESS_INTERVAL;
use super::attempt_failure::AttemptFailure;
use super::checkpoint::Checkpointer;
use super::host_limits::HostPermit;
use super::piece_verifier::{CheckedPiece, PieceVerifier};
use super::segment_worker::{FailedRequest, SegmentWorker, WorkerExit, WorkerExitReason};
use super::segmented_state::SegmentedState;
use crate::checksum::DigestFollower;
use crate::error::GetError;
use crate::event::{TransferEvent, TransferEventSender};

/// How a segmented download ended, when not with an error.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SegmentedOutcome {
    /// Every byte is in the file.
    Complete,
    /// The resource changed: what came is of no use.
    StartOver,
    /// Ranges cannot be trusted here.
    OneStream,
    /// A document that nobody asked for is not about what the origin has: neither is what came from the places it names.
    DocumentMismatch,
}

/// What the job's first request left: leave to hold its connection, and the answer if bytes are still to be read.
#[derive(Debug)]
pub(super) struct FirstConnection {
    /// The answer, judged, with the range of its bytes.
    pub(super) response: Option<(FetchResponse, Range<u64>)>,
    /// Which source it came from.
    pub(super) source: usize,
    /// Leave to hold a connection.
    pub(super) permit: HostPermit,
}

/// Drives a job's workers.
#[derive(Debug)]
pub(super) struct SegmentCoordinator<'a> {
    /// Which job.
    pub(super) job: u64,
    /// What the workers share.
    pub(super) shared: Arc<SegmentedState>,
    /// How many of them.
    pub(super) control: ConnectionControl,
    /// What failures mean.
    pub(super) course: &'a mut FailurePolicy,
    /// The journal's keeper.
    pub(super) checkpoints: Checkpointer,
    /// Hashes behind the download.
    pub(super) follower: Option<DigestFollower>,
    /// Compares pieces with their digests.
    pub(super) verifier: Option<PieceVerifier>,
    /// How many sources, the first ones, know better than the digests of pieces, which come from a document that nobody asked for.
    pub(super) trusted_sources: Option<usize>,
    /// Where events go.
    pub(super) events: TransferEventSender,
    /// Stops the job, keeping what can be resumed.
    pub(super) stop: CancellationToken,
    /// For messages.
    pub(super) path: std::path::PathBuf,
    /// What runs and when something is next due.
    pub(super) tasks: WorkerTasks,
}

/// The workers at work.
#[derive(Debug, Default)]
pub(super) struct WorkerTasks {
    /// Owns them.
    workers: JoinSet<WorkerExit>,
    /// Their numbers.
    numbers: Vec<usize>,
    /// No new worker before this moment.
    hold_until: Option<Instant>,
    /// Bytes told to the course so far.
    accounted_bytes: u64,
    /// Bytes that are known to be bad and are still claimed by the journal.
    pub(super) bad_ranges: RangeSet,
}

/// What woke the coordinator.
enum CoordinatorEvent {
    /// A worker ended.
    WorkerExited(Result<WorkerExit, JoinError>),
    /// A checkpoint ended.
    CheckpointDone(std::io::Result<()>),
    /// Pieces were looked at.
    PiecesChecked(std::io::Result<Vec<CheckedPiece>>),
    /// Something is due.
    Tick,
    /// The caller wants an end.
    Stop,
}

impl SegmentCoordinator<'_> {
    /// Runs the job to its end. What was written by then is journalled, unless the file is whole.
    pub(super) async fn run(
        &mut self,
        first: FirstConnection,
    ) -> Result<SegmentedOutcome, GetError> {
        let ended = self.run_workers(Some(first)).await;
        // Workers stop at their next await; a write that runs is waited for, so that its bytes are claimed below.
        self.tasks.workers.shutdown().await;
        if let Some(verifier) = &mut self.verifier {
            verifier.close().await;
        }
        if !matches!(
            ended,
            Ok(SegmentedOutcome::Complete
                | SegmentedOutcome::StartOver
                | SegmentedOutcome::OneStream
                | SegmentedOutcome::DocumentMismatch)
        ) {
            let pieces = self.shared.table().unsynced.take();
            // The first error is the one to tell; one that follows from it here says no more.
            let _ = self.checkpoints.close(pieces).await;
        }
        ended
    }

    async fn run_workers(
        &mut self,
        mut first: Option<FirstConnection>,
    ) -> Result<SegmentedOutcome, GetError> {
        loop {
            self.verify();
            if self.shared.table().plan.is_complete() && self.is_verified() {
                self.checkpoints
                    .close(Vec::new())
                    .await
                    .map_err(|e| self.local("sync", e))?;
                return Ok(SegmentedOutcome::Complete);
            }
            self.start_workers(&mut first);
            let wake = self.next_event().await;
            if let Some(ended) = self.on_event(wake).await? {
                return Ok(ended);
            }
        }
    }

    /// Brings the number of workers up to the target, as far as there is work for them.
    fn start_workers(&mut self, first: &mut Option<FirstConnection>) {
        let (target, running) = (self.control.target(), self.tasks.numbers.len());
        self.shared.crew.set_wanted(target);
        if self
            .tasks
            .hold_until
            .is_some_and(|until| Instant::now() < until)
        {
            return;
        }
        self.tasks.hold_until = None;
        let free = (0..).filter(|number| !self.tasks.numbers.contains(number));
        let free: Vec<usize> = free.take(target.saturating_sub(running)).collect();
        for number in free {
            let next = match first.take() {
                Some(first) => first,
                None => match self.next_source() {
                    Some((source, permit)) => FirstConnection {
                        response: None,
                        source,
                        permit,
                    },
                    // Nothing is left to claim, or the hosts' limits are reached by this job and others.
                    None => return self.unbar(),
                },
            };
            self.start_worker(number, next);
        }
    }

    fn start_worker(&mut self, number: usize, first: FirstConnection) {
        let FirstConnection {
            response: answer,
            source,
            permit,
        } = first;
        let worker = SegmentWorker {
            number,
            job: self.job,
            source,
            shared: Arc::clone(&self.shared),
            events: self.events.clone(),
            permit,
        };
        let adopt = |(answer, range)| Some((answer, self.shared.adopt(source, range)?));
        let first = answer.and_then(adopt);
        self.shared.table().sources.opens(source);
        self.tasks.numbers.push(number);
        self.shared.crew.worker_started();
        self.tasks.workers.spawn(worker.run(first));
    }

    /// Waits for whatever comes first.
    async fn next_event(&mut self) -> CoordinatorEvent {
        let look = self.next_tick();
        tokio::select! {
            biased;
            () = self.stop.cancelled() => CoordinatorEvent::Stop,
            Some(exit) = self.tasks.workers.join_next() => CoordinatorEvent::WorkerExited(exit),
            done = self.checkpoints.wait() => CoordinatorEvent::CheckpointDone(done),
            looked = next_checked_pieces(&mut self.verifier) => CoordinatorEvent::PiecesChecked(looked),
            () = tokio::time::sleep_until(look) => CoordinatorEvent::Tick,
        }
    }

    /// Whether nobody works.
    pub(super) fn is_idle(&self) -> bool {
        self.tasks.numbers.is_empty()
    }

    fn next_tick(&self) -> Instant {
        let sample = self.shared.epoch + self.control.next_sample_at();
        let soonest = (Instant::now() + PROGRESS_INTERVAL).min(sample);
        self.tasks
            .hold_until
            .map_or(soonest, |until| until.min(soonest))
    }

    async fn on_event(
        &mut self,
        wake: CoordinatorEvent,
    ) -> Result<Option<SegmentedOutcome>, GetError> {
        match wake {
            CoordinatorEvent::Stop => {
                return Err(GetError::INTERRUPTED);
            }
            CoordinatorEvent::CheckpointDone(result) => {
                result.map_err(|e| self.local("sync", e))?;
                self.on_gone();
            }
            CoordinatorEvent::PiecesChecked(looked) => {
                let looked = looked.map_err(|e| self.local("read", e))?;
                if let Some(ended) = self.on_looked(looked).await? {
                    return Ok(Some(ended));
                }
                self.checkpoint();
            }
            CoordinatorEvent::Tick => self.on_tick(),
            CoordinatorEvent::WorkerExited(Ok(exit)) => {
                self.shared.table().sources.closes(exit.source);
                self.tasks.numbers.retain(|number| *number != exit.number);
                if let WorkerExitReason::Failed(failed) = exit.reason {
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

    /// Takes a sample, tells the progress, begins a checkpoint if one is due.
    fn on_tick(&mut self) {
        self.account_progress();
        let (now, since) = (self.shared.now(), self.shared.since_begun());
        let (done, remaining, flowing, latency) = {
            let mut table = self.shared.table();
            table.sources.on_sample(since);
            (
                table.plan.done().total_bytes(),
                table.plan.remaining(),
                table.flowing(),
                table.plan.latency(),
            )
        };
        if now >= self.control.next_sample_at() {
            let bytes = self.shared.fetched.load(Ordering::Relaxed);
            self.control.on_sample(ProgressSample {
                now,
                bytes,
                delivering: flowing,
                remaining,
                latency,
            });
        }
        if let Some(follower) = &self.follower {
            follower.advance(self.front());
        }
        self.checkpoint();
        let length = Some(self.shared.table().plan.length());
        let progress = TransferEvent::Progress {
            job: self.job,
            done,
            length,
            connections: flowing,
        };
        // A renderer that is behind will see the next one.
        let _ = self.events.try_send(progress);
    }

    /// Begins a checkpoint if one is due.
    fn checkpoint(&mut self) {
        let unclaimed = self.shared.table().unsynced.bytes();
        if self.checkpoints.is_due(unclaimed) {
            let pieces = self.shared.table().unsynced.take();
            self.checkpoints.begin(pieces);
        }
    }

    /// Tells the course what has come since it was last told.
    fn account_progress(&mut self) {
        let fetched = self.shared.fetched.load(Ordering::Relaxed);
        if fetched > self.tasks.accounted_bytes {
            self.course.on_usable_answer();
            self.course
                .on_progress(fetched - self.tasks.accounted_bytes);
            self.tasks.accounted_bytes = fetched;
        }
    }

    async fn on_failure(
        &mut self,
        failed: FailedRequest,
    ) -> Result<Option<SegmentedOutcome>, GetError> {
        self.account_progress();
        let site = self.shared.sources.of(failed.source);
        if self.is_late(&failed, &site.url) || self.divert(&failed).await? {
            return Ok(None);
        }
        let FailedRequest {
            failure,
            range,
            requested_at: asked,
            source,
            url,
        } = failed;
        let Some(trouble) = failure.trouble() else {
            return Err(failure.into_error(&url, Some(range), &self.path));
        };
        let standing = FailureContext {
            flowing: self.unaffected_workers(),
            redirected: url != site.home,
            jitter: rand::random(),
        };
        let action = self.course.on_trouble(trouble, standing);
        tracing::debug!(?trouble, ?action, "{failure}");
        match action {
            RecoveryAction::GiveUp => {
                return Err(failure.into_error(&url, Some(range), &self.path));
            }
            RecoveryAction::StartOver => return Ok(Some(SegmentedOutcome::StartOver)),
            RecoveryAction::OneStream => return Ok(Some(SegmentedOutcome::OneStream)),
            RecoveryAction::WithoutIfRange => self.shared.sources.set_if_range(source, false),
            RecoveryAction::Fewer(wait) => {
                self.reduce_connections(&failure, asked);
                self.pause(wait, &failure).await;
            }
            RecoveryAction::Retry(wait) => {
                if matches!(failure, AttemptFailure::Status { .. }) {
                    self.reduce_connections(&failure, asked);
                }
                self.pause(wait, &failure).await;
            }
            RecoveryAction::ResolveAgain(wait) => {
                self.shared.sources.resolve(source);
                self.pause(wait, &failure).await;
            }
        }
        Ok(None)
    }

    /// Whether what expired at `failed`'s URL is not asked there any more; whoever works next asks where requests go now.
    fn is_late(&self, failed: &FailedRequest, url: &Url) -> bool {
        let denied = matches!(
            failed.failure.trouble(),
            Some(RequestFailure::Denied { .. })
        );
        denied && failed.url != *url
    }

    /// Workers that vouch for the job while another fails: those that deliver, or all that go on when none does just now. The
    /// last one to fail has nobody, so a job that fails everywhere still ends.
    fn unaffected_workers(&self) -> usize {
        match self.shared.table().flowing() {
            0 => self.tasks.numbers.len(),
            flowing => flowing,
        }
    }

    /// The origin wants fewer connections than there were when it was asked.
    fn reduce_connections(&mut self, failure: &AttemptFailure, asked: Duration) {
        self.control.on_refused(ConnectionRefusal {
            now: self.shared.now(),
            requested_at: asked,
            open_connections: self.tasks.numbers.len(),
            overloaded: matches!(failure.trouble(), Some(RequestFailure::Busy { .. })),
        });
    }

    /// No new worker for this long.
    async fn pause(&mut self, wait: Duration, failure: &AttemptFailure) {
        let until = Instant::now() + wait;
        self.tasks.hold_until = Some(
            self.tasks
                .hold_until
                .map_or(until, |known| known.max(until)),
        );
        let event = TransferEvent::Retry {
            job: self.job,
            attempt: 0,
            wait,
            reason: failure.to_string(),
        };
        let _ = self.events.send(event).await;
    }

    fn local(&self, action: &'static str, source: std::io::Error) -> GetError {
        GetError::local(action, self.path.clone(), source)
    }
}

/// Waits for the verifier, if there is one.
async fn next_checked_pieces(
    verifier: &mut Option<PieceVerifier>,
) -> std::io::Result<Vec<CheckedPiece>> {
    match verifier {
        Some(verifier) => verifier.next_results().await,
        None => std::future::pending().await,
    }
}
