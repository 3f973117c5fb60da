//! Limits a rate: bytes are sent in small pieces, each after a wait.
//!
//! A timer fires up to a millisecond late. A delay of up to [`SLACK`] is made up for, or a stream of 5 ms pieces would run at five sixths of
//! its rate. A longer idle time is not: the rate must not be exceeded after it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The interval of the pieces of a limited stream.
const TICK: Duration = Duration::from_millis(5);

/// How late a piece may be and still count as on time.
const SLACK: Duration = Duration::from_millis(10);

/// The largest piece in bytes, so that streams that share a rate take turns.
const MAX_BURST: usize = 64 * 1024;

/// A rate; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct BandwidthLimit {
    /// Bytes a second.
    rate: u64,
    /// When all bytes that were permitted so far have been sent at this rate.
    busy_until: Arc<Mutex<Instant>>,
}

impl BandwidthLimit {
    /// `rate` bytes a second.
    pub(crate) fn new(rate: u64) -> Self {
        Self {
            rate: rate.max(1),
            busy_until: Arc::new(Mutex::new(Instant::now())),
        }
    }

    /// Bytes a second.
    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    /// The size of a piece in bytes.
    pub(crate) fn burst(&self) -> usize {
        let bytes = u128::from(self.rate) * TICK.as_nanos() / 1_000_000_000;
        usize::try_from(bytes)
            .unwrap_or(usize::MAX)
            .clamp(1, MAX_BURST)
    }

    /// Waits until `bytes` may be sent. They are counted before the wait, so the average rate is never exceeded, except by what may be made up
    /// for within [`SLACK`]. If the future is dropped, they stay counted.
    pub(crate) async fn wait(&self, bytes: usize) {
        let until = {
            let mut busy_until = self
                .busy_until
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let from = (*busy_until).max(now.checked_sub(SLACK).unwrap_or(now));
            *busy_until = from + Duration::from_secs_f64(bytes as f64 / self.rate as f64);
            *busy_until
        };
        if until > Instant::now() {
            sleep_until(until).await;
        }
    }
}

/// The smallest piece of several limits, in bytes; `None` without limits.
pub(crate) fn smallest_burst(limits: &[&BandwidthLimit]) -> Option<usize> {
    limits.iter().map(|limit| limit.burst()).min()
}

/// Waits until all limits permit `bytes`.
pub(crate) async fn wait_for_all(limits: &[&BandwidthLimit], bytes: usize) {
    for limit in limits {
        limit.wait(bytes).await;
    }
}
