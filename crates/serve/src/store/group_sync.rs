//! Makes uploads durable, many at once.
//!
//! Each `fdatasync` waits until the disk has flushed its cache, and a disk does one flush at a
//! time. If several uploads wait, one `syncfs` may do for all of them: [`UploadFlushMethod`] decides. On
//! ext4 that made two to three times as many uploads of 1 MiB; for 1 KB it brought nothing.
//!
//! Uploads that arrive during a flush wait for the next one, which covers everything written before
//! it began.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::flush_method::UploadFlushMethod;
use super::{flush, sys};

/// Makes the uploads of one mount durable.
#[derive(Debug, Default)]
pub(super) struct GroupSync {
    state: Mutex<GroupSyncState>,
    /// Notified when a flush has ended.
    ended: Condvar,
    /// Bytes of unfinished uploads that are written but not synced: a `syncfs` would write them in
    /// vain.
    unsynced: AtomicU64,
}

/// The waiting uploads.
#[derive(Debug, Default)]
struct GroupSyncState {
    /// Uploads that have arrived, in all.
    arrived: u64,
    /// How many of those a flush has covered.
    covered: u64,
    /// Number and bytes of the uploads that arrived since the last flush began.
    waiting: u64,
    bytes: u64,
    is_flushing: bool,
    /// Uploads up to this number must sync themselves.
    sync_alone: u64,
}

impl GroupSync {
    /// Notes that bytes of an upload were written.
    pub(super) fn add_unsynced(&self, bytes: u64) {
        self.unsynced.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Removes the bytes of an upload that is over or waits to be durable.
    pub(super) fn remove_unsynced(&self, bytes: u64) {
        self.unsynced.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Makes a file's bytes durable. May wait long.
    ///
    /// # Errors
    /// When the disk has failed, for this file or another.
    pub(super) fn sync(&self, mount: &OwnedFd, file: &File, bytes: u64) -> io::Result<()> {
        let sync_all = || flush::syncfs(mount);
        // Not `fdatasync`: the attributes of an object belong to it.
        let sync_one = || flush::fsync(file);
        match self.sync_with(bytes, sync_all, sync_one)? {
            // The error of a `syncfs` may have been reported to another caller before: each file
            // knows its own.
            UploadFlushMethod::Syncfs => sys::wait_for_writeback(file),
            UploadFlushMethod::FsyncEach => Ok(()),
        }
    }

    fn sync_with(
        &self,
        bytes: u64,
        sync_all: impl FnOnce() -> io::Result<()>,
        sync_one: impl Fn() -> io::Result<()>,
    ) -> io::Result<UploadFlushMethod> {
        let alone = || sync_one().map(|()| UploadFlushMethod::FsyncEach);
        if !UploadFlushMethod::may_be_batched(bytes) {
            return alone();
        }
        let mut state = self.lock();
        state.arrived += 1;
        state.waiting += 1;
        state.bytes += bytes;
        let own_number = state.arrived;
        while state.is_flushing {
            state = self
                .ended
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            if state.covered >= own_number {
                return Ok(UploadFlushMethod::Syncfs);
            }
            if state.sync_alone >= own_number {
                drop(state);
                return alone();
            }
        }
        // The first upload here decides for all that wait; those that arrive meanwhile wait for the
        // next flush.
        let method = UploadFlushMethod::choose(
            state.waiting,
            state.bytes,
            self.unsynced.load(Ordering::Relaxed),
        );
        let last_number = state.arrived;
        (state.waiting, state.bytes) = (0, 0);
        state.is_flushing = true;
        if method == UploadFlushMethod::FsyncEach {
            state.sync_alone = last_number;
            self.ended.notify_all();
        }
        drop(state);
        let result = match method {
            UploadFlushMethod::FsyncEach => sync_one(),
            UploadFlushMethod::Syncfs => sync_all(),
        };
        let mut state = self.lock();
        state.is_flushing = false;
        match (method, &result) {
            (UploadFlushMethod::Syncfs, Ok(())) => state.covered = last_number,
            // The failure may concern any file, so each syncs itself.
            (UploadFlushMethod::Syncfs, Err(_)) => state.sync_alone = last_number,
            (UploadFlushMethod::FsyncEach, _) => {}
        }
        drop(state);
        self.ended.notify_all();
        match (method, result) {
            (UploadFlushMethod::Syncfs, Err(error)) => {
                tracing::warn!(%error, "syncfs failed: uploads are synced one by one");
                alone()
            }
            (_, result) => result.map(|()| method),
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

    /// Enough bytes to wait for others.
    const LARGE: u64 = 1 << 20;

    /// Eight uploads that arrive while one is synced: how often each call is made, and how many
    /// uploads fail.
    fn eight(sync_all: fn() -> io::Result<()>, sync_one: fn() -> io::Result<()>) -> [usize; 3] {
        let syncing = GroupSync::default();
        let counts = [const { AtomicUsize::new(0) }; 3];
        let count = |which: usize| counts[which].fetch_add(1, Ordering::Relaxed);
        let (release, held) = mpsc::channel::<()>();
        let (started, has_begun) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let syncing = &syncing;
            scope.spawn(move || {
                let hold = || {
                    started.send(()).expect("the test");
                    held.recv().map_err(io::Error::other)
                };
                syncing
                    .sync_with(LARGE, || panic!("alone"), hold)
                    .expect("the first");
            });
            has_begun.recv().expect("the first");
            for _ in 0..8 {
                scope.spawn(|| {
                    let result = syncing.sync_with(
                        LARGE,
                        || {
                            count(0);
                            sync_all()
                        },
                        || {
                            count(1);
                            sync_one()
                        },
                    );
                    if result.is_err() {
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
    fn waiting_uploads_are_synced_together() {
        assert_eq!(eight(|| Ok(()), || Ok(())), [1, 0, 0]);
    }

    #[test]
    fn after_a_failed_syncfs_each_upload_syncs_itself() {
        let fails = || Err(io::Error::other("a disk"));
        assert_eq!(eight(fails, || Ok(())), [1, 8, 0]);
        assert_eq!(eight(fails, fails), [1, 8, 8]);
    }
}
