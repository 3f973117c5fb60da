//! The settings and results of a batch: plain data.

use std::path::PathBuf;
use std::time::Duration;

use haul_plan::{Checksum, Remedy};

use url::Url;

use super::dispatch::JobDispatcherOptions;
use super::error_limit::ErrorLimit;
use crate::error::ErrorClass;
use crate::layout::PathLayout;

/// Settings of a [`Batch`](super::Batch).
#[derive(Debug, Clone)]
pub struct BatchOptions {
    pub directory: PathBuf,
    /// How many jobs and connections run at once.
    pub dispatch: JobDispatcherOptions,
    /// How paths are made from URLs.
    pub layout: PathLayout,
    /// How many jobs may fail before the batch ends.
    pub error_limit: Option<ErrorLimit>,
    /// Checksums to compute for each file, without a digest, beside those of its entry.
    pub checksums: Vec<Checksum>,
    /// Whether files are written behind links to folders below the directory. Otherwise their jobs fail: the user who put such a link there may
    /// lead them anywhere.
    pub follows_links: bool,
    /// Whether rows of all jobs are published as events, or only those of failed jobs.
    pub report_every_row: bool,
    /// Whether the published row of an entry that repeats another one has the result of that other entry, which is kept on the disk. If
    /// not, the row only says that the entry was skipped. The row in the manifest always does.
    pub repeats_have_results: bool,
    /// Whether all entries are objects of one bucket: what refuses the first of them may refuse every other, and ends the batch.
    pub has_one_bucket: bool,
    /// When a group of files is synced and named.
    pub commit_group: CommitGroupOptions,
    /// The longest that the body of a small file may take, plus one second for each KiB. A slower download continues in
    /// a partial file, where a broken connection loses nothing.
    pub body_timeout: Duration,
}

/// How many files share a sync. A power cut costs at most one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitGroupOptions {
    /// The most files in a group. Each of them is open until it has its name.
    pub max_files: usize,
    /// About the most bytes in a group.
    pub max_bytes: u64,
    /// The longest that a file waits for others.
    pub linger: Duration,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            directory: PathBuf::new(),
            dispatch: JobDispatcherOptions::default(),
            layout: PathLayout::default(),
            follows_links: false,
            error_limit: None,
            has_one_bucket: false,
            checksums: Vec::new(),
            report_every_row: false,
            repeats_have_results: false,
            commit_group: CommitGroupOptions::default(),
            // Longer than a healthy response takes.
            body_timeout: Duration::from_secs(60),
        }
    }
}

impl Default for CommitGroupOptions {
    fn default() -> Self {
        Self {
            // A sync takes a few to some tens of milliseconds, which 256 files share. The usual limit of open files is
            // 1024.
            max_files: 256,
            // At most a second of a fast disk.
            max_bytes: 64 << 20,
            // Hardly visible to somebody who watches the directory.
            linger: Duration::from_millis(500),
        }
    }
}

/// The state or the result of a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchSummary {
    /// Entries of the lists so far, including unreadable lines.
    pub listed: u64,
    /// Whether the lists were read to their end.
    pub list_complete: bool,
    /// Files that were downloaded and are in place.
    pub done: u64,
    /// Jobs that the manifest says an earlier run has done. They made no request.
    pub done_earlier: u64,
    /// Jobs that made no request, or whose file has not changed.
    pub skipped: u64,
    /// Jobs without their file.
    pub failed: u64,
    /// Failed attempts that were followed by another.
    pub retries: u64,
    /// Small files that are pages or error documents although their names are those of other kinds of files. They are in place.
    pub pages: u64,
    /// Bytes of the files that are in place.
    pub bytes: u64,
    /// Bytes of response bodies, retries included.
    pub fetched: u64,
    /// Bytes of the files of all jobs so far, if the lists give each a size.
    pub planned_bytes: Option<u64>,
    /// How many of these belong to jobs that have ended, or have arrived of those that run.
    pub ended_bytes: u64,
    /// Why jobs failed, the most frequent cause first.
    pub failure_groups: Vec<FailureGroup>,
    /// Why the batch ended before all of its jobs, if it did.
    pub stopped: Option<EarlyStop>,
}

impl BatchSummary {
    /// Whether the lists were read to their end and each job has ended.
    #[must_use]
    pub fn all_ended(&self) -> bool {
        self.list_complete && self.done + self.skipped + self.failed == self.listed
    }

    /// Whether all lists were read, and named nothing.
    #[must_use]
    pub fn has_found_nothing(&self) -> bool {
        self.list_complete && self.listed == 0 && self.stopped.is_none()
    }

    /// Whether all failures are about the files themselves, so that a retry would fail, too.
    #[must_use]
    pub fn are_failures_permanent(&self) -> bool {
        let is_lasting = |class| matches!(class, ErrorClass::Usage | ErrorClass::Verification);
        self.failure_groups
            .iter()
            .all(|group| is_lasting(group.class))
    }

    /// Whether the batch ended early because its caller stopped it.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.stop_reason() == Some(StopReason::Interrupted)
    }

    /// Why the batch ended before all of its jobs, if it did.
    #[must_use]
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.stopped.as_ref().map(|stopped| stopped.reason)
    }

    /// Notes that the caller has stopped the batch, unless it had already ended, or had another reason to.
    pub(crate) fn note_interruption(&mut self) {
        if self.stopped.is_none() && !self.all_ended() {
            self.stopped = Some(EarlyStop {
                reason: StopReason::Interrupted,
                text: "interrupted".to_owned(),
            });
        }
    }
}

/// Why a batch ended before all of its jobs. The first reason counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlyStop {
    pub reason: StopReason,
    /// The reason in words.
    pub text: String,
}

/// Why a batch ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The caller stopped it: a signal, a time limit, a reader of the results that has left.
    Interrupted,
    /// More jobs failed than the limit allows.
    TooManyFailures,
    /// A local error, such as a full disk.
    LocalIo,
    /// The reader of the archive has closed it.
    ReaderGone,
    /// One refusal would hit every job.
    Refused,
    /// A list is something else than a list.
    UnusableList,
}

/// Jobs that failed for the same cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureGroup {
    pub class: ErrorClass,
    /// The cause in a few words, without a URL.
    pub cause: String,
    /// How many jobs.
    pub count: u64,
    /// The error of the first of them.
    pub example: String,
    /// The URL of the first of them, and what its error says beyond the cause, where URL and cause say everything else.
    pub example_url: Option<(String, String)>,
    /// What the user can do about the error of the first of them.
    pub remedies: Vec<Remedy>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchSnapshot {
    /// The outcomes so far, without failure groups.
    pub summary: BatchSummary,
    /// How many jobs run.
    pub running: usize,
    /// The job that has run for longest.
    pub slowest: Option<SlowJob>,
}

/// A running job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowJob {
    /// The URL without a login. It may hold other secrets: see [`haul_net::redacted_url`].
    pub url: Url,
    /// How long it has run.
    pub elapsed: Duration,
    /// Bytes so far, if the job reports progress.
    pub bytes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_after_the_last_job_or_for_another_reason_is_no_interruption() {
        let complete = BatchSummary {
            listed: 3,
            list_complete: true,
            done: 1,
            skipped: 1,
            failed: 1,
            ..BatchSummary::default()
        };
        let unread = BatchSummary {
            list_complete: false,
            ..complete.clone()
        };
        let running = BatchSummary {
            done: 0,
            ..complete.clone()
        };
        let full_disk = BatchSummary {
            stopped: Some(EarlyStop {
                reason: StopReason::LocalIo,
                text: "no space left".to_owned(),
            }),
            ..running.clone()
        };
        let reason = |mut summary: BatchSummary| {
            summary.note_interruption();
            summary.stop_reason()
        };
        assert_eq!(reason(complete), None);
        assert_eq!(reason(unread), Some(StopReason::Interrupted));
        assert_eq!(reason(running), Some(StopReason::Interrupted));
        assert_eq!(reason(full_disk), Some(StopReason::LocalIo));
    }
}
