//! A job that is held, and where it is.

use std::time::Duration;

use super::slab_list::{ListLinks, ListNode, SlabKey};

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobStage {
    /// Queued, never tried.
    New,
    /// Queued, to be tried again.
    RetryDue,
    /// To be tried again, but not yet.
    RetryWaiting,
    /// Running, without an answer, in a place.
    AwaitingResponse,
    /// Running, without an answer, for so long that it has no place.
    Overdue,
    /// Running, answered.
    Responding,
    /// Running as a large file, over connections of its own.
    LargeFile,
}

impl JobStage {
    pub(super) fn is_running(self) -> bool {
        !matches!(self, Self::New | Self::RetryDue | Self::RetryWaiting)
    }
}

/// A job.
#[derive(Debug)]
pub(super) struct JobEntry<T> {
    /// Its neighbours in the list that it is in.
    pub(super) links: ListLinks,
    /// What the driver knows of it; not here while it runs.
    pub(super) payload: Option<T>,
    /// Its host.
    pub(super) host: SlabKey,
    pub(super) stage: JobStage,
    /// When it began to run, or is due.
    pub(super) started_or_due: Duration,
    /// Its present run.
    pub(super) run: u64,
    /// Whether its host had never answered when it began.
    pub(super) host_untried: bool,
    /// Whether it tries a suspect host.
    pub(super) is_probe: bool,
}

impl<T> ListNode for JobEntry<T> {
    fn links(&mut self) -> &mut ListLinks {
        &mut self.links
    }
}

impl<T> JobEntry<T> {
    pub(super) fn new(host: SlabKey, load: T) -> Self {
        Self {
            links: ListLinks::default(),
            payload: Some(load),
            host,
            stage: JobStage::New,
            started_or_due: Duration::ZERO,
            run: 0,
            host_untried: false,
            is_probe: false,
        }
    }
}
