//! The coordinator starts the threads and workers of a batch, and watches them until the batch is over.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Batch;
use super::commit::{BatchSink, CommitMessage, CommitThread, DirectorySink, MemorySink, TarWriter};
use super::counters::BatchCounters;
use super::dispatch::RequestedPause;
use super::host_memory::HostMemory;
use super::job_queue::JobQueue;
use super::options::{BatchSnapshot, BatchSummary};
use super::outcome::OutcomeRecorder;
use super::output::BatchOutput;
use super::reader::{JobReader, ListEntries, ReaderSettings};
use super::running_jobs::RunningJobs;
use super::workers::WorkerPool;
use crate::event::{TransferEvent, TransferEventSender};
use crate::get::EngineState;
use crate::options::ExistingFilePolicy;
use crate::warning::TransferWarning;

/// How often the coordinator looks at the batch: smooth for an eye, and soon enough for a retry that is due.
const TICK: Duration = Duration::from_millis(50);

/// Messages that may wait for the commit thread, and events of large jobs that may wait for the coordinator.
const CHANNEL_CAPACITY: usize = 256;

/// A running batch.
pub(super) struct BatchCoordinator {
    workers: Arc<WorkerPool>,
    queue: Arc<JobQueue>,
    running_jobs: Arc<RunningJobs>,
    counters: Arc<BatchCounters>,
    /// Where snapshots and warnings are published.
    events: TransferEventSender,
    /// Events of single large jobs. A batch publishes the sum of their progress.
    job_events: mpsc::Receiver<TransferEvent>,
    commit_thread: JoinHandle<()>,
    /// The reader may wait for a line that never comes.
    reader_thread: JoinHandle<()>,
    ticks: Interval,
    /// Keeps what was learned about hosts.
    host_memory: Option<HostMemoryGuard>,
    stop: CancellationToken,
    /// Stops the batch when the coordinator is dropped.
    stop_guard: DropGuard,
}

impl BatchCoordinator {
    /// Starts the threads. Workers start with the first jobs.
    pub(super) fn start(batch: Batch, entries: ListEntries, stop: CancellationToken) -> Self {
        let counters = Arc::new(BatchCounters::default());
        let (manifest, previous_runs) = batch.manifest.unzip();
        let reader_settings = ReaderSettings {
            // What was handed to a function then is not here any more.
            previous_runs: previous_runs.filter(|_| !batch.output.is_memory()),
            ..ReaderSettings::new(&batch.options, &batch.get_options, &batch.output)
        };
        let outcomes = OutcomeRecorder::new(
            &batch.options,
            Arc::clone(&counters),
            batch.events.clone(),
            stop.clone(),
            manifest,
            reader_settings.published_rows(),
        );
        let commit_group = batch.output.commit_group(batch.options.commit_group);
        let sink = open_sink(batch.output, batch.get_options.existing_file);
        let commit_thread = CommitThread::new(outcomes, commit_group, sink);
        let (commits, messages) = mpsc::channel(CHANNEL_CAPACITY);
        let commit_thread = spawn_commit_thread(commit_thread, messages, stop.clone());

        let memory = batch.host_memory;
        let queue = Arc::new(JobQueue::new(batch.options.dispatch, memory.as_ref()));
        let running_jobs = Arc::new(RunningJobs::default());
        let (event_sender, job_events) = mpsc::channel(CHANNEL_CAPACITY);
        let small_files = batch.options.dispatch.per_host.max();
        let engine =
            EngineState::for_batch(batch.client, batch.get_options, small_files, event_sender);
        let workers = WorkerPool::new(
            engine,
            &batch.options,
            Arc::clone(&queue),
            commits,
            Arc::clone(&running_jobs),
            Arc::clone(&counters),
            stop.clone(),
        );
        let workers = Arc::new(workers.with_memory(memory.as_ref()));
        let reader = JobReader::new(
            reader_settings,
            &workers,
            Arc::clone(&queue),
            Arc::clone(&counters),
            stop.clone(),
        );
        Self {
            workers,
            host_memory: memory.map(|memory| HostMemoryGuard {
                memory,
                queue: Arc::clone(&queue),
            }),
            queue,
            running_jobs,
            counters,
            events: batch.events,
            job_events,
            commit_thread,
            reader_thread: thread::spawn(move || reader.run(entries)),
            ticks: new_ticks(),
            stop_guard: stop.clone().drop_guard(),
            stop,
        }
    }

    /// Runs until no job runs and none will.
    pub(super) async fn run(&mut self) {
        loop {
            if self.is_over() {
                // A file with a wrong digest goes back into the queue if it has another source. Then it is not over.
                self.workers.flush_buffer().await;
                if self.is_over() {
                    return;
                }
            }
            tokio::select! {
                biased;
                () = self.workers.join_next() => {}
                () = self.workers.may_be_over() => {}
                Some(event) = self.job_events.recv() => self.on_job_event(event).await,
                _ = self.ticks.tick() => self.on_tick().await,
            }
        }
    }

    /// Starts the jobs that are due, writes the files that have waited for a while, and publishes a snapshot.
    async fn on_tick(&self) {
        self.queue.widen_stalled_hosts();
        self.workers.start_jobs();
        self.workers.flush_buffer().await;
        for RequestedPause { host, wait } in self.queue.take_requested_pauses() {
            let event = TransferEvent::Warning {
                job: 0,
                warning: TransferWarning::HostAsksToWait {
                    host: host.to_string(),
                    wait,
                },
                url: None,
            };
            let _ = self.events.send(event).await;
        }
        let snapshot = BatchSnapshot {
            summary: self.summary(),
            running: self.queue.running_jobs(),
            slowest: self.running_jobs.slowest(),
        };
        // A renderer that is behind gets the next one.
        let _ = self
            .events
            .try_send(TransferEvent::BatchProgress(Box::new(snapshot)));
    }

    /// Sums up the progress of large jobs, and passes their warnings on with the URL.
    async fn on_job_event(&self, event: TransferEvent) {
        match event {
            TransferEvent::Warning { job, warning, .. } => {
                let url = self.running_jobs.url(job);
                let event = TransferEvent::Warning { job, warning, url };
                let _ = self.events.send(event).await;
            }
            event => {
                if let Some(ticket) = self.running_jobs.on_progress(&event) {
                    self.workers.on_large_file(ticket);
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        self.workers.is_idle() && (self.stop.is_cancelled() || self.queue.is_finished())
    }

    fn summary(&self) -> BatchSummary {
        let mut summary = self.counters.summary();
        summary.list_complete = self.queue.is_closed();
        let running_bytes = self.running_jobs.bytes_so_far();
        summary.fetched += running_bytes;
        summary.ended_bytes += running_bytes;
        summary
    }

    /// Waits for the threads to end, and propagates a panic of one of them.
    pub(super) async fn finish(mut self) -> BatchSummary {
        while let Ok(event) = self.job_events.try_recv() {
            self.on_job_event(event).await;
        }
        let list_complete = self.queue.is_closed();
        let running_bytes = self.running_jobs.bytes_so_far();
        let mut threads = vec![self.commit_thread];
        if list_complete {
            threads.push(self.reader_thread);
        }
        // The commit thread ends when nobody can send to it any more.
        drop((self.workers, self.job_events));
        let join = move || threads.into_iter().try_for_each(JoinHandle::join);
        match tokio::task::spawn_blocking(join).await {
            Ok(Ok(())) => {}
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
        drop((self.stop_guard, self.host_memory));
        let summary = self.counters.summary();
        BatchSummary {
            list_complete,
            fetched: summary.fetched + running_bytes,
            failure_groups: self.counters.failure_groups(),
            ..summary
        }
    }
}

fn new_ticks() -> Interval {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

fn open_sink(output: BatchOutput, existing: ExistingFilePolicy) -> Box<dyn BatchSink> {
    match output {
        BatchOutput::Files => Box::new(DirectorySink::new(existing)),
        BatchOutput::Archive(archive) => Box::new(TarWriter::new(archive.writer)),
        BatchOutput::Memory(memory) => Box::new(MemorySink::new(memory)),
    }
}

fn spawn_commit_thread(
    commit_thread: CommitThread,
    messages: mpsc::Receiver<Vec<CommitMessage>>,
    stop: CancellationToken,
) -> JoinHandle<()> {
    let runtime = Handle::current();
    thread::spawn(move || {
        let _guard = StopOnPanic(stop);
        commit_thread.run(&runtime, messages);
    })
}

/// Gives what was learned about hosts back to the memory when the batch ends, or is dropped.
struct HostMemoryGuard {
    memory: HostMemory,
    queue: Arc<JobQueue>,
}

impl Drop for HostMemoryGuard {
    fn drop(&mut self) {
        self.memory.give_back(self.queue.take_idle_hosts());
    }
}

/// Stops the batch when its thread panics, so that nothing waits for that thread.
struct StopOnPanic(CancellationToken);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.cancel();
        }
    }
}
