//! One pass over a directory, of which a page is kept.
//!
//! The pass sees every entry, so that it also knows how many there are and how many come before the page, whichever way it goes.

use std::cmp::Ordering;
use std::fmt;

use super::best::TopEntries;
use super::order::{SortDirection, SortRank};
use super::place::EntryLookup;
use super::{FolderPage, ListingCursor, PageRequest, PageStart};

/// An entry's place, and what was found if it had to be looked at.
pub(super) type EntryCandidate = (SortRank, Option<EntryLookup>);

type RankComparison = Box<dyn Fn(&EntryCandidate, &EntryCandidate) -> Ordering>;

/// One pass over a directory, that keeps a page of it.
pub(super) struct DirectoryPass<'a> {
    /// Those that come first, in the direction of the walk.
    best: TopEntries<EntryCandidate, RankComparison>,
    /// Where the walk begins.
    from: &'a PageStart,
    direction: SortDirection,
    total: u64,
    /// How many lie on the other side of the place where the walk begins.
    behind: u64,
}

impl<'a> DirectoryPass<'a> {
    pub(super) fn new(ask: &'a PageRequest) -> Self {
        let direction = ask.direction();
        let backwards = matches!(ask.from, PageStart::Before(_));
        let compare = move |a: &EntryCandidate, b: &EntryCandidate| {
            let order = direction.compare(&a.0, &b.0);
            if backwards { order.reverse() } else { order }
        };
        Self {
            best: TopEntries::new(ask.limit.max(1), Box::new(compare)),
            from: &ask.from,
            direction,
            total: 0,
            behind: 0,
        }
    }

    pub(super) fn take(&mut self, candidate: EntryCandidate) {
        self.total += 1;
        let is_behind = match self.from {
            PageStart::First => false,
            PageStart::After(cursor) => self.direction.compare(&candidate.0, cursor.rank()).is_le(),
            PageStart::Before(cursor) => {
                self.direction.compare(&candidate.0, cursor.rank()).is_ge()
            }
        };
        if is_behind {
            self.behind += 1;
        } else {
            self.best.push(candidate);
        }
    }

    /// The page without its entries, and those that belong on it.
    pub(super) fn finish(self, ask: &PageRequest) -> (FolderPage, Vec<EntryCandidate>) {
        let mut chosen = self.best.into_sorted();
        let beyond = self.total - self.behind - chosen.len() as u64;
        let (ahead, after) = match self.from {
            PageStart::Before(_) => {
                chosen.reverse();
                (beyond, self.behind)
            }
            PageStart::First | PageStart::After(_) => (self.behind, beyond),
        };
        let cursor = |candidate: Option<&EntryCandidate>, is_there| {
            let (rank, _) = candidate.filter(|_| is_there)?;
            Some(ListingCursor::new(ask, rank.clone()))
        };
        let page = FolderPage {
            entries: Vec::new(),
            total: self.total,
            ahead,
            next: cursor(chosen.last(), after > 0),
            previous: cursor(chosen.first(), ahead > 0),
        };
        (page, chosen)
    }
}

impl fmt::Debug for DirectoryPass<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pass({} so far, {:?})", self.total, self.best)
    }
}
