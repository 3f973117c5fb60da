//! A job that the dispatcher holds.

use std::time::Duration;

use super::slab_list::{ListLinks, ListNode, SlabKey};

/// What a job is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobStage {
    /// Queued, never tried.
    New,
    /// Queued for another try.
    RetryDue,
    /// Waits for the time of its next try.
    RetryWaiting,
    /// Runs in a slot, without a response.
    AwaitingResponse,
    /// Has run without a response for so long that it no longer takes a slot.
    Overdue,
    /// Runs, and the response has begun.
    Responding,
    /// Runs as a large file, over connections of its own.
    LargeFile,
}

impl JobStage {
    pub(super) fn is_running(self) -> bool {
        !matches!(self, Self::New | Self::RetryDue | Self::RetryWaiting)
    }

    /// Whether the job's request has no response yet.
    pub(super) fn awaits_response(self) -> bool {
        matches!(self, Self::AwaitingResponse | Self::Overdue)
    }
}

/// A job that the dispatcher holds.
#[derive(Debug)]
pub(super) struct JobEntry<T> {
    links: ListLinks,
    /// The driver's description of the job; `None` while the job runs.
    pub(super) payload: Option<T>,
    pub(super) host: SlabKey,
    pub(super) stage: JobStage,
    /// When the present run began; of a waiting job, when its retry is due.
    pub(super) started_or_due: Duration,
    /// The present run.
    pub(super) run: u64,
    /// Whether the host had never responded when the run began.
    pub(super) host_untried: bool,
    /// Whether the run tries a host whose circuit breaker is half-open.
    pub(super) is_probe: bool,
}

impl<T> ListNode for JobEntry<T> {
    fn links(&mut self) -> &mut ListLinks {
        &mut self.links
    }
}

impl<T> JobEntry<T> {
    pub(super) fn new(host: SlabKey, payload: T) -> Self {
        Self {
            links: ListLinks::default(),
            payload: Some(payload),
            host,
            stage: JobStage::New,
            started_or_due: Duration::ZERO,
            run: 0,
            host_untried: false,
            is_probe: false,
        }
    }
}
