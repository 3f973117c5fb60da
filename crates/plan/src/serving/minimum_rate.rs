//! Whether bytes come fast enough, without looking at the clock when they come.
//!
//! A peer has a credit of time, at first the grace. Time uses the credit up; each byte gives back the time
//! that it may take at the least rate; and there is never more credit than the grace, so that a fast
//! beginning does not pay for a long silence. This is a leaky bucket turned round. A pause shorter than the
//! grace is forgiven to a peer that keeps the average.
//!
//! Bytes are only counted when they come. They are credited with the next check, as if they had all come at
//! that moment, which errs in favour of the peer: never by more than one grace, since no check needs to be
//! later than the credit lasts.

use std::time::Duration;

/// The credit of one direction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MinimumRate {
    /// When the credit is used up if nothing more comes.
    exhausted_at: Duration,
    /// Bytes that are not credited yet.
    uncredited_bytes: u64,
}

impl MinimumRate {
    /// Starts with a full credit.
    pub(super) fn start(&mut self, now: Duration, grace: Duration) {
        *self = Self {
            exhausted_at: now.saturating_add(grace),
            uncredited_bytes: 0,
        };
    }

    /// Counts bytes that came.
    pub(super) fn add(&mut self, bytes: u64) {
        self.uncredited_bytes = self.uncredited_bytes.saturating_add(bytes);
    }

    /// Credits the counted bytes. `rate` is in bytes a second; with 0, any byte restores the full credit.
    pub(super) fn credit(&mut self, now: Duration, rate: u64, grace: Duration) {
        let bytes = std::mem::take(&mut self.uncredited_bytes);
        if bytes > 0 {
            self.exhausted_at = self
                .exhausted_at
                .saturating_add(time_for(bytes, rate))
                .min(now.saturating_add(grace));
        }
    }

    /// When the credit is used up.
    pub(super) fn exhausted_at(&self) -> Duration {
        self.exhausted_at
    }
}

/// The longest time for these bytes. Rounded up, in favour of the peer.
fn time_for(bytes: u64, rate: u64) -> Duration {
    if rate == 0 {
        return Duration::MAX;
    }
    let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
