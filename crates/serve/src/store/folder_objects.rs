//! Folders as S3 has them: there are none, only keys with slashes.
//!
//! So a folder that was created for an object disappears with its last one. A client may create an
//! object whose key ends in a slash; then the folder is marked ([`attribute_records`](super::attribute_records)),
//! stays when it is empty, and is listed as that object.

use rustix::fs::AtFlags;

use super::attribute_records::{is_marked_folder, mark_folder, unmark_folder};
use super::file_store::UploadDurability;
use super::root::{OpenScope, unlink};
use super::{FileStore, StoreError};
use crate::{ObjectKey, RequestPath};

impl FileStore {
    /// Creates a folder, and its parents, without a mark. Returns whether it was not there.
    ///
    /// # Errors
    /// When a parent in the key is a file, the store is read-only, or the disk fails.
    pub fn create_folder(&self, key: &ObjectKey) -> Result<bool, StoreError> {
        if !self.options.writable {
            return Err(StoreError::ReadOnly);
        }
        if self.root.open_folder(key).is_ok() {
            return Ok(false);
        }
        let (folder, created) = self.folders.open_or_create(key, OpenScope::Anywhere)?;
        created.keep();
        if self.options.durability == UploadDurability::Full {
            self.folders.sync(key, &folder)?;
        }
        Ok(true)
    }

    /// Creates a folder that is an object.
    ///
    /// # Errors
    /// Those of [`FileStore::create_folder`].
    pub fn create_folder_object(&self, key: &ObjectKey) -> Result<(), StoreError> {
        self.create_folder(key)?;
        mark_folder(self.root.open_folder(key)?);
        Ok(())
    }

    /// Deletes a folder that is an object. If there are objects in it, the folder stays for them.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or the disk's error.
    pub fn delete_folder_object(&self, key: &ObjectKey) -> Result<(), StoreError> {
        unmark_folder(self.root.open_folder(key)?);
        let path = RequestPath {
            key: key.clone(),
            is_folder: true,
        };
        match self.delete(&path, None) {
            Err(StoreError::NotEmpty | StoreError::Conflict) => Ok(()),
            other => other,
        }
    }

    /// Removes the folders of a deleted object that are empty and not objects themselves, up to
    /// `top`, which stays.
    pub fn remove_empty_parents(&self, key: &ObjectKey, top: &ObjectKey) {
        let mut key = key.clone();
        while let Some((folder, _)) = key.split_parent() {
            if folder == *top || !folder.is_within(top) {
                return;
            }
            let Ok(opened) = self.root.open_folder(&folder) else {
                return;
            };
            if is_marked_folder(&opened) {
                return;
            }
            let removed = folder.split_parent().is_some_and(|(parent, name)| {
                let parent = self.root.open_folder(&parent);
                parent.is_ok_and(|parent| unlink(parent, name, AtFlags::REMOVEDIR).is_ok())
            });
            if !removed {
                return;
            }
            key = folder;
        }
    }
}
