//! How many bytes the store holds, and may hold.
//!
//! Counted when it is opened, and by what goes through it after that: bytes are claimed before they are written and given back when
//! their upload vanishes or a file goes. What other programs do beneath the root is found out by counting anew ([`recount`](super::recount)).
//!
//! An upload that replaces a file need not find room for what it replaces: that much of it is not claimed. Only one upload to a key at a
//! time counts on what is there, or a hundred of them would, and each has it on the disk beside the old version. So a store that is full
//! has at most twice its quota on the disk while files are replaced. What was there may be gone when the upload has its name:
//! [`QuotaReservation::change`] looks once more, and then it may be too much after all.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::StoreError;
use crate::ObjectKey;

/// The count.
#[derive(Debug)]
pub(super) struct StorageQuota {
    /// Bytes that may be; `None` and nothing is counted.
    most: Option<u64>,
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
    claimed: u64,
    /// Bytes that came to be in files, ever.
    came: u64,
    /// Bytes that went, ever.
    went: u64,
    /// Bytes of changes of which the disk may know and this count does not yet.
    changing: u64,
    /// Keys of which an upload counts on what is there.
    replaced: HashSet<ObjectKey>,
}

/// When a count of the disk was begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecountStart {
    came: u64,
    went: u64,
}

/// Bytes claimed by an upload; given back when it is dropped, unless they were kept.
#[derive(Debug)]
pub(super) struct QuotaReservation {
    quota: Arc<StorageQuota>,
    /// Claimed.
    bytes: u64,
    /// In place of what is there, and not claimed.
    instead: u64,
    /// What is there beyond that.
    left: u64,
    /// Which key that is of.
    replaces: Option<ObjectKey>,
    /// Its part of what is changing.
    changing: u64,
}

impl StorageQuota {
    /// A store that holds `files` bytes.
    pub(super) fn new(files: u64, most: Option<u64>) -> Self {
        let count = QuotaCount {
            files,
            ..QuotaCount::default()
        };
        Self {
            most,
            count: Mutex::new(count),
            refused: AtomicBool::new(false),
        }
    }

    /// Whether anything is counted.
    pub(super) fn is_kept(&self) -> bool {
        self.most.is_some()
    }

    /// Begins a claim of nothing, for a key that has a file of so many bytes.
    pub(super) fn claim(self: &Arc<Self>, key: &ObjectKey, there: u64) -> QuotaReservation {
        let counts_on_it = there > 0 && self.is_kept() && self.lock().replaced.insert(key.clone());
        QuotaReservation {
            quota: Arc::clone(self),
            bytes: 0,
            instead: 0,
            left: if counts_on_it { there } else { 0 },
            replaces: counts_on_it.then(|| key.clone()),
            changing: 0,
        }
    }

    /// Whether so many more would be within the quota just now.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.most.is_none_or(|most| self.lock().has(bytes, most))
    }

    /// Whether a file of so many bytes would be, in place of one of `there`.
    ///
    /// # Errors
    /// When it would not.
    pub(super) fn admit(&self, bytes: u64, there: u64) -> Result<(), StoreError> {
        let Some(most) = self.most else { return Ok(()) };
        let count = self.lock();
        match count.has(bytes.saturating_sub(there), most) {
            true => Ok(()),
            false => Err(self.refuse(count.room(most).saturating_add(there), Some(bytes))),
        }
    }

    /// Somebody is refused, whose file might have so many bytes.
    fn refuse(&self, room: u64, needed: Option<u64>) -> StoreError {
        self.refused.store(true, Ordering::Relaxed);
        StoreError::OverQuota { room, needed }
    }

    /// Whether somebody was refused since this was asked last.
    pub(super) fn has_refused(&self) -> bool {
        self.refused.swap(false, Ordering::Relaxed)
    }

    /// Removes a file of so many bytes.
    pub(super) fn removing<E>(
        &self,
        bytes: u64,
        remove: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.is_kept() {
            return remove();
        }
        self.lock().changing += bytes;
        let removed = remove();
        let mut count = self.lock();
        count.changing -= bytes;
        if removed.is_ok() {
            count.change(0, bytes);
        }
        removed
    }

    /// A count of the disk begins.
    pub(super) fn since(&self) -> RecountStart {
        let count = self.lock();
        RecountStart {
            came: count.came,
            went: count.went,
        }
    }

    /// A count of the disk has ended, and found so many bytes.
    ///
    /// What changed while it ran it saw or not: it tells the truth to within that. So what was believed stays if it lies therein.
    pub(super) fn recounted(&self, since: RecountStart, found: u64) {
        let mut count = self.lock();
        let came = count.came - since.came + count.changing;
        let went = count.went - since.went + count.changing;
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
    fn has(&self, bytes: u64, most: u64) -> bool {
        let sum = self.files.saturating_add(self.claimed);
        sum.checked_add(bytes).is_some_and(|sum| sum <= most)
    }

    /// Bytes that are free.
    fn room(&self, most: u64) -> u64 {
        most.saturating_sub(self.files.saturating_add(self.claimed))
    }

    fn change(&mut self, came: u64, went: u64) {
        // What was changed behind our back may be more than we knew of.
        self.files = self.files.saturating_sub(went).saturating_add(came);
        self.came += came;
        self.went += went;
    }
}

impl QuotaReservation {
    /// Claims more.
    ///
    /// # Errors
    /// When the store would hold more than it may; the claim is as it was.
    pub(super) fn more(&mut self, bytes: u64) -> Result<(), StoreError> {
        let instead = bytes.min(self.left);
        // How much more will come nobody knows here.
        self.claim(bytes - instead, self.instead + self.left, None)?;
        self.left -= instead;
        self.instead += instead;
        Ok(())
    }

    /// The bytes are about to get their name, in place of a file of so many: claims what is missing if that is less than was counted on.
    ///
    /// # Errors
    /// When the store would hold more than it may.
    pub(super) fn change(&mut self, before: u64) -> Result<(), StoreError> {
        let missing = self.instead.saturating_sub(before);
        let all = self.bytes + self.instead;
        self.claim(missing, self.instead - missing, Some(all))?;
        self.instead -= missing;
        if self.quota.is_kept() {
            let changing = self.bytes + self.instead + before;
            let mut count = self.quota.lock();
            count.changing = count.changing - self.changing + changing;
            self.changing = changing;
        }
        Ok(())
    }

    /// They are a file's now, in place of one of so many bytes.
    pub(super) fn keep(mut self, before: u64) {
        self.end(Some(before));
    }

    /// Claims more. `free`: bytes of the file that need no claim; `needed`: all that it has, if they are known. They are for the refusal.
    fn claim(&mut self, bytes: u64, free: u64, needed: Option<u64>) -> Result<(), StoreError> {
        let Some(most) = self.quota.most.filter(|_| bytes > 0) else {
            return Ok(());
        };
        let mut count = self.quota.lock();
        if !count.has(bytes, most) {
            let room = count.room(most).saturating_add(self.bytes + free);
            return Err(self.quota.refuse(room, needed));
        }
        count.claimed += bytes;
        self.bytes += bytes;
        Ok(())
    }

    fn end(&mut self, replaced: Option<u64>) {
        if !self.quota.is_kept() {
            return;
        }
        let mut count = self.quota.lock();
        count.claimed -= self.bytes;
        count.changing -= self.changing;
        if let Some(key) = self.replaces.take() {
            count.replaced.remove(&key);
        }
        if let Some(before) = replaced {
            count.change(self.bytes + self.instead, before);
        }
        (self.bytes, self.instead, self.changing) = (0, 0, 0);
    }
}

impl Drop for QuotaReservation {
    fn drop(&mut self) {
        self.end(None);
    }
}

#[cfg(test)]
mod tests;
