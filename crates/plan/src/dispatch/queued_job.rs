//! A job that is held, and where it is.

use std::time::Duration;

use super::slab_list::{ListLinks, ListNode, SlabKey};

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueuedJobStage {
    /// Queued, never tried.
    Fresh,
    /// Queued, to be tried again.
    Due,
    /// To be tried again, but not yet.
    Later,
    /// Running, without an answer, in a place.
    Connecting,
    /// Running, without an answer, for so long that it has no place.
    Limbo,
    /// Running, answered.
    Answered,
    /// Running as a large file, over connections of its own.
    Large,
}

impl QueuedJobStage {
    pub(super) fn is_running(self) -> bool {
        !matches!(self, Self::Fresh | Self::Due | Self::Later)
    }
}

/// A job.
#[derive(Debug)]
pub(super) struct QueuedJob<T> {
    /// Its neighbours in the list that it is in.
    pub(super) links: ListLinks,
    /// What the driver knows of it; not here while it runs.
    pub(super) load: Option<T>,
    /// Its host.
    pub(super) host: SlabKey,
    pub(super) stage: QueuedJobStage,
    /// When it began to run, or is due.
    pub(super) at: Duration,
    /// Its present run.
    pub(super) run: u64,
    /// Whether its host had never answered when it began.
    pub(super) cold: bool,
    /// Whether it tries a suspect host.
    pub(super) probe: bool,
}

impl<T> ListNode for QueuedJob<T> {
    fn links(&mut self) -> &mut ListLinks {
        &mut self.links
    }
}

impl<T> QueuedJob<T> {
    pub(super) fn new(host: SlabKey, load: T) -> Self {
        Self {
            links: ListLinks::default(),
            load: Some(load),
            host,
            stage: QueuedJobStage::Fresh,
            at: Duration::ZERO,
            run: 0,
            cold: false,
            probe: false,
        }
    }
}
