//! One pass over a directory, of which a page is kept.
//!
//! The pass sees every entry, so that it also knows how many there are and how many come before the page, whichever way it goes.

use std::cmp::Ordering;
use std::fmt;

use super::entry::EntryLookup;
use super::order::{SortDirection, SortRank};
use super::top_entries::TopEntries;
use super::{FolderPage, ListingCursor, PageRequest, PageStart};

/// An entry's place, and what was found if it had to be looked at.
pub(super) type EntryCandidate = (SortRank, Option<EntryLookup>);

type RankComparison = Box<dyn Fn(&EntryCandidate, &EntryCandidate) -> Ordering>;

/// One pass over a directory, that keeps a page of it.
pub(super) struct DirectoryPass<'a> {
    /// Those that come first, in the direction of the walk.
    top: TopEntries<EntryCandidate, RankComparison>,
    /// Where the walk begins.
    start: &'a PageStart,
    direction: SortDirection,
    total: u64,
    /// How many lie on the other side of the place where the walk begins.
    skipped: u64,
}

impl<'a> DirectoryPass<'a> {
    pub(super) fn new(ask: &'a PageRequest) -> Self {
        let direction = ask.direction();
        let backwards = matches!(ask.start, PageStart::Before(_));
        let compare = move |a: &EntryCandidate, b: &EntryCandidate| {
            let order = direction.compare(&a.0, &b.0);
            if backwards { order.reverse() } else { order }
        };
        Self {
            top: TopEntries::new(ask.limit.max(1), Box::new(compare)),
            start: &ask.start,
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

    /// The page without its entries, and those that belong on it.
    pub(super) fn finish(self, ask: &PageRequest) -> (FolderPage, Vec<EntryCandidate>) {
        let mut chosen = self.top.into_sorted();
        let beyond = self.total - self.skipped - chosen.len() as u64;
        let (ahead, after) = match self.start {
            PageStart::Before(_) => {
                chosen.reverse();
                (beyond, self.skipped)
            }
            PageStart::First | PageStart::After(_) => (self.skipped, beyond),
        };
        let cursor = |candidate: Option<&EntryCandidate>, is_there| {
            let (rank, _) = candidate.filter(|_| is_there)?;
            Some(ListingCursor::new(ask, rank.clone()))
        };
        let page = FolderPage {
            entries: Vec::new(),
            total: self.total,
            preceding: ahead,
            next: cursor(chosen.last(), after > 0),
            previous: cursor(chosen.first(), ahead > 0),
        };
        (page, chosen)
    }
}

impl fmt::Debug for DirectoryPass<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pass({} so far, {:?})", self.total, self.top)
    }
}
