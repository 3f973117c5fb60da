//! The jobs of a batch: the dispatcher behind a lock, with the clock that it needs.
//!
//! The reader adds jobs, workers take them and report how their attempts ended, the coordinator looks whether any are
//! left. A lock and not a task that owns the dispatcher: each job calls here about five times, and each call holds the
//! lock for less than a microsecond. A message to a task would cost a wake-up, which is as much as a small request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::dispatch::{
    DispatchDecision, IdleHosts, JobDispatcher, JobDispatcherOptions, JobRunReport, JobRunResult,
    JobTicket, RequestedPause,
};
use super::host_memory::HostMemory;
use super::job::BatchJob;

/// The longest that the reader waits for room before it looks whether the batch was stopped.
const ROOM_TIMEOUT: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct JobQueue {
    dispatcher: Mutex<JobDispatcher<Box<BatchJob>>>,
    /// Wakes the reader when the queue has become half empty.
    room: Condvar,
    /// The dispatcher's times count from here.
    started: Instant,
    /// The second in which stalled hosts were last looked at.
    last_widened: AtomicU64,
}

impl JobQueue {
    /// A queue without jobs, which knows what the memory does. Times then count from where those of the memory do.
    pub(super) fn new(options: JobDispatcherOptions, memory: Option<&HostMemory>) -> Self {
        let (dispatcher, started) = match memory {
            Some(memory) => (
                JobDispatcher::with_idle_hosts(options, memory.take()),
                memory.started(),
            ),
            None => (JobDispatcher::new(options), Instant::now()),
        };
        Self {
            dispatcher: Mutex::new(dispatcher),
            room: Condvar::new(),
            started,
            last_widened: AtomicU64::new(0),
        }
    }

    /// Adds a job if there is room for it ([`JobDispatcher::make_room`]), and returns whether a job may start now.
    pub(super) fn try_add(
        &self,
        job: Box<BatchJob>,
        max_window: usize,
    ) -> Result<bool, Box<BatchJob>> {
        let host = job.host().into_owned();
        let now = self.now();
        let mut dispatcher = self.lock();
        if !dispatcher.make_room(max_window) {
            return Err(job);
        }
        dispatcher.add(&host, job, now);
        Ok(dispatcher.has_candidates(now))
    }

    /// Adds a job that was in the queue before, whether there is room or not: for another source.
    pub(super) fn add_again(&self, job: Box<BatchJob>) {
        let host = job.host().into_owned();
        let now = self.now();
        self.lock().add(&host, job, now);
    }

    /// Waits until there may be room, but not for long: a stop does not wake this thread. Blocks.
    pub(super) fn wait_for_room(&self) {
        let dispatcher = self.lock();
        let _ = self.room.wait_timeout(dispatcher, ROOM_TIMEOUT);
    }

    /// No more jobs will be added.
    pub(super) fn close(&self) {
        self.lock().close();
    }

    /// Whether no more jobs will be added.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed()
    }

    /// Whether all jobs have ended and no more will be added.
    pub(super) fn is_finished(&self) -> bool {
        let dispatcher = self.lock();
        dispatcher.is_closed() && dispatcher.held_jobs() == 0
    }

    pub(super) fn running_jobs(&self) -> usize {
        self.lock().running_jobs()
    }

    /// The next step, and whether another may follow it at once.
    pub(super) fn next(&self) -> (DispatchDecision<Box<BatchJob>>, bool) {
        let now = self.now();
        let mut dispatcher = self.lock();
        let decision = dispatcher.next(now);
        if matches!(decision, DispatchDecision::Reject(..)) {
            self.wake_reader(&dispatcher);
        }
        (decision, dispatcher.has_candidates(now))
    }

    /// A job has made a connection, which took about a round trip. Returns whether a job may start now.
    pub(super) fn on_connected(&self, ticket: JobTicket, round_trip: Duration) -> bool {
        let now = self.now();
        let mut dispatcher = self.lock();
        dispatcher.on_connected(ticket, round_trip, now);
        dispatcher.has_candidates(now)
    }

    /// The head of a job's response has come. Returns whether a job may start now.
    pub(super) fn on_response_head(&self, ticket: JobTicket, max_streams: Option<usize>) -> bool {
        let now = self.now();
        let mut dispatcher = self.lock();
        dispatcher.on_response_head(ticket, max_streams, now);
        dispatcher.has_candidates(now)
    }

    /// A job goes on over connections of its own.
    pub(super) fn on_large_file(&self, ticket: JobTicket) {
        let now = self.now();
        self.lock().on_large_file(ticket, now);
    }

    pub(super) fn on_finished(&self, ticket: JobTicket, bytes: u64, result: JobRunResult) {
        let now = self.now();
        let mut dispatcher = self.lock();
        dispatcher.on_finished(ticket, JobRunReport { bytes, result }, now);
        self.wake_reader(&dispatcher);
    }

    /// A job is to be tried again after this time.
    pub(super) fn retry_later(
        &self,
        ticket: JobTicket,
        job: Box<BatchJob>,
        wait: Duration,
        result: JobRunResult,
    ) {
        let now = self.now();
        self.lock().retry_later(ticket, job, wait, result, now);
    }

    /// Whether a host has ever answered a request of this batch.
    pub(super) fn host_has_answered(&self, host: &str) -> bool {
        self.lock().host_has_answered(host)
    }

    /// Lets the dispatcher look at stalled hosts. It looks at all hosts, so this does so once a second only.
    pub(super) fn widen_stalled_hosts(&self) {
        let now = self.now();
        let second = now.as_secs();
        if self.last_widened.swap(second, Ordering::Relaxed) != second {
            self.lock().widen_stalled_hosts(now);
        }
    }

    /// Takes out the pauses for which hosts have asked since the last call.
    pub(super) fn take_requested_pauses(&self) -> Vec<RequestedPause> {
        self.lock().take_requested_pauses()
    }

    /// Takes out what is known of hosts, when the batch has ended.
    pub(super) fn take_idle_hosts(&self) -> IdleHosts {
        let now = self.now();
        self.lock().take_idle_hosts(now)
    }

    /// Wakes the reader when half of the window is free. Each wake-up costs as much as a request.
    fn wake_reader(&self, dispatcher: &JobDispatcher<Box<BatchJob>>) {
        if dispatcher.is_half_empty() {
            self.room.notify_one();
        }
    }

    /// The time since the batch began, or the first one of those that share a memory of hosts.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// A panic under the lock is a bug, which the panicking task reports.
    fn lock(&self) -> MutexGuard<'_, JobDispatcher<Box<BatchJob>>> {
        self.dispatcher
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
