//! Counts what is open now: connections, tunnels.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A counter; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenCounter(Arc<AtomicUsize>);

/// Counts as one until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenCounterGuard {
    counter: OpenCounter,
    /// How many there were when this one was opened, itself included.
    pub(crate) count: usize,
}

impl OpenCounter {
    /// Counts one more.
    pub(crate) fn open(&self) -> OpenCounterGuard {
        let count = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        OpenCounterGuard {
            counter: self.clone(),
            count,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for OpenCounterGuard {
    fn drop(&mut self) {
        self.counter.0.fetch_sub(1, Ordering::SeqCst);
    }
}
