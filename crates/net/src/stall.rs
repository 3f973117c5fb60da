//! How long a peer may be silent.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The time a peer may be silent. It lives as long as its connection: the timer is made when somebody first waits, and looked
/// at only when it fires. To make one for each small answer, or to move it at every piece of a large one, would cost more than
/// reading them.
#[derive(Debug)]
pub(crate) struct ReadTimeout {
    timeout: Duration,
    /// The moment from which the present silence counts.
    since: Instant,
    /// Whether something came since the last wait began.
    rested: bool,
    /// Bytes that had come over the socket by then. A peer that sends a long TLS record slowly is not silent.
    came: u64,
    timer: Option<Pin<Box<Sleep>>>,
}

impl ReadTimeout {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            since: Instant::now(),
            rested: true,
            came: 0,
            timer: None,
        }
    }

    /// A request was sent: what it waits for counts from now. Tells when that is.
    pub(crate) fn begin(&mut self) -> Instant {
        self.since = Instant::now();
        self.since
    }

    /// Something came. The next silence counts from when somebody waits again: time spent elsewhere is none.
    pub(crate) fn rest(&mut self) {
        self.rested = true;
    }

    /// Waits on, `came` bytes having come so far; ready when the silence has lasted too long.
    pub(crate) fn poll_silence(&mut self, came: u64, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::take(&mut self.rested) || came != self.came {
            (self.since, self.came) = (Instant::now(), came);
        }
        self.poll_limit(cx)
    }

    /// Waits on, whatever came; ready when it has lasted too long since [`ReadTimeout::begin`].
    pub(crate) fn poll_limit(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let end = self.since + self.timeout;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        loop {
            std::task::ready!(timer.as_mut().poll(cx));
            if Instant::now() >= end {
                return Poll::Ready(());
            }
            timer.as_mut().reset(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    async fn waited(stall: &mut ReadTimeout, came: u64) -> Duration {
        let begun = Instant::now();
        poll_fn(|cx| stall.poll_silence(came, cx)).await;
        begun.elapsed()
    }

    fn near(found: Duration, expected: Duration) -> bool {
        found.abs_diff(expected) <= Duration::from_millis(2)
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_of_an_earlier_request_ends_no_later_one() {
        let mut stall = ReadTimeout::new(LIMIT);
        assert!(near(waited(&mut stall, 0).await, LIMIT));
        for _ in 0..3 {
            tokio::time::advance(LIMIT * 3).await;
            stall.begin();
            let begun = Instant::now();
            poll_fn(|cx| stall.poll_limit(cx)).await;
            assert!(near(begun.elapsed(), LIMIT));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_came_meanwhile_begins_the_silence_anew() {
        let mut stall = ReadTimeout::new(LIMIT);
        let half = tokio::time::timeout(LIMIT / 2, waited(&mut stall, 1)).await;
        assert!(half.is_err());
        assert!(near(waited(&mut stall, 2).await, LIMIT), "a byte came");
        stall.rest();
        assert!(near(waited(&mut stall, 2).await, LIMIT), "a piece came");
    }
}
