//! The outcomes of jobs: counts, failure groups, manifest rows, and the error limit.

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, PoisonError};

use haul_plan::ErrorLimit;
use tokio_util::sync::CancellationToken;

use super::group_commit::{EndedJob, error_chain};
use super::options::{BatchHalt, BatchHaltKind, BatchOptions, BatchSummary, FailureGroup};
use crate::archive::ArchiveError;
use crate::error::{ErrorClass, GetError};
use crate::event::{TransferEvent, TransferEventSender};
use crate::manifest::{Manifest, ManifestError, ManifestRow, RowState};

/// The most failure groups that are kept apart. Further causes are counted as one group.
const MAX_FAILURE_GROUPS: usize = 64;

/// The outcomes so far, which any thread may read.
#[derive(Debug, Default)]
pub(super) struct BatchCounters(Mutex<OutcomeCounts>);

#[derive(Debug, Default)]
struct OutcomeCounts {
    done: u64,
    skipped: u64,
    failed: u64,
    halted: Option<BatchHalt>,
    groups: HashMap<(ErrorClass, String), (u64, String)>,
}

impl BatchCounters {
    /// Copies the counts into a summary.
    pub(super) fn fill_summary(&self, summary: &mut BatchSummary) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (summary.done, summary.skipped, summary.failed) =
            (counts.done, counts.skipped, counts.failed);
        summary.halted = counts.halted.clone();
    }

    /// The groups of failures, the most frequent first.
    pub(super) fn failure_groups(&self) -> Vec<FailureGroup> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let group =
            |((class, cause), (count, example)): (&(ErrorClass, String), &(u64, String))| {
                FailureGroup {
                    class: *class,
                    cause: cause.clone(),
                    count: *count,
                    example: example.clone(),
                }
            };
        let mut groups: Vec<_> = counts.groups.iter().map(group).collect();
        groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.cause.cmp(&b.cause)));
        groups
    }

    fn count(&self, row: &ManifestRow, error: Option<&GetError>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match row.state {
            RowState::Done => counts.done += 1,
            RowState::Skipped => counts.skipped += 1,
            RowState::Failed => counts.failed += 1,
        }
        let Some(row_error) = &row.error else { return };
        let cause = error.map_or_else(|| "the line cannot be parsed".into(), GetError::cause);
        let full = counts.groups.len() >= MAX_FAILURE_GROUPS;
        let mut key = (row_error.class, cause);
        if full && !counts.groups.contains_key(&key) {
            key.1 = "other causes".into();
        }
        let group = counts.groups.entry(key);
        group.or_insert_with(|| (0, row_error.text.clone())).0 += 1;
    }

    /// Why the batch ends, if more jobs failed than may. `pending`: failed and ended jobs that are not counted yet.
    fn error_limit_exceeded(&self, limit: ErrorLimit, pending: (u64, usize)) -> Option<String> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = counts.failed + pending.0;
        let ended = counts.done + counts.skipped + counts.failed + pending.1 as u64;
        let exceeded = limit.is_exceeded(failed, ended);
        exceeded.then(|| format!("{failed} of {ended} jobs failed, more than the limit allows"))
    }

    /// Records why the batch ends early. The first reason is kept.
    pub(super) fn halt(&self, kind: BatchHaltKind, text: String) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts
            .halted
            .get_or_insert(BatchHalt { kind, reason: text });
    }
}

/// Writes rows and counts outcomes. The commit thread owns it.
#[derive(Debug)]
pub(super) struct OutcomeRecorder {
    counts: Arc<BatchCounters>,
    /// Where rows are published.
    events: TransferEventSender,
    /// Whether rows of successful jobs are published, too.
    report_every_row: bool,
    /// How many jobs may fail.
    error_limit: Option<ErrorLimit>,
    /// Ends the batch.
    stop: CancellationToken,
    /// Where rows are written.
    manifest: Option<Manifest>,
    /// Outcomes whose rows are not written yet.
    pending: Vec<EndedJob>,
    /// How many of those are failures.
    pending_failures: u64,
    /// Whether a row could not be written.
    manifest_failed: bool,
}

impl OutcomeRecorder {
    pub(super) fn new(
        options: &BatchOptions,
        counts: Arc<BatchCounters>,
        (events, stop): (TransferEventSender, CancellationToken),
        manifest: Option<Manifest>,
    ) -> Self {
        Self {
            counts,
            events,
            report_every_row: options.report_every_row,
            error_limit: options.error_limit,
            stop,
            manifest,
            pending: Vec::new(),
            pending_failures: 0,
            manifest_failed: false,
        }
    }

    /// Records the end of a job. It is counted and published when its row is written.
    pub(super) fn record(&mut self, ended: EndedJob) {
        if let Some(error) = ended.error.as_ref().filter(|error| stops_batch(error)) {
            self.halt(error);
            // A broken archive stream is reported once, as the reason why the batch ended, not for each file on its
            // way.
            if is_archive_stream_error(error) {
                return;
            }
        }
        self.pending_failures += u64::from(ended.row.state == RowState::Failed);
        self.pending.push(ended);
    }

    /// Whether more jobs have failed than may, with the pending outcomes counted.
    pub(super) fn will_exceed_error_limit(&self) -> bool {
        let exceeds = |limit| {
            self.counts
                .error_limit_exceeded(limit, (self.pending_failures, self.pending_rows()))
        };
        self.pending_failures > 0 && self.error_limit.and_then(exceeds).is_some()
    }

    /// The number of outcomes whose rows are not written yet.
    pub(super) fn pending_rows(&self) -> usize {
        self.pending.len()
    }

    /// Whether all rows are written.
    pub(super) fn has_no_pending_rows(&self) -> bool {
        self.pending.is_empty()
    }

    /// Writes the pending rows, and returns whether they are durable. An outcome whose row cannot be written is not
    /// counted, because the next run repeats the job; later ones are not counted either.
    pub(super) fn write_rows(&mut self) -> bool {
        let ends = std::mem::take(&mut self.pending);
        self.pending_failures = 0;
        if let Err(error) = self.write(&ends) {
            self.manifest_failed = true;
            self.halt(&error);
        }
        if !self.manifest_failed {
            ends.into_iter().for_each(|ended| self.publish(ended));
        }
        !self.manifest_failed
    }

    fn write(&mut self, ends: &[EndedJob]) -> Result<(), ManifestError> {
        let Some(manifest) = self.manifest.as_mut().filter(|_| !self.manifest_failed) else {
            return Ok(());
        };
        let rows: Vec<ManifestRow> = ends.iter().map(|ended| ended.row.clone()).collect();
        manifest.append(&rows)?;
        manifest.sync()
    }

    fn publish(&self, EndedJob { row, error }: EndedJob) {
        self.counts.count(&row, error.as_ref());
        if let Some(why) = self
            .error_limit
            .and_then(|limit| self.counts.error_limit_exceeded(limit, (0, 0)))
        {
            self.counts.halt(BatchHaltKind::TooManyFailures, why);
            self.stop.cancel();
        }
        if self.report_every_row || row.state == RowState::Failed {
            // A closed channel is no reason to stop.
            let _ = self
                .events
                .blocking_send(TransferEvent::BatchRow(Box::new(row)));
        }
    }

    /// Ends the batch, because nothing more could be kept.
    pub(super) fn halt(&self, error: &(dyn Error + 'static)) {
        let kind = match io_error_kind(error) {
            Some(ErrorKind::BrokenPipe) => BatchHaltKind::ReaderGone,
            _ => BatchHaltKind::LocalIo,
        };
        self.counts.halt(kind, error_chain(error));
        self.stop.cancel();
    }

    /// Whether jobs failed and none succeeded.
    pub(super) fn nothing_succeeded(&self) -> bool {
        let mut summary = BatchSummary::default();
        self.counts.fill_summary(&mut summary);
        summary.failed > 0 && summary.done == 0
    }

    /// Whether the batch was stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }
}

/// Whether every other job would fail in the same way.
fn stops_batch(error: &GetError) -> bool {
    match error {
        GetError::NoSpace { .. } => true,
        // A problem of one entry is not a problem of the next.
        GetError::Archive { source, .. } => !matches!(
            **source,
            ArchiveError::InvalidName { .. } | ArchiveError::Content(_)
        ),
        GetError::LocalIo { source, .. } => matches!(
            source.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem
        ),
        _ => false,
    }
}

/// Whether the reader of an archive stream has closed it.
fn is_archive_stream_error(error: &GetError) -> bool {
    let GetError::Archive { source, .. } = error else {
        return false;
    };
    matches!(**source, ArchiveError::Stream(_))
}

/// The kind of the I/O error in a chain of errors.
fn io_error_kind(error: &(dyn Error + 'static)) -> Option<ErrorKind> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        next = error.source();
    }
    None
}
