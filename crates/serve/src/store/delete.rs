//! Removing files, and folders that are empty.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Stat};

use super::options::UploadDurability;
use super::upload::LITTLE;
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
        let folder = self.root.open_folder(&above(&named.key)?)?;
        let _lock = self.locks.lock(&named.key);
        if let Some(check) = check {
            // What is not there is not there, whatever was to hold of it (RFC 9110 13.2.1).
            let current = self.current(&named.key)?.ok_or(StoreError::NotFound)?;
            if !check(Some(&current)) {
                return Err(StoreError::Failed);
            }
        }
        let before = before(&folder, &named.key)?;
        self.remove(named, &folder, &before)?;
        if self.options.durability == UploadDurability::Full {
            rustix::fs::fsync(&folder)?;
        }
        Ok(())
    }

    /// The same for a file without conditions, where all of the store is memory and the file is soon forgotten.
    pub fn delete_now(&self, named: &RequestPath) -> CachedLookup<Result<(), StoreError>> {
        if !self.is_memory || !self.options.writable || named.is_folder {
            return CachedLookup::Wait;
        }
        let Ok(above) = above(&named.key) else {
            return CachedLookup::Wait;
        };
        // Another mount, or nothing there: whoever may wait finds out which.
        let Ok(folder) = self.root.open_near(&above) else {
            return CachedLookup::Wait;
        };
        let Some(_lock) = self.locks.try_lock(&named.key) else {
            return CachedLookup::Wait;
        };
        match before(&folder, &named.key) {
            Ok(before) if size(&before) > LITTLE => CachedLookup::Wait,
            Ok(before) => CachedLookup::Done(self.remove(named, &folder, &before)),
            Err(error) => CachedLookup::Done(Err(error)),
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
            FileType::RegularFile => size(before),
            // What was never counted is not given back.
            _ => 0,
        };
        let name = name(&named.key)?;
        self.quota
            .removing(bytes, || root::unlink(folder, name, flags))?;
        self.open_files.forget(&named.key);
        Ok(())
    }
}

/// The folder of what is to go; the root stays.
fn above(key: &ObjectKey) -> Result<ObjectKey, StoreError> {
    Ok(key.split().ok_or(StoreError::Denied)?.0)
}

fn name(key: &ObjectKey) -> Result<&[u8], StoreError> {
    Ok(key.split_ref().ok_or(StoreError::Denied)?.1)
}

fn before(folder: &OwnedFd, key: &ObjectKey) -> Result<Stat, StoreError> {
    Ok(rustix::fs::statat(
        folder,
        name(key)?,
        AtFlags::SYMLINK_NOFOLLOW,
    )?)
}

fn size(stat: &Stat) -> u64 {
    stat.st_size.try_into().unwrap_or(0)
}
