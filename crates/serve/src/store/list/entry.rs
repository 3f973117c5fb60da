//! The entries of a folder: which are listed, their kinds, and where links lead.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::SystemTime;

use haul_plan::UnixTime;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{EntryKind, FolderEntry};
use crate::ObjectKey;
use crate::store::{StoreError, StoreRoot};

/// Flags to open an entry during a walk: follow no link, and do not wait if a pipe took a file's
/// place.
const OPEN_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

#[derive(Debug, Clone)]
pub(super) struct FolderLocation {
    /// The folder's key, from which the keys of its entries are made.
    pub(super) key: ObjectKey,
    /// The root that resolves links.
    pub(super) root: Arc<StoreRoot>,
}

/// The metadata of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryLookup {
    pub(super) kind: EntryKind,
    pub(super) len: u64,
    pub(super) modified: SystemTime,
}

/// What the directory itself says about an entry.
#[derive(Debug)]
pub(super) struct DirectoryRecord {
    pub(super) name: Vec<u8>,
    /// `None` for links, and where the file system does not say.
    pub(super) kind: Option<EntryKind>,
}

impl FolderLocation {
    /// The next name that may be listed.
    pub(super) fn next_record(&self, dir: &mut Dir) -> io::Result<Option<DirectoryRecord>> {
        while let Some(entry) = dir.read() {
            let entry = entry?;
            if self.is_listed(entry.file_name().to_bytes()) {
                return Ok(Some(DirectoryRecord {
                    kind: entry_kind(entry.file_type()),
                    name: entry.file_name().to_bytes().to_vec(),
                }));
            }
        }
        Ok(None)
    }

    fn is_listed(&self, name: &[u8]) -> bool {
        // Whether the name has a key. If it does not begin with a dot and the folder is not deep,
        // it has one for certain.
        let has_key = || self.key.child(name).is_ok();
        let is_deep = self.key.as_bytes().len() > 3000;
        match name {
            b"." | b".." => false,
            [b'.', ..] => has_key(),
            _ => !is_deep || has_key(),
        }
    }

    /// Looks up a name, and the target of a link. `None`: it was deleted, or the link leads
    /// nowhere, or to something that may not be read.
    ///
    /// # Errors
    /// When the disk fails: a listing without the entry would look complete.
    pub(super) fn look_up(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
    ) -> io::Result<Option<EntryLookup>> {
        let stat = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Ok(Some(EntryLookup::from_stat(&stat)));
        }
        let Ok(key) = self.key.child(name) else {
            return Ok(None);
        };
        match self.root.open_any(&key) {
            Ok(target) => Ok(Some(EntryLookup::from_stat(&rustix::fs::fstat(target)?))),
            Err(StoreError::Io(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Opens a name, or the target of a link of that name. The flag says whether it was a link.
    pub(super) fn open(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
    ) -> Result<(OwnedFd, bool), StoreError> {
        match rustix::fs::openat(dir, name, OPEN_FLAGS, Mode::empty()) {
            Ok(fd) => Ok((fd, false)),
            // The kernel's error for a link that is not followed.
            Err(Errno::LOOP) => {
                let key = self.key.child(name).map_err(|_| StoreError::TooLong)?;
                Ok((self.root.open_any(&key)?, true))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl EntryLookup {
    pub(super) fn from_stat(stat: &Stat) -> Self {
        let kind = entry_kind(FileType::from_raw_mode(stat.st_mode)).unwrap_or(EntryKind::Other);
        let len = match kind {
            EntryKind::File => u64::try_from(stat.st_size).unwrap_or(0),
            EntryKind::Folder | EntryKind::Other => 0,
        };
        Self {
            kind,
            len,
            modified: modification_time(stat),
        }
    }

    pub(super) fn into_entry(self, name: Vec<u8>) -> FolderEntry {
        FolderEntry {
            name,
            kind: self.kind,
            len: self.len,
            modified: self.modified,
        }
    }
}

/// `None` if the entry must be looked up.
fn entry_kind(file_type: FileType) -> Option<EntryKind> {
    match file_type {
        FileType::Directory => Some(EntryKind::Folder),
        FileType::RegularFile => Some(EntryKind::File),
        FileType::Symlink | FileType::Unknown => None,
        _ => Some(EntryKind::Other),
    }
}

/// The modification time of a file. Times that `SystemTime` cannot hold become the epoch.
pub(crate) fn modification_time(stat: &Stat) -> SystemTime {
    let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or_default();
    let time = UnixTime::from_stat(stat.st_mtime, nanoseconds);
    time.to_system_time().unwrap_or(SystemTime::UNIX_EPOCH)
}
