//! `--limit-rate`: the one clock and lock around the pure token bucket that all answers of a client share.

use std::sync::{Arc, Mutex, PoisonError};

use haul_plan::Bucket;
use tokio::time::Instant;

/// A rate shared by all answers of a client.
#[derive(Debug, Clone)]
pub(crate) struct Limit {
    bucket: Arc<Mutex<Bucket>>,
    epoch: Instant,
}

impl Limit {
    /// `rate` in bytes a second. After a rest a fiftieth of a second's worth may come at once: no bursts to speak of.
    pub(crate) fn new(rate: u64) -> Self {
        let bucket = Bucket::new(rate, rate / 50);
        Self {
            bucket: Arc::new(Mutex::new(bucket)),
            epoch: Instant::now(),
        }
    }

    /// Counts bytes that came; tells when more may come.
    pub(crate) fn pay(&self, bytes: u64) -> Instant {
        let now = self.epoch.elapsed();
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        self.epoch + now + bucket.take(now, bytes)
    }
}
