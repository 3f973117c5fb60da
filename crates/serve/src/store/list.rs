//! Reading a folder: what is in it, and a page of it in order.
//!
//! A [`OpenFolder`] is an open directory, which [`StoreRoot`] opened from a key. All is looked at relative to that descriptor and without
//! following links. What a link leads to is asked of [`StoreRoot`], so that the kernel resolves it beneath the root; one that leads out,
//! or nowhere, is not listed. No path is put together from strings here.
//!
//! Not listed either: what has no key (the store's own room at the top, names that are too long) and what uploads leave beside
//! their targets while they run.
//!
//! Memory: [`FolderEntries`] holds one buffer of the kernel's, whatever the size of the directory. [`OpenFolder::page`] holds at most twice
//! the page's limit of names (see [`best`]). Everything here may wait for a disk, and belongs on a thread that may.

mod cursor;
mod directory_pass;
mod entry;
mod order;
mod top_entries;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{Dir, Stat};

use self::directory_pass::{DirectoryPass, EntryCandidate};
use self::entry::{DirectoryRecord, EntryLookup, FolderLocation};
use self::order::SortRank;
use super::{StoreError, StoreRoot};
use crate::ObjectKey;

pub use self::cursor::{ListingCursor, ListingCursorError};
pub(crate) use self::entry::modification_time;
pub use self::order::{PageRequest, PageStart, SortKey};

/// What an entry is, in the order of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntryKind {
    /// A directory, or a link to one beneath the root.
    Folder,
    /// A regular file, or a link to one beneath the root.
    File,
    /// A pipe, a socket, a device: shown, and not to be had.
    Other,
}

/// One line of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderEntry {
    /// As the file system has it: any bytes but NUL and slash.
    pub name: Vec<u8>,
    /// What it is; of a link, what it leads to.
    pub kind: EntryKind,
    /// Bytes in it. Zero for all but files, whose size it is.
    pub len: u64,
    /// When its content changed last, by the file system's clock.
    pub modified: SystemTime,
}

/// A page of a folder, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderPage {
    /// The entries. Fewer than were selected where some went away meanwhile.
    pub entries: Vec<FolderEntry>,
    /// How many entries the folder had, as they went by.
    pub total: u64,
    /// How many of them come before this page.
    pub preceding: u64,
    /// Where the next page begins, if there is one.
    pub next: Option<ListingCursor>,
    /// Where the page before this one ends, if there is one.
    pub previous: Option<ListingCursor>,
}

/// An open folder of the store.
#[derive(Debug)]
pub struct OpenFolder {
    location: FolderLocation,
    /// The directory, open for reading.
    dir: OwnedFd,
}

/// Something in a folder that was opened.
#[derive(Debug)]
pub(crate) struct OpenedEntry {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: EntryKind,
    /// As it was when it was opened.
    pub(crate) stat: Stat,
    /// Whether a link led here.
    pub(crate) is_link: bool,
    pub(crate) fd: OwnedFd,
}

/// Something in a folder that could not be.
#[derive(Debug)]
pub(crate) struct UnopenedEntry {
    pub(crate) name: Vec<u8>,
    /// Why.
    pub(crate) error: StoreError,
}

impl OpenFolder {
    /// Opens a folder beneath a root.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(root: &Arc<StoreRoot>, key: ObjectKey) -> Result<Self, StoreError> {
        Ok(Self {
            dir: root.open_folder(&key)?,
            location: FolderLocation {
                root: Arc::clone(root),
                key,
            },
        })
    }

    /// Where it is.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.location.key
    }

    /// All that is in it, as the directory has it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn into_entries(self) -> io::Result<FolderEntries> {
        Ok(FolderEntries {
            location: self.location,
            dir: Dir::new(self.dir)?,
        })
    }

    /// A page of it. One pass over the directory; sorted by name, only what is on the page is looked at closer (and links, as
    /// folders come first).
    ///
    /// # Errors
    /// When the directory cannot be read, or something in it cannot be looked at. What goes away meanwhile is left out.
    pub fn page(&self, ask: &PageRequest) -> io::Result<FolderPage> {
        let mut pass = DirectoryPass::new(ask);
        let mut dir = Dir::read_from(&self.dir)?;
        while let Some(seen) = self.location.next_record(&mut dir)? {
            if let Some(candidate) = self.rank_entry(seen, ask.sort)? {
                pass.push(candidate);
            }
        }
        let (mut page, chosen) = pass.finish(ask);
        for (rank, found) in chosen {
            let found = match found {
                Some(found) => Some(found),
                None => self.location.look_up(self.dir.as_fd(), &rank.name)?,
            };
            let entry = found.map(|found| found.into_entry(rank.name));
            page.entries.extend(entry);
        }
        Ok(page)
    }

    /// Ranks an entry; `None` where there is nothing to show.
    fn rank_entry(
        &self,
        seen: DirectoryRecord,
        sort: SortKey,
    ) -> io::Result<Option<EntryCandidate>> {
        if let (SortKey::Name, Some(kind)) = (sort, seen.kind) {
            return Ok(Some((SortRank::new(kind, 0, seen.name), None)));
        }
        let Some(found) = self.location.look_up(self.dir.as_fd(), &seen.name)? else {
            return Ok(None);
        };
        let value = match sort {
            SortKey::Name => 0,
            SortKey::Size => found.len.into(),
            SortKey::Modified => order::nanoseconds(found.modified),
        };
        Ok(Some((
            SortRank::new(found.kind, value, seen.name),
            Some(found),
        )))
    }
}

/// All entries of a folder, in no order, as the directory is read.
///
/// It ends after the first error. Each step may wait for a disk; between two of them nothing is held but a descriptor and a buffer,
/// so whoever is slow to take the entries costs no thread.
#[derive(Debug)]
pub struct FolderEntries {
    location: FolderLocation,
    dir: Dir,
}

impl FolderEntries {
    /// The folder they are in.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.location.key
    }

    /// The next file or folder, opened. Says what could not be opened, which the walk can go on behind.
    pub(crate) fn next_member(&mut self) -> io::Result<Option<Result<OpenedEntry, UnopenedEntry>>> {
        loop {
            let Some(seen) = self.location.next_record(&mut self.dir)? else {
                return Ok(None);
            };
            // A device may do something when it is opened.
            if seen.kind != Some(EntryKind::Other) {
                return Ok(Some(self.open(seen.name)));
            }
        }
    }

    /// What was opened, as a folder to be read itself.
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
            let seen = match self.location.next_record(&mut self.dir) {
                Ok(seen) => seen?,
                Err(error) => return Some(Err(error)),
            };
            let dir = match self.dir.fd() {
                Ok(dir) => dir,
                Err(error) => return Some(Err(error.into())),
            };
            match self.location.look_up(dir, &seen.name) {
                Ok(Some(found)) => return Some(Ok(found.into_entry(seen.name))),
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
