//! How often and how soon a failed request is repeated.
//!
//! Jittered exponential backoff with a budget that progress refills: a download of days may succeed after a hundred resets, and one
//! without progress ends soon. An origin's Retry-After is obeyed up to a limit.
//!
//! The budget counts attempts after a wait, not connections. When an origin restarts, all connections break in one moment, and
//! requests that were sent before the wait fail together: they count once (row A34).

use std::time::Duration;

/// Limits of a job's retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryOptions {
    /// Retries without progress between them.
    pub retries: u32,
    /// Retries of a request without a response, while the origin has never sent one.
    pub retries_before_response: u32,
    /// The first wait, before jitter.
    pub base_delay: Duration,
    /// The longest wait without a Retry-After.
    pub max_delay: Duration,
    /// The longest Retry-After that is obeyed. A longer one ends the job.
    pub max_retry_after: Duration,
    /// The longest time in which attempts fail and no byte comes.
    pub max_outage: Duration,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            // With the waits below, these take between one minute and two: a router's restart, a deployment.
            retries: 10,
            // A user should see the error of a wrong port or a dead host while still looking; a restart at that moment is rare.
            retries_before_response: 3,
            base_delay: Duration::from_millis(200),
            max_delay: Duration::from_secs(30),
            // Rate limits have windows of five minutes (Hugging Face), a quarter of an hour (many APIs) or an hour (GitHub). For the last
            // a user should decide.
            max_retry_after: Duration::from_secs(900),
            // A restart, also of a machine that boots quickly.
            max_outage: Duration::from_secs(120),
        }
    }
}

impl RetryOptions {
    /// The time of a Retry-After, up to the longest that is obeyed.
    #[must_use]
    pub fn cap_retry_after(&self, retry_after: Option<Duration>) -> Duration {
        retry_after.unwrap_or_default().min(self.max_retry_after)
    }

    /// The wait before the retry that follows this number of failures. `jitter` is random in 0..1; values outside are clamped.
    fn delay(&self, failures: u32, retry_after: Option<Duration>, jitter: f64) -> Duration {
        let doubled = self
            .base_delay
            .saturating_mul(1 << failures.saturating_sub(1).min(20));
        // Half fixed, half random: this spreads clients that failed together, and still waits.
        let jitter = if jitter.is_finite() {
            jitter.clamp(0.0, 1.0)
        } else {
            0.5
        };
        let own = doubled.min(self.max_delay).mul_f64(0.5 + jitter / 2.0);
        own.max(self.cap_retry_after(retry_after))
    }
}

/// How many retries failures may cost, and the progress that resets the count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetryLimit {
    /// Failures without progress between them that are followed by a retry.
    pub(crate) failures: u32,
    /// Bytes since the last failure that refill the budget: the link works, the failure was an accident.
    pub(crate) refill_bytes: u64,
}

/// A failure, as a budget counts it. Times count from the beginning of the job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FailureTimes {
    /// When the request was sent.
    pub(crate) requested_at: Duration,
    /// When it failed.
    pub(crate) now: Duration,
    /// The time that the origin requested.
    pub(crate) retry_after: Option<Duration>,
}

/// The number of a retry, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RetryNumber {
    /// The retries since a byte last arrived, this one included.
    pub number: u32,
    /// The most retries without a byte.
    pub limit: u32,
}

/// The retries of requests to one source.
#[derive(Debug, Clone, Default)]
pub(crate) struct RetryBudget {
    /// Failures since progress last refilled the budget; those of one moment count once.
    failures: u32,
    /// When the first of them arrived.
    failing_since: Duration,
    /// The end of the wait after the last of them. Requests that were sent before fail together with it. Only a failure that counts
    /// moves it: else connections that fail in turn, each before the other's next request has failed, would never cost a retry.
    counted_until: Duration,
    /// No request is sent before. Later than `counted_until` if a failure that did not count brought a Retry-After.
    resume_at: Duration,
    /// The limit that applied to the last of them.
    limit: u32,
    /// Bytes since the last failure.
    progress: u64,
    /// Retries in all.
    retries: u32,
}

impl RetryBudget {
    /// A request failed. Returns the wait before its retry, or `None` if the budget is spent.
    pub(crate) fn on_failure(
        &mut self,
        limit: RetryLimit,
        options: &RetryOptions,
        times: FailureTimes,
        jitter: f64,
    ) -> Option<Duration> {
        let FailureTimes {
            requested_at,
            now,
            retry_after,
        } = times;
        if requested_at < self.counted_until {
            let wanted = now + options.cap_retry_after(retry_after);
            self.resume_at = self.resume_at.max(wanted);
            return Some(self.resume_at.saturating_sub(now));
        }
        let failures = self.failures(limit.refill_bytes);
        if failures == 0 {
            self.failing_since = now;
        }
        // An origin that sends a Retry-After is up.
        let too_long =
            retry_after.is_none() && now.saturating_sub(self.failing_since) >= options.max_outage;
        if failures >= limit.failures || too_long {
            return None;
        }
        self.failures = failures + 1;
        self.limit = limit.failures;
        self.progress = 0;
        self.retries = self.retries.saturating_add(1);
        let wait = options.delay(self.failures, retry_after, jitter);
        self.resume_at = self.resume_at.max(now.saturating_add(wait));
        self.counted_until = self.resume_at;
        Some(self.resume_at.saturating_sub(now))
    }

    /// Bytes of the source reached the file.
    pub(crate) fn on_bytes(&mut self, bytes: u64) {
        self.progress = self.progress.saturating_add(bytes);
    }

    /// Failures since progress of `refill_bytes`.
    pub(crate) fn failures(&self, refill_bytes: u64) -> u32 {
        if self.progress >= refill_bytes {
            0
        } else {
            self.failures
        }
    }

    /// Failures since progress last refilled the budget, the last one included.
    pub(crate) fn failures_in_row(&self) -> u32 {
        self.failures
    }

    /// The number of the last retry.
    pub(crate) fn retry_number(&self) -> RetryNumber {
        RetryNumber {
            number: self.failures,
            limit: self.limit,
        }
    }

    /// Forgives all failures.
    pub(crate) fn refill(&mut self) {
        self.failures = 0;
    }

    /// Retries in all.
    pub(crate) fn retries(&self) -> u32 {
        self.retries
    }
}

/// The retries of one request that moves no file by itself: a page of a list, a deletion.
#[derive(Debug)]
pub struct RequestRetries {
    budget: RetryBudget,
    options: RetryOptions,
}

impl RequestRetries {
    /// For one request.
    #[must_use]
    pub fn new(options: RetryOptions) -> Self {
        Self {
            budget: RetryBudget::default(),
            options,
        }
    }

    /// The request failed for a reason that may pass. Returns the wait before it is sent again; `None` if that is not worth it any
    /// more. `now` counts from the first attempt, `jitter` is random in 0..1. `has_responded` says whether the host ever sent a response.
    pub fn on_failure(
        &mut self,
        now: Duration,
        retry_after: Option<Duration>,
        has_responded: bool,
        jitter: f64,
    ) -> Option<Duration> {
        let limit = RetryLimit {
            failures: if has_responded {
                self.options.retries
            } else {
                self.options.retries_before_response
            },
            refill_bytes: u64::MAX,
        };
        let times = FailureTimes {
            requested_at: now,
            now,
            retry_after,
        };
        if retry_after.is_some_and(|wait| wait > self.options.max_retry_after) {
            return None;
        }
        self.budget.on_failure(limit, &self.options, times, jitter)
    }

    /// The most retries without progress, as of the last failure.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.budget.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REFILL: u64 = 1000;

    fn fail(
        budget: &mut RetryBudget,
        options: &RetryOptions,
        retry_after: Option<Duration>,
        jitter: f64,
    ) -> Option<Duration> {
        let limit = RetryLimit {
            failures: options.retries,
            refill_bytes: REFILL,
        };
        // Each request is sent when the wait before it is over.
        let times = FailureTimes {
            requested_at: budget.resume_at,
            now: budget.resume_at,
            retry_after,
        };
        budget.on_failure(limit, options, times, jitter)
    }

    fn waits(budget: &mut RetryBudget, options: &RetryOptions) -> Vec<Duration> {
        std::iter::from_fn(|| fail(budget, options, None, 1.0)).collect()
    }

    #[test]
    fn waits_double_up_to_the_longest_and_end_with_the_budget() {
        let waits = waits(&mut RetryBudget::default(), &RetryOptions::default());
        assert_eq!(waits.len(), 10);
        assert_eq!(waits[0], Duration::from_millis(200));
        assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(waits[9], Duration::from_secs(30));
    }

    #[test]
    fn a34_requests_that_fail_together_count_once_and_wait_for_the_same_moment() {
        let options = RetryOptions::default();
        let limit = RetryLimit {
            failures: options.retries,
            refill_bytes: 1,
        };
        let mut budget = RetryBudget::default();
        let mut fail = |requested_ms, now_ms| {
            let times = FailureTimes {
                requested_at: Duration::from_millis(requested_ms),
                now: Duration::from_millis(now_ms),
                retry_after: None,
            };
            let wait = budget.on_failure(limit, &options, times, 1.0);
            (wait, budget.retry_number().number)
        };
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(fail(900, 1000), (ms(200), 1));
        for sent in 0..15 {
            assert_eq!(fail(sent, 1050), (ms(150), 1));
        }
        // Sent after the wait.
        assert_eq!(fail(1200, 1201), (ms(400), 2));
        assert_eq!(fail(1200, 1202), (ms(399), 2));
    }

    #[test]
    fn a34_two_minutes_without_a_byte_end_the_budget_and_waits_for_retry_after_do_not() {
        let options = RetryOptions {
            retries: 1000,
            ..RetryOptions::default()
        };
        let mut budget = RetryBudget::default();
        let slow = waits(&mut budget, &options);
        let total: Duration = slow.iter().sum();
        assert!((120..=150).contains(&total.as_secs()), "{total:?}");
        let minute = Some(Duration::from_secs(60));
        let mut budget = RetryBudget::default();
        for _ in 0..10 {
            assert!(fail(&mut budget, &options, minute, 0.5).is_some());
        }
    }

    #[test]
    fn progress_refills_the_budget_and_a_trickle_does_not() {
        let options = RetryOptions {
            retries: 2,
            ..RetryOptions::default()
        };
        let mut budget = RetryBudget::default();
        waits(&mut budget, &options);
        budget.on_bytes(REFILL - 1);
        assert_eq!(fail(&mut budget, &options, None, 0.0), None);
        budget.on_bytes(1);
        assert!(fail(&mut budget, &options, None, 0.0).is_some());
        assert_eq!(budget.retries(), 3);
    }

    #[test]
    fn a42_a_window_of_five_minutes_is_waited_for_and_absurd_waits_are_cut() {
        let options = RetryOptions::default();
        for (asked, waited) in [(300, 300), (900, 900), (u64::MAX, 900)] {
            let asked = Some(Duration::from_secs(asked));
            let wait = fail(&mut RetryBudget::default(), &options, asked, 0.5);
            assert_eq!(wait, Some(Duration::from_secs(waited)));
        }
    }

    #[test]
    fn a_host_that_never_responded_is_given_up_soon() {
        let count = |has_responded| {
            let mut retries = RequestRetries::new(RetryOptions::default());
            let mut now = Duration::ZERO;
            let fail = || {
                now += retries.on_failure(now, None, has_responded, 0.0)?;
                Some(())
            };
            std::iter::from_fn(fail).count()
        };
        assert_eq!((count(true), count(false)), (10, 3));
    }

    /// Connections that begin one second after the other, and fail again and again without a byte: the milliseconds until each failure,
    /// and its Retry-After. Returns how many failures the budget allowed.
    fn failures_in_turn(ms: &[(u64, Option<u64>)], connections: u8) -> usize {
        let options = RetryOptions::default();
        let limit = RetryLimit {
            failures: options.retries,
            refill_bytes: 1,
        };
        let mut budget = RetryBudget::default();
        let mut steps = ms.iter().cycle();
        // When each request fails, when it was sent, and the Retry-After of the response.
        let mut send = |at: Duration| {
            let (latency, retry_after) = *steps.next().unwrap();
            let fails_at = at + Duration::from_millis(latency);
            (fails_at, at, retry_after.map(Duration::from_millis))
        };
        let starts = (0..connections).map(|number| Duration::from_secs(number.into()));
        let mut requests: Vec<_> = starts.map(&mut send).collect();
        for failures in 0..1000 {
            let next = requests.iter_mut().min_by_key(|request| request.0).unwrap();
            let (now, requested_at, retry_after) = *next;
            let times = FailureTimes {
                requested_at,
                now,
                retry_after,
            };
            match budget.on_failure(limit, &options, times, 0.5) {
                Some(wait) => *next = send(now + wait),
                None => return failures,
            }
        }
        panic!("it goes on for ever");
    }

    #[test]
    fn a34_connections_that_stall_in_turn_spend_the_budget() {
        // Each failure falls between a failure of the other connection and that of its next request.
        let failures = failures_in_turn(&[(3_000, None)], 2);
        assert!((10..=22).contains(&failures), "{failures}");
    }

    proptest! {
        #[test]
        fn a34_requests_that_bring_nothing_end_the_budget_whenever_they_fail(
            ms in prop::collection::vec((1u64..30_000, prop::option::of(0u64..200_000)), 1..40),
            connections in 1u8..20,
        ) {
            let failures = failures_in_turn(&ms, connections);
            prop_assert!(failures <= 11 * usize::from(connections), "{failures}");
        }

        #[test]
        fn no_wait_is_longer_than_the_limits(after: Option<Duration>, jitter: f64, failures in 0usize..40) {
            let options = RetryOptions::default();
            let longest = options.max_delay.max(options.max_retry_after);
            let mut budget = RetryBudget::default();
            for _ in 0..failures {
                if let Some(wait) = fail(&mut budget, &options, after, jitter) {
                    prop_assert!(wait <= longest && !wait.is_zero());
                }
            }
        }
    }
}
