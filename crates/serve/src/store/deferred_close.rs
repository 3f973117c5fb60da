//! Closes large files on threads that may wait.
//!
//! A file that was replaced or deleted while it is open keeps its space on the disk, and the last
//! close frees it: for gigabytes the file system works for a good part of a second. The last reader
//! is often a connection on a reactor, so large files are closed by a thread that may wait. The
//! number of waiting files is bounded; beyond that the reader closes the file itself, which takes
//! long and loses nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::DiskThreads;

/// Bytes of a large file: the file system frees smaller ones within a millisecond or so.
pub(super) const LARGE_FILE: u64 = 16 << 20;

/// Maximum files that wait to be closed.
const MAX_WAITING: usize = 256;

/// Drops values on threads that may wait.
#[derive(Debug, Default)]
pub(super) struct DeferredClose {
    /// The threads. Until they are known, values are dropped at once.
    threads: OnceLock<DiskThreads>,
    /// Number of values that wait.
    waiting: AtomicUsize,
}

impl DeferredClose {
    /// Returns a reference to `queue` if a file of `len` bytes needs it.
    pub(super) fn for_file(queue: &Arc<Self>, len: u64) -> Option<Arc<Self>> {
        (len >= LARGE_FILE).then(|| Arc::clone(queue))
    }

    /// Sets the threads.
    pub(super) fn set_threads(&self, disk: &DiskThreads) {
        self.threads.get_or_init(|| disk.clone());
    }

    /// Drops a value, on another thread if possible.
    pub(super) fn drop_later(self: &Arc<Self>, value: impl Send + 'static) {
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        let task = DeferredDrop {
            value: Some(value),
            queue: Arc::clone(self),
        };
        if let Some(disk) = self.threads.get().filter(|_| waiting < MAX_WAITING) {
            // The task starts at once. If the threads have ended, the value is dropped here.
            drop(disk.run(move || drop(task)));
        }
    }
}

/// Drops its value, wherever it is dropped itself.
struct DeferredDrop<T> {
    value: Option<T>,
    queue: Arc<DeferredClose>,
}

impl<T> Drop for DeferredDrop<T> {
    fn drop(&mut self) {
        drop(self.value.take());
        self.queue.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::ThreadId;

    use super::*;

    /// Reports the thread on which it was dropped.
    struct Dropped(mpsc::Sender<ThreadId>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send(std::thread::current().id());
        }
    }

    #[test]
    fn deferred_closes_are_bounded_and_all_happen() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(1)
            .build()
            .expect("a runtime");
        let this_thread = std::thread::current().id();
        let (sender, dropped) = mpsc::channel();
        let queue = Arc::new(DeferredClose::default());
        queue.drop_later(Dropped(sender.clone()));
        assert_eq!(dropped.recv().expect("nowhere else to go"), this_thread);
        let disk = DiskThreads::new(runtime.handle().clone());
        queue.set_threads(&disk);
        let (release, hold) = mpsc::channel::<()>();
        drop(disk.run(move || hold.recv()));
        for _ in 0..MAX_WAITING + 2 {
            queue.drop_later(Dropped(sender.clone()));
        }
        assert_eq!(
            dropped.try_iter().collect::<Vec<_>>(),
            [this_thread, this_thread]
        );
        release.send(()).expect("the thread");
        let elsewhere = dropped
            .iter()
            .take(MAX_WAITING)
            .filter(|thread| *thread != this_thread);
        assert_eq!(elsewhere.count(), MAX_WAITING);
        // A value is dropped even if the threads have ended.
        runtime.shutdown_background();
        queue.drop_later(Dropped(sender));
        dropped.recv().expect("closed");
        assert_eq!(dropped.iter().count(), 0);
    }
}
