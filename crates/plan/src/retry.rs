//! How often and how soon something that may heal is tried again.
//!
//! Jittered exponential backoff with a budget a job that progress refills: a download of days may meet a hundred
//! resets and end well, one that gets nowhere ends soon. An origin's Retry-After is obeyed up to a cap.

use std::time::{Duration, SystemTime};

use http::HeaderValue;

/// How much progress gives the whole budget back, in bytes: the link works, what failed was an accident.
const REFILL_BYTES: u64 = 4 << 20;

/// Limits of a [`RetryBudget`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryOptions {
    /// Retries without progress between them.
    pub retries: u32,
    /// The same where no connection has come about yet, or none that answered.
    pub retries_before_response: u32,
    /// The first wait, before jitter.
    pub base_delay: Duration,
    /// The longest wait of our own.
    pub max_delay: Duration,
    /// The longest wait that an origin may ask for.
    pub max_retry_after: Duration,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            // With the waits below that is some two minutes: a router's restart, a deployment.
            retries: 10,
            // A wrong port or a host that is down should be told while the user still looks, and a restart in that moment is
            // rare.
            retries_before_response: 3,
            base_delay: Duration::from_millis(200),
            max_delay: Duration::from_secs(30),
            // Longer than most limits' windows; a user at a terminal will not believe in more.
            max_retry_after: Duration::from_secs(120),
        }
    }
}

/// What to do after a failure that may heal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Try again after this time.
    Wait(Duration),
    /// The budget is spent.
    GiveUp,
}

/// One job's budget.
#[derive(Debug)]
pub struct RetryBudget {
    /// Limits.
    options: RetryOptions,
    /// Failures since progress last refilled the budget.
    failures: u32,
    /// Bytes since the last failure.
    progress: u64,
    /// Retries in all.
    attempts: u32,
}

impl RetryBudget {
    /// A full budget.
    #[must_use]
    pub fn new(options: RetryOptions) -> Self {
        Self {
            options,
            failures: 0,
            progress: 0,
            attempts: 0,
        }
    }

    /// Something failed. `jitter` is random in 0..1; values outside are clamped.
    pub fn on_failure(&mut self, retry_after: Option<Duration>, jitter: f64) -> RetryDecision {
        if self.failures >= self.options.retries {
            return RetryDecision::GiveUp;
        }
        self.failures += 1;
        self.attempts = self.attempts.saturating_add(1);
        self.progress = 0;
        let doubled = self
            .options
            .base_delay
            .saturating_mul(1 << (self.failures - 1).min(20));
        // Half fixed, half random: spreads clients that failed together, and still waits.
        let jitter = if jitter.is_finite() {
            jitter.clamp(0.0, 1.0)
        } else {
            0.5
        };
        let own = doubled
            .min(self.options.max_delay)
            .mul_f64(0.5 + jitter / 2.0);
        let asked = self.cap_retry_after(retry_after.unwrap_or_default());
        RetryDecision::Wait(own.max(asked))
    }

    /// Bytes came.
    pub fn on_progress(&mut self, bytes: u64) {
        self.progress = self.progress.saturating_add(bytes);
        if self.progress >= REFILL_BYTES {
            self.failures = 0;
        }
    }

    /// Retries made in all.
    #[must_use]
    pub fn retries(&self) -> u32 {
        self.attempts
    }

    /// What an origin asks for, up to what it may ask for.
    #[must_use]
    pub fn cap_retry_after(&self, asked: Duration) -> Duration {
        asked.min(self.options.max_retry_after)
    }
}

/// Retry-After (RFC 9110 10.2.3): seconds or a date. A date in the past is no wait; what cannot be read is `None`.
#[must_use]
pub fn parse_retry_after(value: &HeaderValue, now: SystemTime) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a u64 holds are a very long time.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn waits(policy: &mut RetryBudget) -> Vec<Duration> {
        std::iter::from_fn(|| match policy.on_failure(None, 1.0) {
            RetryDecision::Wait(wait) => Some(wait),
            RetryDecision::GiveUp => None,
        })
        .collect()
    }

    #[test]
    fn waits_double_up_to_the_cap_and_end_with_the_budget() {
        let waits = waits(&mut RetryBudget::new(RetryOptions::default()));
        assert_eq!(waits.len(), 10);
        assert_eq!(waits[0], Duration::from_millis(200));
        assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(waits[9], Duration::from_secs(30));
    }

    #[test]
    fn progress_refills_the_budget_and_a_trickle_does_not() {
        let mut policy = RetryBudget::new(RetryOptions {
            retries: 2,
            ..RetryOptions::default()
        });
        waits(&mut policy);
        policy.on_progress(REFILL_BYTES - 1);
        assert_eq!(policy.on_failure(None, 0.0), RetryDecision::GiveUp);
        policy.on_progress(1);
        assert!(matches!(
            policy.on_failure(None, 0.0),
            RetryDecision::Wait(_)
        ));
        assert_eq!(policy.retries(), 3);
    }

    #[test]
    fn a17_retry_after_is_seconds_or_a_date_and_absurd_values_are_capped() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let parse = |text: &'static str| parse_retry_after(&HeaderValue::from_static(text), now);
        assert_eq!(parse("7"), Some(Duration::from_secs(7)));
        assert_eq!(
            parse("Sun, 06 Nov 1994 08:50:37 GMT"),
            Some(Duration::from_secs(60))
        );
        assert_eq!(parse("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(
            parse("99999999999999999999999"),
            Some(Duration::from_secs(u64::MAX))
        );
        for junk in ["", "-1", "soon", "1.5", "0x10"] {
            assert_eq!(parse(junk), None, "{junk:?}");
        }
        let mut policy = RetryBudget::new(RetryOptions::default());
        assert_eq!(
            policy.on_failure(parse("99999999999999999999999"), 0.5),
            RetryDecision::Wait(Duration::from_secs(120))
        );
    }

    proptest! {
        #[test]
        fn no_wait_is_longer_than_the_caps(after: Option<Duration>, jitter: f64, failures in 0usize..40) {
            let options = RetryOptions::default();
            let longest = options.max_delay.max(options.max_retry_after);
            let mut policy = RetryBudget::new(options);
            for _ in 0..failures {
                if let RetryDecision::Wait(wait) = policy.on_failure(after, jitter) {
                    prop_assert!(wait <= longest && !wait.is_zero());
                }
            }
        }

        #[test]
        fn retry_after_never_panics(bytes: Vec<u8>) {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                let _ = parse_retry_after(&value, SystemTime::UNIX_EPOCH);
            }
        }
    }
}
