//! Which jobs run, and since when: what a look at a batch shows of them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use haul_plan::dispatch::JobTicket;
use tokio::time::Instant;
use url::Url;

use super::options::SlowJob;
use crate::event::TransferEvent;

/// The jobs that run.
#[derive(Debug, Default)]
pub(super) struct RunningJobs(Mutex<BTreeMap<u64, RunningJob>>);

/// One of them.
#[derive(Debug)]
struct RunningJob {
    url: Url,
    since: Instant,
    /// Bytes of it, where it goes a road that tells.
    bytes: Option<u64>,
    /// What the dispatcher knows it by, until it is told that some came.
    ticket: Option<JobTicket>,
}

impl RunningJobs {
    /// A job begins to run; until the answer is dropped it does.
    pub(super) fn begin(&self, job: u64, url: &Url, ticket: JobTicket) -> RunningJobGuard<'_> {
        let run = RunningJob {
            url: url.clone(),
            since: Instant::now(),
            bytes: None,
            ticket: Some(ticket),
        };
        self.lock().insert(job, run);
        RunningJobGuard { all: self, job }
    }

    /// One of the larger jobs tells how far it is. Its ticket, when for the first time there is more of it than before.
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

    /// What one of them tells, with its URL in front; what comes after its end stands for itself.
    pub(super) fn with_url(&self, job: u64, text: String) -> String {
        match self.lock().get(&job) {
            Some(run) => format!("{}: {text}", haul_net::redacted_url(&run.url)),
            None => text,
        }
    }

    /// Bytes of those that tell.
    pub(super) fn bytes_so_far(&self) -> u64 {
        self.lock().values().filter_map(|run| run.bytes).sum()
    }

    /// The one that has run for longest.
    pub(super) fn slowest(&self) -> Option<SlowJob> {
        let runs = self.lock();
        let run = runs.values().min_by_key(|run| run.since)?;
        Some(SlowJob {
            url: haul_net::without_credentials(&run.url),
            elapsed: run.since.elapsed(),
            bytes: run.bytes,
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, RunningJob>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job that runs.
#[derive(Debug)]
pub(super) struct RunningJobGuard<'a> {
    all: &'a RunningJobs,
    job: u64,
}

impl Drop for RunningJobGuard<'_> {
    fn drop(&mut self) {
        self.all.lock().remove(&self.job);
    }
}
