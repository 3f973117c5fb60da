//! Making uploads durable, many at once.
//!
//! Each `fdatasync` waits for the disk to have flushed what it holds, and a disk does one flush at a time. Where several uploads wait,
//! one `syncfs` does it for all of them: measured with 32 uploads of 1 MiB at a time on ext4, twice to three times as many a second. For
//! files of a kilobyte it brings nothing, since the file system's journal gathers those by itself, and it does harm where other uploads are under
//! way, whose bytes it would write, too. [`way`] weighs that.
//!
//! Who comes while a flush is under way waits for the next one, which covers what was written before it began.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::sys;

/// Uploads that must wait before one call for all is worth it.
const FEW: u64 = 4;

/// Bytes that each of them must have on average: less is gathered by the file system's journal.
const SMALL: u64 = 64 << 10;

/// Makes uploads of one mount durable.
#[derive(Debug, Default)]
pub(super) struct Syncing {
    state: Mutex<State>,
    /// Told when a flush has ended.
    ended: Condvar,
    /// Bytes of uploads that are written and whose end has not come: a flush of all would write them for nothing.
    under_way: AtomicU64,
}

/// Who waits.
#[derive(Debug, Default)]
struct State {
    /// Uploads that have come, in all.
    came: u64,
    /// Of those, how many a flush has covered.
    covered: u64,
    /// Of those that came since the last flush began: their number and bytes.
    waiting: u64,
    bytes: u64,
    /// Whether somebody flushes just now.
    is_flushing: bool,
    /// Those that came up to here are to do it each by itself.
    alone: u64,
}

/// How waiting uploads are made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Each by itself, at the same time.
    Alone,
    /// All by one call.
    Together,
}

/// Decides for `waiting` uploads of `bytes` in all, while `under_way` bytes of others are not to be written yet.
fn way(waiting: u64, bytes: u64, under_way: u64) -> Way {
    match waiting >= FEW && bytes >= SMALL * waiting && under_way <= bytes {
        true => Way::Together,
        false => Way::Alone,
    }
}

impl Syncing {
    /// Bytes of an upload were written.
    pub(super) fn wrote(&self, bytes: u64) {
        self.under_way.fetch_add(bytes, Ordering::Relaxed);
    }

    /// An upload is over, or waits to be durable: its bytes are under way no more.
    pub(super) fn over(&self, bytes: u64) {
        self.under_way.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Makes a file's bytes durable. May wait long.
    ///
    /// # Errors
    /// When the disk has failed, at this file or another.
    pub(super) fn sync(&self, mount: &OwnedFd, file: &File, bytes: u64) -> io::Result<()> {
        let all = || rustix::fs::syncfs(mount).map_err(io::Error::from);
        let one = || rustix::fs::fdatasync(file).map_err(io::Error::from);
        match self.sync_by(bytes, all, one)? {
            // What a flush of all says may have been said to somebody else before: each file knows what became of it.
            Way::Together => sys::written(file),
            Way::Alone => Ok(()),
        }
    }

    fn sync_by(
        &self,
        bytes: u64,
        all: impl FnOnce() -> io::Result<()>,
        one: impl Fn() -> io::Result<()>,
    ) -> io::Result<Way> {
        let alone = || one().map(|()| Way::Alone);
        if bytes < SMALL {
            return alone();
        }
        let mut state = self.lock();
        state.came += 1;
        state.waiting += 1;
        state.bytes += bytes;
        let mine = state.came;
        while state.is_flushing {
            state = self
                .ended
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            if state.covered >= mine {
                return Ok(Way::Together);
            }
            if state.alone >= mine {
                drop(state);
                return alone();
            }
        }
        // Whoever is here first decides for all who wait, and those who come meanwhile wait for the next.
        let way = way(
            state.waiting,
            state.bytes,
            self.under_way.load(Ordering::Relaxed),
        );
        let upto = state.came;
        (state.waiting, state.bytes) = (0, 0);
        state.is_flushing = true;
        if way == Way::Alone {
            state.alone = upto;
            self.ended.notify_all();
        }
        drop(state);
        let done = match way {
            Way::Alone => one(),
            Way::Together => all(),
        };
        let mut state = self.lock();
        state.is_flushing = false;
        match (way, &done) {
            (Way::Together, Ok(())) => state.covered = upto,
            // It may have been anybody's file: each asks for its own.
            (Way::Together, Err(_)) => state.alone = upto,
            (Way::Alone, _) => {}
        }
        drop(state);
        self.ended.notify_all();
        match (way, done) {
            (Way::Together, Err(error)) => {
                tracing::warn!(%error, "uploads are made durable one by one");
                alone()
            }
            (_, done) => done.map(|()| way),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_few_small_or_disturbed_uploads_are_synced_each_by_itself() {
        assert_eq!(way(FEW, FEW * SMALL, 0), Way::Together);
        assert_eq!(way(FEW - 1, 1 << 30, 0), Way::Alone);
        assert_eq!(way(FEW, FEW * SMALL - 1, 0), Way::Alone);
        assert_eq!(way(FEW, FEW * SMALL, FEW * SMALL + 1), Way::Alone);
    }

    /// Eight uploads that come while one is synced: how often each call is made, and how often one fails.
    fn eight(all: fn() -> io::Result<()>, one: fn() -> io::Result<()>) -> [usize; 3] {
        let syncing = Syncing::default();
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
                    .sync_by(SMALL, || panic!("alone"), hold)
                    .expect("the first");
            });
            has_begun.recv().expect("the first");
            for _ in 0..8 {
                scope.spawn(|| {
                    let done = syncing.sync_by(
                        SMALL,
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
