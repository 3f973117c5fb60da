//! A call that runs on haul's threads while Python waits for it, polls it or does something else.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::errors::{HaulError, bug};

/// Makes the object that a call returns, when somebody asks for it.
pub(crate) type ResultMaker = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// What pickle gives to the constructor of a result.
pub(crate) type NewArguments<'py> = (Bound<'py, PyTuple>, Bound<'py, PyDict>);

/// The constructor's arguments for a copy of a result: its fields.
pub(crate) fn new_arguments<'py>(
    result: &Bound<'py, PyAny>,
    names: &[&str],
) -> PyResult<NewArguments<'py>> {
    let py = result.py();
    let fields = PyDict::new(py);
    for name in names {
        fields.set_item(name, result.getattr(*name)?)?;
    }
    Ok((PyTuple::empty(py), fields))
}

/// How a call ended.
pub(crate) type CallResult = Result<ResultMaker, HaulError>;

/// How far a transfer is.
#[derive(Debug, Default)]
pub(crate) struct TransferProgress {
    /// Bytes that are there.
    pub(crate) done: AtomicU64,
    /// The length plus one; 0 while it is unknown.
    length: AtomicU64,
}

impl TransferProgress {
    pub(crate) fn set(&self, done: u64, length: Option<u64>) {
        self.done.store(done, Ordering::Relaxed);
        let length = length.map_or(0, |length| length.saturating_add(1));
        self.length.store(length, Ordering::Relaxed);
    }

    /// Bytes that are there, and the length if it is known.
    pub(crate) fn get(&self) -> (u64, Option<u64>) {
        let length = self.length.load(Ordering::Relaxed);
        (self.done.load(Ordering::Relaxed), length.checked_sub(1))
    }
}

/// A running call.
#[pyclass(frozen, module = "haul._haul")]
pub(crate) struct CallHandle {
    shared: Arc<SharedState>,
    progress: Arc<TransferProgress>,
    stop: CancellationToken,
}

#[derive(Default)]
struct SharedState {
    state: Mutex<CallState>,
    ended: Condvar,
}

#[derive(Default)]
struct CallState {
    is_ended: bool,
    /// Until it was taken.
    result: Option<std::thread::Result<CallResult>>,
    /// Called when it has ended.
    callback: Option<Py<PyAny>>,
}

impl SharedState {
    fn lock(&self) -> MutexGuard<'_, CallState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, result: std::thread::Result<CallResult>) {
        let mut state = self.lock();
        state.is_ended = true;
        state.result = Some(result);
        let callback = state.callback.take();
        drop(state);
        self.ended.notify_all();
        if let Some(callback) = callback {
            call(&callback);
        }
    }
}

/// Calls a callback from a thread of haul's. An interpreter that is ending is left alone.
fn call(callback: &Py<PyAny>) {
    Python::try_attach(|py| {
        if let Err(error) = callback.call0(py) {
            error.write_unraisable(py, None);
        }
    });
}

impl CallHandle {
    pub(crate) fn start<F>(
        runtime: &Handle,
        progress: Arc<TransferProgress>,
        stop: CancellationToken,
        call: F,
    ) -> Self
    where
        F: Future<Output = CallResult> + Send + 'static,
    {
        let shared = Arc::new(SharedState::default());
        let ending = Arc::clone(&shared);
        runtime.spawn(async move {
            let result = AssertUnwindSafe(call).catch_unwind().await;
            // Its callback waits for the interpreter.
            tokio::task::spawn_blocking(move || ending.end(result));
        });
        Self {
            shared,
            progress,
            stop,
        }
    }
}

#[pymethods]
impl CallHandle {
    /// Waits for the end, for so many seconds at most. Whether it has ended.
    fn wait(&self, py: Python<'_>, seconds: f64) -> bool {
        let timeout = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        py.detach(|| {
            let state = self.shared.lock();
            let waited = self
                .shared
                .ended
                .wait_timeout_while(state, timeout, |state| !state.is_ended);
            waited.unwrap_or_else(PoisonError::into_inner).0.is_ended
        })
    }

    /// The result, once, after the end.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let result = self.shared.lock().result.take();
        match result {
            None => Err(bug("a result that is not there")),
            Some(Err(_)) => Err(bug("a panic")),
            Some(Ok(Err(error))) => Err(error.into()),
            Some(Ok(Ok(make))) => make(py),
        }
    }

    /// Asks it to end soon. What can be resumed later is kept.
    fn cancel(&self) {
        self.stop.cancel();
    }

    /// Has a function called at the end, from another thread.
    fn on_end(&self, callback: Py<PyAny>) {
        let mut state = self.shared.lock();
        if !state.is_ended {
            state.callback = Some(callback);
            return;
        }
        drop(state);
        call(&callback);
    }

    /// Bytes that are there, and the length if it is known.
    fn progress(&self) -> (u64, Option<u64>) {
        self.progress.get()
    }
}

impl Drop for CallHandle {
    fn drop(&mut self) {
        // Nobody can ask for its result any more.
        self.stop.cancel();
    }
}
