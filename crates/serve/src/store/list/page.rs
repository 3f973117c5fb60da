//! Reads a directory once and keeps one page of it.
//!
//! It sees every entry, so it also knows how many there are and how many come before the page, in
//! either direction.
//!
//! # Selection
//!
//! The first `limit` entries of many, in bounded memory.
//!
//! Holds at most twice the limit. When that is full, the better half is selected (in linear time)
//! and the rest dropped; from then on an entry that is worse than the worst of that half is
//! rejected at once. Over a whole pass that is cheaper than a heap, and if everything fits, it is
//! one sort.

use std::cmp::Ordering;
use std::fmt;

use super::entry::EntryLookup;
use super::order::{SortDirection, SortRank};
use super::{FolderPage, ListingCursor, PageRequest, PageStart};

/// An entry's rank, and its metadata if it had to be looked up.
pub(super) struct EntryCandidate {
    pub(super) rank: SortRank,
    pub(super) entry: Option<EntryLookup>,
}

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
            let order = direction.compare(&a.rank, &b.rank);
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
            PageStart::After(cursor) => self
                .direction
                .compare(&candidate.rank, cursor.rank())
                .is_le(),
            PageStart::Before(cursor) => self
                .direction
                .compare(&candidate.rank, cursor.rank())
                .is_ge(),
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
            let candidate = candidate.filter(|_| is_there)?;
            Some(ListingCursor::new(request, candidate.rank.clone()))
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

/// Keeps the first `limit` of all pushed items.
pub(super) struct TopEntries<T, F> {
    kept: Vec<T>,
    /// How many to keep; at least one.
    limit: usize,
    compare: F,
    /// Whether `kept[limit - 1]` is the worst of the first `limit`, so that others can be compared
    /// with it.
    has_threshold: bool,
}

impl<T, F: Fn(&T, &T) -> Ordering> TopEntries<T, F> {
    pub(super) fn new(limit: usize, compare: F) -> Self {
        Self {
            kept: Vec::new(),
            limit: limit.max(1),
            compare,
            has_threshold: false,
        }
    }

    pub(super) fn push(&mut self, item: T) {
        let bar = self.kept.get(self.limit - 1).filter(|_| self.has_threshold);
        if bar.is_some_and(|bar| (self.compare)(&item, bar).is_gt()) {
            return;
        }
        self.kept.push(item);
        if self.kept.len() >= self.limit * 2 {
            self.prune();
        }
    }

    /// The first items, sorted.
    pub(super) fn into_sorted(mut self) -> Vec<T> {
        if self.kept.len() > self.limit {
            self.prune();
        }
        self.kept.sort_unstable_by(&self.compare);
        self.kept
    }

    /// Drops all but the first `limit`.
    fn prune(&mut self) {
        self.kept
            .select_nth_unstable_by(self.limit - 1, &self.compare);
        self.kept.truncate(self.limit);
        self.has_threshold = true;
    }
}

impl<T, F> fmt::Debug for TopEntries<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.kept.len();
        write!(f, "Best({held} of {})", self.limit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_keeps_the_first_entries_in_order(items in prop::collection::vec(0..50_u8, 0..200), limit in 1..40_usize) {
            let mut top = TopEntries::new(limit, u8::cmp);
            for item in &items {
                top.push(*item);
                prop_assert!(top.kept.len() < limit * 2 || limit == 1);
            }
            let mut model = items;
            model.sort_unstable();
            model.truncate(limit);
            prop_assert_eq!(top.into_sorted(), model);
        }
    }

    #[test]
    fn d12_selecting_from_a_million_holds_at_most_two_pages() {
        let mut top = TopEntries::new(100, u32::cmp);
        let mut max_kept = 0;
        // From the worst to the best: each item displaces another.
        for item in (0..1_000_000_u32).rev() {
            top.push(item);
            max_kept = max_kept.max(top.kept.len()).max(top.kept.capacity());
        }
        assert!(max_kept <= 256, "{max_kept}");
        assert!(top.into_sorted().into_iter().eq(0..100));
    }
}
