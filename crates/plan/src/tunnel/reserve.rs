//! Connections that stand ready before anybody asks for one.
//!
//! Each is used once. One that was used, or has grown old - proxies close what is idle, and one closed by then would be handed to somebody -
//! is replaced. When opening fails, the next try waits, twice as long each time; without failures there is always as much under way as
//! is missing.

use std::time::Duration;

/// How many, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReserveOptions {
    /// So many stand ready.
    pub ready: usize,
    /// The longest that one may wait to be used.
    pub longest: Duration,
}

/// The first wait after a failure.
const FIRST: Duration = Duration::from_millis(500);

/// The longest wait after failures.
const LAST: Duration = Duration::from_secs(60);

/// What is ready and under way.
#[derive(Debug, Clone)]
pub struct Reserve {
    options: ReserveOptions,
    /// Attempts under way.
    opening: usize,
    /// Failures in a row.
    failures: u32,
    /// No attempt begins before this.
    rest: Duration,
}

impl Reserve {
    /// None is there yet.
    #[must_use]
    pub fn new(options: ReserveOptions) -> Self {
        Self {
            options,
            opening: 0,
            failures: 0,
            rest: Duration::ZERO,
        }
    }

    /// How many attempts to begin now, with so many ready. They count as under way from here on.
    pub fn begin(&mut self, ready: usize, now: Duration) -> usize {
        if now < self.rest {
            return 0;
        }
        let missing = self.options.ready.saturating_sub(ready + self.opening);
        // After a failure one goes ahead, to see.
        let begun = match self.failures {
            0 => missing,
            _ => missing.min(1_usize.saturating_sub(self.opening)),
        };
        self.opening += begun;
        begun
    }

    /// When to ask again, if nothing happens before.
    #[must_use]
    pub fn again(&self, now: Duration) -> Option<Duration> {
        (now < self.rest).then(|| self.rest - now)
    }

    /// An attempt has brought a connection.
    pub fn opened(&mut self) {
        self.opening = self.opening.saturating_sub(1);
        self.failures = 0;
        self.rest = Duration::ZERO;
    }

    /// An attempt has failed.
    pub fn failed(&mut self, now: Duration) {
        self.opening = self.opening.saturating_sub(1);
        // Several that were under way together failed for one reason.
        if now < self.rest {
            return;
        }
        let wait = FIRST.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.rest = now + wait.min(LAST);
    }

    /// Whether one of this age is too old to be handed to anybody.
    #[must_use]
    pub fn is_stale(&self, age: Duration) -> bool {
        age >= self.options.longest
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reserve(ready: usize) -> Reserve {
        Reserve::new(ReserveOptions {
            ready,
            longest: Duration::from_secs(30),
        })
    }

    #[test]
    fn what_is_missing_is_opened_and_no_more() {
        let mut reserve = reserve(4);
        assert_eq!(reserve.begin(0, Duration::ZERO), 4);
        assert_eq!(reserve.begin(0, Duration::ZERO), 0);
        reserve.opened();
        assert_eq!(reserve.begin(1, Duration::ZERO), 0);
        assert_eq!(reserve.begin(0, Duration::ZERO), 1, "it was used");
    }

    #[test]
    fn failures_are_waited_after_and_one_goes_ahead() {
        let mut reserve = reserve(4);
        let mut now = Duration::from_secs(1);
        assert_eq!(reserve.begin(0, now), 4);
        for _ in 0..4 {
            reserve.failed(now);
        }
        let mut waits = Vec::new();
        for _ in 0..9 {
            assert_eq!(reserve.begin(0, now), 0);
            let wait = reserve.again(now).unwrap();
            waits.push(wait.as_millis());
            now += wait;
            assert_eq!(reserve.begin(0, now), 1);
            assert_eq!(reserve.begin(0, now), 0);
            reserve.failed(now);
        }
        let doubled = [500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000];
        assert_eq!(waits, doubled);
        now += LAST;
        assert_eq!(reserve.begin(0, now), 1);
        reserve.opened();
        assert_eq!((reserve.begin(1, now), reserve.again(now)), (3, None));
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
                    0 if opening > 0 => { opening -= 1; ready += 1; reserve.opened(); }
                    1 if opening > 0 => { opening -= 1; reserve.failed(now); }
                    2 => ready = ready.saturating_sub(1),
                    _ => {}
                }
                opening += reserve.begin(ready, now);
                prop_assert!(ready + opening <= wanted);
                if wanted > ready + opening {
                    prop_assert!(reserve.again(now).is_some() || opening > 0);
                }
            }
        }
    }
}
