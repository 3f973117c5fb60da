//! Connections that are opened before a client needs one.
//!
//! Each is used once. A used one is replaced, and so is one that has grown old: proxies close idle
//! connections, and a client would be handed a closed one. After a failure one attempt goes first, and only
//! when that has succeeded are as many started as are missing; when opening fails, the next try waits, twice
//! as long each time. A refused login is not shown again for long: accounts are locked after a few of those.

use std::time::Duration;

/// How many connections, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmPoolOptions {
    /// How many are kept ready.
    pub size: usize,
    /// The longest that one may wait to be used.
    pub max_idle: Duration,
}

impl Default for WarmPoolOptions {
    /// None. If there are any, they are replaced before most proxies close them: these close idle connections after a minute or more.
    fn default() -> Self {
        Self {
            size: 0,
            max_idle: Duration::from_secs(30),
        }
    }
}

/// The first wait after a failure.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);

/// The longest wait after failures.
const LONGEST_RETRY_DELAY: Duration = Duration::from_secs(60);

/// The wait after a refused login.
const LOGIN_RETRY_DELAY: Duration = Duration::from_secs(600);

/// The state of a pool.
#[derive(Debug, Clone)]
pub(super) struct WarmPoolPlan {
    options: WarmPoolOptions,
    /// Attempts under way.
    opening: usize,
    /// Whether the last attempt that ended succeeded.
    last_succeeded: bool,
    /// Failures in a row.
    failures: u32,
    /// No attempt begins before this.
    retry_at: Duration,
}

impl WarmPoolPlan {
    /// An empty pool.
    #[must_use]
    pub(super) fn new(options: WarmPoolOptions) -> Self {
        Self {
            options,
            opening: 0,
            last_succeeded: false,
            failures: 0,
            retry_at: Duration::ZERO,
        }
    }

    /// How many attempts to begin now, with so many connections `ready`. They count as under way from here
    /// on.
    pub(super) fn begin_attempts(&mut self, ready: usize, now: Duration) -> usize {
        if now < self.retry_at {
            return 0;
        }
        let missing = self.options.size.saturating_sub(ready + self.opening);
        let begun = if self.last_succeeded {
            missing
        } else {
            missing.min(1_usize.saturating_sub(self.opening))
        };
        self.opening += begun;
        begun
    }

    /// The time until the next attempt may begin; `None` if it may begin now.
    #[must_use]
    pub(super) fn next_attempt_in(&self, now: Duration) -> Option<Duration> {
        (now < self.retry_at).then(|| self.retry_at - now)
    }

    /// An attempt has opened a connection.
    pub(super) fn record_success(&mut self) {
        self.opening = self.opening.saturating_sub(1);
        self.last_succeeded = true;
        self.failures = 0;
        self.retry_at = Duration::ZERO;
    }

    /// An attempt has failed, perhaps because the login was refused. Returns whether it is the first of
    /// several in a row, and so worth a message.
    pub(super) fn record_failure(&mut self, now: Duration, login_refused: bool) -> bool {
        self.opening = self.opening.saturating_sub(1);
        self.last_succeeded = false;
        // Several attempts that were under way together failed for one reason.
        if now < self.retry_at {
            return false;
        }
        let wait = if login_refused {
            LOGIN_RETRY_DELAY
        } else {
            FIRST_RETRY_DELAY
                .saturating_mul(1 << self.failures.min(16))
                .min(LONGEST_RETRY_DELAY)
        };
        self.failures = self.failures.saturating_add(1);
        self.retry_at = now + wait;
        self.failures == 1
    }

    /// Whether a connection of this age is too old to be used.
    #[must_use]
    pub(super) fn is_stale(&self, age: Duration) -> bool {
        age >= self.options.max_idle
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pool(ready: usize) -> WarmPoolPlan {
        WarmPoolPlan::new(WarmPoolOptions {
            size: ready,
            max_idle: Duration::from_secs(30),
        })
    }

    #[test]
    fn missing_connections_are_opened_and_no_more() {
        let mut pool = pool(4);
        assert_eq!(pool.begin_attempts(0, Duration::ZERO), 1, "to see");
        assert_eq!(pool.begin_attempts(0, Duration::ZERO), 0);
        pool.record_success();
        assert_eq!(pool.begin_attempts(1, Duration::ZERO), 3);
        pool.record_success();
        assert_eq!(pool.begin_attempts(2, Duration::ZERO), 0);
        assert_eq!(pool.begin_attempts(1, Duration::ZERO), 1, "it was used");
    }

    #[test]
    fn after_failures_one_attempt_goes_first() {
        let mut pool = pool(4);
        let mut now = Duration::from_secs(1);
        assert_eq!(pool.begin_attempts(0, now), 1);
        pool.record_success();
        assert_eq!(pool.begin_attempts(0, now), 4);
        assert!(pool.record_failure(now, false), "the first of several");
        for _ in 1..4 {
            assert!(!pool.record_failure(now, false));
        }
        let mut waits = Vec::new();
        for _ in 0..9 {
            assert_eq!(pool.begin_attempts(0, now), 0);
            let wait = pool.next_attempt_in(now).unwrap();
            waits.push(wait.as_millis());
            now += wait;
            assert_eq!(pool.begin_attempts(0, now), 1);
            assert_eq!(pool.begin_attempts(0, now), 0);
            assert!(!pool.record_failure(now, false));
        }
        let doubled = [500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000];
        assert_eq!(waits, doubled);
        now += LONGEST_RETRY_DELAY;
        assert_eq!(pool.begin_attempts(0, now), 1);
        pool.record_success();
        assert_eq!(
            (pool.begin_attempts(1, now), pool.next_attempt_in(now)),
            (3, None)
        );
    }

    #[test]
    fn a_refused_login_is_not_shown_again_for_long() {
        let mut pool = pool(16);
        assert_eq!(pool.begin_attempts(0, Duration::ZERO), 1);
        assert!(pool.record_failure(Duration::ZERO, true));
        assert_eq!(
            pool.begin_attempts(0, LOGIN_RETRY_DELAY - Duration::from_millis(1)),
            0
        );
        assert_eq!(pool.begin_attempts(0, LOGIN_RETRY_DELAY), 1);
    }

    #[test]
    fn a_connection_that_has_waited_too_long_is_stale() {
        let pool = pool(1);
        assert!(!pool.is_stale(Duration::from_millis(29_999)));
        assert!(pool.is_stale(Duration::from_secs(30)));
    }

    proptest! {
        /// Whatever happens, no more are ready and under way than wanted, and with nothing but success all
        /// are.
        #[test]
        fn there_are_never_more_connections_than_wanted(wanted in 0usize..20, happened in prop::collection::vec((0u8..4, 0u64..5000), 0..200)) {
            let mut pool = pool(wanted);
            let (mut ready, mut opening, mut now) = (0_usize, 0_usize, Duration::ZERO);
            for (what, ms) in happened {
                now += Duration::from_millis(ms);
                match what {
                    0 if opening > 0 => { opening -= 1; ready += 1; pool.record_success(); }
                    1 if opening > 0 => { opening -= 1; pool.record_failure(now, what == 3); }
                    2 => ready = ready.saturating_sub(1),
                    _ => {}
                }
                opening += pool.begin_attempts(ready, now);
                prop_assert!(ready + opening <= wanted);
                if wanted > ready + opening {
                    prop_assert!(pool.next_attempt_in(now).is_some() || opening > 0);
                }
            }
        }
    }
}
