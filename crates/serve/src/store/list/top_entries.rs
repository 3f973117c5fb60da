//! The first so many of many, in bounded memory.
//!
//! Twice the limit is held at most. When that is full, the better half is found (linear time) and the rest let go; from then on
//! whatever is worse than the worst of that half is turned away without being kept. Over a whole pass that is cheaper than a heap,
//! and if everything fits, it is one sort.

use std::cmp::Ordering;
use std::fmt;

/// Keeps the first `limit` of what is pushed.
pub(super) struct TopEntries<T, F> {
    kept: Vec<T>,
    /// How many are wanted; at least one.
    limit: usize,
    compare: F,
    /// Whether `kept[limit - 1]` is the worst of the first `limit`, so that others can be measured by it.
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

    /// What was best, in order.
    pub(super) fn into_sorted(mut self) -> Vec<T> {
        if self.kept.len() > self.limit {
            self.prune();
        }
        self.kept.sort_unstable_by(&self.compare);
        self.kept
    }

    /// Lets go of all but the best.
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
        fn it_is_the_head_of_the_sorted_list(items in prop::collection::vec(0..50_u8, 0..200), limit in 1..40_usize) {
            let mut best = TopEntries::new(limit, u8::cmp);
            for item in &items {
                best.push(*item);
                prop_assert!(best.kept.len() < limit * 2 || limit == 1);
            }
            let mut model = items;
            model.sort_unstable();
            model.truncate(limit);
            prop_assert_eq!(best.into_sorted(), model);
        }
    }

    #[test]
    fn d12_a_million_leave_no_more_than_twice_the_page() {
        let mut best = TopEntries::new(100, u32::cmp);
        let mut most = 0;
        // From the worst to the best: each one displaces another.
        for item in (0..1_000_000_u32).rev() {
            best.push(item);
            most = most.max(best.kept.len()).max(best.kept.capacity());
        }
        assert!(most <= 256, "{most}");
        assert!(best.into_sorted().into_iter().eq(0..100));
    }
}
