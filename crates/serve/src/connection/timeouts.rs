//! The timeouts of one connection, and the timer that enforces them.
//!
//! [`ConnectionTimeouts`] adds a clock and a lock to [`Timeouts`], which decides. The
//! [`ConnectionTimer`] is polled after each turn of the connection, and most deadlines move during
//! a turn. On HTTP/2 streams have tasks of their own, which begin to wait for a body or end a pause
//! while the connection sleeps. So while an HTTP/2 connection has a stream, or while there is no
//! deadline at all, the timer fires once in a grace period, and a late client is noticed at most
//! one grace period later.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::peer_timeouts::{TimeoutKind, TimeoutOptions, Timeouts};

/// In effect never, but small enough for any clock.
const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

#[derive(Debug)]
pub(crate) struct ConnectionTimeouts {
    /// Times within [`Timeouts`] are since this moment.
    started: Instant,
    timeouts: Mutex<Timeouts>,
    /// Whether a timeout has expired: bodies that are still being read then fail.
    has_expired: AtomicBool,
    /// How often the timer fires if the connection may not wake it.
    recheck_interval: Duration,
}

/// A time in which the client waits for the server. Ends when it is dropped.
#[derive(Debug)]
pub struct TimeoutPause(Arc<ConnectionTimeouts>);

impl Drop for TimeoutPause {
    fn drop(&mut self) {
        let now = self.0.now();
        self.0.lock().resume(now);
    }
}

impl ConnectionTimeouts {
    /// The timeouts of a new connection; with TLS, once the handshake is done.
    pub(super) fn new(options: TimeoutOptions) -> Self {
        let mut timeouts = Timeouts::new(options, Duration::ZERO);
        timeouts.handshake_done(Duration::ZERO);
        let limits = [options.grace, options.idle];
        let shortest = limits.into_iter().filter(|limit| !limit.is_zero()).min();
        Self {
            started: Instant::now(),
            timeouts: Mutex::new(timeouts),
            has_expired: AtomicBool::new(false),
            recheck_interval: shortest.unwrap_or(Duration::MAX),
        }
    }

    /// A request head has begun.
    pub(super) fn head_started(&self) {
        let now = self.now();
        self.lock().head_started(now);
    }

    /// A request head is complete.
    pub(super) fn head_done(&self) {
        self.lock().head_done();
    }

    /// The service begins to read a request body.
    pub(crate) fn body_started(&self) {
        let now = self.now();
        self.lock().body_started(now);
    }

    /// Bytes of a request body were received.
    pub(crate) fn body_received(&self, bytes: usize) {
        self.lock().body_received(bytes as u64);
    }

    /// The service reads no more of a request body.
    pub(crate) fn body_done(&self) {
        let now = self.now();
        self.lock().body_done(now);
    }

    /// The server begins to send a response.
    pub(super) fn response_started(&self) {
        let now = self.now();
        self.lock().response_started(now);
    }

    /// The client has received bytes.
    pub(super) fn response_sent(&self, bytes: u64) {
        self.lock().response_sent(bytes);
    }

    /// A response is sent, or will not be.
    pub(super) fn response_done(&self) {
        let now = self.now();
        self.lock().response_done(now);
    }

    /// Until the pause is dropped, the client waits for the server.
    pub(crate) fn pause(self: &Arc<Self>) -> TimeoutPause {
        let now = self.now();
        self.lock().pause(now);
        TimeoutPause(Arc::clone(self))
    }

    /// Forgets the request head that HTTP/2's preface looked like.
    pub(super) fn switch_to_http2(&self) {
        let now = self.now();
        let mut timeouts = self.lock();
        timeouts.head_done();
        timeouts.response_started(now);
        timeouts.response_done(now);
    }

    /// Whether there is neither a request nor the head of one.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().is_idle()
    }

    /// Notes that a timeout has expired. Returns whether it is the first one.
    pub(super) fn expire(&self) -> bool {
        !self.has_expired.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn has_expired(&self) -> bool {
        self.has_expired.load(Ordering::Relaxed)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, Timeouts> {
        self.timeouts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct ConnectionTimer<'a> {
    timeouts: Arc<ConnectionTimeouts>,
    sleep: Pin<&'a mut Sleep>,
    /// What the timer is set to.
    armed: Duration,
    /// How long a connection may be idle before it is parked.
    park_after: Option<Duration>,
    /// When the timer was created: idle time before that does not count for parking, or a
    /// connection that wakes in vain would be parked again at once.
    created: Duration,
    /// Whether streams have tasks of their own, which cannot wake the timer.
    has_stream_tasks: bool,
    /// Whether unsent bytes were checked since the timer fired.
    has_checked_unsent: bool,
}

/// What the driver must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionTimerAction {
    Wait,
    /// Poll the connection once more, so that its I/O reports unsent bytes.
    CheckUnsent,
    /// Park the connection: it has been idle for long enough.
    Park,
    Expire(TimeoutKind),
}

impl<'a> ConnectionTimer<'a> {
    pub(super) fn new(
        timeouts: Arc<ConnectionTimeouts>,
        park_after: Option<Duration>,
        has_stream_tasks: bool,
        sleep: Pin<&'a mut Sleep>,
    ) -> Self {
        Self {
            created: timeouts.now(),
            timeouts,
            sleep,
            armed: Duration::MAX,
            park_after,
            has_stream_tasks,
            has_checked_unsent: false,
        }
    }

    /// Must be called after each turn of the connection.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> ConnectionTimerAction {
        loop {
            let deadline = self.deadline();
            if deadline < self.armed {
                self.arm(deadline);
            }
            if self.sleep.as_mut().poll(cx) == Poll::Pending {
                return ConnectionTimerAction::Wait;
            }
            let now = self.timeouts.now();
            let is_due = self.timeouts.lock().deadline() <= now;
            if !is_due && self.park_at().is_some_and(|park| park <= now) {
                return ConnectionTimerAction::Park;
            }
            if !self.has_checked_unsent && !self.timeouts.is_idle() {
                self.has_checked_unsent = true;
                return ConnectionTimerAction::CheckUnsent;
            }
            self.has_checked_unsent = false;
            let expired = self.timeouts.lock().check(now);
            match expired {
                Some(kind) => return ConnectionTimerAction::Expire(kind),
                None => {
                    let deadline = self.deadline();
                    self.arm(deadline);
                }
            }
        }
    }

    /// When the timer must fire.
    fn deadline(&self) -> Duration {
        let park = self.park_at().unwrap_or(Duration::MAX);
        let (deadline, is_idle) = {
            let timeouts = self.timeouts.lock();
            (timeouts.deadline().min(park), timeouts.is_idle())
        };
        if deadline == Duration::MAX || (self.has_stream_tasks && !is_idle) {
            let recheck = self.timeouts.recheck_interval;
            return deadline.min(self.timeouts.now().saturating_add(recheck));
        }
        deadline
    }

    /// When the connection is to be parked, if it is idle.
    fn park_at(&self) -> Option<Duration> {
        let idle_since = self.timeouts.lock().idle_since()?;
        Some(idle_since.max(self.created) + self.park_after?)
    }

    fn arm(&mut self, deadline: Duration) {
        self.armed = deadline;
        let at = self.timeouts.started + deadline.min(NEVER);
        self.sleep.as_mut().reset(at);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::task::JoinSet;
    use tokio::time::sleep;

    use super::*;

    const GRACE: Duration = Duration::from_secs(30);
    const IDLE: Duration = Duration::from_secs(75);

    fn http2_timeouts() -> Arc<ConnectionTimeouts> {
        let options = TimeoutOptions {
            grace: GRACE,
            idle: IDLE,
            ..TimeoutOptions::default()
        };
        Arc::new(ConnectionTimeouts::new(options))
    }

    /// Runs the timer as the connection's task does, woken by nothing else. Returns which timeout
    /// expired and when.
    async fn run_timer(timeouts: Arc<ConnectionTimeouts>) -> (TimeoutKind, Duration) {
        let sleep = pin!(sleep(Duration::ZERO));
        let mut timer = ConnectionTimer::new(Arc::clone(&timeouts), None, true, sleep);
        let kind = std::future::poll_fn(|cx| {
            loop {
                match timer.poll(cx) {
                    ConnectionTimerAction::Wait => return Poll::Pending,
                    ConnectionTimerAction::CheckUnsent => timeouts.response_sent(0),
                    ConnectionTimerAction::Park => unreachable!("HTTP/2 is never parked"),
                    ConnectionTimerAction::Expire(kind) => return Poll::Ready(kind),
                }
            }
        });
        (kind.await, timeouts.now())
    }

    /// Runs the timer beside the task of a stream whose request has a body.
    async fn expiry_with<F>(
        stream: impl FnOnce(Arc<ConnectionTimeouts>) -> F,
    ) -> (TimeoutKind, Duration)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let timeouts = http2_timeouts();
        let mut tasks = JoinSet::new();
        timeouts.head_done();
        tasks.spawn(stream(Arc::clone(&timeouts)));
        let expiry = tokio::time::timeout(10 * IDLE, run_timer(timeouts));
        expiry.await.expect("a timeout expires")
    }

    #[tokio::test(start_paused = true)]
    async fn d9_a_timeout_still_applies_after_a_long_pause() {
        let paused = 3 * IDLE;
        let (kind, when) = expiry_with(|timeouts| async move {
            let pause = timeouts.pause();
            sleep(paused).await;
            drop(pause);
            timeouts.body_started();
        })
        .await;
        assert_eq!(kind, TimeoutKind::SlowBody);
        assert!(
            paused + GRACE <= when && when <= paused + 2 * GRACE,
            "{when:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn d9_an_http2_body_has_a_timeout_of_its_own() {
        let (kind, when) = expiry_with(|timeouts| async move {
            tokio::task::yield_now().await;
            timeouts.body_started();
        })
        .await;
        assert_eq!(kind, TimeoutKind::SlowBody);
        // Earlier than the idle timeout.
        assert!(GRACE <= when && when <= 2 * GRACE, "{when:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_does_not_wake_before_its_timeout() {
        let (kind, when) = run_timer(http2_timeouts()).await;
        assert_eq!((kind, when), (TimeoutKind::Idle, IDLE));
    }
}
