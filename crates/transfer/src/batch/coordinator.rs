//! A batch while it runs: who was put to work, and a look at all of them now and then.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use haul_plan::AssignedPaths;
use haul_plan::dispatch::JobDispatcher;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::counters::{BatchCounters, OutcomeRecorder};
use super::directory_cache::DirectoryCache;
use super::group_commit::CommitThread;
use super::job_reader::{JobReader, ListEntries};
use super::options::{BatchSnapshot, BatchSummary};
use super::sink::{BatchSink, DirectorySink, TarWriter};
use super::spill::SpillFile;
use super::state::{BatchStart, BatchState};
use super::write_buffer::{FLUSH_FILES, flush};
use super::{Batch, BatchArchive};
use crate::event::{TransferEvent, TransferEventSender};
use crate::get::EngineState;
use crate::options::ExistingFilePolicy;

/// How often a batch is looked at: smooth for an eye, and soon enough for a retry that is due.
const LOOK: Duration = Duration::from_millis(50);

/// Hand-overs that may wait for the clerk, and events of larger jobs for a look.
const WAITING: usize = 256;

/// A running batch.
pub(super) struct BatchCoordinator {
    /// What its workers share.
    shared: Arc<BatchState>,
    /// What came of the jobs so far.
    counts: Arc<BatchCounters>,
    /// Where looks are told.
    events: TransferEventSender,
    /// What the larger jobs tell one by one; a batch tells how all of them do.
    aside: mpsc::Receiver<TransferEvent>,
    /// The clerk's thread.
    clerk: JoinHandle<()>,
    /// The feeder's, which may wait for a line that never comes.
    feeder: JoinHandle<()>,
    /// When to look.
    look: Interval,
    /// Ends everything when this is dropped before its time.
    guard: DropGuard,
}

impl BatchCoordinator {
    /// Puts everybody to work.
    pub(super) fn begin(batch: Batch, entries: ListEntries, stop: CancellationToken) -> Self {
        let counts = Arc::new(BatchCounters::default());
        let (deliveries, delivered) = mpsc::channel(WAITING);
        let (larger, aside) = mpsc::channel(WAITING);
        let (manifest, past) = batch.manifest.unzip();
        let staging = batch
            .archive
            .as_ref()
            .map(|to| to.staging_directory.clone());
        let books = OutcomeRecorder::new(
            &batch.options,
            Arc::clone(&counts),
            (batch.events.clone(), stop.clone()),
            manifest,
        );
        let sink = sink(batch.archive, batch.get_options.existing_file);
        let clerk = CommitThread::new(books, batch.options.commit_group, sink);
        let small = batch.options.dispatch.per_host.max();
        let shared = Arc::new(BatchState::new(BatchStart {
            engine: EngineState::for_batch(batch.client, (batch.get_options, small), larger),
            dispatch: JobDispatcher::new(batch.options.dispatch),
            low: batch.options.dispatch.window / 2,
            open: (2 * batch.options.commit_group.max_files).max(FLUSH_FILES),
            patience: batch.options.body_timeout,
            clerk: deliveries,
            stop: stop.clone(),
            counts: Arc::clone(&counts),
        }));
        let apart = SpillFile::new(staging.as_ref().unwrap_or(&batch.options.directory));
        let feeder = JobReader {
            shared: Arc::downgrade(&shared),
            existing: shared.engine.options().existing_file,
            layer: shared.engine.options().storage_layer.clone(),
            retry: shared.engine.options().retry.clone(),
            options: batch.options,
            unnamed_files: true,
            directory_cache: DirectoryCache::default(),
            spill: apart,
            assigned_paths: AssignedPaths::new(),
            previous_runs: past,
            staging_directory: staging,
            next_id: 0,
        };
        let (runtime, guard) = (Handle::current(), stop.clone().drop_guard());
        let fuse = PanicGuard(stop);
        let work = move || {
            let _fuse = fuse;
            clerk.run(&runtime, delivered);
        };
        Self {
            shared,
            counts,
            events: batch.events,
            aside,
            clerk: thread::spawn(work),
            feeder: thread::spawn(move || feeder.run(entries)),
            look: looks(),
            guard,
        }
    }

    /// Watches until nothing runs and nothing will.
    pub(super) async fn watch(&mut self) {
        loop {
            if self.is_over() {
                // What is not the file meant goes back, if it can be had elsewhere; then it is not over.
                flush(self.shared.table.take_all(), &self.shared).await;
                if self.is_over() {
                    return;
                }
            }
            tokio::select! {
                biased;
                () = join(&self.shared) => {}
                () = self.shared.over.notified() => {}
                Some(event) = self.aside.recv() => self.heard(event).await,
                _ = self.look.tick() => self.look().await,
            }
        }
    }

    /// Begins what is due, has written what has lain for a while, be it an armful or not, and tells how all stand.
    async fn look(&self) {
        self.shared.look();
        self.shared.recruit();
        flush(self.shared.table.take_all(), &self.shared).await;
        let board = BatchSnapshot {
            summary: self.summary(),
            running: self.shared.dispatch().running_jobs(),
            slowest: self.shared.underway.slowest(),
        };
        // A renderer that is behind will see the next one.
        let _ = self
            .events
            .try_send(TransferEvent::BatchProgress(Box::new(board)));
    }

    /// A larger job tells something: how far it is, which is summed up, or a warning, which is passed on with its name.
    async fn heard(&self, event: TransferEvent) {
        match event {
            TransferEvent::Warning { job, text } => {
                let text = self.shared.underway.with_url(job, text);
                let _ = self.events.send(TransferEvent::Warning { job, text }).await;
            }
            event => {
                if let Some(ticket) = self.shared.underway.on_progress(&event) {
                    self.shared.answered_large(ticket);
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        if !self.shared.workers().is_empty() {
            return false;
        }
        let dispatch = self.shared.dispatch();
        self.shared.stop.is_cancelled() || (dispatch.is_closed() && dispatch.held_jobs() == 0)
    }

    fn summary(&self) -> BatchSummary {
        let shared = &self.shared;
        let mut summary = BatchSummary {
            listed: shared.listed.load(Ordering::Relaxed),
            done_earlier: shared.earlier.load(Ordering::Relaxed),
            list_complete: shared.dispatch().is_closed(),
            retries: shared.retries.load(Ordering::Relaxed),
            bytes: shared.fetched.load(Ordering::Relaxed) + shared.underway.bytes_so_far(),
            ..BatchSummary::default()
        };
        self.counts.fill_summary(&mut summary);
        summary
    }

    /// Waits for the books to be closed. A panic of one of the threads is passed on.
    pub(super) async fn close(mut self) -> BatchSummary {
        while let Ok(event) = self.aside.try_recv() {
            self.heard(event).await;
        }
        let mut summary = self.summary();
        let mut threads = vec![self.clerk];
        if summary.list_complete {
            threads.push(self.feeder);
        }
        // With the last of those who tell it something the clerk sees the end.
        drop((self.shared, self.aside));
        let all = move || threads.into_iter().try_for_each(JoinHandle::join);
        match tokio::task::spawn_blocking(all).await {
            Ok(Ok(())) => {}
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
        drop(self.guard);
        self.counts.fill_summary(&mut summary);
        summary.failure_groups = self.counts.failure_groups();
        summary
    }
}

/// When to look.
fn looks() -> Interval {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    looks
}

/// Where files go.
fn sink(archive: Option<BatchArchive>, existing: ExistingFilePolicy) -> Box<dyn BatchSink> {
    match archive {
        Some(archive) => Box::new(TarWriter::new(archive.writer)),
        None => Box::new(DirectorySink::new(existing)),
    }
}

/// Ends the batch when its thread panics, so that nobody waits for what it would have done.
struct PanicGuard(CancellationToken);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.cancel();
        }
    }
}

/// Waits for the end of a worker, and passes its panic on.
async fn join(shared: &BatchState) {
    let joined = poll_fn(|cx| match shared.workers().poll_join_next(cx) {
        // There are none now; a look sees those that come.
        Poll::Ready(None) => Poll::Pending,
        other => other,
    });
    if let Some(Err(error)) = joined.await
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}
