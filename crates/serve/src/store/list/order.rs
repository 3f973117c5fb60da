//! The order of a listing, and where in it a page begins.
//!
//! Folders come first, however it is sorted. Then comes what was asked for; names, byte by byte, settle what is equal, so that no
//! two entries of a folder have the same place and a page can begin after any of them, even after one that is gone by then.

use std::cmp::Ordering;
use std::time::{Duration, SystemTime};

use super::EntryKind;
use super::cursor::ListingCursor;

/// What a listing is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SortKey {
    /// Names, byte by byte.
    #[default]
    Name,
    /// Bytes in a file. Folders and others have none.
    Size,
    /// When it was changed last.
    Modified,
}

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PageStart {
    /// At the first entry.
    #[default]
    First,
    /// After this place.
    After(ListingCursor),
    /// It ends before this place.
    Before(ListingCursor),
}

/// Which page of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// What it is sorted by.
    pub sort: SortKey,
    /// Whether the greatest come first. Folders come first in any case.
    pub descending: bool,
    /// Where it begins.
    pub start: PageStart,
    /// Entries on it; at least one. Memory grows with it, and with nothing else.
    pub limit: usize,
}

impl PageRequest {
    /// From the first entry, by name.
    #[must_use]
    pub fn first(limit: usize) -> Self {
        Self {
            sort: SortKey::Name,
            descending: false,
            start: PageStart::First,
            limit,
        }
    }

    pub(super) fn direction(&self) -> SortDirection {
        SortDirection {
            sort: self.sort,
            descending: self.descending,
        }
    }
}

/// What decides an entry's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SortRank {
    pub(super) kind: EntryKind,
    /// Bytes, or nanoseconds since the epoch; zero where names alone decide.
    pub(super) value: i128,
    pub(super) name: Vec<u8>,
}

impl SortRank {
    pub(super) fn new(kind: EntryKind, value: i128, name: Vec<u8>) -> Self {
        Self { kind, value, name }
    }
}

/// Which of two comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SortDirection {
    pub(super) sort: SortKey,
    pub(super) descending: bool,
}

impl SortDirection {
    pub(super) fn compare(self, a: &SortRank, b: &SortRank) -> Ordering {
        let turned = |order: Ordering| match self.descending {
            true => order.reverse(),
            false => order,
        };
        let names = a.name.cmp(&b.name);
        let within = match self.sort {
            SortKey::Name => turned(names),
            // What is equal stays in the order of names, whichever way the rest goes.
            SortKey::Size | SortKey::Modified => turned(a.value.cmp(&b.value)).then(names),
        };
        a.is_folder().cmp(&b.is_folder()).reverse().then(within)
    }
}

impl SortRank {
    fn is_folder(&self) -> bool {
        self.kind == EntryKind::Folder
    }
}

/// Nanoseconds since the epoch; before it, less than none.
pub(super) fn nanoseconds(time: SystemTime) -> i128 {
    let signed = |span: Duration| i128::try_from(span.as_nanos()).unwrap_or(i128::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => signed(since),
        Err(before) => -signed(before.duration()),
    }
}
