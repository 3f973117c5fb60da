//! How fast bytes may pass: `--limit-rate`, for one connection and for all together.
//!
//! What has passed is taken from a bucket, and the connection then waits until that is level again. So the averages are exact, and no
//! byte is held that was not asked for.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use haul_plan::TokenBucket;
use tokio::time::{Instant, Sleep};

/// What of a second's worth may pass at once.
const PART: u64 = 8;

/// The least that passes at once, in bytes: less would be more calls than bytes.
const LEAST: u64 = 4 << 10;

/// One way of all connections.
#[derive(Debug)]
pub(crate) struct TotalRate {
    /// What times are since.
    began: Instant,
    /// Bytes a second.
    rate: u64,
    bucket: Mutex<TokenBucket>,
}

/// One way of one connection.
#[derive(Debug)]
pub(crate) struct ConnectionRate {
    /// What times are since.
    began: Instant,
    /// Its own.
    own: Option<TokenBucket>,
    /// What it shares with all others.
    total: Option<Arc<TotalRate>>,
    /// Bytes that may pass at once.
    at_once: usize,
    /// Until what passed is level.
    wait: Option<Pin<Box<Sleep>>>,
}

impl TotalRate {
    /// So many bytes a second.
    pub(crate) fn new(rate: u64) -> Self {
        Self {
            began: Instant::now(),
            rate,
            bucket: Mutex::new(TokenBucket::new(rate, burst(rate))),
        }
    }

    fn take(&self, bytes: u64) -> Duration {
        let now = self.began.elapsed();
        self.bucket
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(now, bytes)
    }
}

/// What may pass at once of a rate.
fn burst(rate: u64) -> u64 {
    (rate / PART).max(LEAST)
}

impl ConnectionRate {
    /// One way of one connection; `None` without limits.
    pub(crate) fn new(rate: Option<u64>, total: Option<&Arc<TotalRate>>) -> Option<Self> {
        let lower = [rate, total.map(|total| total.rate)]
            .into_iter()
            .flatten()
            .min()?;
        Some(Self {
            began: Instant::now(),
            own: rate.map(|rate| TokenBucket::new(rate, burst(rate))),
            total: total.cloned(),
            at_once: usize::try_from(burst(lower)).unwrap_or(usize::MAX),
            wait: None,
        })
    }

    /// Waits until more may pass, and says how much.
    pub(crate) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        if let Some(wait) = &mut self.wait {
            std::task::ready!(wait.as_mut().poll(cx));
            self.wait = None;
        }
        Poll::Ready(self.at_once)
    }

    /// So much has passed.
    pub(crate) fn passed(&mut self, bytes: usize) {
        let (now, bytes) = (self.began.elapsed(), bytes as u64);
        let own = self.own.as_mut().map(|bucket| bucket.take(now, bytes));
        let total = self.total.as_ref().map(|total| total.take(bytes));
        let wait = own.max(total).unwrap_or(Duration::ZERO);
        if !wait.is_zero() {
            self.wait = Some(Box::pin(tokio::time::sleep(wait)));
        }
    }
}
