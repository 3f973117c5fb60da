//! Making uploads durable, many at once.
//!
//! Each `fdatasync` waits for the disk to have flushed what it holds, and a disk does one flush at a time. Where several uploads wait,
//! one `syncfs` may do it for all of them: [`FlushMethod`] decides.
//!
//! Who comes while a flush is under way waits for the next one, which covers what was written before it began.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use haul_plan::serving::FlushMethod;

use super::sys;

/// Makes uploads of one mount durable.
#[derive(Debug, Default)]
pub(super) struct GroupSync {
    state: Mutex<GroupSyncState>,
    /// Told when a flush has ended.
    ended: Condvar,
    /// Bytes of uploads that are written and whose end has not come: a flush of all would write them for nothing.
    unsynced: AtomicU64,
}

/// Who waits.
#[derive(Debug, Default)]
struct GroupSyncState {
    /// Uploads that have come, in all.
    arrived: u64,
    /// Of those, how many a flush has covered.
    covered: u64,
    /// Of those that came since the last flush began: their number and bytes.
    waiting: u64,
    bytes: u64,
    /// Whether somebody flushes just now.
    is_flushing: bool,
    /// Those that came up to here are to do it each by itself.
    sync_alone: u64,
}

impl GroupSync {
    /// Bytes of an upload were written.
    pub(super) fn add_unsynced(&self, bytes: u64) {
        self.unsynced.fetch_add(bytes, Ordering::Relaxed);
    }

    /// An upload is over, or waits to be durable: its bytes are under way no more.
    pub(super) fn remove_unsynced(&self, bytes: u64) {
        self.unsynced.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Makes a file's bytes durable. May wait long.
    ///
    /// # Errors
    /// When the disk has failed, at this file or another.
    pub(super) fn sync(&self, mount: &OwnedFd, file: &File, bytes: u64) -> io::Result<()> {
        let all = || rustix::fs::syncfs(mount).map_err(io::Error::from);
        let one = || rustix::fs::fdatasync(file).map_err(io::Error::from);
        match self.sync_with(bytes, all, one)? {
            // What a flush of all says may have been said to somebody else before: each file knows what became of it.
            FlushMethod::Syncfs => sys::wait_for_writeback(file),
            FlushMethod::FsyncEach => Ok(()),
        }
    }

    fn sync_with(
        &self,
        bytes: u64,
        all: impl FnOnce() -> io::Result<()>,
        one: impl Fn() -> io::Result<()>,
    ) -> io::Result<FlushMethod> {
        let alone = || one().map(|()| FlushMethod::FsyncEach);
        if !FlushMethod::may_be_batched(bytes) {
            return alone();
        }
        let mut state = self.lock();
        state.arrived += 1;
        state.waiting += 1;
        state.bytes += bytes;
        let mine = state.arrived;
        while state.is_flushing {
            state = self
                .ended
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            if state.covered >= mine {
                return Ok(FlushMethod::Syncfs);
            }
            if state.sync_alone >= mine {
                drop(state);
                return alone();
            }
        }
        // Whoever is here first decides for all who wait, and those who come meanwhile wait for the next.
        let way = FlushMethod::choose(
            state.waiting,
            state.bytes,
            self.unsynced.load(Ordering::Relaxed),
        );
        let upto = state.arrived;
        (state.waiting, state.bytes) = (0, 0);
        state.is_flushing = true;
        if way == FlushMethod::FsyncEach {
            state.sync_alone = upto;
            self.ended.notify_all();
        }
        drop(state);
        let done = match way {
            FlushMethod::FsyncEach => one(),
            FlushMethod::Syncfs => all(),
        };
        let mut state = self.lock();
        state.is_flushing = false;
        match (way, &done) {
            (FlushMethod::Syncfs, Ok(())) => state.covered = upto,
            // It may have been anybody's file: each asks for its own.
            (FlushMethod::Syncfs, Err(_)) => state.sync_alone = upto,
            (FlushMethod::FsyncEach, _) => {}
        }
        drop(state);
        self.ended.notify_all();
        match (way, done) {
            (FlushMethod::Syncfs, Err(error)) => {
                tracing::warn!(%error, "uploads are made durable one by one");
                alone()
            }
            (_, done) => done.map(|()| way),
        }
    }

    fn lock(&self) -> MutexGuard<'_, GroupSyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    use super::*;

    /// Enough to wait for others.
    const LARGE: u64 = 1 << 20;

    /// Eight uploads that come while one is synced: how often each call is made, and how often one fails.
    fn eight(all: fn() -> io::Result<()>, one: fn() -> io::Result<()>) -> [usize; 3] {
        let syncing = GroupSync::default();
        let counts = [const { AtomicUsize::new(0) }; 3];
        let count = |which: usize| counts[which].fetch_add(1, Ordering::Relaxed);
        let (release, held) = mpsc::channel::<()>();
        let (begun, has_begun) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let syncing = &syncing;
            scope.spawn(move || {
                let hold = || {
                    begun.send(()).expect("the test");
                    held.recv().map_err(io::Error::other)
                };
                syncing
                    .sync_with(LARGE, || panic!("alone"), hold)
                    .expect("the first");
            });
            has_begun.recv().expect("the first");
            for _ in 0..8 {
                scope.spawn(|| {
                    let done = syncing.sync_with(
                        LARGE,
                        || {
                            count(0);
                            all()
                        },
                        || {
                            count(1);
                            one()
                        },
                    );
                    if done.is_err() {
                        count(2);
                    }
                });
            }
            while syncing.lock().waiting < 8 {
                std::thread::yield_now();
            }
            release.send(()).expect("the first");
        });
        counts.map(AtomicUsize::into_inner)
    }

    #[test]
    fn those_that_wait_are_synced_together() {
        assert_eq!(eight(|| Ok(()), || Ok(())), [1, 0, 0]);
    }

    #[test]
    fn a_failure_of_all_is_asked_for_by_each() {
        let fails = || Err(io::Error::other("a disk"));
        assert_eq!(eight(fails, || Ok(())), [1, 8, 0]);
        assert_eq!(eight(fails, fails), [1, 8, 8]);
    }
}
