//! Files that were asked for a moment ago, kept open.
//!
//! Opening and closing a file costs more than reading a small one. So those that were opened lately stay open, and each use begins
//! with one look whether the key still leads to the same version: a look that needs no disk, since an open file keeps the way to it in
//! the kernel's caches. What was put or deleted through the store is forgotten at once, and what nobody has asked for in some seconds, too,
//! since an open file keeps its space on the disk after it is gone. Where descriptors run out, those that are kept are the first to go.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use quick_cache::sync::Cache;

use super::StoreRoot;
use super::object::OpenObject;
use super::version::FileVersionId;
use crate::ObjectKey;

/// Sweeps that a file stays open without being asked for.
const MAX_IDLE_SWEEPS: u32 = 2;

/// One of them.
#[derive(Debug, Clone)]
struct CachedFile {
    /// Open.
    object: Arc<OpenObject>,
    /// The number of the sweep before which it was last asked for.
    last_used: Arc<AtomicU32>,
}

/// Open files by their keys.
#[derive(Debug)]
pub(super) struct OpenFileCache {
    /// At most as many as were allowed.
    files: Cache<ObjectKey, CachedFile>,
    /// How often those that nobody uses were closed.
    sweeps: AtomicU32,
}

impl OpenFileCache {
    /// At most `most` of them.
    pub(super) fn new(most: usize) -> Self {
        Self {
            files: Cache::new(most),
            sweeps: AtomicU32::new(0),
        }
    }

    /// The open file of a key, if that is what the key leads to now. Waits for nothing.
    pub(super) fn find(&self, root: &StoreRoot, key: &ObjectKey) -> Option<Arc<OpenObject>> {
        let kept = self.files.get(key)?;
        let is_same = root
            .stat(key)
            .is_ok_and(|stat| FileVersionId::from_stat(&stat) == kept.object.identity);
        if !is_same {
            self.remove(key);
            return None;
        }
        kept.last_used
            .store(self.sweeps.load(Ordering::Relaxed), Ordering::Relaxed);
        Some(kept.object)
    }

    /// Keeps a file open. Those on file systems where a look may wait are not kept.
    pub(super) fn insert(&self, key: &ObjectKey, object: &Arc<OpenObject>) {
        if object.is_remote() {
            return;
        }
        let used = self.sweeps.load(Ordering::Relaxed);
        let kept = CachedFile {
            object: Arc::clone(object),
            last_used: Arc::new(AtomicU32::new(used)),
        };
        self.files.insert(key.clone(), kept);
    }

    /// The key leads elsewhere now.
    pub(super) fn remove(&self, key: &ObjectKey) {
        self.files.remove(key);
    }

    /// Closes those that nobody asked for since the sweep before the last. Called every few seconds.
    pub(super) fn sweep(&self) {
        let now = self.sweeps.fetch_add(1, Ordering::Relaxed) + 1;
        let in_use = |kept: &CachedFile| {
            now.saturating_sub(kept.last_used.load(Ordering::Relaxed)) <= MAX_IDLE_SWEEPS
        };
        self.files.retain(|_, kept| in_use(kept));
    }

    /// Closes every other one of those that nobody is reading. Whether there was any: the rest would leave no descriptor behind.
    pub(super) fn close_idle(&self) -> bool {
        let seen = Cell::new(0_usize);
        let stays = |kept: &CachedFile| {
            if Arc::strong_count(&kept.object) > 1 {
                return true;
            }
            seen.set(seen.get() + 1);
            seen.get().is_multiple_of(2)
        };
        self.files.retain(|_, kept| stays(kept));
        seen.get() > 0
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }
}
