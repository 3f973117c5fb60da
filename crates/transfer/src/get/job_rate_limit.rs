//! The rate limit of one download, beside that of the client. Its readers wait between chunks, so that the peer's TCP slows down.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haul_plan::TokenBucket;
use tokio::time::{Instant, sleep};

/// Bytes that may arrive at once after a pause: those of a tenth of a second.
const BURSTS_PER_SECOND: u64 = 10;

/// How long a reader waits at most before it looks at the rate again.
const MAX_WAIT: Duration = Duration::from_millis(200);

/// The limit. Without one, [`Self::throttle`] costs one atomic load.
#[derive(Debug, Default)]
pub(super) struct JobRateLimit {
    is_set: AtomicBool,
    bucket: Mutex<Option<LimitedBucket>>,
}

#[derive(Debug)]
struct LimitedBucket {
    bucket: TokenBucket,
    rate: u64,
    since: Instant,
}

impl JobRateLimit {
    pub(super) fn set(&self, bytes_per_second: Option<u64>) {
        let mut bucket = self.bucket();
        self.is_set
            .store(bytes_per_second.is_some(), Ordering::Relaxed);
        let burst = |rate: u64| rate / BURSTS_PER_SECOND;
        match (&mut *bucket, bytes_per_second) {
            (Some(limited), Some(rate)) => {
                limited.rate = rate;
                limited
                    .bucket
                    .set_rate(limited.since.elapsed(), rate, burst(rate));
            }
            (bucket, rate) => {
                *bucket = rate.map(|rate| LimitedBucket {
                    bucket: TokenBucket::new(rate, burst(rate)),
                    rate,
                    since: Instant::now(),
                });
            }
        }
    }

    pub(super) fn bytes_per_second(&self) -> Option<u64> {
        self.bucket().as_ref().map(|limited| limited.rate)
    }

    /// Waits until the bytes that have arrived are within the rate.
    pub(super) async fn throttle(&self, mut bytes: u64) {
        while self.is_set.load(Ordering::Relaxed) {
            let wait = match &mut *self.bucket() {
                Some(limited) => limited.bucket.take(limited.since.elapsed(), bytes),
                None => return,
            };
            if wait.is_zero() {
                return;
            }
            bytes = 0;
            sleep(wait.min(MAX_WAIT)).await;
        }
    }

    fn bucket(&self) -> MutexGuard<'_, Option<LimitedBucket>> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_limit_holds_can_be_changed_and_lifted() {
        let (limit, start) = (JobRateLimit::default(), Instant::now());
        limit.throttle(1 << 30).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        limit.set(Some(1000));
        for _ in 0..10 {
            limit.throttle(1000).await;
        }
        let seconds = start.elapsed().as_secs_f64();
        assert!((9.8..=10.1).contains(&seconds), "{seconds}");
        limit.set(Some(10_000));
        for _ in 0..10 {
            limit.throttle(1000).await;
        }
        let seconds = start.elapsed().as_secs_f64() - seconds;
        assert!((0.8..=1.3).contains(&seconds), "{seconds}");
        assert_eq!(limit.bytes_per_second(), Some(10_000));
        // A reader that waits notices within a moment.
        let waits = limit.throttle(1 << 30);
        let lift = async {
            sleep(Duration::from_secs(1)).await;
            limit.set(None);
        };
        let before = Instant::now();
        tokio::join!(waits, lift);
        assert!(before.elapsed() < Duration::from_millis(1300));
    }
}
