//! Removing files, and folders that are empty.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Stat};

use super::options::UploadDurability;
use super::upload::SMALL_FILE;
use super::{CachedLookup, FileStore, StoreError, VersionCheck, root};
use crate::{ObjectKey, RequestPath};

impl FileStore {
    /// Removes a file if `check` likes it; a folder if the name is a folder's and nothing is in it.
    ///
    /// Whoever reads the file goes on reading it.
    ///
    /// # Errors
    /// See [`StoreError`]. A link is removed, and not what it leads to.
    pub fn delete(
        &self,
        named: &RequestPath,
        check: Option<VersionCheck<'_>>,
    ) -> Result<(), StoreError> {
        if !self.options.writable {
            return Err(StoreError::ReadOnly);
        }
        let folder = self.root.open_folder(&parent(&named.key)?)?;
        let _lock = self.locks.lock(&named.key);
        if let Some(check) = check {
            // What is not there is not there, whatever was to hold of it (RFC 9110 13.2.1).
            let current = self
                .current_metadata(&named.key)?
                .ok_or(StoreError::NotFound)?;
            if !check(Some(&current)) {
                return Err(StoreError::ConditionFailed);
            }
        }
        let before = stat_entry(&folder, &named.key)?;
        self.remove(named, &folder, &before)?;
        if self.options.durability == UploadDurability::Full {
            rustix::fs::fsync(&folder)?;
        }
        Ok(())
    }

    /// The same for a file without conditions, where all of the store is memory and the file is soon forgotten.
    pub fn try_delete(&self, named: &RequestPath) -> CachedLookup<Result<(), StoreError>> {
        if !self.is_memory || !self.options.writable || named.is_folder {
            return CachedLookup::WouldBlock;
        }
        let Ok(above) = parent(&named.key) else {
            return CachedLookup::WouldBlock;
        };
        // Another mount, or nothing there: whoever may wait finds out which.
        let Ok(folder) = self.root.open_folder_on_root_mount(&above) else {
            return CachedLookup::WouldBlock;
        };
        let Some(_lock) = self.locks.try_lock(&named.key) else {
            return CachedLookup::WouldBlock;
        };
        match stat_entry(&folder, &named.key) {
            Ok(before) if file_size(&before) > SMALL_FILE => CachedLookup::WouldBlock,
            Ok(before) => CachedLookup::Ready(self.remove(named, &folder, &before)),
            Err(error) => CachedLookup::Ready(Err(error)),
        }
    }

    /// Removes what was looked at.
    fn remove(
        &self,
        named: &RequestPath,
        folder: &OwnedFd,
        before: &Stat,
    ) -> Result<(), StoreError> {
        let flags = match named.is_folder {
            true => AtFlags::REMOVEDIR,
            false => AtFlags::empty(),
        };
        let bytes = match FileType::from_raw_mode(before.st_mode) {
            FileType::RegularFile => file_size(before),
            // What was never counted is not given back.
            _ => 0,
        };
        let name = name(&named.key)?;
        self.quota
            .remove_file(bytes, || root::unlink(folder, name, flags))?;
        self.open_files.remove(&named.key);
        Ok(())
    }
}

/// The folder of what is to go; the root stays.
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
