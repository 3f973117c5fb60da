//! One change of a key at a time.
//!
//! A condition is looked at and then a name is given: nobody else may change the key between. Locks are shared by keys of one hash, held for a few
//! system calls on threads that may wait, and never two at a time.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::ObjectKey;

/// More than threads that could hold one.
const LOCKS: usize = 128;

/// The locks.
#[derive(Debug)]
pub(super) struct KeyLocks {
    /// By a hash that no client knows.
    locks: Box<[Mutex<()>]>,
    /// The hash.
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

    /// The same without waiting: `None` while somebody changes it, or a key of the same hash.
    pub(super) fn try_lock(&self, key: &ObjectKey) -> Option<MutexGuard<'_, ()>> {
        match self.lock_of(key).try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn lock_of(&self, key: &ObjectKey) -> &Mutex<()> {
        let which = self.hasher.hash_one(key) % LOCKS as u64;
        &self.locks[usize::try_from(which).unwrap_or(0)]
    }
}
