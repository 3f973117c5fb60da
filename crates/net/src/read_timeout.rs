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
    silent_since: Instant,
    /// Whether something came since the last wait began.
    restart_on_wait: bool,
    /// Bytes that had come over the socket by then. A peer that sends a long TLS record slowly is not silent.
    bytes_received: u64,
    timer: Option<Pin<Box<Sleep>>>,
}

impl ReadTimeout {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            silent_since: Instant::now(),
            restart_on_wait: true,
            bytes_received: 0,
            timer: None,
        }
    }

    /// A request was sent: what it waits for counts from now. Tells when that is.
    pub(crate) fn start(&mut self) -> Instant {
        self.silent_since = Instant::now();
        self.silent_since
    }

    /// Something came. The next silence counts from when somebody waits again: time spent elsewhere is none.
    pub(crate) fn reset(&mut self) {
        self.restart_on_wait = true;
    }

    /// Waits on, `bytes_received` bytes having come so far; ready when the silence has lasted too long.
    pub(crate) fn poll_silence(&mut self, came: u64, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::take(&mut self.restart_on_wait) || came != self.bytes_received {
            (self.silent_since, self.bytes_received) = (Instant::now(), came);
        }
        self.poll_elapsed(cx)
    }

    /// Waits on, whatever came; ready when it has lasted too long since [`ReadTimeout::start`].
    pub(crate) fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let end = self.silent_since + self.timeout;
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

    async fn time_until_silent(stall: &mut ReadTimeout, came: u64) -> Duration {
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
        assert!(near(time_until_silent(&mut stall, 0).await, LIMIT));
        for _ in 0..3 {
            tokio::time::advance(LIMIT * 3).await;
            stall.start();
            let begun = Instant::now();
            poll_fn(|cx| stall.poll_elapsed(cx)).await;
            assert!(near(begun.elapsed(), LIMIT));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_came_meanwhile_begins_the_silence_anew() {
        let mut stall = ReadTimeout::new(LIMIT);
        let half = tokio::time::timeout(LIMIT / 2, time_until_silent(&mut stall, 1)).await;
        assert!(half.is_err());
        assert!(
            near(time_until_silent(&mut stall, 2).await, LIMIT),
            "a byte came"
        );
        stall.reset();
        assert!(
            near(time_until_silent(&mut stall, 2).await, LIMIT),
            "a piece came"
        );
    }
}
