//! Threads that may wait for a disk, so that no reactor has to.
//!
//! Their number is bounded. A flush of a slow disk takes a second or ten, and so may a write while
//! the system throttles writers: if all threads did those, every read would wait behind them. So
//! writing operations ([`DiskThreads::write`]) may use only a part of the threads; beyond that they
//! wait without taking a thread.
//!
//! # Closing large files
//!
//! Closes large files on threads that may wait.
//!
//! A file that was replaced or deleted while it is open keeps its space on the disk, and the last
//! close frees it: for gigabytes the file system works for a good part of a second. The last reader
//! is often a connection on a reactor, so large files are closed by a thread that may wait. The
//! number of waiting files is bounded; beyond that the reader closes the file itself, which takes
//! long and loses nothing.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Runs operations that may block on the blocking threads of one runtime, whichever runtime calls.
#[derive(Debug, Clone)]
pub struct DiskThreads {
    runtime: Handle,
    /// Bounds the threads that write.
    write_permits: Arc<Semaphore>,
}

impl DiskThreads {
    /// Blocking threads that the runtime should have. A disk's queue holds about as many requests
    /// at best; more threads bring nothing.
    pub const THREADS: usize = 64;

    /// How many of them may write, flush or delete at a time: enough to flush uploads together.
    pub const MAX_WRITERS: usize = 48;

    /// Uses the blocking threads of a runtime.
    #[must_use]
    pub fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            write_permits: Arc::new(Semaphore::new(Self::MAX_WRITERS)),
        }
    }

    /// Runs an operation on a blocking thread. If the future is dropped, the operation continues
    /// and its result is dropped.
    ///
    /// A panic there is resumed here.
    pub fn run<T, F>(&self, operation: F) -> impl Future<Output = T> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let task = self.runtime.spawn_blocking(operation);
        async move {
            match task.await {
                Ok(value) => value,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The runtime is shutting down, and with it the task that waits here.
                    Err(_) => std::future::pending().await,
                },
            }
        }
    }

    /// Runs an operation that changes files. If too many are running it waits for a permit while
    /// the future is polled, and never starts if the future is dropped before.
    ///
    /// A panic there is resumed here.
    pub fn write<T, F>(&self, operation: F) -> impl Future<Output = T> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let disk = self.clone();
        let started = match Arc::clone(&self.write_permits).try_acquire_owned() {
            Ok(permit) => Ok(self.run(move || {
                let _turn = permit;
                operation()
            })),
            Err(_) => Err(operation),
        };
        async move {
            let operation = match started {
                Ok(running) => return running.await,
                Err(operation) => operation,
            };
            let permit = Arc::clone(&disk.write_permits).acquire_owned().await;
            let running = disk.run(move || {
                let _turn = permit;
                operation()
            });
            running.await
        }
    }
}

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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Barrier, mpsc};
    use std::thread::ThreadId;
    use std::time::Duration;

    use super::*;

    #[test]
    fn reads_get_a_thread_while_all_writers_wait() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(DiskThreads::THREADS)
            .enable_time()
            .build()
            .expect("a runtime");
        let disk = DiskThreads::new(runtime.handle().clone());
        let (gate, done) = (
            Arc::new(Barrier::new(DiskThreads::MAX_WRITERS + 1)),
            Arc::new(AtomicUsize::new(0)),
        );
        let writing: Vec<_> = (0..DiskThreads::THREADS + DiskThreads::MAX_WRITERS)
            .map(|index| {
                let (gate, done) = (Arc::clone(&gate), Arc::clone(&done));
                disk.write(move || {
                    // The first operations hold their threads until the gate opens.
                    if index < DiskThreads::MAX_WRITERS {
                        gate.wait();
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                })
            })
            .collect();
        let read = async { tokio::time::timeout(Duration::from_secs(30), disk.run(|| 7)).await };
        let read = runtime.block_on(read);
        gate.wait();
        runtime.block_on(async {
            for writing in writing {
                writing.await;
            }
        });
        assert_eq!(read, Ok(7));
        assert_eq!(
            done.load(Ordering::Relaxed),
            DiskThreads::THREADS + DiskThreads::MAX_WRITERS
        );
    }

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
