//! Reads a directory once and keeps one page of it.
//!
//! It sees every entry, so it also knows how many there are and how many come before the page, in
//! either direction.

use std::cmp::Ordering;
use std::fmt;

use super::entry::EntryLookup;
use super::order::{SortDirection, SortRank};
use super::top_entries::TopEntries;
use super::{FolderPage, ListingCursor, PageRequest, PageStart};

/// An entry's rank, and its metadata if it had to be looked up.
pub(super) type EntryCandidate = (SortRank, Option<EntryLookup>);

type RankComparison = Box<dyn Fn(&EntryCandidate, &EntryCandidate) -> Ordering>;

/// One pass over a directory that keeps a page of it.
pub(super) struct DirectoryPass<'a> {
    /// The first entries, in the direction of the walk.
    top: TopEntries<EntryCandidate, RankComparison>,
    /// Where the walk begins.
    start: &'a PageStart,
    direction: SortDirection,
    total: u64,
    /// How many entries are on the other side of that position.
    skipped: u64,
}

impl<'a> DirectoryPass<'a> {
    pub(super) fn new(request: &'a PageRequest) -> Self {
        let direction = request.direction();
        let backwards = matches!(request.start, PageStart::Before(_));
        let compare = move |a: &EntryCandidate, b: &EntryCandidate| {
            let order = direction.compare(&a.0, &b.0);
            if backwards { order.reverse() } else { order }
        };
        Self {
            top: TopEntries::new(request.limit.max(1), Box::new(compare)),
            start: &request.start,
            direction,
            total: 0,
            skipped: 0,
        }
    }

    pub(super) fn push(&mut self, candidate: EntryCandidate) {
        self.total += 1;
        let is_behind = match self.start {
            PageStart::First => false,
            PageStart::After(cursor) => self.direction.compare(&candidate.0, cursor.rank()).is_le(),
            PageStart::Before(cursor) => {
                self.direction.compare(&candidate.0, cursor.rank()).is_ge()
            }
        };
        if is_behind {
            self.skipped += 1;
        } else {
            self.top.push(candidate);
        }
    }

    /// The page without its entries, and the ranks of those that belong on it.
    pub(super) fn finish(self, request: &PageRequest) -> (FolderPage, Vec<EntryCandidate>) {
        let mut selected = self.top.into_sorted();
        let beyond = self.total - self.skipped - selected.len() as u64;
        let (ahead, after) = match self.start {
            PageStart::Before(_) => {
                selected.reverse();
                (beyond, self.skipped)
            }
            PageStart::First | PageStart::After(_) => (self.skipped, beyond),
        };
        let cursor = |candidate: Option<&EntryCandidate>, is_there| {
            let (rank, _) = candidate.filter(|_| is_there)?;
            Some(ListingCursor::new(request, rank.clone()))
        };
        let page = FolderPage {
            entries: Vec::new(),
            total: self.total,
            preceding: ahead,
            next: cursor(selected.last(), after > 0),
            previous: cursor(selected.first(), ahead > 0),
        };
        (page, selected)
    }
}

impl fmt::Debug for DirectoryPass<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pass({} so far, {:?})", self.total, self.top)
    }
}
