//! Many uploads in one run: found on a thread of their own, sent a bounded number at a time, each with an outcome as an event and in the
//! manifest.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::engine::UploadEngine;
use super::error::PutError;
use super::job_source::{FoundTotals, FoundUpload, UploadJobSource};
use super::options::PutOptions;
use super::upload_row::upload_row;
use crate::batch::{BatchSnapshot, BatchSummary, EarlyStop, StopReason, error_chain};
use crate::bucket::StoreSession;
use crate::event::{TransferEvent, TransferEventSender};
use crate::job_end::UploadEnd;
use crate::manifest::{Manifest, ManifestError};
use crate::recovery::{RefusalAction, SharedRefusal};

/// Files under way. Each request has a slot of its own; this bounds open files and tasks.
const MAX_FILES: usize = 64;

/// How often a snapshot is published.
const TICK: Duration = Duration::from_millis(100);

/// Ticks between two syncs of the manifest: a power cut loses at most the rows of one second.
const SYNC_TICKS: u32 = 10;

/// A batch of uploads, or of copies inside a store.
#[derive(Debug)]
pub struct UploadBatch {
    /// The store. When it is stopped, the batch ends soon, and what the store has of files is kept for a later run.
    pub session: StoreSession,
    /// With `is_batch` the batch publishes snapshots, and otherwise each file its events.
    pub options: PutOptions,
    /// Where outcomes are recorded.
    pub manifest: Option<Manifest>,
    /// Where events are sent. The receiver must read until the channel closes.
    pub events: TransferEventSender,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UploadSummary {
    /// The counts, and why it ended early if the manifest cannot be written.
    pub counts: BatchSummary,
    /// Bytes of the objects that were stored, without the bytes that an earlier run had sent.
    pub stored_bytes: u64,
    /// Whether an upload that was interrupted can be continued.
    pub is_resumable: bool,
    /// Failed files that the store refused in the same way as the first.
    pub repeated_refusals: u64,
    /// Files that were not tried, if one refusal would have hit them all, and there are others.
    pub not_tried: Option<u64>,
}

impl UploadBatch {
    /// Uploads what is found.
    pub async fn run(self, source: UploadJobSource) -> UploadSummary {
        let Self {
            session,
            options,
            manifest,
            events,
        } = self;
        let stop = session.stop.clone();
        let mut running = RunningUploads {
            is_batch: options.is_batch,
            engine: UploadEngine::new(session.client, options, events.clone()),
            events,
            jobs: Some(source.jobs),
            totals: source.totals,
            // A manifest that cannot be written stops the run as well.
            stop: stop.child_token(),
            tasks: JoinSet::new(),
            manifest,
            unsynced_ticks: 0,
            refusals: SharedRefusal::default(),
            deferred: Vec::new(),
            summary: UploadSummary::default(),
        };
        running.run().await;
        running.record(Manifest::sync);
        running.count_not_tried();
        if stop.is_cancelled() {
            running.summary.counts.note_interruption();
        }
        running.summary
    }
}

struct RunningUploads {
    engine: UploadEngine,
    is_batch: bool,
    events: TransferEventSender,
    /// `None` at the end.
    jobs: Option<mpsc::Receiver<FoundUpload>>,
    totals: Arc<FoundTotals>,
    stop: CancellationToken,
    tasks: JoinSet<UploadEnd>,
    manifest: Option<Manifest>,
    /// Ticks since rows were made durable.
    unsynced_ticks: u32,
    /// Finds out whether one refusal hits every file.
    refusals: SharedRefusal,
    /// Failures that are reported if it does not.
    deferred: Vec<Arc<UploadEnd>>,
    summary: UploadSummary,
}

impl RunningUploads {
    async fn run(&mut self) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while self.jobs.is_some() || !self.tasks.is_empty() {
            let has_room = self.tasks.len() < MAX_FILES;
            let found = next_upload(&mut self.jobs, &self.stop, has_room);
            tokio::select! {
                biased;
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(end) => self.on_ended(end).await,
                    // Tasks are never aborted here, so the task panicked: the bug is passed on.
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                Some(found) = found => match found {
                    Some(found) => self.start(found).await,
                    None => {
                        self.jobs = None;
                        self.summary.counts.list_complete = !self.stop.is_cancelled();
                    }
                },
                _ = ticks.tick() => self.on_tick(),
            }
        }
    }

    async fn start(&mut self, found: FoundUpload) {
        self.summary.counts.listed += 1;
        match found {
            Ok(job) => {
                let (engine, stop) = (self.engine.clone(), self.stop.clone());
                self.tasks.spawn(async move {
                    let result = Box::pin(engine.put(job.clone(), stop)).await;
                    UploadEnd { job, result }
                });
            }
            Err(error) => {
                self.summary.counts.failed += 1;
                self.send(TransferEvent::NotTransferred(Arc::new(error)))
                    .await;
            }
        }
    }

    async fn on_ended(&mut self, end: UploadEnd) {
        // One that was interrupted has no row.
        if !matches!(end.result, Err(PutError::Interrupted { .. })) {
            self.record(|manifest| manifest.append([&upload_row(&end)]));
        }
        let end = Arc::new(end);
        let counts = &mut self.summary.counts;
        let mut is_deferred = false;
        match &end.result {
            Ok(outcome) => {
                self.refusals.on_accepted();
                counts.done += 1;
                counts.bytes += outcome.bytes;
                counts.ended_bytes += outcome.resumed;
                self.summary.stored_bytes += outcome.bytes.saturating_sub(outcome.resumed);
            }
            Err(PutError::Interrupted { is_resumable }) => {
                self.summary.is_resumable |= is_resumable;
            }
            Err(error) => {
                counts.failed += 1;
                is_deferred = self.is_deferred(error, &end);
            }
        }
        let upload = Arc::clone(&end);
        self.send(TransferEvent::UploadEnded {
            upload,
            is_deferred,
        })
        .await;
        if self.refusals.is_settled() {
            for upload in std::mem::take(&mut self.deferred) {
                self.send(TransferEvent::UploadRefused(upload)).await;
            }
        }
    }

    /// Whether the failure repeats the first refusal, so that its report waits. A refusal that would hit every file ends the run.
    fn is_deferred(&mut self, error: &PutError, end: &Arc<UploadEnd>) -> bool {
        let action = error
            .refusal()
            .map_or(RefusalAction::Report, |(reach, cause)| {
                self.refusals.on_refused(reach, &cause)
            });
        if action == RefusalAction::Defer {
            self.deferred.push(Arc::clone(end));
        }
        if self.refusals.has_ended() {
            self.stop.cancel();
        }
        matches!(action, RefusalAction::Defer | RefusalAction::Stop)
    }

    /// Writes to the manifest. When that fails the run stops: its outcomes would be lost.
    fn record(&mut self, write: impl FnOnce(&mut Manifest) -> Result<(), ManifestError>) {
        if let Some(Err(error)) = self.manifest.as_mut().map(write) {
            self.manifest = None;
            self.stop.cancel();
            self.summary.counts.stopped = Some(EarlyStop {
                reason: StopReason::LocalIo,
                text: error_chain(&error),
            });
        }
    }

    fn on_tick(&mut self) {
        self.summary.counts.fetched = self.engine.sent_bytes();
        self.unsynced_ticks += 1;
        if self.unsynced_ticks >= SYNC_TICKS {
            self.unsynced_ticks = 0;
            self.record(Manifest::sync);
        }
        if self.is_batch {
            let mut summary = self.summary.counts.clone();
            self.totals.fill(&mut summary);
            summary.ended_bytes += summary.fetched;
            let snapshot = BatchSnapshot {
                summary,
                running: self.tasks.len(),
                slowest: None,
            };
            // A renderer that is behind gets the next one.
            let event = TransferEvent::BatchProgress(Box::new(snapshot));
            let _ = self.events.try_send(event);
        }
    }

    /// Counts what is left of the files after a refusal that would hit them all.
    fn count_not_tried(&mut self) {
        self.summary.repeated_refusals = self.deferred.len() as u64;
        if self.refusals.has_ended() {
            let counts = &mut self.summary.counts;
            self.totals.fill(counts);
            let left = counts.listed.saturating_sub(counts.done + counts.failed);
            // The walk of a folder may not have come to the second file yet.
            let has_others = left > 0 || self.is_batch && !counts.list_complete;
            self.summary.not_tried = has_others.then_some(left);
        }
    }

    async fn send(&self, event: TransferEvent) {
        // A closed channel is not a reason to stop.
        let _ = self.events.send(event).await;
    }
}

/// The next upload, or the end of them: there are no more, or the run is stopped. `None` while none may be started.
async fn next_upload(
    jobs: &mut Option<mpsc::Receiver<FoundUpload>>,
    stop: &CancellationToken,
    has_room: bool,
) -> Option<Option<FoundUpload>> {
    let jobs = jobs.as_mut()?;
    tokio::select! {
        biased;
        () = stop.cancelled() => Some(None),
        found = jobs.recv(), if has_room => Some(found),
    }
}
