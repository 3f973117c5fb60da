//! The outcomes of jobs, and the recorder that writes their rows, counts them and enforces the error limit.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::CancellationToken;

use super::counters::BatchCounters;
use super::error_limit::ErrorLimit;
use super::job::BatchJob;
use super::options::{BatchOptions, StopReason};
use super::published_rows::PublishedRows;
use crate::archive::ArchiveError;
use crate::error::{GetError, LocalError, OriginError};
use crate::event::{TransferEvent, TransferEventSender};
use crate::manifest::{JobRowState, Manifest, ManifestError, ManifestRow, ManifestRowError};
use crate::recovery::{RefusalAction, RefusalReach, SharedRefusal};

#[derive(Debug)]
pub(super) struct JobOutcome {
    pub(super) row: ManifestRow,
    /// Why the job failed, if it did.
    pub(super) error: Option<GetError>,
    /// The path of the file that the entry repeats, if it does and its row shall have the result of that file.
    pub(super) repeated_path: Option<String>,
    /// Whether the row is published only if refusals turn out to be about single files.
    is_deferred: bool,
}

impl JobOutcome {
    pub(super) fn failed(job: &BatchJob, error: GetError) -> Self {
        let mut row = job.row(JobRowState::Failed);
        row.error = Some(ManifestRowError {
            class: error.class(),
            text: error_chain(&error),
            cause: error.cause(),
            remedies: error.remedies(),
            is_transient: error.is_transient(),
        });
        row.status = error.status().map(|status| status.as_u16()).or(row.status);
        Self {
            error: Some(error),
            ..Self::success(row)
        }
    }

    /// A job that ended without an error, as its row says.
    pub(super) fn success(row: ManifestRow) -> Self {
        Self {
            row,
            error: None,
            repeated_path: None,
            is_deferred: false,
        }
    }

    /// An entry that repeats the file with this path.
    pub(super) fn repeat(row: ManifestRow, path: String) -> Self {
        Self {
            repeated_path: Some(path),
            ..Self::success(row)
        }
    }
}

/// Writes rows and counts outcomes. The commit thread owns it.
#[derive(Debug)]
pub(super) struct OutcomeRecorder {
    counters: Arc<BatchCounters>,
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
    /// Results for entries that repeat a URL, if their rows shall have them.
    published_rows: Option<PublishedRows>,
    /// Finds out whether one refusal hits every job, where that is possible.
    refusals: Option<SharedRefusal>,
    /// Failed rows that are published if it does not.
    deferred_rows: Vec<ManifestRow>,
    /// Outcomes whose rows are not written yet.
    pending: Vec<JobOutcome>,
    /// How many of those are failures.
    pending_failures: u64,
    /// Whether a row could not be written.
    manifest_failed: bool,
}

impl OutcomeRecorder {
    pub(super) fn new(
        options: &BatchOptions,
        counters: Arc<BatchCounters>,
        events: TransferEventSender,
        stop: CancellationToken,
        manifest: Option<Manifest>,
        published_rows: Option<PublishedRows>,
    ) -> Self {
        Self {
            counters,
            events,
            report_every_row: options.report_every_row,
            error_limit: options.error_limit,
            stop,
            manifest,
            published_rows,
            refusals: options.has_one_bucket.then(SharedRefusal::default),
            deferred_rows: Vec::new(),
            pending: Vec::new(),
            pending_failures: 0,
            manifest_failed: false,
        }
    }

    /// Records the end of a job. It is counted and published when its row is written.
    pub(super) fn record(&mut self, mut outcome: JobOutcome) {
        outcome.is_deferred = self.is_deferred(&outcome);
        if let Some(error) = outcome.error.as_ref().filter(|error| stops_batch(error)) {
            self.halt(error);
            // A broken archive stream is reported once, as the reason why the batch ended, not for each file on its
            // way.
            if is_archive_stream_error(error) {
                return;
            }
        }
        self.pending_failures += u64::from(outcome.row.state == JobRowState::Failed);
        self.pending.push(outcome);
    }

    /// Whether more jobs have failed than may, with the pending outcomes counted.
    pub(super) fn will_exceed_error_limit(&self) -> bool {
        let exceeds = |limit| {
            self.counters
                .error_limit_exceeded(limit, self.pending_failures, self.pending_rows())
        };
        self.pending_failures > 0 && self.error_limit.and_then(exceeds).is_some()
    }

    /// The number of outcomes whose rows are not written yet.
    pub(super) fn pending_rows(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn has_no_pending_rows(&self) -> bool {
        self.pending.is_empty()
    }

    /// Writes the pending rows, and returns whether they are durable. An outcome whose row cannot be written is not
    /// counted, because the next run repeats the job; later ones are not counted either.
    pub(super) fn write_rows(&mut self) -> bool {
        let outcomes = std::mem::take(&mut self.pending);
        self.pending_failures = 0;
        if let Err(error) = self.write(&outcomes) {
            self.manifest_failed = true;
            self.halt(&error);
        }
        if !self.manifest_failed {
            outcomes
                .into_iter()
                .for_each(|outcome| self.publish(outcome));
        }
        !self.manifest_failed
    }

    fn write(&mut self, outcomes: &[JobOutcome]) -> Result<(), ManifestError> {
        let Some(manifest) = self.manifest.as_mut().filter(|_| !self.manifest_failed) else {
            return Ok(());
        };
        manifest.append(outcomes.iter().map(|outcome| &outcome.row))?;
        manifest.sync()
    }

    fn publish(&mut self, outcome: JobOutcome) {
        let JobOutcome {
            row,
            error,
            repeated_path,
            is_deferred,
        } = outcome;
        match (&mut self.published_rows, repeated_path) {
            (Some(rows), Some(path)) => {
                if let Some(row) = rows.repeat(row, &path) {
                    self.publish_row(row, None, false);
                }
            }
            // The file under its path is another URL's.
            (Some(_), None)
                if matches!(
                    error,
                    Some(GetError::Local {
                        error: LocalError::DuplicateName { .. },
                        ..
                    })
                ) =>
            {
                self.publish_row(row, error.as_ref(), is_deferred);
            }
            (Some(rows), None) => {
                let repeats = rows.add(&row);
                self.publish_row(row, error.as_ref(), is_deferred);
                self.publish_repeats(repeats);
            }
            (None, _) => self.publish_row(row, error.as_ref(), is_deferred),
        }
    }

    /// Publishes the row of a job that an earlier run has done.
    pub(super) fn publish_done_earlier(&mut self, row: ManifestRow) {
        let rows = self.published_rows.as_mut();
        let repeats = rows.map_or_else(Vec::new, |rows| rows.add(&row));
        self.send(row);
        self.publish_repeats(repeats);
    }

    /// Publishes the rows of entries that repeat a file without a row, as skipped.
    pub(super) fn publish_waiting_repeats(&mut self) {
        let rows = self.published_rows.as_mut();
        let repeats = rows.map_or_else(Vec::new, PublishedRows::take_waiting);
        self.publish_repeats(repeats);
    }

    fn publish_repeats(&mut self, rows: Vec<ManifestRow>) {
        for row in rows {
            self.publish_row(row, None, false);
        }
    }

    fn publish_row(&mut self, row: ManifestRow, error: Option<&GetError>, is_deferred: bool) {
        self.counters.count_outcome(&row, error);
        if let Some(reason) = self
            .error_limit
            .and_then(|limit| self.counters.error_limit_exceeded(limit, 0, 0))
        {
            self.counters.stop(StopReason::TooManyFailures, reason);
            self.stop.cancel();
        }
        match row.state {
            _ if self.report_every_row => self.send(row),
            JobRowState::Failed if is_deferred => self.deferred_rows.push(row),
            JobRowState::Failed => self.send(row),
            JobRowState::Done | JobRowState::Skipped => {}
        }
        if self
            .refusals
            .as_ref()
            .is_some_and(SharedRefusal::is_settled)
        {
            for row in std::mem::take(&mut self.deferred_rows) {
                self.send(row);
            }
        }
    }

    /// Ends the batch if one refusal hits every job. Returns whether the row repeats that refusal, and is published only if the refusals
    /// turn out to be about single files.
    fn is_deferred(&mut self, outcome: &JobOutcome) -> bool {
        let Some(refusals) = &mut self.refusals else {
            return false;
        };
        if outcome.row.state == JobRowState::Done || self.counters.has_response() {
            refusals.on_accepted();
        }
        let Some((error, (reach, cause))) = outcome
            .error
            .as_ref()
            .and_then(|error| Some((error, refusal(error)?)))
        else {
            return false;
        };
        let action = refusals.on_refused(reach, &cause);
        if matches!(action, RefusalAction::Stop | RefusalAction::ReportAndStop) {
            let text = error.response_text().unwrap_or("refused");
            let reason = format!("{text}: every other file would be refused in the same way");
            self.counters.stop(StopReason::Refused, reason);
            self.stop.cancel();
        }
        matches!(action, RefusalAction::Defer | RefusalAction::Stop)
    }

    fn send(&self, row: ManifestRow) {
        let event = TransferEvent::BatchRow(Box::new(row));
        // Blocking costs much even if there is room. A closed channel is not a reason to stop.
        if let Err(TrySendError::Full(event)) = self.events.try_send(event) {
            let _ = self.events.blocking_send(event);
        }
    }

    /// Ends the batch, because nothing more could be kept.
    pub(super) fn halt(&self, error: &(dyn Error + 'static)) {
        let reason = match io_error_kind(error) {
            Some(ErrorKind::BrokenPipe) => StopReason::ReaderGone,
            _ => StopReason::LocalIo,
        };
        self.counters.stop(reason, error_chain(error));
        self.stop.cancel();
    }

    /// Whether jobs failed and none succeeded.
    pub(super) fn nothing_succeeded(&self) -> bool {
        self.counters.nothing_succeeded()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }
}

/// What the refusal of an object is about, and its cause; `None` where nobody refused.
fn refusal(error: &GetError) -> Option<(RefusalReach, String)> {
    let GetError::Origin {
        error: OriginError::Status { status, .. },
        ..
    } = error
    else {
        return None;
    };
    // The code comes first in the text of a store's error.
    let text = error.response_text().unwrap_or_default();
    let code = text.split(':').next().unwrap_or_default();
    let reach = RefusalReach::of_response(*status, code);
    Some((reach, format!("{} {code}", status.as_u16())))
}

/// Whether every other job would fail in the same way.
fn stops_batch(error: &GetError) -> bool {
    match error {
        GetError::Local {
            error: LocalError::NoSpace { .. },
            ..
        } => true,
        // A problem of one entry is not a problem of the next.
        GetError::Local {
            error: LocalError::Archive { source, .. },
            ..
        } => !matches!(
            **source,
            ArchiveError::InvalidName { .. } | ArchiveError::Content(_)
        ),
        GetError::Local {
            error: LocalError::Io { source, .. },
            ..
        } => matches!(
            source.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem
        ),
        _ => false,
    }
}

/// Whether the reader of an archive stream has closed it.
fn is_archive_stream_error(error: &GetError) -> bool {
    let GetError::Local {
        error: LocalError::Archive { source, .. },
        ..
    } = error
    else {
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

/// An error and its sources in one line.
#[must_use]
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let inner = source.to_string();
        if !text.contains(&inner) {
            text.push_str(": ");
            text.push_str(&inner);
        }
        next = source.source();
    }
    text
}
