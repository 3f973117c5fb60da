//! The last close of large files, where waiting is allowed.
//!
//! An open file that was replaced or deleted keeps its space on the disk, and whoever closes it last gives that back: for gigabytes the
//! file system works for a good part of a second. The last reader is often a connection on a reactor. So what is large is closed by a
//! thread that may wait. So many wait for one at most; who comes beyond that closes by itself, which takes long and loses nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::DiskThreads;

/// Bytes of a file that is large: less is given back within a millisecond or so.
pub(super) const LARGE_FILE: u64 = 16 << 20;

/// Files that wait to be closed at one time.
const MAX_WAITING: usize = 256;

/// Closes files elsewhere.
#[derive(Debug, Default)]
pub(super) struct DeferredClose {
    /// Where. Until that is known, whoever closes does.
    threads: OnceLock<DiskThreads>,
    /// Files that wait.
    waiting: AtomicUsize,
}

impl DeferredClose {
    /// What a file of so many bytes needs of it.
    pub(super) fn for_file(closing: &Arc<Self>, len: u64) -> Option<Arc<Self>> {
        (len >= LARGE_FILE).then(|| Arc::clone(closing))
    }

    /// Whose threads do it from now on.
    pub(super) fn set_threads(&self, disk: &DiskThreads) {
        self.threads.get_or_init(|| disk.clone());
    }

    /// Drops something, elsewhere if that can be.
    pub(super) fn drop_later(self: &Arc<Self>, what: impl Send + 'static) {
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        let closes = DeferredDrop {
            value: Some(what),
            queue: Arc::clone(self),
        };
        if let Some(disk) = self.threads.get().filter(|_| waiting < MAX_WAITING) {
            // It is begun at once. Where the threads have ended, it is dropped here.
            drop(disk.run(move || drop(closes)));
        }
    }
}

/// Something to be dropped, by whoever comes to it.
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

    /// Says on which thread it was dropped.
    struct Dropped(mpsc::Sender<ThreadId>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send(std::thread::current().id());
        }
    }

    #[test]
    fn so_many_are_closed_elsewhere_and_all_are_closed() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(1)
            .build()
            .expect("a runtime");
        let here = std::thread::current().id();
        let (sender, dropped) = mpsc::channel();
        let closing = Arc::new(DeferredClose::default());
        closing.drop_later(Dropped(sender.clone()));
        assert_eq!(dropped.recv().expect("nowhere else to go"), here);
        let disk = DiskThreads::new(runtime.handle().clone());
        closing.set_threads(&disk);
        let (release, held) = mpsc::channel::<()>();
        drop(disk.run(move || held.recv()));
        for _ in 0..MAX_WAITING + 2 {
            closing.drop_later(Dropped(sender.clone()));
        }
        assert_eq!(dropped.try_iter().collect::<Vec<_>>(), [here, here]);
        release.send(()).expect("the thread");
        let elsewhere = dropped
            .iter()
            .take(MAX_WAITING)
            .filter(|thread| *thread != here);
        assert_eq!(elsewhere.count(), MAX_WAITING);
        // What finds no threads any more is closed, too.
        runtime.shutdown_background();
        closing.drop_later(Dropped(sender));
        dropped.recv().expect("closed");
        assert_eq!(dropped.iter().count(), 0);
    }
}
