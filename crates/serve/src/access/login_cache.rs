//! What hashing found out, remembered for a while, so that each request does not cost a hash.
//!
//! Two generations of digests, the younger of which becomes the elder when it is full or has its age; the eldest is forgotten
//! whole. That bounds the memory and the time with nothing to keep in order: what is asked for again is written anew, so an
//! entry lives for one to two generations after it was last of use. The time is an argument. What is remembered stays true for
//! as long as the configuration, since that never changes; forgetting bounds the memory, and how long a digest lies about.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use super::digest::SecretDigest;

/// A bounded set that forgets.
#[derive(Debug)]
pub(super) struct LoginCache {
    /// Entries of a generation.
    most: usize,
    /// How long a generation lasts.
    age: Duration,
    /// Read for every login; written for new ones, and when a generation ends.
    generations: RwLock<LoginCacheGenerations>,
}

#[derive(Debug)]
struct LoginCacheGenerations {
    young: HashSet<SecretDigest>,
    old: HashSet<SecretDigest>,
    /// When the young one began.
    since: SystemTime,
}

impl LoginCache {
    /// Remembers at most `bound` digests, each for at most `lifetime` after it was last of use.
    pub(super) fn new(bound: usize, lifetime: Duration) -> Self {
        Self {
            most: bound.div_ceil(2).max(1),
            age: lifetime / 2,
            generations: RwLock::new(LoginCacheGenerations {
                young: HashSet::new(),
                old: HashSet::new(),
                since: SystemTime::UNIX_EPOCH,
            }),
        }
    }

    /// Whether it is remembered; it is then remembered longer.
    pub(super) fn contains(&self, digest: &SecretDigest, now: SystemTime) -> bool {
        {
            let generations = self
                .generations
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            if generations.lasts(self.age, now) {
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
        generations.turn(self.age, now);
        let has = generations.young.contains(digest) || generations.old.contains(digest);
        if has {
            generations.add(*digest, self.most);
        }
        has
    }

    /// Whether it is remembered, by one who has no clock: true a little longer than [`contains`](Self::has) says it.
    pub(super) fn contains_at_any_age(&self, digest: &SecretDigest) -> bool {
        let generations = self
            .generations
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        generations.young.contains(digest) || generations.old.contains(digest)
    }

    /// Remembers it.
    pub(super) fn insert(&self, digest: SecretDigest) {
        let mut generations = self
            .generations
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        generations.add(digest, self.most);
    }
}

impl LoginCacheGenerations {
    /// Whether the young generation is not over. It is when the clock was set back.
    fn lasts(&self, age: Duration, now: SystemTime) -> bool {
        now.duration_since(self.since)
            .is_ok_and(|since| since < age)
    }

    fn turn(&mut self, age: Duration, now: SystemTime) {
        if self.lasts(age, now) {
            return;
        }
        let is_next = now
            .duration_since(self.since)
            .is_ok_and(|since| since < age * 2);
        self.old = std::mem::take(&mut self.young);
        if !is_next {
            self.old.clear();
        }
        self.since = now;
    }

    fn add(&mut self, digest: SecretDigest, most: usize) {
        if self.young.len() >= most && !self.young.contains(&digest) {
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

    /// A set that was asked at 0, so that its generation begins there.
    fn begun(bound: usize) -> (LoginCache, impl Fn(u32) -> SecretDigest) {
        let set = LoginCache::new(bound, LIFETIME);
        let digests = SecretHasher::new();
        let digest =
            move |number: u32| digests.digest(SecretDigestKind::Login, &[&number.to_string()]);
        assert!(!set.contains(&digest(0), at(0)));
        (set, digest)
    }

    #[test]
    fn entries_live_while_they_are_of_use_and_not_longer() {
        let (set, digest) = begun(10);
        set.insert(digest(1));
        set.insert(digest(2));
        for seconds in [0, 29, 50, 80, 130] {
            assert!(set.contains(&digest(1), at(seconds)), "{seconds}");
        }
        assert!(!set.contains(&digest(2), at(130)));
        assert!(!set.contains(&digest(1), at(130 + 61)));
    }

    #[test]
    fn a_clock_that_was_set_back_forgets() {
        let (set, digest) = begun(10);
        assert!(!set.contains(&digest(1), at(10)));
        set.insert(digest(1));
        assert!(set.contains(&digest(1), at(10)));
        assert!(!set.contains(&digest(1), SystemTime::UNIX_EPOCH));
    }

    #[test]
    fn a_crowd_costs_a_bounded_memory() {
        let (set, digest) = begun(10);
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
