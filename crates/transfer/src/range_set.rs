//! A set of bytes as sorted, disjoint ranges that do not touch.
//!
//! Kept in a vector: a download has tens of ranges, not thousands, and a search in a sorted vector that fits
//! a few cache lines beats a tree.

use std::ops::Range;

/// A set of byte positions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// Sorted by start; each is non-empty and ends before the next one starts.
    ranges: Vec<Range<u64>>,
}

impl RangeSet {
    /// The empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a range; an empty one adds nothing.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        // All ranges that overlap or touch the new one merge into it.
        let first = self.ranges.partition_point(|known| known.end < range.start);
        let last = self
            .ranges
            .partition_point(|known| known.start <= range.end);
        let mut merged = range;
        if let Some(merging) = self
            .ranges
            .get(first..last)
            .filter(|merging| !merging.is_empty())
        {
            merged.start = merged.start.min(merging[0].start);
            merged.end = merged.end.max(merging[merging.len() - 1].end);
        }
        self.ranges.splice(first..last, [merged]);
    }

    /// Removes a range.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = self
            .ranges
            .partition_point(|known| known.end <= range.start);
        let last = self.ranges.partition_point(|known| known.start < range.end);
        if first >= last {
            return;
        }
        let left = self.ranges[first].start..range.start;
        let right = range.end..self.ranges[last - 1].end;
        self.ranges.splice(
            first..last,
            [left, right].into_iter().filter(|rest| !rest.is_empty()),
        );
    }

    /// Whether every byte of a range is in the set; true for an empty range.
    #[must_use]
    pub fn covers(&self, range: &Range<u64>) -> bool {
        range.is_empty()
            || self
                .range_containing(range.start)
                .is_some_and(|known| range.end <= known.end)
    }

    /// Whether a byte is in the set.
    #[must_use]
    pub fn contains(&self, at: u64) -> bool {
        self.range_containing(at).is_some()
    }

    /// The range of the set that holds a byte.
    #[must_use]
    pub fn range_at(&self, at: u64) -> Option<Range<u64>> {
        self.range_containing(at).cloned()
    }

    /// The ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().cloned()
    }

    /// The parts of a range that are not in the set, in order.
    pub fn gaps(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self
            .ranges
            .partition_point(|known| known.end <= within.start);
        let inside = self.ranges[first..]
            .iter()
            .take_while(move |known| known.start < within.end);
        let starts = std::iter::once(within.start).chain(inside.clone().map(|known| known.end));
        let ends = inside
            .map(|known| known.start)
            .chain(std::iter::once(within.end));
        starts
            .zip(ends)
            .map(|(start, end)| start..end)
            .filter(|gap| !gap.is_empty())
    }

    /// Bytes in the set.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.ranges
            .iter()
            .map(|range| range.end - range.start)
            .sum()
    }

    /// Where the range that starts at byte 0 ends; 0 if there is none.
    #[must_use]
    pub fn prefix_end(&self) -> u64 {
        self.ranges
            .first()
            .filter(|range| range.start == 0)
            .map_or(0, |range| range.end)
    }

    /// Whether no byte is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The range of the set that holds a byte.
    fn range_containing(&self, at: u64) -> Option<&Range<u64>> {
        let index = self.ranges.partition_point(|known| known.end <= at);
        self.ranges.get(index).filter(|known| known.start <= at)
    }
}

impl FromIterator<Range<u64>> for RangeSet {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Self {
        let mut set = Self::new();
        ranges.into_iter().for_each(|range| set.insert(range));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The model has one boolean a byte.
    const SIZE: u64 = 64;

    fn any_range() -> impl Strategy<Value = Range<u64>> {
        (0..=SIZE, 0..=SIZE).prop_map(|(a, b)| a.min(b)..a.max(b))
    }

    fn members(set: &RangeSet) -> Vec<bool> {
        (0..SIZE).map(|at| set.contains(at)).collect()
    }

    proptest! {
        #[test]
        fn it_behaves_like_one_boolean_per_byte(steps in prop::collection::vec((any::<bool>(), any_range()), 0..40), range in any_range()) {
            let mut set = RangeSet::new();
            let mut model = vec![false; usize::try_from(SIZE).unwrap()];
            for (add, range) in steps {
                for at in range.clone() {
                    model[usize::try_from(at).unwrap()] = add;
                }
                if add { set.insert(range) } else { set.remove(range) }
            }
            prop_assert_eq!(members(&set), model.clone());
            prop_assert_eq!(set.total_bytes(), model.iter().filter(|held| **held).count() as u64);
            prop_assert_eq!(set.prefix_end(), model.iter().take_while(|held| **held).count() as u64);
            prop_assert_eq!(set.is_empty(), model.iter().all(|held| !held));
            let inside = &model[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()];
            prop_assert_eq!(set.covers(&range), inside.iter().all(|held| *held));
            let gaps: RangeSet = set.gaps(range.clone()).collect();
            for at in 0..SIZE {
                prop_assert_eq!(gaps.contains(at), range.contains(&at) && !set.contains(at));
            }
            // Ranges are non-empty, sorted and never touch: every set has one representation.
            let stretches: Vec<_> = set.iter().collect();
            prop_assert!(stretches.iter().all(|stretch| !stretch.is_empty()));
            prop_assert!(stretches.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }

    #[test]
    fn the_last_possible_byte_can_be_in_the_set() {
        let set: RangeSet = std::iter::once(u64::MAX - 1..u64::MAX).collect();
        assert!(set.covers(&(u64::MAX - 1..u64::MAX)));
        assert_eq!(set.total_bytes(), 1);
    }
}
