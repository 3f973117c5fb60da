//! The results of password hashing, cached for a while so that not every request costs a hash.
//!
//! A cached result stays true for as long as the configuration, since that never changes. So an entry
//! expires only to bound how long a digest is of any use: it lives for a lifetime after its last use.
//! The time is an argument.

use std::time::{Duration, SystemTime};

use quick_cache::sync::Cache;

use super::accounts::SecretDigest;

/// A bounded set of digests that expire.
#[derive(Debug)]
pub(super) struct LoginCache {
    /// When each digest was last used; exact to an eighth of a lifetime, so that most uses only read.
    last_used: Cache<SecretDigest, SystemTime>,
    lifetime: Duration,
}

impl LoginCache {
    /// Keeps at most about `max_entries` digests, each for `lifetime` after its last use.
    pub(super) fn new(max_entries: usize, lifetime: Duration) -> Self {
        Self {
            last_used: Cache::new(max_entries.max(1)),
            lifetime,
        }
    }

    /// Whether a digest is cached; if so, its lifetime begins again.
    pub(super) fn contains(&self, digest: &SecretDigest, now: SystemTime) -> bool {
        let Some(last_used) = self.last_used.get(digest) else {
            return false;
        };
        // A login that waited in the queue is a bit older than its result. A much older time means
        // that the clock was set back.
        let age = match now.duration_since(last_used) {
            Ok(age) => age,
            Err(earlier) if earlier.duration() < self.lifetime => Duration::ZERO,
            Err(_) => Duration::MAX,
        };
        if age >= self.lifetime {
            self.last_used.remove(digest);
            return false;
        }
        if age > self.lifetime / 8 {
            self.insert(*digest, now);
        }
        true
    }

    pub(super) fn insert(&self, digest: SecretDigest, now: SystemTime) {
        self.last_used.insert(digest, now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::accounts::{SecretDigestKind, SecretHasher};
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    fn new_cache(max_entries: usize) -> (LoginCache, impl Fn(u32) -> SecretDigest) {
        let hasher = SecretHasher::new();
        let digest =
            move |number: u32| hasher.digest(SecretDigestKind::Login, &[&number.to_string()]);
        (LoginCache::new(max_entries, LIFETIME), digest)
    }

    #[test]
    fn entries_live_while_they_are_used() {
        let (cache, digest) = new_cache(10);
        cache.insert(digest(1), at(0));
        cache.insert(digest(2), at(0));
        for seconds in [0, 29, 50, 80, 130] {
            assert!(cache.contains(&digest(1), at(seconds)), "{seconds}");
        }
        assert!(!cache.contains(&digest(2), at(130)));
        assert!(!cache.contains(&digest(1), at(130 + 60)));
        assert!(!cache.contains(&digest(1), at(130)), "it is removed");
    }

    #[test]
    fn a_result_counts_for_logins_that_waited_for_it() {
        let (cache, digest) = new_cache(10);
        cache.insert(digest(1), at(10));
        assert!(cache.contains(&digest(1), at(5)));
    }

    #[test]
    fn a_clock_that_is_set_back_expires_entries() {
        let (cache, digest) = new_cache(10);
        cache.insert(digest(1), at(10));
        assert!(!cache.contains(&digest(1), SystemTime::UNIX_EPOCH));
    }

    #[test]
    fn the_cache_is_bounded() {
        let (cache, digest) = new_cache(10);
        (0..1000).for_each(|number| cache.insert(digest(number), at(0)));
        assert!(cache.last_used.len() <= 10);
        assert!(cache.contains(&digest(999), at(0)));
    }
}
