//! The numbers of a batch, which its threads count and any thread may read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::error_limit::ErrorLimit;
use super::options::{BatchSummary, EarlyStop, FailureGroup, StopReason};
use crate::error::{ErrorClass, GetError};
use crate::manifest::{JobRowState, ManifestRow};

/// The most failure groups that are kept apart. Further causes are counted as one group.
const MAX_FAILURE_GROUPS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct BatchCounters {
    listed: AtomicU64,
    done_earlier: AtomicU64,
    retries: AtomicU64,
    pages: AtomicU64,
    /// Whether an origin has sent the bytes of any file.
    has_response: AtomicBool,
    fetched_bytes: AtomicU64,
    /// The sizes that the lists give, of all jobs together.
    planned_bytes: AtomicU64,
    /// Jobs without a size in their list.
    unsized_jobs: AtomicU64,
    outcomes: Mutex<OutcomeCounts>,
}

#[derive(Debug, Default)]
struct OutcomeCounts {
    done: u64,
    skipped: u64,
    failed: u64,
    /// Bytes of the files that are in place.
    bytes: u64,
    /// The sizes that the lists give of the jobs that have ended.
    ended_bytes: u64,
    stopped: Option<EarlyStop>,
    groups: HashMap<(ErrorClass, String), FailureGroup>,
}

impl BatchCounters {
    pub(crate) fn count_listed(&self) {
        self.listed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a job, whose file should have this size.
    pub(crate) fn count_job(&self, size: Option<u64>) {
        match size {
            Some(size) => self.planned_bytes.fetch_add(size, Ordering::Relaxed),
            None => self.unsized_jobs.fetch_add(1, Ordering::Relaxed),
        };
    }

    /// Counts a job that an earlier run has done.
    pub(super) fn count_done_earlier(&self) {
        self.done_earlier.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an attempt that is followed by another.
    pub(super) fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that an origin has sent the bytes of a file, which may not have its name for a while.
    pub(super) fn note_response(&self) {
        self.has_response.store(true, Ordering::Relaxed);
    }

    /// Whether it was noted.
    pub(super) fn has_response(&self) -> bool {
        self.has_response.load(Ordering::Relaxed)
    }

    /// Counts a file that is a page although its name says otherwise.
    pub(super) fn count_page(&self) {
        self.pages.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the bytes of response bodies.
    pub(super) fn fetched_bytes(&self) -> &AtomicU64 {
        &self.fetched_bytes
    }

    /// All numbers, without failure groups.
    pub(crate) fn summary(&self) -> BatchSummary {
        let counts = self.lock();
        BatchSummary {
            listed: self.listed.load(Ordering::Relaxed),
            done: counts.done,
            done_earlier: self.done_earlier.load(Ordering::Relaxed),
            skipped: counts.skipped,
            failed: counts.failed,
            retries: self.retries.load(Ordering::Relaxed),
            pages: self.pages.load(Ordering::Relaxed),
            bytes: counts.bytes,
            fetched: self.fetched_bytes.load(Ordering::Relaxed),
            planned_bytes: match self.unsized_jobs.load(Ordering::Relaxed) {
                0 => Some(self.planned_bytes.load(Ordering::Relaxed)),
                _ => None,
            },
            ended_bytes: counts.ended_bytes,
            stopped: counts.stopped.clone(),
            ..BatchSummary::default()
        }
    }

    /// Whether jobs failed and none succeeded.
    pub(super) fn nothing_succeeded(&self) -> bool {
        let counts = self.lock();
        counts.failed > 0 && counts.done == 0
    }

    /// The groups of failures, the most frequent first.
    pub(super) fn failure_groups(&self) -> Vec<FailureGroup> {
        let counts = self.lock();
        let mut groups: Vec<_> = counts.groups.values().cloned().collect();
        groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.cause.cmp(&b.cause)));
        groups
    }

    pub(super) fn count_outcome(&self, row: &ManifestRow, error: Option<&GetError>) {
        let mut counts = self.lock();
        match row.state {
            JobRowState::Done => {
                counts.done += 1;
                counts.bytes += row.bytes;
            }
            JobRowState::Skipped => counts.skipped += 1,
            JobRowState::Failed => counts.failed += 1,
        }
        counts.ended_bytes += row.listed_size.unwrap_or_default();
        let Some(row_error) = &row.error else { return };
        let cause = row_error.cause.clone();
        let full = counts.groups.len() >= MAX_FAILURE_GROUPS;
        let mut key = (row_error.class, cause);
        if full && !counts.groups.contains_key(&key) {
            key.1 = "other causes".into();
        }
        let (class, cause) = key.clone();
        let group = counts.groups.entry(key).or_insert_with(|| FailureGroup {
            class,
            count: 0,
            example: row_error.text.clone(),
            remedies: row_error.remedies.clone(),
            example_url: error
                .filter(|error| error.cause() == cause)
                .and_then(GetError::cause_detail)
                .map(|detail| (row.url.clone(), detail)),
            cause,
        });
        group.count += 1;
    }

    /// Why the batch ends, if more jobs failed than may. Outcomes that are not counted yet are added.
    pub(super) fn error_limit_exceeded(
        &self,
        limit: ErrorLimit,
        pending_failures: u64,
        pending_outcomes: usize,
    ) -> Option<String> {
        let counts = self.lock();
        let failed = counts.failed + pending_failures;
        let ended = counts.done + counts.skipped + counts.failed + pending_outcomes as u64;
        let exceeded = limit.is_exceeded(failed, ended);
        exceeded.then(|| format!("{failed} of {ended} jobs failed, more than the limit allows"))
    }

    /// Records why the batch ends early. The first reason is kept.
    pub(super) fn stop(&self, reason: StopReason, text: String) {
        let mut counts = self.lock();
        counts.stopped.get_or_insert(EarlyStop { reason, text });
    }

    fn lock(&self) -> MutexGuard<'_, OutcomeCounts> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
