//! Where an upload is before it has its key, and how it gets that: by one rename.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Gid, Mode, Uid};
use rustix::io::Errno;

use crate::ObjectKey;
use crate::store::created_folders::CreatedFolders;
use crate::store::root::OpenScope;
use crate::store::temporary_files::{TemporaryFile, TemporaryFolder};
use crate::store::{FileStore, StoreError, usage};

/// Where an upload is before it has its key. Dropped, it leaves nothing.
#[derive(Debug)]
pub(super) struct UploadLocation {
    /// The key's folder.
    pub(super) folder: Arc<OwnedFd>,
    /// What is written. It goes before the folders do, since it may be in one.
    pub(super) temporary: TemporaryFile,
    /// Folders that were made for it.
    created_folders: CreatedFolders,
}

impl UploadLocation {
    /// A place for a key.
    pub(super) fn new(
        store: &FileStore,
        room: &TemporaryFolder,
        key: &ObjectKey,
        reach: OpenScope,
    ) -> Result<Self, StoreError> {
        let open = || {
            let (folder, made) = store.folders.open_or_create(&parent(key)?, reach)?;
            let folder = Arc::new(folder);
            let temporary = room.create_file(&store.root, key, &folder, reach)?;
            Ok(Self {
                folder,
                temporary,
                created_folders: made,
            })
        };
        match open() {
            // The folder went before the file was in it, and may be made again.
            Err(StoreError::NotFound) if reach == OpenScope::Anywhere => open(),
            other => other,
        }
    }

    /// Finds the key's folder again, which was removed while the upload came.
    pub(super) fn reopen_folder(
        &mut self,
        store: &FileStore,
        key: &ObjectKey,
    ) -> Result<(), StoreError> {
        if self.temporary.is_removed() {
            return Err(match store.root.is_removed() {
                true => StoreError::RootRemoved,
                false => StoreError::UploadRemoved,
            });
        }
        let (folder, made) = store
            .folders
            .open_or_create(&parent(key)?, OpenScope::Anywhere)?;
        self.folder = Arc::new(folder);
        self.created_folders.merge(made);
        Ok(())
    }

    /// Gives it the key's name if nothing has that. Whether it did.
    pub(super) fn rename_if_absent(&self, key: &ObjectKey) -> Result<bool, StoreError> {
        match self.rename(key, false) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            // The file system cannot refuse to replace: a look before must do.
            Err(Errno::INVAL) if self.is_absent(key) => {
                self.rename(key, true).map_err(rename_error)?;
                Ok(true)
            }
            Err(Errno::INVAL) => Ok(false),
            Err(error) => Err(rename_error(error)),
        }
    }

    /// Gives it the key's name, which something has. Says how many bytes that was.
    pub(super) fn rename_over(&self, key: &ObjectKey) -> Result<u64, StoreError> {
        let before = self.existing_bytes(key);
        self.copy_permissions(key)?;
        match self.rename(key, true) {
            Ok(()) => Ok(before),
            Err(Errno::ISDIR | Errno::NOTDIR) => Err(StoreError::Conflict),
            Err(error) => Err(rename_error(error)),
        }
    }

    /// Gives it the rights and the owner of the file that it is about to replace: one that others may not read stays such a file. Where
    /// the owner cannot be kept, the group may be.
    fn copy_permissions(&self, key: &ObjectKey) -> Result<(), StoreError> {
        /// Who may read, write and run it. Nobody gets more by running it.
        const RIGHTS: u32 = 0o777;
        let there = rustix::fs::statat(&self.folder, name(key)?, AtFlags::SYMLINK_NOFOLLOW);
        let Ok(there) = there else { return Ok(()) };
        if FileType::from_raw_mode(there.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        let file = &self.temporary.file;
        let own = rustix::fs::fstat(file)?;
        let group = Some(Gid::from_raw(there.st_gid));
        if own.st_uid != there.st_uid {
            let owner = Some(Uid::from_raw(there.st_uid));
            if rustix::fs::fchown(file, owner, group).is_err() {
                let _ = rustix::fs::fchown(file, None, group);
            }
        } else if own.st_gid != there.st_gid {
            let _ = rustix::fs::fchown(file, None, group);
        }
        if own.st_mode & RIGHTS != there.st_mode & RIGHTS {
            rustix::fs::fchmod(file, Mode::from_raw_mode(there.st_mode & RIGHTS))?;
        }
        Ok(())
    }

    /// Bytes of the file that has the key's name; none where something else has it, which is not counted.
    pub(super) fn existing_bytes(&self, key: &ObjectKey) -> u64 {
        name(key).map_or(0, |name| usage::file_bytes(&self.folder, name))
    }

    /// It has its name: nothing of it goes. What remains is the folder that it is in now.
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

/// What the system's refusal to rename means.
fn rename_error(error: Errno) -> StoreError {
    match error {
        // No link leads out here: something was mounted or unmounted meanwhile.
        Errno::XDEV => StoreError::Io(error.into()),
        error => error.into(),
    }
}

/// The folder of a key.
pub(super) fn parent(key: &ObjectKey) -> Result<ObjectKey, StoreError> {
    Ok(key.split_parent().ok_or(StoreError::IsFolder)?.0)
}

/// What a key is called in its folder.
fn name(key: &ObjectKey) -> Result<&[u8], StoreError> {
    Ok(key.split_parent_ref().ok_or(StoreError::IsFolder)?.1)
}
