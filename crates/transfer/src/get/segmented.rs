//! The segmented road: several workers, one plan, one file.
//!
//! The coordinator owns the workers and everything that changes their number. `select!` only makes a [`CoordinatorEvent`];
//! [`SegmentCoordinator::on_wake`] carries out what `plan` decides about it: how many connections ([`ConnectionControl`]),
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

use super::LOOK;
use super::checkpoint::Checkpointer;
use super::failure::AttemptFailure;
use super::hosts::HostPermit;
use super::shared::SegmentedState;
use super::verifier::{CheckedPiece, PieceVerifier};
use super::worker::{FailedRequest, SegmentWorker, WorkerExit, WorkerExitReason};
use crate::checksum::DigestFollower;
use crate::error::GetError;
use crate::event::{TransferEvent, TransferEventSender};

/// How a segmented download ended, when not with an error.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SegmentedOutcome {
    /// Every byte is in the file.
    Whole,
    /// The resource changed: what came is of no use.
    StartOver,
    /// Ranges cannot be trusted here.
    OneStream,
    /// A document that nobody asked for is not about what the origin has: neither is what came from the places it names.
    Disowned,
}

/// What the job's first request left: leave to hold its connection, and the answer if bytes are still to be read.
#[derive(Debug)]
pub(super) struct FirstConnection {
    /// The answer, judged, with the range of its bytes.
    pub(super) answer: Option<(FetchResponse, Range<u64>)>,
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
    pub(super) doubtful: Option<usize>,
    /// Where events go.
    pub(super) events: TransferEventSender,
    /// Stops the job, keeping what can be resumed.
    pub(super) stop: CancellationToken,
    /// For messages.
    pub(super) path: std::path::PathBuf,
    /// What runs and when something is next due.
    pub(super) floor: WorkerTasks,
}

/// The workers at work.
#[derive(Debug, Default)]
pub(super) struct WorkerTasks {
    /// Owns them.
    workers: JoinSet<WorkerExit>,
    /// Their numbers.
    numbers: Vec<usize>,
    /// No new worker before this moment.
    hold: Option<Instant>,
    /// Bytes told to the course so far.
    told: u64,
    /// Bytes that are known to be bad and are still claimed by the journal.
    pub(super) bad: RangeSet,
}

/// What woke the coordinator.
enum CoordinatorEvent {
    /// A worker ended.
    Exit(Result<WorkerExit, JoinError>),
    /// A checkpoint ended.
    Checkpointed(std::io::Result<()>),
    /// Pieces were looked at.
    Looked(std::io::Result<Vec<CheckedPiece>>),
    /// Something is due.
    Look,
    /// The caller wants an end.
    Stop,
}

impl SegmentCoordinator<'_> {
    /// Runs the job to its end. What was written by then is journalled, unless the file is whole.
    pub(super) async fn run(
        &mut self,
        first: FirstConnection,
    ) -> Result<SegmentedOutcome, GetError> {
        let ended = self.work(Some(first)).await;
        // Workers stop at their next await; a write that runs is waited for, so that its bytes are claimed below.
        self.floor.workers.shutdown().await;
        if let Some(verifier) = &mut self.verifier {
            verifier.close().await;
        }
        if !matches!(
            ended,
            Ok(SegmentedOutcome::Whole
                | SegmentedOutcome::StartOver
                | SegmentedOutcome::OneStream
                | SegmentedOutcome::Disowned)
        ) {
            let pieces = self.shared.table().ledger.take();
            // The first error is the one to tell; one that follows from it here says no more.
            let _ = self.checkpoints.close(pieces).await;
        }
        ended
    }

    async fn work(
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
                return Ok(SegmentedOutcome::Whole);
            }
            self.staff(&mut first);
            let wake = self.wake().await;
            if let Some(ended) = self.on_wake(wake).await? {
                return Ok(ended);
            }
        }
    }

    /// Brings the number of workers up to the target, as far as there is work for them.
    fn staff(&mut self, first: &mut Option<FirstConnection>) {
        let (target, running) = (self.control.target(), self.floor.numbers.len());
        self.shared.crew.want(target);
        if self.floor.hold.is_some_and(|until| Instant::now() < until) {
            return;
        }
        self.floor.hold = None;
        let free = (0..).filter(|number| !self.floor.numbers.contains(number));
        let free: Vec<usize> = free.take(target.saturating_sub(running)).collect();
        for number in free {
            let next = match first.take() {
                Some(first) => first,
                None => match self.next_source() {
                    Some((source, permit)) => FirstConnection {
                        answer: None,
                        source,
                        permit,
                    },
                    // Nothing is left to claim, or the hosts' limits are reached by this job and others.
                    None => return self.unbar(),
                },
            };
            self.hire(number, next);
        }
    }

    fn hire(&mut self, number: usize, first: FirstConnection) {
        let FirstConnection {
            answer,
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
        self.shared.table().mirrors.opens(source);
        self.floor.numbers.push(number);
        self.shared.crew.joins();
        self.floor.workers.spawn(worker.run(first));
    }

    /// Waits for whatever comes first.
    async fn wake(&mut self) -> CoordinatorEvent {
        let look = self.next_look();
        tokio::select! {
            biased;
            () = self.stop.cancelled() => CoordinatorEvent::Stop,
            Some(exit) = self.floor.workers.join_next() => CoordinatorEvent::Exit(exit),
            done = self.checkpoints.ended() => CoordinatorEvent::Checkpointed(done),
            looked = looked(&mut self.verifier) => CoordinatorEvent::Looked(looked),
            () = tokio::time::sleep_until(look) => CoordinatorEvent::Look,
        }
    }

    /// Whether nobody works.
    pub(super) fn is_idle(&self) -> bool {
        self.floor.numbers.is_empty()
    }

    fn next_look(&self) -> Instant {
        let sample = self.shared.epoch + self.control.next_sample_at();
        let soonest = (Instant::now() + LOOK).min(sample);
        self.floor.hold.map_or(soonest, |until| until.min(soonest))
    }

    async fn on_wake(
        &mut self,
        wake: CoordinatorEvent,
    ) -> Result<Option<SegmentedOutcome>, GetError> {
        match wake {
            CoordinatorEvent::Stop => {
                return Err(GetError::STOPPED);
            }
            CoordinatorEvent::Checkpointed(result) => {
                result.map_err(|e| self.local("sync", e))?;
                self.on_gone();
            }
            CoordinatorEvent::Looked(looked) => {
                let looked = looked.map_err(|e| self.local("read", e))?;
                if let Some(ended) = self.on_looked(looked).await? {
                    return Ok(Some(ended));
                }
                self.checkpoint();
            }
            CoordinatorEvent::Look => self.look(),
            CoordinatorEvent::Exit(Ok(exit)) => {
                self.shared.table().mirrors.closes(exit.source);
                self.floor.numbers.retain(|number| *number != exit.number);
                if let WorkerExitReason::Failed(failed) = exit.end {
                    return self.on_failure(failed).await;
                }
            }
            // A worker is aborted only after this loop has ended, so it panicked: the bug is passed on.
            CoordinatorEvent::Exit(Err(error)) => std::panic::resume_unwind(error.into_panic()),
        }
        Ok(None)
    }

    /// Takes a sample, tells the progress, begins a checkpoint if one is due.
    fn look(&mut self) {
        self.account();
        let (now, since) = (self.shared.now(), self.shared.since_begun());
        let (done, remaining, flowing, latency) = {
            let mut table = self.shared.table();
            table.mirrors.on_sample(since);
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
        let unclaimed = self.shared.table().ledger.bytes();
        if self.checkpoints.is_due(unclaimed) {
            let pieces = self.shared.table().ledger.take();
            self.checkpoints.begin(pieces);
        }
    }

    /// Tells the course what has come since it was last told.
    fn account(&mut self) {
        let fetched = self.shared.fetched.load(Ordering::Relaxed);
        if fetched > self.floor.told {
            self.course.on_usable_answer();
            self.course.on_progress(fetched - self.floor.told);
            self.floor.told = fetched;
        }
    }

    async fn on_failure(
        &mut self,
        failed: FailedRequest,
    ) -> Result<Option<SegmentedOutcome>, GetError> {
        self.account();
        let site = self.shared.sources.of(failed.source);
        if self.is_late(&failed, &site.url) || self.divert(&failed).await? {
            return Ok(None);
        }
        let FailedRequest {
            failure,
            range,
            asked,
            source,
            url,
        } = failed;
        let Some(trouble) = failure.trouble() else {
            return Err(failure.into_error(&url, Some(range), &self.path));
        };
        let standing = FailureContext {
            flowing: self.vouching(),
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
                self.lower(&failure, asked);
                self.pause(wait, &failure).await;
            }
            RecoveryAction::Retry(wait) => {
                if matches!(failure, AttemptFailure::Status { .. }) {
                    self.lower(&failure, asked);
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
    fn vouching(&self) -> usize {
        match self.shared.table().flowing() {
            0 => self.floor.numbers.len(),
            flowing => flowing,
        }
    }

    /// The origin wants fewer connections than there were when it was asked.
    fn lower(&mut self, failure: &AttemptFailure, asked: Duration) {
        self.control.on_refused(ConnectionRefusal {
            now: self.shared.now(),
            requested_at: asked,
            open_connections: self.floor.numbers.len(),
            overloaded: matches!(failure.trouble(), Some(RequestFailure::Busy { .. })),
        });
    }

    /// No new worker for this long.
    async fn pause(&mut self, wait: Duration, failure: &AttemptFailure) {
        let until = Instant::now() + wait;
        self.floor.hold = Some(self.floor.hold.map_or(until, |known| known.max(until)));
        let event = TransferEvent::Retry {
            job: self.job,
            attempt: 0,
            wait,
            why: failure.to_string(),
        };
        let _ = self.events.send(event).await;
    }

    fn local(&self, action: &'static str, source: std::io::Error) -> GetError {
        GetError::local(action, self.path.clone(), source)
    }
}

/// Waits for the verifier, if there is one.
async fn looked(verifier: &mut Option<PieceVerifier>) -> std::io::Result<Vec<CheckedPiece>> {
    match verifier {
        Some(verifier) => verifier.ended().await,
        None => std::future::pending().await,
    }
}
