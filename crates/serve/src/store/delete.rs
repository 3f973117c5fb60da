//! Removing files, and folders that are empty.

use rustix::fs::AtFlags;

use super::options::Durability;
use super::{Check, Store, StoreError, root};
use crate::Named;

impl Store {
    /// Removes a file if `check` likes it; a folder if the name is a folder's and nothing is in it.
    ///
    /// Whoever reads the file goes on reading it.
    ///
    /// # Errors
    /// See [`StoreError`]. A link is removed, and not what it leads to.
    pub fn delete(&self, named: &Named, check: Option<Check<'_>>) -> Result<(), StoreError> {
        if !self.options.writable {
            return Err(StoreError::ReadOnly);
        }
        let key = &named.key;
        let (above, name) = key.split().ok_or(StoreError::Denied)?;
        let folder = self.root.open_folder(&above)?;
        let flags = if named.is_folder {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        {
            let _lock = self.locks.lock(key);
            if let Some(check) = check {
                // What is not there is not there, whatever was to hold of it (RFC 9110 13.2.1).
                let current = self.current(key)?.ok_or(StoreError::NotFound)?;
                if !check(Some(&current)) {
                    return Err(StoreError::Failed);
                }
            }
            let before = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            root::unlink(&folder, name, flags)?;
            self.open_files.forget(key);
            if !named.is_folder {
                self.quota.gone(before.st_size.try_into().unwrap_or(0));
            }
        }
        if self.options.durability == Durability::Full {
            rustix::fs::fsync(&folder)?;
        }
        Ok(())
    }
}
