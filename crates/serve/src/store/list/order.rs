//! The order of a listing, and where in it a page begins.
//!
//! Folders come first in every order. Then the sort key decides; equal entries are sorted by name,
//! byte by byte. So no two entries of a folder have the same position, and a page can begin after
//! any of them, even after one that has been deleted meanwhile.

use std::cmp::Ordering;
use std::time::{Duration, SystemTime};

use super::EntryKind;
use super::cursor::ListingCursor;

/// What a listing is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SortKey {
    /// The name, byte by byte.
    #[default]
    Name,
    /// The length. Only files have one.
    Size,
    /// The modification time.
    Modified,
}

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PageStart {
    /// At the first entry.
    #[default]
    First,
    /// After this position.
    After(ListingCursor),
    /// The page ends before this position.
    Before(ListingCursor),
}

/// A request for a page of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// The sort key.
    pub sort: SortKey,
    /// Whether the greatest come first. Folders come first in any case.
    pub descending: bool,
    /// Where the page begins.
    pub start: PageStart,
    /// Maximum entries; at least one. Memory grows with it, and with nothing else.
    pub limit: usize,
}

impl PageRequest {
    /// The first page, by name.
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

/// The sort position of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SortRank {
    pub(super) kind: EntryKind,
    /// Bytes, or nanoseconds since the epoch; zero if names alone decide.
    pub(super) value: i128,
    pub(super) name: Vec<u8>,
}

impl SortRank {
    pub(super) fn new(kind: EntryKind, value: i128, name: Vec<u8>) -> Self {
        Self { kind, value, name }
    }
}

/// A sort key with its direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SortDirection {
    pub(super) sort: SortKey,
    pub(super) descending: bool,
}

impl SortDirection {
    pub(super) fn compare(self, a: &SortRank, b: &SortRank) -> Ordering {
        let directed = |order: Ordering| match self.descending {
            true => order.reverse(),
            false => order,
        };
        let names = a.name.cmp(&b.name);
        let within = match self.sort {
            SortKey::Name => directed(names),
            // Equal entries are sorted by ascending name in either direction.
            SortKey::Size | SortKey::Modified => directed(a.value.cmp(&b.value)).then(names),
        };
        a.is_folder().cmp(&b.is_folder()).reverse().then(within)
    }
}

impl SortRank {
    fn is_folder(&self) -> bool {
        self.kind == EntryKind::Folder
    }
}

/// Nanoseconds since the epoch; negative before it.
pub(super) fn nanoseconds(time: SystemTime) -> i128 {
    let signed = |span: Duration| i128::try_from(span.as_nanos()).unwrap_or(i128::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => signed(since),
        Err(before) => -signed(before.duration()),
    }
}
