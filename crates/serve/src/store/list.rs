//! Reads folders: all entries, or a sorted page of them.
//!
//! An [`OpenFolder`] is an open directory, which [`StoreRoot`] opened from a key. Entries are
//! looked up relative to its descriptor, without following links. [`StoreRoot`] resolves the target
//! of a link, so that the kernel keeps it beneath the root; a link that leads out, or nowhere, is
//! not listed. No path is put together from strings here.
//!
//! Also left out are entries without a key (the store's temporary folder, names that are too long)
//! and the temporary files of uploads.
//!
//! Memory: [`FolderEntries`] holds one kernel buffer, whatever the size of the directory.
//! [`OpenFolder::page`] holds at most twice the page's limit of names. Everything here may wait for
//! a disk, and belongs on a thread that may.

mod entry;
mod order;
mod page;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::SystemTime;

use haul_plan::UnixTime;
use rustix::fs::{Dir, Stat};

use self::entry::{DirectoryRecord, EntryLookup, FolderLocation};
use self::order::SortRank;
use self::page::{DirectoryPass, EntryCandidate};
use super::{StoreError, StoreRoot};
use crate::ObjectKey;

pub(crate) use self::entry::modification_time;
pub use self::order::{ListingCursor, ListingCursorError, PageRequest, PageStart, SortKey};

/// The kind of an entry, in the order of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntryKind {
    /// A directory, or a link to one beneath the root.
    Folder,
    /// A regular file, or a link to one beneath the root.
    File,
    /// A pipe, a socket, a device: listed, but cannot be downloaded.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderEntry {
    /// As the file system has it: any bytes but NUL and slash.
    pub name: Vec<u8>,
    /// The kind; of a link, the kind of its target.
    pub kind: EntryKind,
    /// Bytes of a file, zero for all others.
    pub len: u64,
    /// When its content was last changed, by the file system's clock.
    pub modified: SystemTime,
}

/// A sorted page of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderPage {
    /// The entries. Entries that were deleted meanwhile are missing.
    pub entries: Vec<FolderEntry>,
    /// How many entries the folder had.
    pub total: u64,
    /// How many of them come before this page.
    pub preceding: u64,
    /// Where the next page begins, if there is one.
    pub next: Option<ListingCursor>,
    /// Where the previous page ends, if there is one.
    pub previous: Option<ListingCursor>,
}

#[derive(Debug)]
pub struct OpenFolder {
    location: FolderLocation,
    /// The directory, open for reading.
    dir: OwnedFd,
}

#[derive(Debug)]
pub(crate) struct OpenedEntry {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: EntryKind,
    /// As it was when it was opened.
    pub(crate) stat: Stat,
    /// Whether the entry is a link to it.
    pub(crate) is_link: bool,
    pub(crate) fd: OwnedFd,
}

/// An entry of a folder that could not be opened.
#[derive(Debug)]
pub(crate) struct UnopenedEntry {
    pub(crate) name: Vec<u8>,
    pub(crate) error: StoreError,
}

impl OpenFolder {
    /// Opens a folder beneath a root.
    pub fn open(root: &Arc<StoreRoot>, key: ObjectKey) -> Result<Self, StoreError> {
        Ok(Self {
            dir: root.open_folder(&key)?,
            location: FolderLocation {
                root: Arc::clone(root),
                key,
            },
        })
    }

    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.location.key
    }

    /// All its entries, in the order of the directory.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn into_entries(self) -> io::Result<FolderEntries> {
        Ok(FolderEntries {
            location: self.location,
            dir: Dir::new(self.dir)?,
        })
    }

    /// A sorted page of it. Reads the directory once. If it is sorted by name, only the entries of
    /// the page are looked up (and links, as folders come first).
    ///
    /// # Errors
    /// When the directory cannot be read, or an entry cannot be looked up. Entries that are deleted
    /// meanwhile are left out.
    pub fn page(&self, request: &PageRequest) -> io::Result<FolderPage> {
        let mut pass = DirectoryPass::new(request);
        let mut dir = Dir::read_from(&self.dir)?;
        while let Some(record) = self.location.next_record(&mut dir)? {
            if let Some(candidate) = self.rank_entry(record, request.sort)? {
                pass.push(candidate);
            }
        }
        let (mut page, selected) = pass.finish(request);
        for EntryCandidate { rank, entry } in selected {
            let entry = match entry {
                Some(entry) => Some(entry),
                None => self.location.look_up(self.dir.as_fd(), &rank.name)?,
            };
            let entry = entry.map(|entry| entry.into_entry(rank.name));
            page.entries.extend(entry);
        }
        Ok(page)
    }

    /// Ranks an entry; `None` if it is not listed.
    fn rank_entry(
        &self,
        record: DirectoryRecord,
        sort: SortKey,
    ) -> io::Result<Option<EntryCandidate>> {
        if let (SortKey::Name, Some(kind)) = (sort, record.kind) {
            let rank = SortRank::new(kind, 0, record.name);
            return Ok(Some(EntryCandidate { rank, entry: None }));
        }
        let Some(entry) = self.location.look_up(self.dir.as_fd(), &record.name)? else {
            return Ok(None);
        };
        let value = match sort {
            SortKey::Name => 0,
            SortKey::Size => entry.len.into(),
            SortKey::Modified => UnixTime::from(entry.modified).nanoseconds(),
        };
        Ok(Some(EntryCandidate {
            rank: SortRank::new(entry.kind, value, record.name),
            entry: Some(entry),
        }))
    }
}

/// All entries of a folder, in the order of the directory.
///
/// Ends after the first error. Each step may wait for a disk; between two steps it holds nothing
/// but a descriptor and a buffer, so a slow reader costs no thread.
#[derive(Debug)]
pub struct FolderEntries {
    location: FolderLocation,
    dir: Dir,
}

impl FolderEntries {
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.location.key
    }

    /// Opens the next file or folder. An entry that cannot be opened does not end the walk.
    pub(crate) fn next_member(&mut self) -> io::Result<Option<Result<OpenedEntry, UnopenedEntry>>> {
        loop {
            let Some(record) = self.location.next_record(&mut self.dir)? else {
                return Ok(None);
            };
            // Opening a device may have side effects.
            if record.kind != Some(EntryKind::Other) {
                return Ok(Some(self.open(record.name)));
            }
        }
    }

    /// The entries of a folder that was opened.
    pub(crate) fn descend(&self, opened: OpenedEntry) -> io::Result<Self> {
        let key = self
            .location
            .key
            .child(&opened.name)
            .map_err(io::Error::other)?;
        Ok(Self {
            location: FolderLocation {
                key,
                root: Arc::clone(&self.location.root),
            },
            dir: Dir::new(opened.fd)?,
        })
    }

    fn open(&self, name: Vec<u8>) -> Result<OpenedEntry, UnopenedEntry> {
        let opened = || {
            let (fd, by_link) = self.location.open(self.dir.fd()?, &name)?;
            Ok((rustix::fs::fstat(&fd)?, fd, by_link))
        };
        match opened() {
            Ok((stat, fd, by_link)) => Ok(OpenedEntry {
                kind: EntryLookup::from_stat(&stat).kind,
                name,
                stat,
                is_link: by_link,
                fd,
            }),
            Err(error) => Err(UnopenedEntry { name, error }),
        }
    }
}

impl Iterator for FolderEntries {
    type Item = io::Result<FolderEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let record = match self.location.next_record(&mut self.dir) {
                Ok(record) => record?,
                Err(error) => return Some(Err(error)),
            };
            let dir = match self.dir.fd() {
                Ok(dir) => dir,
                Err(error) => return Some(Err(error.into())),
            };
            match self.location.look_up(dir, &record.name) {
                Ok(Some(entry)) => return Some(Ok(entry.into_entry(record.name))),
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
