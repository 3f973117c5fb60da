//! How many bytes the store holds, and may hold.
//!
//! Counted when it is opened, and by what goes through it after that: bytes are claimed before they are written and given back when
//! their upload vanishes or a file goes. What other programs do beneath the root is found out by counting anew ([`recount`](super::recount)).
//!
//! An upload that replaces a file need not find room for what it replaces: that much of it is not claimed. Only one upload to a key at a
//! time counts on what is there, or a hundred of them would, and each has it on the disk beside the old version. So a store that is full
//! has at most twice its quota on the disk while files are replaced. What was there may be gone when the upload has its name:
//! [`QuotaReservation::prepare_commit`] looks once more, and then it may be too much after all.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::StoreError;
use crate::ObjectKey;

/// The count.
#[derive(Debug)]
pub(super) struct StorageQuota {
    /// Bytes that may be; `None` and nothing is counted.
    limit: Option<u64>,
    /// What is.
    count: Mutex<QuotaCount>,
    /// Whether somebody was refused since that was asked last.
    refused: AtomicBool,
}

/// What is.
#[derive(Debug, Default)]
struct QuotaCount {
    /// Bytes in files.
    files: u64,
    /// Bytes of uploads that are under way.
    reserved: u64,
    /// Bytes that came to be in files, ever.
    added: u64,
    /// Bytes that went, ever.
    removed: u64,
    /// Bytes of changes of which the disk may know and this count does not yet.
    in_flux: u64,
    /// Keys of which an upload counts on what is there.
    replaced: HashSet<ObjectKey>,
}

/// When a count of the disk was begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecountStart {
    added: u64,
    removed: u64,
}

/// Bytes claimed by an upload; given back when it is dropped, unless they were kept.
#[derive(Debug)]
pub(super) struct QuotaReservation {
    quota: Arc<StorageQuota>,
    /// Claimed.
    bytes: u64,
    /// In place of what is there, and not claimed.
    replacing: u64,
    /// What is there beyond that.
    replaceable: u64,
    /// Which key that is of.
    replaced_key: Option<ObjectKey>,
    /// Its part of what is changing.
    in_flux: u64,
}

impl StorageQuota {
    /// A store that holds `files` bytes.
    pub(super) fn new(files: u64, limit: Option<u64>) -> Self {
        let count = QuotaCount {
            files,
            ..QuotaCount::default()
        };
        Self {
            limit,
            count: Mutex::new(count),
            refused: AtomicBool::new(false),
        }
    }

    /// Whether anything is counted.
    pub(super) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Begins a claim of nothing, for a key that has a file of so many bytes.
    pub(super) fn reserve(self: &Arc<Self>, key: &ObjectKey, there: u64) -> QuotaReservation {
        let counts_on_it =
            there > 0 && self.is_limited() && self.lock().replaced.insert(key.clone());
        QuotaReservation {
            quota: Arc::clone(self),
            bytes: 0,
            replacing: 0,
            replaceable: if counts_on_it { there } else { 0 },
            replaced_key: counts_on_it.then(|| key.clone()),
            in_flux: 0,
        }
    }

    /// Whether so many more would be within the quota just now.
    pub(super) fn fits(&self, bytes: u64) -> bool {
        self.limit.is_none_or(|most| self.lock().fits(bytes, most))
    }

    /// Whether a file of so many bytes would be, in place of one of `there`.
    ///
    /// # Errors
    /// When it would not.
    pub(super) fn check(&self, bytes: u64, there: u64) -> Result<(), StoreError> {
        let Some(most) = self.limit else {
            return Ok(());
        };
        let count = self.lock();
        match count.fits(bytes.saturating_sub(there), most) {
            true => Ok(()),
            false => Err(self.refuse(count.free(most).saturating_add(there), Some(bytes))),
        }
    }

    /// Somebody is refused, whose file might have so many bytes.
    fn refuse(&self, room: u64, needed: Option<u64>) -> StoreError {
        self.refused.store(true, Ordering::Relaxed);
        StoreError::OverQuota { room, needed }
    }

    /// Whether somebody was refused since this was asked last.
    pub(super) fn take_refused(&self) -> bool {
        self.refused.swap(false, Ordering::Relaxed)
    }

    /// Removes a file of so many bytes.
    pub(super) fn remove_file<E>(
        &self,
        bytes: u64,
        remove: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.is_limited() {
            return remove();
        }
        self.lock().in_flux += bytes;
        let removed = remove();
        let mut count = self.lock();
        count.in_flux -= bytes;
        if removed.is_ok() {
            count.prepare_commit(0, bytes);
        }
        removed
    }

    /// A count of the disk begins.
    pub(super) fn begin_recount(&self) -> RecountStart {
        let count = self.lock();
        RecountStart {
            added: count.added,
            removed: count.removed,
        }
    }

    /// A count of the disk has ended, and found so many bytes.
    ///
    /// What changed while it ran it saw or not: it tells the truth to within that. So what was believed stays if it lies therein.
    pub(super) fn finish_recount(&self, since: RecountStart, found: u64) {
        let mut count = self.lock();
        let came = count.added - since.added + count.in_flux;
        let went = count.removed - since.removed + count.in_flux;
        let before = count.files;
        count.files = before.clamp(found.saturating_sub(went), found.saturating_add(came));
        if count.files != before {
            tracing::debug!(before, now = count.files, "the store was counted anew");
        }
    }

    fn lock(&self) -> MutexGuard<'_, QuotaCount> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QuotaCount {
    fn fits(&self, bytes: u64, most: u64) -> bool {
        let sum = self.files.saturating_add(self.reserved);
        sum.checked_add(bytes).is_some_and(|sum| sum <= most)
    }

    /// Bytes that are free.
    fn free(&self, most: u64) -> u64 {
        most.saturating_sub(self.files.saturating_add(self.reserved))
    }

    fn prepare_commit(&mut self, came: u64, went: u64) {
        // What was changed behind our back may be more than we knew of.
        self.files = self.files.saturating_sub(went).saturating_add(came);
        self.added += came;
        self.removed += went;
    }
}

impl QuotaReservation {
    /// Claims more.
    ///
    /// # Errors
    /// When the store would hold more than it may; the claim is as it was.
    pub(super) fn grow(&mut self, bytes: u64) -> Result<(), StoreError> {
        let instead = bytes.min(self.replaceable);
        // How much more will come nobody knows here.
        self.reserve_bytes(bytes - instead, self.replacing + self.replaceable, None)?;
        self.replaceable -= instead;
        self.replacing += instead;
        Ok(())
    }

    /// The bytes are about to get their name, in place of a file of so many: claims what is missing if that is less than was counted on.
    ///
    /// # Errors
    /// When the store would hold more than it may.
    pub(super) fn change(&mut self, before: u64) -> Result<(), StoreError> {
        let missing = self.replacing.saturating_sub(before);
        let all = self.bytes + self.replacing;
        self.reserve_bytes(missing, self.replacing - missing, Some(all))?;
        self.replacing -= missing;
        if self.quota.is_limited() {
            let changing = self.bytes + self.replacing + before;
            let mut count = self.quota.lock();
            count.in_flux = count.in_flux - self.in_flux + changing;
            self.in_flux = changing;
        }
        Ok(())
    }

    /// They are a file's now, in place of one of so many bytes.
    pub(super) fn commit(mut self, before: u64) {
        self.release(Some(before));
    }

    /// Claims more. `free`: bytes of the file that need no claim; `needed`: all that it has, if they are known. They are for the refusal.
    fn reserve_bytes(
        &mut self,
        bytes: u64,
        free: u64,
        needed: Option<u64>,
    ) -> Result<(), StoreError> {
        let Some(most) = self.quota.limit.filter(|_| bytes > 0) else {
            return Ok(());
        };
        let mut count = self.quota.lock();
        if !count.fits(bytes, most) {
            let room = count.free(most).saturating_add(self.bytes + free);
            return Err(self.quota.refuse(room, needed));
        }
        count.reserved += bytes;
        self.bytes += bytes;
        Ok(())
    }

    fn release(&mut self, replaced: Option<u64>) {
        if !self.quota.is_limited() {
            return;
        }
        let mut count = self.quota.lock();
        count.reserved -= self.bytes;
        count.in_flux -= self.in_flux;
        if let Some(key) = self.replaced_key.take() {
            count.replaced.remove(&key);
        }
        if let Some(before) = replaced {
            count.prepare_commit(self.bytes + self.replacing, before);
        }
        (self.bytes, self.replacing, self.in_flux) = (0, 0, 0);
    }
}

impl Drop for QuotaReservation {
    fn drop(&mut self) {
        self.release(None);
    }
}

#[cfg(test)]
mod tests;
