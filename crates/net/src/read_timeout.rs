//! How long a peer may be silent.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The time limits of one connection, or of one HTTP/2 stream.
///
/// The timer is created when a task first waits, and looked at only when it fires. To create one for each small response, or to
/// move it at every chunk of a large one, would cost more than reading them.
#[derive(Debug)]
pub(crate) struct ReadTimeout {
    limits: SilenceLimits,
    /// When the current silence began.
    silent_since: Instant,
    /// Whether data arrived since the last wait began. Then the silence begins with the next wait.
    restart_on_wait: bool,
    /// Bytes that had been transferred when the current silence began. A peer that sends a long TLS record slowly is not silent.
    bytes_transferred: u64,
    timer: Option<Pin<Box<Sleep>>>,
}

/// How long a peer may be silent in each phase of an exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SilenceLimits {
    /// Within a body, the request's or the response's.
    pub(crate) stall: Duration,
    /// From the end of the request to the end of the response's head (row A47).
    pub(crate) response: Duration,
}

impl Default for ReadTimeout {
    /// Of a connection without a request.
    fn default() -> Self {
        Self::new(SilenceLimits {
            stall: Duration::ZERO,
            response: Duration::ZERO,
        })
    }
}

/// One of the [`SilenceLimits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SilenceLimit {
    Stall,
    Response,
}

impl ReadTimeout {
    /// The time limits of a request that is sent now.
    pub(crate) fn new(limits: SilenceLimits) -> Self {
        Self {
            limits,
            silent_since: Instant::now(),
            restart_on_wait: true,
            bytes_transferred: 0,
            timer: None,
        }
    }

    /// Starts the time of another request, which is sent now, and returns the time.
    pub(crate) fn start(&mut self, limits: SilenceLimits) -> Instant {
        self.limits = limits;
        self.silent_since = Instant::now();
        self.silent_since
    }

    /// Data arrived. The next silence begins when a task waits again: time that the caller spends elsewhere does not count.
    pub(crate) fn reset(&mut self) {
        self.restart_on_wait = true;
    }

    /// Ready when the peer was silent for the limit. Bytes that were transferred meanwhile end a silence.
    pub(crate) fn poll_silence(
        &mut self,
        limit: SilenceLimit,
        bytes_transferred: u64,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if std::mem::take(&mut self.restart_on_wait) || bytes_transferred != self.bytes_transferred
        {
            (self.silent_since, self.bytes_transferred) = (Instant::now(), bytes_transferred);
        }
        self.poll_elapsed(limit, cx)
    }

    /// Ready when the limit has passed since [`ReadTimeout::start`], whatever arrived meanwhile.
    pub(crate) fn poll_elapsed(&mut self, limit: SilenceLimit, cx: &mut Context<'_>) -> Poll<()> {
        let limit = match limit {
            SilenceLimit::Stall => self.limits.stall,
            SilenceLimit::Response => self.limits.response,
        };
        let end = self.silent_since + limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        if timer.deadline() > end {
            // It was set for a longer limit.
            timer.as_mut().reset(end);
        }
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
    const RESPONSE_TIMEOUT: Duration = Duration::from_secs(100);

    const LIMITS: SilenceLimits = SilenceLimits {
        stall: TIMEOUT,
        response: RESPONSE_TIMEOUT,
    };

    async fn time_until_silent(timeout: &mut ReadTimeout, bytes: u64) -> Duration {
        let started = Instant::now();
        poll_fn(|cx| timeout.poll_silence(SilenceLimit::Stall, bytes, cx)).await;
        started.elapsed()
    }

    fn is_close(found: Duration, expected: Duration) -> bool {
        found.abs_diff(expected) <= Duration::from_millis(2)
    }

    #[tokio::test(start_paused = true)]
    async fn the_timer_of_an_earlier_request_ends_no_later_one() {
        let mut timeout = ReadTimeout::new(LIMITS);
        assert!(is_close(time_until_silent(&mut timeout, 0).await, TIMEOUT));
        for _ in 0..3 {
            tokio::time::advance(TIMEOUT * 3).await;
            let started = timeout.start(LIMITS);
            poll_fn(|cx| timeout.poll_elapsed(SilenceLimit::Stall, cx)).await;
            assert!(is_close(started.elapsed(), TIMEOUT));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn data_that_arrives_restarts_the_silence() {
        let mut timeout = ReadTimeout::new(LIMITS);
        let half = tokio::time::timeout(TIMEOUT / 2, time_until_silent(&mut timeout, 1)).await;
        assert!(half.is_err());
        let elapsed = time_until_silent(&mut timeout, 2).await;
        assert!(is_close(elapsed, TIMEOUT), "the socket received a byte");
        timeout.reset();
        let elapsed = time_until_silent(&mut timeout, 2).await;
        assert!(is_close(elapsed, TIMEOUT), "a chunk was read");
    }

    #[tokio::test(start_paused = true)]
    async fn a47_a_head_and_a_body_have_limits_of_their_own_whichever_is_longer() {
        for (stall, response) in [(TIMEOUT, RESPONSE_TIMEOUT), (RESPONSE_TIMEOUT, TIMEOUT)] {
            let limits = SilenceLimits { stall, response };
            let mut timeout = ReadTimeout::new(limits);
            for _ in 0..3 {
                for (which, limit) in [
                    (SilenceLimit::Response, response),
                    (SilenceLimit::Stall, stall),
                ] {
                    let started = timeout.start(limits);
                    poll_fn(|cx| timeout.poll_elapsed(which, cx)).await;
                    assert!(is_close(started.elapsed(), limit), "{which:?}");
                }
                // A timer that waits for a head is no reason to wait longer for a body.
                timeout.start(limits);
                let head = poll_fn(|cx| timeout.poll_elapsed(SilenceLimit::Response, cx));
                assert!(tokio::time::timeout(TIMEOUT / 2, head).await.is_err());
                timeout.reset();
                assert!(is_close(time_until_silent(&mut timeout, 0).await, stall));
            }
        }
    }
}
