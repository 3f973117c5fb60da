//! Locks that allow one change of a key at a time.
//!
//! A change checks a condition and then renames: no other change may come between. Keys of one hash
//! share a lock. Locks are held for a few system calls on threads that may wait, and never two at a
//! time.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::ObjectKey;

/// More than the threads that could hold one.
const LOCKS: usize = 128;

/// One lock for each hash.
#[derive(Debug)]
pub(super) struct KeyLocks {
    /// By a hash that no client knows.
    locks: Box<[Mutex<()>]>,
    hasher: RandomState,
}

impl Default for KeyLocks {
    fn default() -> Self {
        Self {
            locks: (0..LOCKS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl KeyLocks {
    /// Waits until nobody else changes the key.
    pub(super) fn lock(&self, key: &ObjectKey) -> MutexGuard<'_, ()> {
        self.lock_of(key)
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `None` instead of waiting, while somebody changes the key or another one of the same
    /// hash.
    pub(super) fn try_lock(&self, key: &ObjectKey) -> Option<MutexGuard<'_, ()>> {
        match self.lock_of(key).try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn lock_of(&self, key: &ObjectKey) -> &Mutex<()> {
        let index = self.hasher.hash_one(key) % LOCKS as u64;
        &self.locks[usize::try_from(index).unwrap_or(0)]
    }
}
