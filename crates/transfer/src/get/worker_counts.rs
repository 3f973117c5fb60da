//! How many of a job's workers are wanted, and how many there are.
//!
//! A worker that retires takes itself out at once, some time before the coordinator learns that it has ended: if those
//! that are too many were counted by the coordinator, one that has gone already would send another after it.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The numbers, shared by all workers of a job.
#[derive(Debug, Default)]
pub(super) struct WorkerCounts {
    /// Workers that are wanted.
    wanted: AtomicUsize,
    /// Workers at work.
    working: AtomicUsize,
}

impl WorkerCounts {
    /// So many are wanted now.
    pub(super) fn set_wanted(&self, count: usize) {
        self.wanted.store(count, Ordering::Relaxed);
    }

    /// A worker begins.
    pub(super) fn worker_started(&self) {
        self.working.fetch_add(1, Ordering::Relaxed);
    }

    /// A worker ends that was not retired.
    pub(super) fn worker_ended(&self) {
        self.working.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether the worker that asks should retire, since fewer are wanted than there are: then it counts no more.
    pub(super) fn try_retire(&self) -> bool {
        let wanted = self.wanted.load(Ordering::Relaxed);
        let one_less = |working: usize| (working > wanted).then(|| working - 1);
        self.working
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_retire_as_are_too_many_however_often_the_wish_is_repeated() {
        let crew = WorkerCounts::default();
        (0..5).for_each(|_| crew.worker_started());
        crew.set_wanted(3);
        assert!(crew.try_retire());
        // The coordinator looks again before it has seen the first one end.
        crew.set_wanted(3);
        assert!(crew.try_retire());
        assert!(!crew.try_retire());
        crew.worker_ended();
        crew.set_wanted(2);
        assert!(!crew.try_retire());
    }
}
