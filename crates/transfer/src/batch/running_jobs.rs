//! The running jobs and their start times, for snapshots of the batch.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use url::Url;

use super::dispatch::JobTicket;
use super::options::SlowJob;
use crate::event::TransferEvent;

/// The running jobs by number.
#[derive(Debug, Default)]
pub(super) struct RunningJobs(Mutex<foldhash::HashMap<u64, RunningJob>>);

#[derive(Debug)]
struct RunningJob {
    url: Url,
    started: Instant,
    /// Bytes so far, for a job whose strategy reports progress.
    bytes: Option<u64>,
    /// The dispatcher's ticket, until the first progress was reported to the dispatcher.
    ticket: Option<JobTicket>,
}

impl RunningJobs {
    /// Adds a job, which is removed when the guard is dropped.
    pub(super) fn begin(&self, job: u64, url: &Url, ticket: JobTicket) -> RunningJobGuard<'_> {
        let run = RunningJob {
            url: url.clone(),
            started: Instant::now(),
            bytes: None,
            ticket: Some(ticket),
        };
        self.lock().insert(job, run);
        RunningJobGuard { jobs: self, job }
    }

    /// Records the progress of a large job. Returns its ticket on the first progress.
    pub(super) fn on_progress(&self, event: &TransferEvent) -> Option<JobTicket> {
        let TransferEvent::Progress { job, done, .. } = event else {
            return None;
        };
        let mut runs = self.lock();
        let run = runs.get_mut(job)?;
        let more = run
            .bytes
            .replace(*done)
            .is_some_and(|before| before < *done);
        run.ticket.take_if(|_| more)
    }

    /// The job's URL without secrets, if the job still runs.
    pub(super) fn url(&self, job: u64) -> Option<String> {
        let jobs = self.lock();
        jobs.get(&job).map(|run| haul_net::redacted_url(&run.url))
    }

    /// Bytes so far of all jobs that report progress.
    pub(super) fn bytes_so_far(&self) -> u64 {
        self.lock().values().filter_map(|run| run.bytes).sum()
    }

    /// The job that has run for longest.
    pub(super) fn slowest(&self) -> Option<SlowJob> {
        let runs = self.lock();
        let run = runs.values().min_by_key(|run| run.started)?;
        Some(SlowJob {
            url: haul_net::without_credentials(&run.url),
            elapsed: run.started.elapsed(),
            bytes: run.bytes,
        })
    }

    fn lock(&self) -> MutexGuard<'_, foldhash::HashMap<u64, RunningJob>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a job from [`RunningJobs`] when it is dropped.
#[derive(Debug)]
pub(super) struct RunningJobGuard<'a> {
    jobs: &'a RunningJobs,
    job: u64,
}

impl Drop for RunningJobGuard<'_> {
    fn drop(&mut self) {
        self.jobs.lock().remove(&self.job);
    }
}
