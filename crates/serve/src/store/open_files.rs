//! Caches open files that were requested recently.
//!
//! Opening and closing a file costs more than reading a small one. So recent files stay open, and
//! each use begins with one `stat` that checks whether the key still leads to the same version. (It
//! costs a tenth of a small response. nginx trusts its cache for a minute, and may serve a version
//! that has been replaced.)
//! That needs no disk, since an open file keeps its path in the kernel's caches. An upload or
//! deletion through the store removes the file from the cache at once. A file that has not been
//! requested for some seconds is closed too, since an open file keeps its space on the disk after
//! it is deleted. When descriptors run out, cached files are closed first.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use quick_cache::sync::Cache;

use super::StoreRoot;
use super::object::OpenObject;
use super::version::FileVersionId;
use crate::ObjectKey;

/// Sweeps that a file stays open without being requested.
const MAX_IDLE_SWEEPS: u32 = 2;

#[derive(Debug, Clone)]
struct CachedFile {
    object: Arc<OpenObject>,
    /// The number of sweeps when it was last requested.
    last_used: Arc<AtomicU32>,
}

/// Open files by their keys.
#[derive(Debug)]
pub(super) struct OpenFileCache {
    /// Holds at most the configured number.
    files: Cache<ObjectKey, CachedFile>,
    /// How often unused files were closed.
    sweeps: AtomicU32,
}

impl OpenFileCache {
    pub(super) fn new(max_files: usize) -> Self {
        Self {
            files: Cache::new(max_files),
            sweeps: AtomicU32::new(0),
        }
    }

    /// The open file of a key, if the key still leads to it. Does not wait.
    pub(super) fn find(&self, root: &StoreRoot, key: &ObjectKey) -> Option<Arc<OpenObject>> {
        let cached = self.files.get(key)?;
        let is_same = root
            .stat(key)
            .is_ok_and(|stat| FileVersionId::from_stat(&stat) == cached.object.identity);
        if !is_same {
            self.remove(key);
            return None;
        }
        cached
            .last_used
            .store(self.sweeps.load(Ordering::Relaxed), Ordering::Relaxed);
        Some(cached.object)
    }

    /// Caches an open file, unless it is on a file system where any call may wait.
    pub(super) fn insert(&self, key: &ObjectKey, object: &Arc<OpenObject>) {
        if object.is_remote() {
            return;
        }
        let used = self.sweeps.load(Ordering::Relaxed);
        let cached = CachedFile {
            object: Arc::clone(object),
            last_used: Arc::new(AtomicU32::new(used)),
        };
        self.files.insert(key.clone(), cached);
    }

    /// Removes a key that leads to another file now.
    pub(super) fn remove(&self, key: &ObjectKey) {
        self.files.remove(key);
    }

    /// Closes files that were not requested since the sweep before the last. Called every few
    /// seconds.
    pub(super) fn sweep(&self) {
        let now = self.sweeps.fetch_add(1, Ordering::Relaxed) + 1;
        let in_use = |cached: &CachedFile| {
            now.saturating_sub(cached.last_used.load(Ordering::Relaxed)) <= MAX_IDLE_SWEEPS
        };
        self.files.retain(|_, cached| in_use(cached));
    }

    /// Closes every other file that nobody is reading. Returns whether there were any; files that
    /// are being read would free no descriptor.
    pub(super) fn close_idle(&self) -> bool {
        let record = Cell::new(0_usize);
        let stays = |cached: &CachedFile| {
            if Arc::strong_count(&cached.object) > 1 {
                return true;
            }
            record.set(record.get() + 1);
            record.get().is_multiple_of(2)
        };
        self.files.retain(|_, cached| stays(cached));
        record.get() > 0
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }
}
