//! Deletes files and empty folders.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Stat};

use super::file_store::UploadDurability;
use super::upload::SMALL_FILE;
use super::{CachedLookup, FileStore, StoreError, VersionCheck, flush, root};
use crate::{ObjectKey, RequestPath};

impl FileStore {
    /// Deletes a file if `check` accepts it, or a folder if the path is a folder's and it is empty.
    ///
    /// Requests that are reading the file continue to read it.
    ///
    /// # Errors
    /// See [`StoreError`]. A link is deleted, and not its target.
    pub fn delete(
        &self,
        path: &RequestPath,
        check: Option<VersionCheck<'_>>,
    ) -> Result<(), StoreError> {
        if !self.options.writable {
            return Err(StoreError::ReadOnly);
        }
        let folder = self.root.open_folder(&parent(&path.key)?)?;
        let _lock = self.locks.lock(&path.key);
        if let Some(check) = check {
            // A missing file is a missing file, whatever the condition (RFC 9110 13.2.1).
            let current = self
                .current_metadata(&path.key)?
                .ok_or(StoreError::NotFound)?;
            if !check(Some(&current)) {
                return Err(StoreError::ConditionFailed);
            }
        }
        let before = stat_entry(&folder, &path.key)?;
        self.remove(path, &folder, &before)?;
        if self.options.durability == UploadDurability::Full {
            flush::fsync(&folder)?;
        }
        Ok(())
    }

    /// Deletes a file without conditions, if the whole store is in memory and the file is small.
    pub fn try_delete(&self, path: &RequestPath) -> CachedLookup<Result<(), StoreError>> {
        if !self.is_memory || !self.options.writable || path.is_folder {
            return CachedLookup::WouldBlock;
        }
        let Ok(parent) = parent(&path.key) else {
            return CachedLookup::WouldBlock;
        };
        // The folder is on another mount or missing: a thread that may wait finds out which.
        let Ok(folder) = self.root.open_folder_on_root_mount(&parent) else {
            return CachedLookup::WouldBlock;
        };
        let Some(_lock) = self.locks.try_lock(&path.key) else {
            return CachedLookup::WouldBlock;
        };
        match stat_entry(&folder, &path.key) {
            Ok(before) if file_size(&before) > SMALL_FILE => CachedLookup::WouldBlock,
            Ok(before) => CachedLookup::Ready(self.remove(path, &folder, &before)),
            Err(error) => CachedLookup::Ready(Err(error)),
        }
    }

    /// Removes the entry that `before` describes.
    fn remove(
        &self,
        path: &RequestPath,
        folder: &OwnedFd,
        before: &Stat,
    ) -> Result<(), StoreError> {
        let flags = if path.is_folder {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        let bytes = match FileType::from_raw_mode(before.st_mode) {
            FileType::RegularFile => file_size(before),
            // Only regular files count for the quota.
            _ => 0,
        };
        let name = name(&path.key)?;
        self.quota
            .remove_file(bytes, || root::unlink(folder, name, flags))?;
        self.quota.forget(self.records.remove(before.st_ino));
        self.open_files.remove(&path.key);
        Ok(())
    }
}

/// The parent folder; the root cannot be deleted.
fn parent(key: &ObjectKey) -> Result<ObjectKey, StoreError> {
    Ok(key.split_parent().ok_or(StoreError::PermissionDenied)?.0)
}

fn name(key: &ObjectKey) -> Result<&[u8], StoreError> {
    Ok(key
        .split_parent_ref()
        .ok_or(StoreError::PermissionDenied)?
        .1)
}

fn stat_entry(folder: &OwnedFd, key: &ObjectKey) -> Result<Stat, StoreError> {
    Ok(rustix::fs::statat(
        folder,
        name(key)?,
        AtFlags::SYMLINK_NOFOLLOW,
    )?)
}

fn file_size(stat: &Stat) -> u64 {
    stat.st_size.try_into().unwrap_or(0)
}
