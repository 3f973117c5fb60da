//! The results of password hashing, cached for a while so that not every request costs a hash.
//!
//! The cache has two generations of digests. When the younger one is full or too old it becomes the
//! elder, and the former elder is dropped as a whole. That bounds memory and age without an order
//! of entries: a digest that is looked up is inserted again, so an entry lives for one to two
//! generations after its last use. The time is an argument. A cached result stays true for as long
//! as the configuration, since that never changes; expiry only bounds the memory and how long a
//! digest is kept.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use super::digest::SecretDigest;

/// A bounded set of digests that expire.
#[derive(Debug)]
pub(super) struct LoginCache {
    /// Maximum entries of a generation.
    max_entries: usize,
    /// How long a generation lasts.
    max_age: Duration,
    /// Locked for reading on every login, for writing on new ones and when a generation ends.
    generations: RwLock<LoginCacheGenerations>,
}

#[derive(Debug)]
struct LoginCacheGenerations {
    young: HashSet<SecretDigest>,
    old: HashSet<SecretDigest>,
    /// When the younger generation began.
    started: SystemTime,
}

impl LoginCache {
    /// Keeps at most `max_entries` digests, each for at most `lifetime` after its last use.
    pub(super) fn new(max_entries: usize, lifetime: Duration) -> Self {
        Self {
            max_entries: max_entries.div_ceil(2).max(1),
            max_age: lifetime / 2,
            generations: RwLock::new(LoginCacheGenerations {
                young: HashSet::new(),
                old: HashSet::new(),
                started: SystemTime::UNIX_EPOCH,
            }),
        }
    }

    /// Whether a digest is cached; if so, its lifetime begins again.
    pub(super) fn contains(&self, digest: &SecretDigest, now: SystemTime) -> bool {
        {
            let generations = self
                .generations
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            if generations.is_current(self.max_age, now) {
                if generations.young.contains(digest) {
                    return true;
                }
                if !generations.old.contains(digest) {
                    return false;
                }
            }
        }
        let mut generations = self
            .generations
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        generations.rotate(self.max_age, now);
        let is_present = generations.young.contains(digest) || generations.old.contains(digest);
        if is_present {
            generations.add(*digest, self.max_entries);
        }
        is_present
    }

    /// Whether a digest is cached, without a clock: true a little longer than
    /// [`contains`](Self::contains) is.
    pub(super) fn contains_at_any_age(&self, digest: &SecretDigest) -> bool {
        let generations = self
            .generations
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        generations.young.contains(digest) || generations.old.contains(digest)
    }

    /// Adds a digest.
    pub(super) fn insert(&self, digest: SecretDigest) {
        let mut generations = self
            .generations
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        generations.add(digest, self.max_entries);
    }
}

impl LoginCacheGenerations {
    /// Whether the younger generation still lasts. It ends when the clock is set back.
    fn is_current(&self, max_age: Duration, now: SystemTime) -> bool {
        now.duration_since(self.started)
            .is_ok_and(|started| started < max_age)
    }

    fn rotate(&mut self, max_age: Duration, now: SystemTime) {
        if self.is_current(max_age, now) {
            return;
        }
        let is_next = now
            .duration_since(self.started)
            .is_ok_and(|started| started < max_age * 2);
        self.old = std::mem::take(&mut self.young);
        if !is_next {
            self.old.clear();
        }
        self.started = now;
    }

    fn add(&mut self, digest: SecretDigest, max_entries: usize) {
        if self.young.len() >= max_entries && !self.young.contains(&digest) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest);
    }
}

#[cfg(test)]
mod tests {
    use super::super::digest::{SecretDigestKind, SecretHasher};
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    /// A cache that was used at second 0, so that its generation begins there.
    fn new_cache(max_entries: usize) -> (LoginCache, impl Fn(u32) -> SecretDigest) {
        let set = LoginCache::new(max_entries, LIFETIME);
        let digests = SecretHasher::new();
        let digest =
            move |number: u32| digests.digest(SecretDigestKind::Login, &[&number.to_string()]);
        assert!(!set.contains(&digest(0), at(0)));
        (set, digest)
    }

    #[test]
    fn entries_live_while_they_are_used() {
        let (set, digest) = new_cache(10);
        set.insert(digest(1));
        set.insert(digest(2));
        for seconds in [0, 29, 50, 80, 130] {
            assert!(set.contains(&digest(1), at(seconds)), "{seconds}");
        }
        assert!(!set.contains(&digest(2), at(130)));
        assert!(!set.contains(&digest(1), at(130 + 61)));
    }

    #[test]
    fn a_clock_that_is_set_back_empties_the_cache() {
        let (set, digest) = new_cache(10);
        assert!(!set.contains(&digest(1), at(10)));
        set.insert(digest(1));
        assert!(set.contains(&digest(1), at(10)));
        assert!(!set.contains(&digest(1), SystemTime::UNIX_EPOCH));
    }

    #[test]
    fn the_cache_is_bounded() {
        let (set, digest) = new_cache(10);
        (0..1000).for_each(|number| set.insert(digest(number)));
        let kept = (0..1000).filter(|number| {
            let generations = set.generations.read().expect("no panic");
            generations.young.contains(&digest(*number))
                || generations.old.contains(&digest(*number))
        });
        assert!((5..=10).contains(&kept.count()));
        assert!(set.contains(&digest(999), at(0)));
    }
}
