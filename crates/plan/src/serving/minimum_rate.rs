//! Whether bytes come fast enough, without looking at the clock when they come.
//!
//! A peer has a stock of time, at first a grace. Time uses it up; each byte puts back the time that it may take at the least
//! rate; and it never holds more than the grace, so that a fast beginning does not pay for a long silence. This is the leaky
//! bucket of rate limits, turned round. A pause shorter than the grace is forgiven to whom the average is kept.
//!
//! Bytes are only counted when they come. They are put to account when somebody looks, as if they had all come at that moment,
//! which errs in favour of the peer: never by more than one grace, since nobody needs to look later than the stock lasts.

use std::time::Duration;

/// The stock of one direction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MinimumRate {
    /// When the stock is used up if nothing more comes.
    exhausted_at: Duration,
    /// Bytes that are not put to account yet.
    uncredited_bytes: u64,
}

impl MinimumRate {
    /// Begins anew with a full stock.
    pub(super) fn start(&mut self, now: Duration, grace: Duration) {
        *self = Self {
            exhausted_at: now.saturating_add(grace),
            uncredited_bytes: 0,
        };
    }

    /// Bytes came.
    pub(super) fn add(&mut self, bytes: u64) {
        self.uncredited_bytes = self.uncredited_bytes.saturating_add(bytes);
    }

    /// Puts what came to account. `rate` is in bytes a second; with 0, any byte fills the stock.
    pub(super) fn credit(&mut self, now: Duration, rate: u64, grace: Duration) {
        let bytes = std::mem::take(&mut self.uncredited_bytes);
        if bytes > 0 {
            self.exhausted_at = self
                .exhausted_at
                .saturating_add(time_for(bytes, rate))
                .min(now.saturating_add(grace));
        }
    }

    /// When the stock is used up, by what was put to account.
    pub(super) fn exhausted_at(&self) -> Duration {
        self.exhausted_at
    }
}

/// How long so many bytes may take. Rounded up, in favour of the peer.
fn time_for(bytes: u64, rate: u64) -> Duration {
    if rate == 0 {
        return Duration::MAX;
    }
    let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
