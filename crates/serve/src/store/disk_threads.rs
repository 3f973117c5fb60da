//! Threads that may wait for a disk, so that no reactor has to.
//!
//! Their number is bounded. A flush of a slow disk takes a second or ten, and so may a write while
//! the system throttles writers: if all threads did those, every read would wait behind them. So
//! writing operations ([`DiskThreads::write`]) may use only a part of the threads; beyond that they
//! wait without taking a thread.

use std::future::Future;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Runs operations that may block on the blocking threads of one runtime, whichever runtime calls.
#[derive(Debug, Clone)]
pub struct DiskThreads {
    /// The runtime with the threads.
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

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
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
}
