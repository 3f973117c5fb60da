//! Work that hands over many results while it runs: a task on haul's threads, and the bounded channel that Python empties.
//!
//! The task waits when nobody takes its results. Once it is stopped it waits for nobody: what does not fit is dropped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haul_transfer::ErrorClass;
use haul_transfer::bucket::StoreSession;
use pyo3::PyResult;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::engine::{ActiveTransfer, PythonEngine};
use crate::errors::{HaulError, bug, chain_text};
use crate::operation::TransferProgress;

/// A task with results of one kind. Dropped, it is stopped.
pub(crate) struct RunningTask<T> {
    engine: Arc<PythonEngine>,
    output: Mutex<TaskOutput<T>>,
    pub(crate) progress: Arc<TransferProgress>,
    stop: CancellationToken,
}

/// What comes out of a task.
struct TaskOutput<T> {
    results: mpsc::Receiver<T>,
    /// Until its end was taken.
    task: Option<JoinHandle<Result<(), HaulError>>>,
}

/// What a task needs of its client and its handle.
pub(crate) struct TaskContext<T> {
    pub(crate) engine: Arc<PythonEngine>,
    pub(crate) stop: CancellationToken,
    pub(crate) running: ActiveTransfer,
    results: mpsc::Sender<T>,
}

impl<T: Send + 'static> TaskContext<T> {
    /// Hands a result over, when there is room for it.
    pub(crate) async fn send(&self, result: T) {
        tokio::select! {
            biased;
            // Nobody wants it any more: that is no reason to stop.
            _ = self.results.send(result) => {}
            () = self.stop.cancelled() => {}
        }
    }

    /// The store, or a client of other servers.
    pub(crate) async fn session(&self, is_store: bool) -> Result<StoreSession, HaulError> {
        Ok(StoreSession {
            client: self.engine.store(is_store).await?,
            retry: self.engine.retry.clone(),
            stop: self.stop.clone(),
        })
    }

    /// The end of work that does not say itself that it was stopped.
    pub(crate) fn check_stop(&self) -> Result<(), HaulError> {
        if self.stop.is_cancelled() {
            Err(HaulError::of_class(ErrorClass::Interrupted, "interrupted"))
        } else {
            Ok(())
        }
    }
}

impl<T: Send + 'static> RunningTask<T> {
    /// Starts a task. At most `max_waiting` of its results wait to be read.
    ///
    /// # Errors
    /// In a child process.
    pub(crate) fn start<F>(
        engine: &Arc<PythonEngine>,
        max_waiting: usize,
        run: impl FnOnce(TaskContext<T>) -> F,
    ) -> Result<Self, HaulError>
    where
        F: Future<Output = Result<(), HaulError>> + Send + 'static,
    {
        let runtime = engine.runtime()?;
        let stop = engine.stop_token();
        let (sender, results) = mpsc::channel(max_waiting);
        let running = engine.begin_job();
        let progress = Arc::clone(&running.progress);
        let task = runtime.spawn(run(TaskContext {
            engine: Arc::clone(engine),
            stop: stop.clone(),
            running,
            results: sender,
        }));
        Ok(Self {
            engine: Arc::clone(engine),
            output: Mutex::new(TaskOutput {
                results,
                task: Some(task),
            }),
            progress,
            stop,
        })
    }

    /// Asks it to end soon.
    pub(crate) fn cancel(&self) {
        self.stop.cancel();
    }

    fn lock(&self) -> MutexGuard<'_, TaskOutput<T>> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Results that have come, after waiting for the first for so many seconds at most. `None` when there will be no more. Blocks, so it
    /// is for a thread without the interpreter's lock.
    ///
    /// # Errors
    /// Once, at the end: why it ended early.
    pub(crate) fn receive(&self, max: usize, seconds: f64) -> PyResult<Option<Vec<T>>> {
        let runtime = self.engine.runtime()?;
        let wait = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let mut output = self.lock();
        let next = runtime.block_on(async { timeout(wait, output.results.recv()).await });
        let mut found = match next {
            Ok(Some(result)) => vec![result],
            Err(_) => return Ok(Some(Vec::new())),
            Ok(None) => {
                if let Some(task) = output.task.take() {
                    let ended = runtime.block_on(task);
                    ended.map_err(|error| bug(&chain_text(&error)))??;
                }
                return Ok(None);
            }
        };
        while found.len() < max
            && let Ok(result) = output.results.try_recv()
        {
            found.push(result);
        }
        Ok(Some(found))
    }
}

impl<T> Drop for RunningTask<T> {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
