//! How long a peer may be silent.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The stall timeout of one connection, or of one HTTP/2 stream.
///
/// The timer is created when a task first waits, and looked at only when it fires. To create one for each small response, or to
/// move it at every chunk of a large one, would cost more than reading them.
#[derive(Debug)]
pub(crate) struct ReadTimeout {
    timeout: Duration,
    /// When the current silence began.
    silent_since: Instant,
    /// Whether data arrived since the last wait began. Then the silence begins with the next wait.
    restart_on_wait: bool,
    /// Bytes that the socket had received when the current silence began. A peer that sends a long TLS record slowly is not silent.
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

    /// Starts the timeout of a request that was just sent, and returns the time.
    pub(crate) fn start(&mut self) -> Instant {
        self.silent_since = Instant::now();
        self.silent_since
    }

    /// Data arrived. The next silence begins when a task waits again: time that the caller spends elsewhere does not count.
    pub(crate) fn reset(&mut self) {
        self.restart_on_wait = true;
    }

    /// Ready when the peer was silent for the timeout. Bytes that the socket received meanwhile end a silence.
    pub(crate) fn poll_silence(&mut self, bytes_received: u64, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::take(&mut self.restart_on_wait) || bytes_received != self.bytes_received {
            (self.silent_since, self.bytes_received) = (Instant::now(), bytes_received);
        }
        self.poll_elapsed(cx)
    }

    /// Ready when the timeout has passed since [`ReadTimeout::start`], whatever arrived meanwhile.
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

    const TIMEOUT: Duration = Duration::from_secs(10);

    async fn time_until_silent(timeout: &mut ReadTimeout, bytes_received: u64) -> Duration {
        let started = Instant::now();
        poll_fn(|cx| timeout.poll_silence(bytes_received, cx)).await;
        started.elapsed()
    }

    fn is_close(found: Duration, expected: Duration) -> bool {
        found.abs_diff(expected) <= Duration::from_millis(2)
    }

    #[tokio::test(start_paused = true)]
    async fn the_timer_of_an_earlier_request_ends_no_later_one() {
        let mut timeout = ReadTimeout::new(TIMEOUT);
        assert!(is_close(time_until_silent(&mut timeout, 0).await, TIMEOUT));
        for _ in 0..3 {
            tokio::time::advance(TIMEOUT * 3).await;
            let started = timeout.start();
            poll_fn(|cx| timeout.poll_elapsed(cx)).await;
            assert!(is_close(started.elapsed(), TIMEOUT));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn data_that_arrives_restarts_the_silence() {
        let mut timeout = ReadTimeout::new(TIMEOUT);
        let half = tokio::time::timeout(TIMEOUT / 2, time_until_silent(&mut timeout, 1)).await;
        assert!(half.is_err());
        let elapsed = time_until_silent(&mut timeout, 2).await;
        assert!(is_close(elapsed, TIMEOUT), "the socket received a byte");
        timeout.reset();
        let elapsed = time_until_silent(&mut timeout, 2).await;
        assert!(is_close(elapsed, TIMEOUT), "a chunk was read");
    }
}
