//! The workers: each takes a job from the queue, makes one [attempt], and takes the next job.
//!
//! A worker is a task. A waiting job is none: it is in the queue and holds no connection. So there are as many workers
//! as jobs that may run, and [`WorkerPool::start_jobs`] is called wherever a job may have become able to run.

mod attempt;
mod recovery;
mod unnamed_files;

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::commit::CommitMessage;
use super::counters::BatchCounters;
use super::dispatch::{DispatchDecision, FailedHost, HostFailureCause, JobTicket};
use super::host_failures::HostFailures;
use super::host_memory::HostMemory;
use super::job::BatchJob;
use super::job_queue::JobQueue;
use super::options::BatchOptions;
use super::outcome::JobOutcome;
use super::running_jobs::RunningJobs;
use super::write_buffer::{FetchedFile, WriteBuffer};
use crate::error::{GetError, HostFailureKind, NetworkError, OriginError};
use crate::get::{EngineState, memory_budget};
use crate::recovery::RetryOptions;
use attempt::Attempt;
use unnamed_files::UnnamedFileSupport;

/// The workers of a batch, and what their attempts need.
#[derive(Debug)]
pub(super) struct WorkerPool {
    /// The workers at work.
    tasks: Mutex<JoinSet<()>>,
    /// Where workers run.
    runtime: Handle,
    /// Notified when the batch may be over.
    may_be_over: Notify,
    queue: Arc<JobQueue>,
    /// Makes requests.
    engine: EngineState,
    /// The longest that the body of a small file may take.
    body_timeout: Duration,
    /// The memory for bodies, in units of the engine.
    memory_budget: Arc<Semaphore>,
    host_failures: Arc<HostFailures>,
    unnamed_files: UnnamedFileSupport,
    write_buffer: WriteBuffer,
    /// Messages to the commit thread, which ends when all senders are dropped.
    commits: mpsc::Sender<Vec<CommitMessage>>,
    running_jobs: Arc<RunningJobs>,
    counters: Arc<BatchCounters>,
    /// Ends all attempts.
    stop: CancellationToken,
}

impl WorkerPool {
    /// A pool without workers. To be called on the runtime where they shall run.
    pub(super) fn new(
        engine: EngineState,
        options: &BatchOptions,
        queue: Arc<JobQueue>,
        commits: mpsc::Sender<Vec<CommitMessage>>,
        running_jobs: Arc<RunningJobs>,
        counters: Arc<BatchCounters>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            tasks: Mutex::default(),
            runtime: Handle::current(),
            may_be_over: Notify::new(),
            queue,
            write_buffer: WriteBuffer::new(options.commit_group.max_files, engine.options()),
            engine,
            body_timeout: options.body_timeout,
            memory_budget: memory_budget(),
            host_failures: Arc::default(),
            unnamed_files: UnnamedFileSupport::default(),
            commits,
            running_jobs,
            counters,
            stop,
        }
    }

    /// The same pool, with what earlier batches know about hosts that fail.
    pub(super) fn with_memory(mut self, memory: Option<&HostMemory>) -> Self {
        if let Some(memory) = memory {
            self.host_failures = memory.failures();
        }
        self
    }

    /// Starts a worker for each job that may run.
    pub(super) fn start_jobs(self: &Arc<Self>) {
        while let Some((ticket, job, may_start_more)) = self.next_job() {
            let work = Arc::clone(self).work(ticket, job);
            self.lock_tasks().spawn_on(work, &self.runtime);
            if !may_start_more {
                return;
            }
        }
    }

    /// Reports the outcome of an entry that made no job. Blocks while the commit thread is behind.
    pub(super) fn report(&self, outcome: impl Into<CommitMessage>) {
        // The commit thread ends after the caller, unless it panicked.
        let _ = self.commits.blocking_send(vec![outcome.into()]);
    }

    /// The host of a large job has sent a response.
    pub(super) fn on_large_file(self: &Arc<Self>, ticket: JobTicket) {
        self.queue.on_large_file(ticket);
        self.start_jobs();
    }

    /// Writes all files in the write buffer.
    pub(super) async fn flush_buffer(&self) {
        self.flush(self.write_buffer.take_all()).await;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.lock_tasks().is_empty()
    }

    /// Tells the coordinator that the batch may be over.
    pub(super) fn notify_coordinator(&self) {
        self.may_be_over.notify_one();
    }

    /// Waits until the batch may be over.
    pub(super) async fn may_be_over(&self) {
        self.may_be_over.notified().await;
    }

    /// Waits for the end of a worker, and propagates its panic. Cancel safe.
    pub(super) async fn join_next(&self) {
        let joined = poll_fn(|cx| match self.lock_tasks().poll_join_next(cx) {
            // There are no workers now. The coordinator's next tick sees those that are started.
            Poll::Ready(None) => Poll::Pending,
            other => other,
        });
        if let Some(Err(error)) = joined.await
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }

    async fn work(self: Arc<Self>, ticket: JobTicket, job: Box<BatchJob>) {
        let mut next = Some((ticket, job));
        while let Some((ticket, job)) = next {
            Attempt::new(&self, ticket, job).run().await;
            // This worker takes the job whose turn it is. Further ones that may run now get workers of their own.
            let found = self.next_job();
            if found
                .as_ref()
                .is_some_and(|(.., may_start_more)| *may_start_more)
            {
                self.start_jobs();
            }
            next = found.map(|(ticket, job, _)| (ticket, job));
        }
        self.notify_coordinator();
    }

    /// The next job that may run now, and whether further ones may be able to. `None` also while the commit thread or the disk
    /// is behind: the coordinator's next tick starts workers again.
    fn next_job(&self) -> Option<(JobTicket, Box<BatchJob>, bool)> {
        while !self.stop.is_cancelled() && !self.write_buffer.is_behind() {
            // Room for the outcome of a job that is rejected.
            let permit = self.commits.try_reserve().ok()?;
            match self.queue.next() {
                (DispatchDecision::Run(ticket, job), may_start_more) => {
                    return Some((ticket, job, may_start_more));
                }
                (DispatchDecision::Reject(job, host), _) => {
                    if let Some(outcome) = self.reject(job, host) {
                        permit.send(vec![outcome.into()]);
                    }
                }
                (DispatchDecision::Wait(_) | DispatchDecision::Done, _) => return None,
            }
        }
        None
    }

    /// A job whose host was given up goes to a mirror, or has failed.
    fn reject(&self, mut job: Box<BatchJob>, host: FailedHost) -> Option<JobOutcome> {
        let url = Box::new(haul_net::without_credentials(job.url()));
        let attempts = host.failures;
        let error = match host.cause {
            HostFailureCause::LongWait => GetError::origin(
                url,
                OriginError::AsksToWait {
                    wait: host.retry_at.saturating_sub(self.queue.now()),
                },
            ),
            HostFailureCause::RefusesEverything => GetError::network(
                url,
                NetworkError::HostGivenUp {
                    attempts,
                    kind: HostFailureKind::RefusesEverything,
                    reason: self.host_failures.last_refusal(&job.host()),
                },
            ),
            HostFailureCause::Unreachable => {
                let reason = self.host_failures.unreachable_reason(&job.host());
                let is_proxy = reason.as_ref().is_some_and(|reason| reason.is_proxy);
                GetError::network(
                    url,
                    NetworkError::HostGivenUp {
                        attempts,
                        kind: if is_proxy {
                            HostFailureKind::ProxyUnreachable
                        } else {
                            HostFailureKind::Unreachable
                        },
                        reason: reason.map(|reason| reason.text),
                    },
                )
            }
        };
        if job.fail_over(&error.reason(), self.retry(), self.queue.now()) {
            self.queue.add_again(job);
            return None;
        }
        Some(JobOutcome::failed(&job, error))
    }

    /// Writes files, and puts the jobs that need another attempt back into the queue.
    async fn flush(&self, files: Vec<FetchedFile>) {
        let now = self.queue.now();
        for job in self.write_buffer.flush(files, now, &self.commits).await {
            self.unnamed_files.note_unsupported(&job);
            self.counters.count_retry();
            self.queue.add_again(job);
        }
    }

    /// The retry budget of a job.
    fn retry(&self) -> &RetryOptions {
        &self.engine.options().retry
    }

    fn lock_tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
