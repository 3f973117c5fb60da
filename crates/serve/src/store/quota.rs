//! How many bytes the store holds, and may hold.
//!
//! The bytes are counted when the store is opened, and by its own uploads and deletions after that:
//! an upload reserves bytes before they are written, and releases them if it fails. A
//! recount ([`usage`](super::usage)) finds out what other programs did beneath the root.
//!
//! An upload that replaces a file needs no room for the bytes that it replaces: it does not reserve
//! those. Only one upload to a key at a time may count on them, or a hundred would, and each of
//! these is on the disk beside the old version. So a full store uses at most twice its quota on the
//! disk while files are replaced. The old file may be gone when the upload commits:
//! [`QuotaReservation::change`] checks that again, and may then refuse the upload after
//! all.
//!
//! Parts of unfinished uploads are reserved, too, under the identifier of their upload and across
//! restarts. The upload that completes them takes these bytes over ([`QuotaReservation::take_parts`]).
//! They replace nothing before that: while an object is replaced in parts, both count.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::StoreError;
use crate::ObjectKey;

/// The quota of a store and its use.
#[derive(Debug)]
pub(super) struct StorageQuota {
    /// Maximum bytes; `None` if nothing is counted.
    limit: Option<u64>,
    count: Mutex<QuotaCount>,
    /// Whether an upload was refused since the flag was last taken.
    refused: AtomicBool,
}

/// Bytes in use.
#[derive(Debug, Default)]
struct QuotaCount {
    /// Bytes in files.
    files: u64,
    /// Bytes reserved by unfinished uploads.
    reserved: u64,
    /// Bytes ever added to files.
    added: u64,
    /// Bytes ever removed from files.
    removed: u64,
    /// Bytes of changes that the disk may show and this count does not yet.
    in_flux: u64,
    /// Keys whose old bytes an upload counts on.
    replaced: HashSet<ObjectKey>,
    /// Of the reserved bytes, those of parts, by the identifier of their upload.
    parts: HashMap<String, u64>,
}

/// The state of the count when a recount began.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecountStart {
    added: u64,
    removed: u64,
}

/// The bytes that an upload has reserved; released when this is dropped, unless it was committed.
#[derive(Debug)]
pub(super) struct QuotaReservation {
    quota: Arc<StorageQuota>,
    /// Reserved bytes.
    bytes: u64,
    /// Bytes that replace old ones and need no reservation.
    replacing: u64,
    /// Old bytes that are not counted on yet.
    replaceable: u64,
    /// The key of the old bytes.
    replaced_key: Option<ObjectKey>,
    /// Its part of [`QuotaCount::in_flux`].
    in_flux: u64,
    /// The upload whose parts it has taken, and how many bytes of them.
    parts: Option<(String, u64)>,
    /// Bytes of these that are not used yet.
    unused_parts: u64,
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

    /// Whether there is a limit; without one nothing is counted.
    pub(super) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Begins a reservation of no bytes, for a key whose file has `existing_bytes` bytes.
    pub(super) fn reserve(
        self: &Arc<Self>,
        key: &ObjectKey,
        existing_bytes: u64,
    ) -> QuotaReservation {
        let replaces =
            existing_bytes > 0 && self.is_limited() && self.lock().replaced.insert(key.clone());
        QuotaReservation {
            quota: Arc::clone(self),
            bytes: 0,
            replacing: 0,
            replaceable: if replaces { existing_bytes } else { 0 },
            replaced_key: replaces.then(|| key.clone()),
            in_flux: 0,
            parts: None,
            unused_parts: 0,
        }
    }

    /// Reserves the bytes of a part.
    ///
    /// # Errors
    /// When they exceed the quota.
    pub(super) fn reserve_part(&self, upload: &str, bytes: u64) -> Result<(), StoreError> {
        let Some(limit) = self.limit else {
            return Ok(());
        };
        let mut count = self.lock();
        if !count.fits(bytes, limit) {
            return Err(self.refuse(count.free(limit), Some(bytes)));
        }
        count.add_parts(upload, bytes);
        Ok(())
    }

    /// Counts parts that are on the disk, whether they fit or not.
    pub(super) fn count_parts(&self, upload: &str, bytes: u64) {
        if self.is_limited() {
            self.lock().add_parts(upload, bytes);
        }
    }

    /// Releases the bytes of a part that was not finished. Of an upload that has ended there are none.
    pub(super) fn release_part(&self, upload: &str, bytes: u64) {
        if self.is_limited() {
            let mut count = self.lock();
            count.reserved -= count.remove_parts(upload, bytes);
        }
    }

    /// Releases all bytes of an upload that has ended.
    pub(super) fn release_parts(&self, upload: &str) {
        self.release_part(upload, u64::MAX);
    }

    /// Whether this many more bytes fit now.
    pub(super) fn fits(&self, bytes: u64) -> bool {
        self.limit
            .is_none_or(|limit| self.lock().fits(bytes, limit))
    }

    /// Checks that a file of `bytes` fits in place of one of `existing_bytes`.
    ///
    /// # Errors
    /// When it does not.
    pub(super) fn check(&self, bytes: u64, existing_bytes: u64) -> Result<(), StoreError> {
        let Some(limit) = self.limit else {
            return Ok(());
        };
        let count = self.lock();
        if count.fits(bytes.saturating_sub(existing_bytes), limit) {
            Ok(())
        } else {
            Err(self.refuse(
                count.free(limit).saturating_add(existing_bytes),
                Some(bytes),
            ))
        }
    }

    /// Notes a refusal, and makes its error.
    fn refuse(&self, room: u64, needed: Option<u64>) -> StoreError {
        self.refused.store(true, Ordering::Relaxed);
        StoreError::OverQuota { room, needed }
    }

    /// Whether an upload was refused since the last call.
    pub(super) fn take_refused(&self) -> bool {
        self.refused.swap(false, Ordering::Relaxed)
    }

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

    /// Counts bytes no more that are gone from the disk.
    pub(super) fn forget(&self, bytes: u64) {
        if self.is_limited() && bytes > 0 {
            self.lock().prepare_commit(0, bytes);
        }
    }

    pub(super) fn begin_recount(&self) -> RecountStart {
        let count = self.lock();
        RecountStart {
            added: count.added,
            removed: count.removed,
        }
    }

    /// Finishes a recount that found this many bytes.
    ///
    /// It may or may not have seen the changes that were made while it ran, so it is exact to
    /// within those. The present count stays if it lies within that range.
    pub(super) fn finish_recount(&self, since: RecountStart, found: u64) {
        let mut count = self.lock();
        let added = count.added - since.added + count.in_flux;
        let removed = count.removed - since.removed + count.in_flux;
        let replaced_bytes = count.files;
        count.files =
            replaced_bytes.clamp(found.saturating_sub(removed), found.saturating_add(added));
        if count.files != replaced_bytes {
            tracing::debug!(replaced_bytes, now = count.files, "the store was recounted");
        }
    }

    fn lock(&self) -> MutexGuard<'_, QuotaCount> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QuotaCount {
    fn fits(&self, bytes: u64, limit: u64) -> bool {
        let sum = self.files.saturating_add(self.reserved);
        sum.checked_add(bytes).is_some_and(|sum| sum <= limit)
    }

    /// Bytes that are free.
    fn free(&self, limit: u64) -> u64 {
        limit.saturating_sub(self.files.saturating_add(self.reserved))
    }

    fn add_parts(&mut self, upload: &str, bytes: u64) {
        self.reserved += bytes;
        *self.parts.entry(upload.to_owned()).or_default() += bytes;
    }

    /// Removes at most this many bytes of an upload's parts, which stay reserved. Returns how many.
    fn remove_parts(&mut self, upload: &str, bytes: u64) -> u64 {
        let Some(of_upload) = self.parts.get_mut(upload) else {
            return 0;
        };
        let removed = bytes.min(*of_upload);
        *of_upload -= removed;
        if *of_upload == 0 {
            self.parts.remove(upload);
        }
        removed
    }

    fn prepare_commit(&mut self, added: u64, removed: u64) {
        // Other programs may have added more than this count knows.
        self.files = self.files.saturating_sub(removed).saturating_add(added);
        self.added += added;
        self.removed += removed;
    }
}

impl QuotaReservation {
    /// Reserves more bytes.
    ///
    /// # Errors
    /// When they exceed the quota; the reservation stays as it was.
    pub(super) fn grow(&mut self, bytes: u64) -> Result<(), StoreError> {
        let of_parts = bytes.min(self.unused_parts);
        self.unused_parts -= of_parts;
        let bytes = bytes - of_parts;
        let replacing = bytes.min(self.replaceable);
        // The length of the rest is unknown here.
        self.reserve_bytes(bytes - replacing, self.replacing + self.replaceable, None)?;
        self.replaceable -= replacing;
        self.replacing += replacing;
        Ok(())
    }

    /// Takes over this many bytes of an upload's parts. They are given back unless it is committed.
    pub(super) fn take_parts(&mut self, upload: &str, bytes: u64) {
        if !self.quota.is_limited() {
            return;
        }
        let taken = self.quota.lock().remove_parts(upload, bytes);
        self.bytes += taken;
        self.unused_parts += taken;
        self.parts = Some((upload.to_owned(), taken));
    }

    /// Prepares a commit in place of a file of `replaced_bytes` bytes: reserves the difference if
    /// those are fewer than it counted on.
    ///
    /// # Errors
    /// When that exceeds the quota.
    pub(super) fn change(&mut self, replaced_bytes: u64) -> Result<(), StoreError> {
        let missing = self.replacing.saturating_sub(replaced_bytes);
        let all = self.bytes + self.replacing;
        self.reserve_bytes(missing, self.replacing - missing, Some(all))?;
        self.replacing -= missing;
        if self.quota.is_limited() {
            let changing = self.bytes + self.replacing + replaced_bytes;
            let mut count = self.quota.lock();
            count.in_flux = count.in_flux - self.in_flux + changing;
            self.in_flux = changing;
        }
        Ok(())
    }

    /// Commits: the bytes belong to a file now, in place of one of `replaced_bytes` bytes.
    pub(super) fn commit(mut self, replaced_bytes: u64) {
        self.release(Some(replaced_bytes));
    }

    /// Reserves bytes. For the error: `free` bytes of the file need no reservation, and it has
    /// `needed` in all, if known.
    fn reserve_bytes(
        &mut self,
        bytes: u64,
        free: u64,
        needed: Option<u64>,
    ) -> Result<(), StoreError> {
        let Some(limit) = self.quota.limit.filter(|_| bytes > 0) else {
            return Ok(());
        };
        let mut count = self.quota.lock();
        if !count.fits(bytes, limit) {
            let room = count.free(limit).saturating_add(self.bytes + free);
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
        match (replaced, self.parts.take()) {
            (Some(replaced_bytes), _) => {
                count.prepare_commit(self.bytes + self.replacing, replaced_bytes);
            }
            (None, Some((upload, taken))) => count.add_parts(&upload, taken),
            (None, None) => {}
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
