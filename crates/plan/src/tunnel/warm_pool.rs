//! Connections that stand ready before anybody asks for one.
//!
//! Each is used once. One that was used, or has grown old - proxies close what is idle, and one closed by then would be handed to somebody -
//! is replaced. One goes ahead, and only when that has come is as much under way as is missing; when opening fails, the next try waits,
//! twice as long each time. A login that is refused is not shown again for long: accounts are locked after a few of those.

use std::time::Duration;

/// How many, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmPoolOptions {
    /// So many stand ready.
    pub size: usize,
    /// The longest that one may wait to be used.
    pub max_idle: Duration,
}

/// The first wait after a failure.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);

/// The longest wait after failures.
const LONGEST_RETRY_DELAY: Duration = Duration::from_secs(60);

/// The wait after a refusal.
const LOGIN_RETRY_DELAY: Duration = Duration::from_secs(600);

/// What is ready and under way.
#[derive(Debug, Clone)]
pub struct WarmPoolPlan {
    options: WarmPoolOptions,
    /// Attempts under way.
    opening: usize,
    /// Whether the last attempt that ended has brought a connection.
    last_succeeded: bool,
    /// Failures in a row.
    failures: u32,
    /// No attempt begins before this.
    retry_at: Duration,
}

impl WarmPoolPlan {
    /// None is there yet.
    #[must_use]
    pub fn new(options: WarmPoolOptions) -> Self {
        Self {
            options,
            opening: 0,
            last_succeeded: false,
            failures: 0,
            retry_at: Duration::ZERO,
        }
    }

    /// How many attempts to begin now, with so many ready. They count as under way from here on.
    pub fn begin_attempts(&mut self, ready: usize, now: Duration) -> usize {
        if now < self.retry_at {
            return 0;
        }
        let missing = self.options.size.saturating_sub(ready + self.opening);
        let begun = match self.last_succeeded {
            true => missing,
            false => missing.min(1_usize.saturating_sub(self.opening)),
        };
        self.opening += begun;
        begun
    }

    /// When to ask again, if nothing happens before.
    #[must_use]
    pub fn next_attempt_in(&self, now: Duration) -> Option<Duration> {
        (now < self.retry_at).then(|| self.retry_at - now)
    }

    /// An attempt has brought a connection.
    pub fn record_success(&mut self) {
        self.opening = self.opening.saturating_sub(1);
        self.last_succeeded = true;
        self.failures = 0;
        self.retry_at = Duration::ZERO;
    }

    /// An attempt has failed, perhaps since our login was refused. Whether it is the first of several in a row, and so worth telling.
    pub fn record_failure(&mut self, now: Duration, is_login: bool) -> bool {
        self.opening = self.opening.saturating_sub(1);
        self.last_succeeded = false;
        // Several that were under way together failed for one reason.
        if now < self.retry_at {
            return false;
        }
        let wait = match is_login {
            true => LOGIN_RETRY_DELAY,
            false => FIRST_RETRY_DELAY
                .saturating_mul(1 << self.failures.min(16))
                .min(LONGEST_RETRY_DELAY),
        };
        self.failures = self.failures.saturating_add(1);
        self.retry_at = now + wait;
        self.failures == 1
    }

    /// Whether one of this age is too old to be handed to anybody.
    #[must_use]
    pub fn is_stale(&self, age: Duration) -> bool {
        age >= self.options.max_idle
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reserve(ready: usize) -> WarmPoolPlan {
        WarmPoolPlan::new(WarmPoolOptions {
            size: ready,
            max_idle: Duration::from_secs(30),
        })
    }

    #[test]
    fn what_is_missing_is_opened_and_no_more() {
        let mut reserve = reserve(4);
        assert_eq!(reserve.begin_attempts(0, Duration::ZERO), 1, "to see");
        assert_eq!(reserve.begin_attempts(0, Duration::ZERO), 0);
        reserve.record_success();
        assert_eq!(reserve.begin_attempts(1, Duration::ZERO), 3);
        reserve.record_success();
        assert_eq!(reserve.begin_attempts(2, Duration::ZERO), 0);
        assert_eq!(reserve.begin_attempts(1, Duration::ZERO), 1, "it was used");
    }

    #[test]
    fn failures_are_waited_after_and_one_goes_ahead() {
        let mut reserve = reserve(4);
        let mut now = Duration::from_secs(1);
        assert_eq!(reserve.begin_attempts(0, now), 1);
        reserve.record_success();
        assert_eq!(reserve.begin_attempts(0, now), 4);
        assert!(reserve.record_failure(now, false), "it is told");
        for _ in 1..4 {
            assert!(!reserve.record_failure(now, false));
        }
        let mut waits = Vec::new();
        for _ in 0..9 {
            assert_eq!(reserve.begin_attempts(0, now), 0);
            let wait = reserve.next_attempt_in(now).unwrap();
            waits.push(wait.as_millis());
            now += wait;
            assert_eq!(reserve.begin_attempts(0, now), 1);
            assert_eq!(reserve.begin_attempts(0, now), 0);
            assert!(!reserve.record_failure(now, false));
        }
        let doubled = [500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000];
        assert_eq!(waits, doubled);
        now += LONGEST_RETRY_DELAY;
        assert_eq!(reserve.begin_attempts(0, now), 1);
        reserve.record_success();
        assert_eq!(
            (reserve.begin_attempts(1, now), reserve.next_attempt_in(now)),
            (3, None)
        );
    }

    #[test]
    fn a_login_that_is_refused_is_not_shown_again_for_long() {
        let mut reserve = reserve(16);
        assert_eq!(reserve.begin_attempts(0, Duration::ZERO), 1);
        assert!(reserve.record_failure(Duration::ZERO, true));
        assert_eq!(
            reserve.begin_attempts(0, LOGIN_RETRY_DELAY - Duration::from_millis(1)),
            0
        );
        assert_eq!(reserve.begin_attempts(0, LOGIN_RETRY_DELAY), 1);
    }

    #[test]
    fn one_that_has_waited_too_long_is_stale() {
        let reserve = reserve(1);
        assert!(!reserve.is_stale(Duration::from_millis(29_999)));
        assert!(reserve.is_stale(Duration::from_secs(30)));
    }

    proptest! {
        /// Whatever happens, no more are ready and under way than wanted, and with nothing but success all are.
        #[test]
        fn there_are_never_more_than_wanted(wanted in 0usize..20, happened in prop::collection::vec((0u8..4, 0u64..5000), 0..200)) {
            let mut reserve = reserve(wanted);
            let (mut ready, mut opening, mut now) = (0_usize, 0_usize, Duration::ZERO);
            for (what, ms) in happened {
                now += Duration::from_millis(ms);
                match what {
                    0 if opening > 0 => { opening -= 1; ready += 1; reserve.record_success(); }
                    1 if opening > 0 => { opening -= 1; reserve.record_failure(now, what == 3); }
                    2 => ready = ready.saturating_sub(1),
                    _ => {}
                }
                opening += reserve.begin_attempts(ready, now);
                prop_assert!(ready + opening <= wanted);
                if wanted > ready + opening {
                    prop_assert!(reserve.next_attempt_in(now).is_some() || opening > 0);
                }
            }
        }
    }
}
