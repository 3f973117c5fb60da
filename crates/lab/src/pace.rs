//! A rate kept by waiting: small pieces, each sent when its time has come.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// How often a paced stream sends.
const TICK: Duration = Duration::from_millis(5);

/// A rate; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    rate: u64,
    /// When the next byte may go.
    next: Arc<Mutex<Instant>>,
}

impl Pace {
    /// `rate` bytes a second.
    pub(crate) fn new(rate: u64) -> Self {
        Self {
            rate: rate.max(1),
            next: Arc::new(Mutex::new(Instant::now())),
        }
    }

    /// How much goes at once, in bytes.
    pub(crate) fn quantum(&self) -> usize {
        let bytes = u128::from(self.rate) * TICK.as_nanos() / 1_000_000_000;
        usize::try_from(bytes)
            .unwrap_or(usize::MAX)
            .clamp(1, 256 * 1024)
    }

    /// Waits until `bytes` may go. They are counted before the wait, so that the rate is never exceeded.
    pub(crate) async fn wait(&self, bytes: usize) {
        let until = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            // A rest is not made up for: a limit is a limit.
            *next = (*next).max(Instant::now())
                + Duration::from_secs_f64(bytes as f64 / self.rate as f64);
            *next
        };
        sleep_until(until).await;
    }
}
