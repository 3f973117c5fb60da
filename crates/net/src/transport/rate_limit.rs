//! `--limit-rate`: a clock and a lock around the pure token bucket, shared by all streams of a connector.
//!
//! The rate may change while streams are open. Each stream looks at it before each read and write, which costs one atomic load where
//! there is no limit.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use haul_plan::TokenBucket;
use tokio::time::{Instant, Sleep, sleep_until};

/// How many reads or writes of the largest size make up one second. Streams take turns, so each of them may exceed the rate by one such
/// turn at the end.
const TURNS_PER_SECOND: u64 = 50;

/// The most that one read or write may take, in bytes: more than a TLS record, so that fast limits cost no more calls than needed.
const MAX_TURN: u64 = 64 * 1024;

/// How many receive buffers make up one second: an eighth of a second fills the rate on links of up to this latency.
const BUFFERS_PER_SECOND: u64 = 8;

/// The smallest and the largest receive buffer, in bytes. Beyond the largest the system finds a better size by itself.
const BUFFER_BOUNDS: (u64, u64) = (32 * 1024, 4 * 1024 * 1024);

/// The longest that a stream waits before it looks at the rate again: a rate that is raised holds soon for streams that wait, too.
const MAX_WAIT: Duration = Duration::from_millis(250);

/// A rate, in bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteRate(u64);

impl ByteRate {
    /// The receive buffer of this rate is the largest.
    pub(super) const UNLIMITED: Self = Self(u64::MAX);

    /// How many bytes one read or write may take.
    fn max_turn(self) -> u64 {
        (self.0 / TURNS_PER_SECOND).clamp(1, MAX_TURN)
    }

    /// How many of `wanted` bytes one read or write may take.
    pub(super) fn turn_size(self, wanted: usize) -> usize {
        usize::try_from(self.max_turn()).map_or(wanted, |most| most.min(wanted))
    }

    /// How many bytes a socket should hold for its reader. Bytes in the buffer of a connection that is cut have crossed the link
    /// for nothing.
    pub(super) fn receive_buffer(self) -> usize {
        let (smallest, largest) = BUFFER_BOUNDS;
        let size = (self.0 / BUFFERS_PER_SECOND).clamp(smallest, largest);
        usize::try_from(size).unwrap_or(usize::MAX)
    }
}

/// A rate that all streams of a connector share, or none. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct RateLimit(Arc<RateLimitState>);

#[derive(Debug)]
struct RateLimitState {
    /// Bytes a second; 0 is no limit.
    bytes_per_second: AtomicU64,
    bucket: Mutex<TokenBucket>,
    /// The bucket counts time from here.
    epoch: Instant,
}

impl RateLimit {
    /// A limit in bytes a second, or none. After a pause one turn may come at once, which is hardly a burst.
    pub(crate) fn new(rate: Option<u64>) -> Self {
        let limit = Self(Arc::new(RateLimitState {
            bytes_per_second: AtomicU64::new(0),
            bucket: Mutex::new(TokenBucket::new(1, 0)),
            epoch: Instant::now(),
        }));
        limit.set(rate);
        limit
    }

    /// Changes the rate, for all streams. A rate of 0 counts as 1.
    pub(crate) fn set(&self, rate: Option<u64>) {
        let state = &self.0;
        let mut bucket = state.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rate) = rate {
            let max_turn = ByteRate(rate).max_turn();
            bucket.set_rate(state.epoch.elapsed(), rate, max_turn);
        }
        let rate = rate.map_or(0, |rate| rate.max(1));
        state.bytes_per_second.store(rate, Ordering::Relaxed);
    }

    /// The rate now; `None` without a limit.
    pub(super) fn rate(&self) -> Option<ByteRate> {
        self.bytes_per_second().map(ByteRate)
    }

    pub(crate) fn bytes_per_second(&self) -> Option<u64> {
        let rate = self.0.bytes_per_second.load(Ordering::Relaxed);
        (rate > 0).then_some(rate)
    }

    /// Whether a stream waits for its turn now.
    pub(crate) fn is_reached(&self) -> bool {
        let state = &self.0;
        let is_in_debt = || {
            let bucket = state.bucket.lock().unwrap_or_else(PoisonError::into_inner);
            bucket.is_in_debt(state.epoch.elapsed())
        };
        self.rate().is_some() && is_in_debt()
    }

    /// Counts bytes that were read or written; returns when the next turn is.
    fn next_turn_after(&self, bytes: u64) -> Instant {
        let state = &self.0;
        let now = state.epoch.elapsed();
        let mut bucket = state.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        state.epoch + now + bucket.take(now, bytes)
    }
}

/// When one direction of a stream has its next turn. The timer is created once, and only moved later.
#[derive(Debug)]
pub(super) struct RateLimitTurn {
    at: Instant,
    /// The rate that `at` was computed for.
    rate: ByteRate,
    timer: Pin<Box<Sleep>>,
}

impl RateLimitTurn {
    /// A turn at once.
    pub(super) fn new(rate: ByteRate) -> Self {
        let at = Instant::now();
        Self {
            at,
            rate,
            timer: Box::pin(sleep_until(at)),
        }
    }

    /// Waits for the turn. When the rate has changed meanwhile, it is now: what was taken is paid for before the turn after that.
    pub(super) fn poll(&mut self, rate: ByteRate, cx: &mut Context<'_>) -> Poll<()> {
        while self.rate == rate {
            std::task::ready!(self.timer.as_mut().poll(cx));
            let now = Instant::now();
            if self.at <= now {
                break;
            }
            self.timer.as_mut().reset(self.at.min(now + MAX_WAIT));
        }
        Poll::Ready(())
    }

    /// Counts the bytes of this turn, and moves it to the time of the next one.
    pub(super) fn take(&mut self, limit: &RateLimit, rate: ByteRate, bytes: u64) {
        self.rate = rate;
        self.at = limit.next_turn_after(bytes);
        let next_look = Instant::now() + MAX_WAIT;
        self.timer.as_mut().reset(self.at.min(next_look));
    }
}
