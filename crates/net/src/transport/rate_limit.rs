//! `--limit-rate`: a clock and a lock around the pure token bucket, shared by all streams of a connector.

use std::sync::{Arc, Mutex, PoisonError};

use haul_plan::TokenBucket;
use tokio::time::Instant;

/// How many reads or writes of the largest size make up one second. Streams take turns, so each of them may exceed the rate by one such
/// turn at the end.
const TURNS_PER_SECOND: u64 = 50;

/// The most that one read or write may take, in bytes: more than a TLS record, so that fast limits cost no more calls than needed.
const MAX_TURN: u64 = 64 * 1024;

/// How many receive buffers make up one second: an eighth of a second fills the rate on links of up to this latency.
const BUFFERS_PER_SECOND: u64 = 8;

/// The smallest and the largest receive buffer, in bytes. Beyond the largest the system finds a better size by itself.
const BUFFER_BOUNDS: (usize, usize) = (32 * 1024, 4 * 1024 * 1024);

/// A rate that all streams of a connector share.
#[derive(Debug, Clone)]
pub(crate) struct RateLimit {
    bucket: Arc<Mutex<TokenBucket>>,
    bytes_per_second: u64,
    max_turn: usize,
    receive_buffer: usize,
    /// The bucket counts time from here.
    epoch: Instant,
}

impl RateLimit {
    /// A limit in bytes a second. After a pause one turn may come at once, which is hardly a burst.
    pub(crate) fn new(rate: u64) -> Self {
        let max_turn = (rate / TURNS_PER_SECOND).clamp(1, MAX_TURN);
        let bucket = TokenBucket::new(rate, max_turn);
        let (smallest, largest) = BUFFER_BOUNDS;
        let receive_buffer = usize::try_from(rate / BUFFERS_PER_SECOND);
        Self {
            bucket: Arc::new(Mutex::new(bucket)),
            bytes_per_second: rate,
            max_turn: usize::try_from(max_turn).unwrap_or(usize::MAX),
            receive_buffer: receive_buffer.map_or(largest, |size| size.clamp(smallest, largest)),
            epoch: Instant::now(),
        }
    }

    pub(crate) fn bytes_per_second(&self) -> u64 {
        self.bytes_per_second
    }

    /// How many bytes one read or write may take.
    pub(crate) fn max_turn(&self) -> usize {
        self.max_turn
    }

    /// How many bytes a socket should hold for its reader. Bytes in the buffer of a connection that is cut have crossed the link
    /// for nothing.
    pub(crate) fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }

    /// Counts bytes that were read or written; returns when the next turn is.
    pub(crate) fn next_turn_after(&self, bytes: u64) -> Instant {
        let now = self.epoch.elapsed();
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        self.epoch + now + bucket.take(now, bytes)
    }
}
