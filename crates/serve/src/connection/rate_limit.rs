//! Rate limits (`--limit-rate`) of one connection, and of all connections together.
//!
//! Bytes are taken from a bucket after they have passed, and the connection then waits until the
//! bucket is level again. So averages are exact, and no byte is buffered for the limit.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use haul_plan::TokenBucket;
use tokio::time::{Instant, Sleep};

/// The part of a second's bytes that may pass at once.
const BURST_DIVISOR: u64 = 8;

/// Minimum bytes that may pass at once: fewer would cost too many system calls.
const MIN_BURST: u64 = 4 << 10;

/// The rate limit of one direction of all connections together.
#[derive(Debug)]
pub(crate) struct TotalRate {
    /// Times are since this moment.
    started: Instant,
    /// Bytes per second.
    rate: u64,
    bucket: Mutex<TokenBucket>,
}

/// The rate limits of one direction of one connection.
#[derive(Debug)]
pub(super) struct ConnectionRate {
    /// Times are since this moment.
    started: Instant,
    own: Option<TokenBucket>,
    total: Option<Arc<TotalRate>>,
    /// Bytes that may pass at once.
    burst: usize,
    /// Until the buckets are level.
    wait: Option<Pin<Box<Sleep>>>,
}

impl TotalRate {
    /// A limit of `rate` bytes per second.
    pub(crate) fn new(rate: u64) -> Self {
        Self {
            started: Instant::now(),
            rate,
            bucket: Mutex::new(TokenBucket::new(rate, burst(rate))),
        }
    }

    fn take(&self, bytes: u64) -> Duration {
        let now = self.started.elapsed();
        self.bucket
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(now, bytes)
    }
}

/// Bytes that may pass at once at a rate.
fn burst(rate: u64) -> u64 {
    (rate / BURST_DIVISOR).max(MIN_BURST)
}

impl ConnectionRate {
    /// The limits of one direction; `None` without limits.
    pub(super) fn new(rate: Option<u64>, total: Option<&Arc<TotalRate>>) -> Option<Self> {
        let lower = [rate, total.map(|total| total.rate)]
            .into_iter()
            .flatten()
            .min()?;
        Some(Self {
            started: Instant::now(),
            own: rate.map(|rate| TokenBucket::new(rate, burst(rate))),
            total: total.cloned(),
            burst: usize::try_from(burst(lower)).unwrap_or(usize::MAX),
            wait: None,
        })
    }

    /// Waits until bytes may pass, and returns how many.
    pub(super) fn poll_burst(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        if let Some(wait) = &mut self.wait {
            std::task::ready!(wait.as_mut().poll(cx));
            self.wait = None;
        }
        Poll::Ready(self.burst)
    }

    /// Takes bytes that have passed.
    pub(super) fn take(&mut self, bytes: usize) {
        let (now, bytes) = (self.started.elapsed(), bytes as u64);
        let own = self.own.as_mut().map(|bucket| bucket.take(now, bytes));
        let total = self.total.as_ref().map(|total| total.take(bytes));
        let wait = own.max(total).unwrap_or(Duration::ZERO);
        if !wait.is_zero() {
            self.wait = Some(Box::pin(tokio::time::sleep(wait)));
        }
    }
}
