//! The uploads of a run, found on a thread of their own while others are under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;

use super::options::{UploadInput, UploadJob};
use crate::batch::{BatchCounters, BatchSummary};
use crate::input_error::InputError;

/// Uploads that are found ahead of those under way: some megabytes, so that the totals of most folders are known at once.
const JOBS_AHEAD: usize = 8192;

/// An upload, or why something is not uploaded.
pub type FoundUpload = Result<UploadJob, InputError>;

/// Where a run's uploads come from: they are found as they are needed, since a folder or a bucket may have millions.
#[derive(Debug)]
pub struct UploadJobSource {
    pub(super) jobs: mpsc::Receiver<FoundUpload>,
    pub(super) totals: Arc<FoundTotals>,
}

/// What a run will upload, as far as it was found.
#[derive(Debug, Default)]
pub(super) struct FoundTotals {
    counters: BatchCounters,
    /// Whether all were found.
    is_complete: AtomicBool,
}

impl FoundTotals {
    fn add(&self, found: &FoundUpload) {
        self.counters.count_listed();
        let Ok(job) = found else { return };
        self.counters.count_job(match &job.input {
            UploadInput::File(path) => std::fs::metadata(path).map(|found| found.len()).ok(),
            UploadInput::Object(source) => Some(source.size),
            UploadInput::Stdin => None,
        });
    }

    /// Enters the totals into a summary.
    pub(super) fn fill(&self, summary: &mut BatchSummary) {
        let found = self.counters.summary();
        summary.list_complete = self.is_complete.load(Ordering::Relaxed);
        summary.listed = found.listed;
        summary.planned_bytes = found.planned_bytes;
    }
}

impl UploadJobSource {
    /// Runs an iterator that may wait on a thread of its own, which ends when nobody wants more.
    pub fn from_iterator(jobs: impl Iterator<Item = FoundUpload> + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel(JOBS_AHEAD);
        let totals = Arc::new(FoundTotals::default());
        let found = Arc::clone(&totals);
        tokio::task::spawn_blocking(move || {
            for job in jobs {
                found.add(&job);
                if sender.blocking_send(job).is_err() {
                    return;
                }
            }
            found.is_complete.store(true, Ordering::Relaxed);
        });
        let jobs = receiver;
        Self { jobs, totals }
    }

    /// The next upload; `None` at the end. Cancel safe.
    pub async fn next(&mut self) -> Option<FoundUpload> {
        self.jobs.recv().await
    }
}
