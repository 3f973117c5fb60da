//! Reading a folder: what is in it, and a page of it in order.
//!
//! A [`Folder`] is an open directory, which [`Root`] opened from a key. All is looked at relative to that descriptor and without
//! following links. What a link leads to is asked of [`Root`], so that the kernel resolves it beneath the root; one that leads out,
//! or nowhere, is not listed. No path is put together from strings here.
//!
//! Not listed either: what has no key (the store's own room at the top, names that are too long) and what uploads leave beside
//! their targets while they run.
//!
//! Memory: [`Entries`] holds one buffer of the kernel's, whatever the size of the directory. [`Folder::page`] holds at most twice
//! the page's limit of names (see [`best`]). Everything here may wait for a disk, and belongs on a thread that may.

mod best;
mod cursor;
mod order;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, FileType, Stat};

use self::best::Best;
use self::order::{Direction, Rank};
use super::Root;
use crate::Key;

pub use self::cursor::{Cursor, CursorError};
pub use self::order::{Begin, PageAsk, Sort};

/// How the names of uploads begin that lie beside their targets.
const UPLOADS: &[u8] = b".haul-put-";

/// What an entry is, in the order of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A directory, or a link to one beneath the root.
    Folder,
    /// A regular file, or a link to one beneath the root.
    File,
    /// A pipe, a socket, a device: shown, and not to be had.
    Other,
}

/// One line of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// As the file system has it: any bytes but NUL and slash.
    pub name: Vec<u8>,
    /// What it is; of a link, what it leads to.
    pub kind: Kind,
    /// Bytes in it. Zero for all but files, whose size it is.
    pub len: u64,
    /// When its content changed last, by the file system's clock.
    pub modified: SystemTime,
}

/// A page of a folder, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The entries. Fewer than were selected where some went away meanwhile.
    pub entries: Vec<Entry>,
    /// How many entries the folder had, as they went by.
    pub total: u64,
    /// How many of them come before this page.
    pub ahead: u64,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
    /// Where the page before this one ends, if there is one.
    pub previous: Option<Cursor>,
}

/// An open folder of the store.
#[derive(Debug)]
pub struct Folder {
    /// Its key, of which those of its entries are made.
    key: Key,
    /// The directory, open for reading.
    dir: OwnedFd,
    /// Who follows links.
    root: Arc<Root>,
}

/// What a look at a name found.
#[derive(Debug, Clone, Copy)]
struct Found {
    kind: Kind,
    len: u64,
    modified: SystemTime,
}

/// What reading a directory alone says of an entry.
#[derive(Debug)]
struct Seen {
    name: Vec<u8>,
    /// `None` for links and where the file system does not say.
    kind: Option<Kind>,
}

impl Folder {
    /// Opens a folder beneath a root.
    ///
    /// # Errors
    /// See [`StoreError`](super::StoreError).
    pub fn open(root: &Arc<Root>, key: Key) -> Result<Self, super::StoreError> {
        Ok(Self {
            dir: root.open_folder(&key)?,
            root: Arc::clone(root),
            key,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The directory.
    pub(crate) fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    /// Who follows the links in it.
    pub(crate) fn root(&self) -> &Arc<Root> {
        &self.root
    }

    /// All that is in it, as the directory has it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn into_entries(self) -> io::Result<Entries> {
        let dir = Dir::read_from(&self.dir)?;
        Ok(Entries { dir, folder: self })
    }

    /// A page of it. One pass over the directory; sorted by name, only what is on the page is looked at closer (and links, as
    /// folders come first).
    ///
    /// # Errors
    /// When the directory cannot be read. What cannot be looked at, or goes away meanwhile, is left out.
    pub fn page(&self, ask: &PageAsk) -> io::Result<Page> {
        let mut pass = Pass::new(ask);
        let mut dir = Dir::read_from(&self.dir)?;
        while let Some(seen) = self.read(&mut dir)? {
            if let Some(candidate) = self.candidate(seen, ask.sort) {
                pass.take(candidate);
            }
        }
        let (mut page, chosen) = pass.finish(ask);
        let entries = chosen.into_iter().filter_map(|(rank, found)| {
            let found = found.or_else(|| self.look(&rank.name))?;
            Some(found.named(rank.name))
        });
        page.entries = entries.collect();
        Ok(page)
    }

    /// Ranks an entry; `None` where there is nothing to show.
    fn candidate(&self, seen: Seen, sort: Sort) -> Option<(Rank, Option<Found>)> {
        match (sort, seen.kind) {
            (Sort::Name, Some(kind)) => Some((Rank::by_name(kind, seen.name), None)),
            _ => {
                let found = self.look(&seen.name)?;
                let value = match sort {
                    Sort::Name => 0,
                    Sort::Size => found.len.into(),
                    Sort::Modified => order::nanos(found.modified),
                };
                Some((Rank::new(found.kind, value, seen.name), Some(found)))
            }
        }
    }

    /// The next name that may be listed.
    fn read(&self, dir: &mut Dir) -> io::Result<Option<Seen>> {
        while let Some(entry) = dir.read() {
            let entry = entry?;
            if self.lists(entry.file_name().to_bytes()) {
                return Ok(Some(Seen {
                    kind: kind_of(entry.file_type()),
                    name: entry.file_name().to_bytes().to_vec(),
                }));
            }
        }
        Ok(None)
    }

    fn lists(&self, name: &[u8]) -> bool {
        match name {
            [b'.', rest @ ..] => {
                !matches!(rest, b"" | b".")
                    && !name.starts_with(UPLOADS)
                    && self.key.child(name).is_ok()
            }
            // Only at great depth is there a name that is too long to have a key.
            _ => self.key.as_bytes().len() < 3000 || self.key.child(name).is_ok(),
        }
    }

    /// Looks at a name, and where a link leads.
    fn look(&self, name: &[u8]) -> Option<Found> {
        let stat = rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Some(Found::of(&stat));
        }
        let behind = self.root.open_any(&self.key.child(name).ok()?).ok()?;
        Some(Found::of(&rustix::fs::fstat(behind).ok()?))
    }
}

/// All entries of a folder, in no order, as the directory is read.
///
/// It ends after the first error. Each step may wait for a disk; between two of them nothing is held but descriptors and a buffer,
/// so whoever is slow to take the entries costs no thread.
#[derive(Debug)]
pub struct Entries {
    folder: Folder,
    dir: Dir,
}

impl Entries {
    /// The folder they are in.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.folder
    }
}

impl Iterator for Entries {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let seen = match self.folder.read(&mut self.dir) {
                Ok(seen) => seen?,
                Err(error) => return Some(Err(error)),
            };
            if let Some(found) = self.folder.look(&seen.name) {
                return Some(Ok(found.named(seen.name)));
            }
        }
    }
}

/// One pass over a directory, that keeps a page of it.
struct Pass<'a> {
    /// Those that come first, in the direction of the walk.
    best:
        Best<(Rank, Option<Found>), Box<dyn Fn(&Candidate, &Candidate) -> std::cmp::Ordering + 'a>>,
    /// Where the walk begins.
    from: &'a Begin,
    direction: Direction,
    total: u64,
    /// How many lie on the other side of the place where the walk begins.
    behind: u64,
}

type Candidate = (Rank, Option<Found>);

impl<'a> Pass<'a> {
    fn new(ask: &'a PageAsk) -> Self {
        let direction = ask.direction();
        let backwards = matches!(ask.from, Begin::Before(_));
        let compare = move |a: &Candidate, b: &Candidate| {
            let order = direction.compare(&a.0, &b.0);
            if backwards { order.reverse() } else { order }
        };
        Self {
            best: Best::new(ask.limit.max(1), Box::new(compare)),
            from: &ask.from,
            direction,
            total: 0,
            behind: 0,
        }
    }

    fn take(&mut self, candidate: Candidate) {
        self.total += 1;
        let is_behind = match self.from {
            Begin::First => false,
            Begin::After(cursor) => self.direction.compare(&candidate.0, cursor.rank()).is_le(),
            Begin::Before(cursor) => self.direction.compare(&candidate.0, cursor.rank()).is_ge(),
        };
        if is_behind {
            self.behind += 1;
        } else {
            self.best.push(candidate);
        }
    }

    /// The page without its entries, and those that belong on it.
    fn finish(self, ask: &PageAsk) -> (Page, Vec<Candidate>) {
        let mut chosen = self.best.into_sorted();
        let beyond = self.total - self.behind - chosen.len() as u64;
        let (ahead, after) = match self.from {
            Begin::Before(_) => {
                chosen.reverse();
                (beyond, self.behind)
            }
            Begin::First | Begin::After(_) => (self.behind, beyond),
        };
        let cursor = |candidate: Option<&Candidate>, is_there| {
            let (rank, _) = candidate.filter(|_| is_there)?;
            Some(Cursor::new(ask, rank.clone()))
        };
        let page = Page {
            entries: Vec::new(),
            total: self.total,
            ahead,
            next: cursor(chosen.last(), after > 0),
            previous: cursor(chosen.first(), ahead > 0),
        };
        (page, chosen)
    }
}

impl Found {
    pub(crate) fn of(stat: &Stat) -> Self {
        let kind = kind_of(FileType::from_raw_mode(stat.st_mode)).unwrap_or(Kind::Other);
        let len = match kind {
            Kind::File => u64::try_from(stat.st_size).unwrap_or(0),
            Kind::Folder | Kind::Other => 0,
        };
        Self {
            kind,
            len,
            modified: modified(stat),
        }
    }

    fn named(self, name: Vec<u8>) -> Entry {
        Entry {
            name,
            kind: self.kind,
            len: self.len,
            modified: self.modified,
        }
    }
}

/// `None` where one has to look.
fn kind_of(file_type: FileType) -> Option<Kind> {
    match file_type {
        FileType::Directory => Some(Kind::Folder),
        FileType::RegularFile => Some(Kind::File),
        FileType::Symlink | FileType::Unknown => None,
        _ => Some(Kind::Other),
    }
}

/// When a file's content changed. Times that this system's clock cannot hold are the epoch.
pub(crate) fn modified(stat: &Stat) -> SystemTime {
    let seconds = Duration::from_secs(stat.st_mtime.unsigned_abs());
    let whole = if stat.st_mtime < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(seconds)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(seconds)
    };
    let nanos = u32::try_from(stat.st_mtime_nsec)
        .unwrap_or(0)
        .min(999_999_999);
    whole
        .and_then(|whole| whole.checked_add(Duration::from_nanos(nanos.into())))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests;
