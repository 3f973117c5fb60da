//! Whether a relay stands still.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::RelayedBytes;

/// How often it is looked while the limit lasts.
const LOOKS: u32 = 4;

/// The longest limit: what is longer is as good as none, and no clock's arithmetic has room for all of it.
const FAR: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Looks now and then whether anything has moved.
pub(super) struct IdleTimer {
    limit: Duration,
    /// When to look.
    timer: Pin<Box<Sleep>>,
    /// What had moved by the last look.
    seen: u64,
    /// Whether anything is known of the time before it.
    since: Instant,
}

impl IdleTimer {
    /// One that knows what has moved already.
    pub(super) fn new(limit: Duration, moved: &RelayedBytes) -> Self {
        let since = Instant::now();
        let limit = limit.min(FAR);
        Self {
            limit,
            timer: Box::pin(sleep_until(since + limit / LOOKS)),
            seen: moved.total(),
            since,
        }
    }

    /// Ready when nothing has moved for as long as the limit, or for up to a look's time more.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, moved: &RelayedBytes) -> Poll<()> {
        loop {
            std::task::ready!(self.timer.as_mut().poll(cx));
            let (now, total) = (Instant::now(), moved.total());
            if total != self.seen {
                (self.seen, self.since) = (total, now);
            } else if now >= self.since + self.limit {
                return Poll::Ready(());
            }
            // The last look is at the limit itself, however the division went.
            let next = (now + self.limit / LOOKS).min(self.since + self.limit);
            self.timer.as_mut().reset(next);
        }
    }
}
