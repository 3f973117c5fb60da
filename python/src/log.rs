//! Messages for `logging.getLogger("haul")`: a bounded queue between haul's threads, which never wait for it, and the
//! thread in Python that empties it.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haul_transfer::TransferWarning;
use pyo3::prelude::*;

use crate::remedies::remedies_hint;

/// Messages that may wait. Further ones are counted, and their number is a message.
const CAPACITY: usize = 1000;

/// The numbers of Python's levels.
pub(crate) const INFO: u8 = 20;
pub(crate) const WARNING: u8 = 30;

static QUEUE: LogQueue = LogQueue {
    state: Mutex::new(LogQueueState {
        messages: VecDeque::new(),
        dropped: 0,
        is_closed: false,
    }),
    changed: Condvar::new(),
};

struct LogQueue {
    state: Mutex<LogQueueState>,
    changed: Condvar,
}

struct LogQueueState {
    messages: VecDeque<(u8, String)>,
    dropped: u64,
    is_closed: bool,
}

fn lock() -> MutexGuard<'static, LogQueueState> {
    QUEUE.state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a message, unless too many wait.
pub(crate) fn log(level: u8, text: String) {
    let mut state = lock();
    if state.is_closed {
        return;
    }
    if state.messages.len() < CAPACITY {
        state.messages.push_back((level, text));
        QUEUE.changed.notify_one();
    } else {
        state.dropped += 1;
    }
}

/// Logs a warning of an engine, with the arguments that help.
pub(crate) fn log_warning(warning: &TransferWarning, url: Option<&str>) {
    let url = url.map_or_else(String::new, |url| format!("{url}: "));
    let hint =
        remedies_hint(&warning.remedies()).map_or_else(String::new, |hint| format!("; {hint}"));
    log(WARNING, format!("{url}{warning}{hint}"));
}

/// Waits for messages and takes all of them: pairs of a level and a text. `None` when the queue is closed and empty.
#[pyfunction]
pub(crate) fn take_log_messages(py: Python<'_>) -> Option<Vec<(u8, String)>> {
    py.detach(|| {
        let mut state = lock();
        while state.messages.is_empty() && !state.is_closed {
            let waited = QUEUE.changed.wait_timeout(state, Duration::from_secs(3600));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let mut messages: Vec<_> = state.messages.drain(..).collect();
        if state.dropped > 0 {
            let text = format!("{} further messages were dropped", state.dropped);
            messages.push((WARNING, text));
            state.dropped = 0;
        }
        (!messages.is_empty() || !state.is_closed).then_some(messages)
    })
}

/// Closes the queue: the interpreter ends.
#[pyfunction]
pub(crate) fn close_log() {
    lock().is_closed = true;
    QUEUE.changed.notify_all();
}
