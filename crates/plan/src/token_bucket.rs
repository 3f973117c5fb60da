//! A token bucket: how long a reader waits so that a rate is kept.
//!
//! Debt is allowed: a reader takes the bytes that it has read already and then waits until they are paid for.
//! So one large read costs one wait, and the average is exact whatever the sizes are.

use std::time::Duration;

/// A rate that several readers share. It stores the time at which the debt is paid, not the number of tokens
/// (GCRA).
#[derive(Debug, Clone)]
pub struct TokenBucket {
    /// Bytes a second.
    rate: u64,
    /// Bytes that may be taken at once after a pause.
    burst: u64,
    /// When everything taken so far is paid for.
    paid_until: Duration,
}

impl TokenBucket {
    /// A full bucket. A rate of 0 counts as 1: a reader would wait for ever otherwise.
    #[must_use]
    pub fn new(rate: u64, burst: u64) -> Self {
        Self {
            rate: rate.max(1),
            burst,
            paid_until: Duration::ZERO,
        }
    }

    /// Takes `bytes` at `now`; returns how long the caller waits before it takes more.
    pub fn take(&mut self, now: Duration, bytes: u64) -> Duration {
        // A pause fills the bucket up to its burst and no further.
        let earliest = now.saturating_sub(self.cost(self.burst));
        self.paid_until = self
            .paid_until
            .max(earliest)
            .saturating_add(self.cost(bytes));
        self.paid_until.saturating_sub(now)
    }

    /// Whether a reader waits at `now`, because bytes that were taken are not paid for.
    #[must_use]
    pub fn is_in_debt(&self, now: Duration) -> bool {
        self.paid_until > now
    }

    /// Changes the rate and the burst at `now`. Bytes that were taken and not paid for yet are paid for at the higher of both rates: a
    /// reader that has taken a large turn does not wait for ages when the rate falls.
    pub fn set_rate(&mut self, now: Duration, rate: u64, burst: u64) {
        let debt_nanos = self.paid_until.saturating_sub(now).as_nanos();
        let debt = debt_nanos.saturating_mul(u128::from(self.rate)) / 1_000_000_000;
        (self.rate, self.burst) = (rate.max(1), burst);
        let at_new_rate = self.cost(u64::try_from(debt).unwrap_or(u64::MAX));
        self.paid_until = self.paid_until.min(now.saturating_add(at_new_rate));
    }

    /// How long the rate needs for some bytes.
    fn cost(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Readers that wait as long as `take` says never get more than the burst above the rate, and never
        /// much less than the rate.
        #[test]
        fn the_rate_is_kept_whatever_the_sizes(rate in 1_000u64..1 << 30, sizes in prop::collection::vec(1u64..1 << 20, 1..200)) {
            let burst = 64 * 1024;
            let mut bucket = TokenBucket::new(rate, burst);
            let mut now = Duration::from_secs(1000);
            let begun = now;
            let mut taken = 0;
            for size in &sizes {
                let wait = bucket.take(now, *size);
                prop_assert_eq!(bucket.is_in_debt(now), !wait.is_zero());
                taken += size;
                now += wait;
            }
            let exact = (taken.saturating_sub(burst)) as f64 / rate as f64;
            let took = (now - begun).as_secs_f64();
            prop_assert!((took - exact).abs() <= exact * 1e-6 + 1e-6, "{took} for {exact}");
        }

        #[test]
        fn a_debt_is_paid_at_the_higher_rate_and_what_follows_at_the_new_one(
            old in 1_000u64..1 << 30, new in 1_000u64..1 << 30, debt in 0u64..1 << 24, paid in 0.0..1.0f64, more in 0u64..1 << 24,
        ) {
            let mut bucket = TokenBucket::new(old, 0);
            let now = Duration::from_secs(1000);
            let wait = bucket.take(now, debt);
            let later = now + wait.mul_f64(paid);
            bucket.set_rate(later, new, 0);
            let took = bucket.take(later, more).as_secs_f64();
            let unpaid = debt as f64 * (1.0 - paid);
            let exact = unpaid / old.max(new) as f64 + more as f64 / new as f64;
            let rounding = 1.0 / new as f64 + 1e-6;
            prop_assert!((took - exact).abs() <= exact * 1e-6 + rounding, "{took} for {exact}");
        }

        #[test]
        fn absurd_numbers_do_not_panic(rate: u64, burst: u64, bytes: u64, now: u64) {
            let mut bucket = TokenBucket::new(rate, burst);
            bucket.take(Duration::from_nanos(now), bytes);
            bucket.take(Duration::from_nanos(now), bytes);
            bucket.set_rate(Duration::from_nanos(burst), bytes, rate);
            bucket.take(Duration::from_nanos(now), bytes);
        }
    }
}
