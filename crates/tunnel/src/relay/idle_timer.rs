//! Notices that no byte moves any more.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::RelayedBytes;

/// How often the counters are read within the limit.
const CHECKS: u32 = 4;

/// The longest limit. A longer one is as good as none, and an `Instant` has no room for all of it.
const LONGEST_LIMIT: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Reads the counters of a connection now and then. Nothing is done for a byte that moves.
pub(crate) struct IdleTimer {
    limit: Duration,
    /// When the counters are read next.
    timer: Pin<Box<Sleep>>,
    /// What had moved when they were read last.
    seen: u64,
    /// When they were last seen to have changed.
    changed_at: Instant,
}

impl IdleTimer {
    pub(crate) fn new(limit: Duration, bytes: &RelayedBytes) -> Self {
        let now = Instant::now();
        let limit = limit.min(LONGEST_LIMIT);
        Self {
            limit,
            timer: Box::pin(sleep_until(now + limit / CHECKS)),
            seen: bytes.total(),
            changed_at: now,
        }
    }

    /// Ready when no byte has moved for the limit, or for up to a quarter more.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, bytes: &RelayedBytes) -> Poll<()> {
        loop {
            ready!(self.timer.as_mut().poll(cx));
            let (now, total) = (Instant::now(), bytes.total());
            if total != self.seen {
                (self.seen, self.changed_at) = (total, now);
            } else if now >= self.changed_at + self.limit {
                return Poll::Ready(());
            }
            // The last check is at the limit itself, whatever the division left over.
            let next = (now + self.limit / CHECKS).min(self.changed_at + self.limit);
            self.timer.as_mut().reset(next);
        }
    }
}
