//! Counters with a shard for each thread.
//!
//! An atomic that every thread adds to is a cache line that moves between cores at every request. Here each thread adds to its own
//! shard, on cache lines of its own, and reading sums the shards. A sum is not a snapshot: concurrent additions may be missing,
//! as with any counter.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The maximum number of shards, which bounds the memory on machines with many cores. More threads share them.
const MAX_SHARDS: usize = 64;

/// The number of shards for this machine: two for each core, so that other threads seldom use those of the workers.
pub(super) fn shard_count() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores * 2).next_power_of_two().min(MAX_SHARDS)
}

/// The number of this thread, which selects its shard. Threads are numbered at their first call.
pub(super) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

#[derive(Debug)]
pub struct ShardedCounters<const N: usize> {
    /// Their number is a power of two.
    shards: Box<[CounterShard<N>]>,
}

/// The counters of some threads. Aligned to two cache lines, since processors fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct CounterShard<const N: usize>([AtomicU64; N]);

impl<const N: usize> ShardedCounters<N> {
    #[must_use]
    pub fn new() -> Self {
        let shard = |_| CounterShard([const { AtomicU64::new(0) }; N]);
        Self {
            shards: (0..shard_count()).map(shard).collect(),
        }
    }

    /// Adds to a counter: one relaxed atomic addition to the shard of this thread.
    ///
    /// # Panics
    /// When there is no such counter.
    #[inline]
    pub fn add(&self, counter: usize, amount: u64) {
        let shard = &self.shards[thread_number() & (self.shards.len() - 1)];
        shard.0[counter].fetch_add(amount, Ordering::Relaxed);
    }

    /// The sum of a counter over all threads. It wraps.
    ///
    /// # Panics
    /// When there is no such counter.
    #[must_use]
    pub fn sum(&self, counter: usize) -> u64 {
        let parts = self.shards.iter().map(|shard| &shard.0[counter]);
        parts.fold(0, |sum, part| {
            sum.wrapping_add(part.load(Ordering::Relaxed))
        })
    }
}

impl<const N: usize> Default for ShardedCounters<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_powers_of_two_on_lines_of_their_own() {
        assert!(shard_count().is_power_of_two() && shard_count() <= MAX_SHARDS);
        assert_eq!(size_of::<CounterShard<3>>(), 128);
        assert_eq!(size_of::<CounterShard<17>>(), 256);
    }

    #[test]
    fn additions_of_many_threads_are_summed() {
        let counters = ShardedCounters::<2>::new();
        // More threads than shards, so that some share.
        let threads = MAX_SHARDS as u64 + 7;
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for n in 0..1000 {
                        counters.add(0, 1);
                        counters.add(1, n);
                    }
                });
            }
        });
        assert_eq!(counters.sum(0), threads * 1000);
        assert_eq!(counters.sum(1), threads * 999 * 500);
    }

    #[test]
    fn threads_have_numbers_of_their_own() {
        let mine = thread_number();
        assert_eq!(thread_number(), mine);
        let other = std::thread::spawn(thread_number).join().unwrap();
        assert_ne!(other, mine);
    }
}
