//! The temporary file of an upload with the folders that were created for it, and its rename to the
//! key.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Gid, Mode, Uid};
use rustix::io::Errno;

use crate::ObjectKey;
use crate::store::created_folders::CreatedFolders;
use crate::store::root::OpenScope;
use crate::store::temporary_files::{TemporaryFile, TemporaryFolder};
use crate::store::{FileStore, StoreError, usage};

/// The temporary file of an upload with its folders. Dropping it removes them.
#[derive(Debug)]
pub(super) struct UploadLocation {
    /// The key's folder.
    pub(super) folder: Arc<OwnedFd>,
    /// The temporary file. Dropped before the folders, since it may be in one of them.
    pub(super) temporary: TemporaryFile,
    created_folders: CreatedFolders,
}

impl UploadLocation {
    /// Creates the temporary file and the folders for a key.
    pub(super) fn new(
        store: &FileStore,
        temporaries: &TemporaryFolder,
        key: &ObjectKey,
        scope: OpenScope,
    ) -> Result<Self, StoreError> {
        let open = || {
            let (folder, created) = store.folders.open_or_create(&parent(key)?, scope)?;
            let folder = Arc::new(folder);
            let temporary = temporaries.create_file(&store.root, key, &folder, scope)?;
            Ok(Self {
                folder,
                temporary,
                created_folders: created,
            })
        };
        match open() {
            // The folder was removed before the file was in it, so it is created again.
            Err(StoreError::NotFound) if scope == OpenScope::Anywhere => open(),
            other => other,
        }
    }

    /// Reopens the key's folder, which was removed during the upload.
    pub(super) fn reopen_folder(
        &mut self,
        store: &FileStore,
        key: &ObjectKey,
    ) -> Result<(), StoreError> {
        if self.temporary.is_removed() {
            return Err(if store.root.is_removed() {
                StoreError::RootRemoved
            } else {
                StoreError::UploadRemoved
            });
        }
        let (folder, created) = store
            .folders
            .open_or_create(&parent(key)?, OpenScope::Anywhere)?;
        self.folder = Arc::new(folder);
        self.created_folders.merge(created);
        Ok(())
    }

    /// Renames the file to the key if no file has it. Returns whether it did.
    pub(super) fn rename_if_absent(&self, key: &ObjectKey) -> Result<bool, StoreError> {
        match self.rename(key, false) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            // The file system has no `RENAME_NOREPLACE`: check before.
            Err(Errno::INVAL) if self.is_absent(key) => {
                self.rename(key, true).map_err(rename_error)?;
                Ok(true)
            }
            Err(Errno::INVAL) => Ok(false),
            Err(error) => Err(rename_error(error)),
        }
    }

    /// Renames the file over the key's file. Returns the bytes of the replaced file.
    pub(super) fn rename_over(&self, key: &ObjectKey) -> Result<u64, StoreError> {
        let replaced = self.existing_bytes(key);
        self.copy_permissions(key)?;
        match self.rename(key, true) {
            Ok(()) => Ok(replaced),
            Err(Errno::ISDIR | Errno::NOTDIR) => Err(StoreError::Conflict),
            Err(error) => Err(rename_error(error)),
        }
    }

    /// Copies permissions and owner from the file that will be replaced: a file that others may not
    /// read stays so. If the owner cannot be kept, the group may be.
    fn copy_permissions(&self, key: &ObjectKey) -> Result<(), StoreError> {
        /// Read, write and execute bits; set-user-id and set-group-id are not copied.
        const RIGHTS: u32 = 0o777;
        let existing = rustix::fs::statat(&self.folder, name(key)?, AtFlags::SYMLINK_NOFOLLOW);
        let Ok(existing) = existing else {
            return Ok(());
        };
        if FileType::from_raw_mode(existing.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        let file = &self.temporary.file;
        let own_stat = rustix::fs::fstat(file)?;
        let group = Some(Gid::from_raw(existing.st_gid));
        if own_stat.st_uid != existing.st_uid {
            let owner = Some(Uid::from_raw(existing.st_uid));
            if rustix::fs::fchown(file, owner, group).is_err() {
                let _ = rustix::fs::fchown(file, None, group);
            }
        } else if own_stat.st_gid != existing.st_gid {
            let _ = rustix::fs::fchown(file, None, group);
        }
        if own_stat.st_mode & RIGHTS != existing.st_mode & RIGHTS {
            rustix::fs::fchmod(file, Mode::from_raw_mode(existing.st_mode & RIGHTS))?;
        }
        Ok(())
    }

    /// Bytes of the file that has the key; none if it is not a regular file.
    pub(super) fn existing_bytes(&self, key: &ObjectKey) -> u64 {
        name(key).map_or(0, |name| usage::file_bytes(&self.folder, name))
    }

    /// The inode of what has the key.
    pub(super) fn existing_inode(&self, key: &ObjectKey) -> Option<u64> {
        let found = rustix::fs::statat(&self.folder, name(key).ok()?, AtFlags::SYMLINK_NOFOLLOW);
        Some(found.ok()?.st_ino)
    }

    /// Keeps the file and its folders after the rename. Returns the key's folder.
    pub(super) fn keep(self) -> Arc<OwnedFd> {
        self.temporary.keep();
        self.created_folders.keep();
        self.folder
    }

    fn rename(&self, key: &ObjectKey, replacing: bool) -> Result<(), Errno> {
        let name = name(key).map_err(|_| Errno::ISDIR)?;
        self.temporary.rename(&self.folder, name, replacing)
    }

    fn is_absent(&self, key: &ObjectKey) -> bool {
        let Ok(name) = name(key) else { return false };
        let found = rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW);
        found.is_err_and(|error| error == Errno::NOENT)
    }
}

fn rename_error(error: Errno) -> StoreError {
    match error {
        // Not a link that leads out of the root, which no rename follows: a file system was mounted
        // or unmounted meanwhile.
        Errno::XDEV => StoreError::Io(error.into()),
        error => error.into(),
    }
}

pub(super) fn parent(key: &ObjectKey) -> Result<ObjectKey, StoreError> {
    Ok(key.split_parent().ok_or(StoreError::IsFolder)?.0)
}

fn name(key: &ObjectKey) -> Result<&[u8], StoreError> {
    Ok(key.split_parent_ref().ok_or(StoreError::IsFolder)?.1)
}
