//! `--limit-rate`: the one clock and lock around the pure token bucket that all streams of a connector share.

use std::sync::{Arc, Mutex, PoisonError};

use haul_plan::TokenBucket;
use tokio::time::Instant;

/// The share of a second whose bytes one read may take, as a divisor. Streams take turns, so this is also how far the rate may
/// be exceeded at the end by each of them.
const READS_PER_SECOND: u64 = 50;

/// The most that one read may take, in bytes: more than a TLS record, so that fast limits cost no more calls than needed.
const MAX_READ: u64 = 64 * 1024;

/// The share of a second whose bytes a socket's buffer holds, as a divisor: the rate is reached on links of up to this latency.
const BUFFERS_PER_SECOND: u64 = 8;

/// The smallest and the largest such buffer, in bytes. Beyond the largest the system finds a better size by itself.
const BUFFER_BOUNDS: (usize, usize) = (32 * 1024, 4 * 1024 * 1024);

/// A rate shared by all streams of a connector.
#[derive(Debug, Clone)]
pub(crate) struct RateLimit {
    bucket: Arc<Mutex<TokenBucket>>,
    /// What one read may take.
    max_read: usize,
    /// What a socket's buffer may hold.
    receive_buffer: usize,
    epoch: Instant,
}

impl RateLimit {
    /// `rate` in bytes a second. After a rest one turn may come at once: no bursts to speak of.
    pub(crate) fn new(rate: u64) -> Self {
        let turn = (rate / READS_PER_SECOND).clamp(1, MAX_READ);
        let bucket = TokenBucket::new(rate, turn);
        Self {
            bucket: Arc::new(Mutex::new(bucket)),
            max_read: usize::try_from(turn).unwrap_or(usize::MAX),
            receive_buffer: usize::try_from(rate / BUFFERS_PER_SECOND)
                .map_or(BUFFER_BOUNDS.1, |n| {
                    n.clamp(BUFFER_BOUNDS.0, BUFFER_BOUNDS.1)
                }),
            epoch: Instant::now(),
        }
    }

    /// How many bytes one read may take.
    pub(crate) fn max_read(&self) -> usize {
        self.max_read
    }

    /// How many bytes a socket should hold for its reader: what lies there when a connection is cut has crossed the link
    /// for nothing.
    pub(crate) fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }

    /// Counts bytes that came; tells when more may come.
    pub(crate) fn next_read_after(&self, bytes: u64) -> Instant {
        let now = self.epoch.elapsed();
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        self.epoch + now + bucket.take(now, bytes)
    }
}
