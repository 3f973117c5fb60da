//! A rate kept by waiting: small pieces, each sent when its time has come.
//!
//! A timer fires up to a millisecond late. What is lost by that is made up for within [`SLACK`], or a stream of 5 ms pieces
//! would run at five sixths of its rate; a longer rest is not, since a limit is a limit.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// How often a paced stream sends.
const TICK: Duration = Duration::from_millis(5);

/// How late a piece may be and still count as on time.
const SLACK: Duration = Duration::from_millis(10);

/// The most that goes at once, in bytes, so that those who share a rate take turns.
const MAX_BURST: usize = 64 * 1024;

/// A rate; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct BandwidthLimit {
    /// Bytes a second.
    rate: u64,
    /// When the last byte that was let go is through.
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

    /// How much goes at once, in bytes.
    pub(crate) fn burst(&self) -> usize {
        let bytes = u128::from(self.rate) * TICK.as_nanos() / 1_000_000_000;
        usize::try_from(bytes)
            .unwrap_or(usize::MAX)
            .clamp(1, MAX_BURST)
    }

    /// Waits until `bytes` may go. They are counted before the wait, so that since it began to be used the rate is never
    /// exceeded, but by what [`SLACK`] lets catch up after a rest. Dropped, it leaves them counted.
    pub(crate) async fn wait(&self, bytes: usize) {
        let until = {
            let mut through = self
                .busy_until
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let from = (*through).max(now.checked_sub(SLACK).unwrap_or(now));
            *through = from + Duration::from_secs_f64(bytes as f64 / self.rate as f64);
            *through
        };
        if until > Instant::now() {
            sleep_until(until).await;
        }
    }
}

/// What several rates let go at once, in bytes; `None` if there is none.
pub(crate) fn smallest_burst(paces: &[&BandwidthLimit]) -> Option<usize> {
    paces.iter().map(|pace| pace.burst()).min()
}

/// Waits until `bytes` may go by all of them.
pub(crate) async fn wait_for_all(paces: &[&BandwidthLimit], bytes: usize) {
    for pace in paces {
        pace.wait(bytes).await;
    }
}
