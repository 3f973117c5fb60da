//! What came of the jobs: counts, causes, rows, and the limit of failures.

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

/// Causes that are told apart; what fails in yet other ways is counted together.
const CAUSES: usize = 64;

/// Counts that everybody may look at.
#[derive(Debug, Default)]
pub(super) struct BatchCounters(Mutex<OutcomeCounts>);

#[derive(Debug, Default)]
struct OutcomeCounts {
    done: u64,
    skipped: u64,
    failed: u64,
    halted: Option<BatchHalt>,
    causes: HashMap<(ErrorClass, String), (u64, String)>,
}

impl BatchCounters {
    /// Puts the counts into a summary.
    pub(super) fn fill_summary(&self, summary: &mut BatchSummary) {
        let tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (summary.done, summary.skipped, summary.failed) = (tally.done, tally.skipped, tally.failed);
        summary.halted = tally.halted.clone();
    }

    /// What made jobs fail, the most frequent first.
    pub(super) fn failure_groups(&self) -> Vec<FailureGroup> {
        let tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cause = |((class, text), (count, example)): (&(ErrorClass, String), &(u64, String))| {
            FailureGroup {
                class: *class,
                cause: text.clone(),
                count: *count,
                example: example.clone(),
            }
        };
        let mut causes: Vec<_> = tally.causes.iter().map(cause).collect();
        causes.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.cause.cmp(&b.cause)));
        causes
    }

    fn count(&self, row: &ManifestRow, error: Option<&GetError>) {
        let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match row.state {
            RowState::Done => tally.done += 1,
            RowState::Skipped => tally.skipped += 1,
            RowState::Failed => tally.failed += 1,
        }
        let Some(told) = &row.error else { return };
        let text = error.map_or_else(|| "the line cannot be read".into(), GetError::cause);
        let full = tally.causes.len() >= CAUSES;
        let mut key = (told.class, text);
        if full && !tally.causes.contains_key(&key) {
            key.1 = "other causes".into();
        }
        let cause = tally.causes.entry(key);
        cause.or_insert_with(|| (0, told.text.clone())).0 += 1;
    }

    /// Why too many have failed, if so many have. `more`: how many failed, and how many ended, that are not counted yet.
    fn error_limit_exceeded(&self, limit: ErrorLimit, more: (u64, usize)) -> Option<String> {
        let tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = tally.failed + more.0;
        let ended = tally.done + tally.skipped + tally.failed + more.1 as u64;
        let exceeded = limit.is_exceeded(failed, ended);
        exceeded.then(|| format!("{failed} of {ended} jobs failed, which is more than may"))
    }

    /// The batch ends before its lists; the first reason is the one to tell.
    pub(super) fn halt(&self, kind: BatchHaltKind, text: String) {
        let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tally.halted.get_or_insert(BatchHalt { kind, reason: text });
    }
}

/// Keeps them.
#[derive(Debug)]
pub(super) struct OutcomeRecorder {
    /// The counts.
    counts: Arc<BatchCounters>,
    /// Where rows are told.
    events: TransferEventSender,
    /// Whether those of jobs that ended well are told, too.
    report_every_row: bool,
    /// How many may fail.
    error_limit: Option<ErrorLimit>,
    /// Ends the batch.
    stop: CancellationToken,
    /// Where rows are written down.
    manifest: Option<Manifest>,
    /// What ended and is not written down yet.
    pending: Vec<EndedJob>,
    /// How many of those failed.
    pending_failures: u64,
    /// Whether something could not be written down.
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

    /// A job ended: counted and told when its row is written down.
    pub(super) fn record(&mut self, ended: EndedJob) {
        if let Some(error) = ended.error.as_ref().filter(|error| is_hopeless(error)) {
            self.halt(error);
            // That nobody takes the archive is told once, by why the batch ended, and not of each file that was on its way.
            if is_stream(error) {
                return;
            }
        }
        self.pending_failures += u64::from(ended.row.state == RowState::Failed);
        self.pending.push(ended);
    }

    /// Whether more have failed than may, once those are counted that wait to be written down.
    pub(super) fn will_exceed_error_limit(&self) -> bool {
        let exceeds = |limit| {
            self.counts
                .error_limit_exceeded(limit, (self.pending_failures, self.pending_rows()))
        };
        self.pending_failures > 0 && self.error_limit.and_then(exceeds).is_some()
    }

    /// How many ends wait to be written down.
    pub(super) fn pending_rows(&self) -> usize {
        self.pending.len()
    }

    /// Whether all that ended is written down.
    pub(super) fn has_no_pending_rows(&self) -> bool {
        self.pending.is_empty()
    }

    /// Writes down what was entered; whether that is durable now. What cannot be written down is not counted: the next run does
    /// it again. After that nothing is.
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
            // Nobody listening is no reason to stop.
            let _ = self
                .events
                .blocking_send(TransferEvent::BatchRow(Box::new(row)));
        }
    }

    /// Ends the batch: what else would come could not be kept.
    pub(super) fn halt(&self, error: &(dyn Error + 'static)) {
        let kind = match io_kind(error) {
            Some(ErrorKind::BrokenPipe) => BatchHaltKind::ReaderGone,
            _ => BatchHaltKind::LocalIo,
        };
        self.counts.halt(kind, error_chain(error));
        self.stop.cancel();
    }

    /// Whether all that was asked for failed.
    pub(super) fn nothing_succeeded(&self) -> bool {
        let mut summary = BatchSummary::default();
        self.counts.fill_summary(&mut summary);
        summary.failed > 0 && summary.done == 0
    }

    /// Whether the batch was ended.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }
}

/// Whether no other job would fare better.
fn is_hopeless(error: &GetError) -> bool {
    match error {
        GetError::NoSpace { .. } => true,
        // What is wrong with one entry is not wrong with the next.
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

/// Whether an archive was not taken by whoever reads it.
fn is_stream(error: &GetError) -> bool {
    let GetError::Archive { source, .. } = error else {
        return false;
    };
    matches!(**source, ArchiveError::Stream(_))
}

/// What the system said, if it was the system.
fn io_kind(error: &(dyn Error + 'static)) -> Option<ErrorKind> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        next = error.source();
    }
    None
}
