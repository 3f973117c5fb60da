//! Threads that may wait for a disk, so that no reactor has to.
//!
//! There are so many of them and no more. A flush of a slow disk takes a second or ten, and so may a write while the system holds writers
//! back: were all threads in those, every read would wait behind them. So what changes something ([`DiskThreads::write`]) has a part of the
//! threads at most, and waits for one of these without taking another.

use std::future::Future;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Where waiting is allowed: the blocking threads of one runtime, whichever runtime asks.
#[derive(Debug, Clone)]
pub struct DiskThreads {
    /// Whose threads they are.
    runtime: Handle,
    /// One for each thread that may change something.
    write_permits: Arc<Semaphore>,
}

impl DiskThreads {
    /// Threads that a runtime should have for this. A disk has as many requests in its queue at best, and more threads than that bring nothing.
    pub const THREADS: usize = 64;

    /// Of those, how many may be in writes, flushes and deletions at a time: enough for uploads to be flushed together.
    pub const MAX_WRITERS: usize = 48;

    /// The threads of a runtime.
    #[must_use]
    pub fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            write_permits: Arc::new(Semaphore::new(Self::MAX_WRITERS)),
        }
    }

    /// Runs something there. Dropping the future lets it go on: what it began is done, and its result dropped.
    ///
    /// A panic there is one here.
    pub fn run<T, F>(&self, what: F) -> impl Future<Output = T> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let task = self.runtime.spawn_blocking(what);
        async move {
            match task.await {
                Ok(value) => value,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The runtime is ending, and with it whoever waits here.
                    Err(_) => std::future::pending().await,
                },
            }
        }
    }

    /// Runs something there that changes files. It begins at once if few enough do so; else when its turn comes while the future is
    /// waited for, and never if that is dropped before.
    ///
    /// A panic there is one here.
    pub fn write<T, F>(&self, what: F) -> impl Future<Output = T> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let disk = self.clone();
        let begun = match Arc::clone(&self.write_permits).try_acquire_owned() {
            Ok(turn) => Ok(self.run(move || {
                let _turn = turn;
                what()
            })),
            Err(_) => Err(what),
        };
        async move {
            let what = match begun {
                Ok(running) => return running.await,
                Err(what) => what,
            };
            let turn = Arc::clone(&disk.write_permits).acquire_owned().await;
            let running = disk.run(move || {
                let _turn = turn;
                what()
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
    fn reads_find_a_thread_while_all_writers_wait() {
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
                    // The first hold their threads until they are told.
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
