//! The timer of one connection: it fires when [`Timeouts`](haul_plan::serving::Timeouts) may have run out.
//!
//! It is asked after each turn of the connection, and what moves a deadline mostly happens in a turn. Not all of it: streams of HTTP/2 have tasks
//! of their own, which begin to wait for a body, or end a pause, while the connection sleeps. So while anything is under way there, or nothing
//! at all is due, the timer fires once in a grace, and whoever is late is noticed at most one grace later.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use haul_plan::serving::TimeoutKind;
use tokio::time::{Instant, Sleep};

use super::line::ConnectionState;

/// Far enough to be never, near enough for any clock.
const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// Minds one connection.
pub(super) struct ConnectionTimer<'a> {
    line: Arc<ConnectionState>,
    /// The one timer.
    sleep: Pin<&'a mut Sleep>,
    /// What the line's times are since.
    began: Instant,
    /// What the timer is set to.
    armed: Duration,
    /// How long a connection may be idle before it is to rest.
    idle: Option<Duration>,
    /// Since when it is minded, by the line's time: what was idle before counts for no rest, or one would follow the other at once.
    since: Duration,
    /// After how long it looks again where it might not be told.
    again: Duration,
    /// Whether the wire was asked to look how much has left, since the timer fired.
    has_asked: bool,
}

/// What a minder wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionTimerAction {
    /// Nothing before something happens.
    Nothing,
    /// The connection to be polled once more, so that its wire looks how much has left.
    Look,
    /// Nothing has happened for as long as was said: the connection to be kept in less room.
    Rest,
    /// The connection to end.
    End(TimeoutKind),
}

impl<'a> ConnectionTimer<'a> {
    /// With a timer of its own.
    pub(super) fn new(
        line: Arc<ConnectionState>,
        idle: Option<Duration>,
        sleep: Pin<&'a mut Sleep>,
    ) -> Self {
        let began = Instant::now()
            .checked_sub(line.now())
            .unwrap_or_else(Instant::now);
        let limits = &line.server.options.timeouts;
        let again = [limits.grace, limits.idle];
        let again = again.into_iter().filter(|limit| !limit.is_zero()).min();
        Self {
            again: again.unwrap_or(Duration::MAX),
            since: line.now(),
            line,
            sleep,
            began,
            armed: Duration::MAX,
            idle,
            has_asked: false,
        }
    }

    /// To be asked after each turn of the connection.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> ConnectionTimerAction {
        loop {
            let deadline = self.deadline();
            if deadline < self.armed {
                self.arm(deadline);
            }
            if self.sleep.as_mut().poll(cx) == Poll::Pending {
                return ConnectionTimerAction::Nothing;
            }
            let now = self.line.now();
            let is_due = self.line.patience().deadline() <= now;
            if !is_due && self.rest().is_some_and(|rest| rest <= now) {
                return ConnectionTimerAction::Rest;
            }
            if !self.has_asked && !self.line.patience().is_idle() {
                self.has_asked = true;
                self.line.want_look();
                return ConnectionTimerAction::Look;
            }
            self.has_asked = false;
            let verdict = self.line.patience().check(now);
            match verdict {
                Some(tired) => return ConnectionTimerAction::End(tired),
                None => {
                    let deadline = self.deadline();
                    self.arm(deadline);
                }
            }
        }
    }

    /// When something is to be decided, or to be looked at again.
    fn deadline(&self) -> Duration {
        let rest = self.rest().unwrap_or(Duration::MAX);
        let (deadline, is_idle) = {
            let patience = self.line.patience();
            (patience.deadline().min(rest), patience.is_idle())
        };
        if deadline == Duration::MAX || (self.line.is_multiplexed() && !is_idle) {
            return deadline.min(self.line.now().saturating_add(self.again));
        }
        deadline
    }

    /// When the connection is to rest, if it is idle.
    fn rest(&self) -> Option<Duration> {
        Some(self.line.patience().idle_since()?.max(self.since) + self.idle?)
    }

    fn arm(&mut self, deadline: Duration) {
        self.armed = deadline;
        self.sleep.as_mut().reset(self.began + deadline.min(NEVER));
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use haul_plan::serving::TimeoutOptions;
    use tokio::runtime::Handle;
    use tokio::task::JoinSet;
    use tokio::time::sleep;

    use super::*;
    use crate::store::{DiskThreads, FileStore, FileStoreOptions};
    use crate::{FileServer, FileServerOptions};

    const GRACE: Duration = Duration::from_secs(30);
    const IDLE: Duration = Duration::from_secs(75);

    /// A line of HTTP/2, at which a request has come whose body is still to come.
    fn line() -> Arc<ConnectionState> {
        let folder = tempfile::tempdir().expect("a folder");
        let store = FileStore::open(folder.path(), FileStoreOptions::default()).expect("a store");
        let options = FileServerOptions {
            timeouts: TimeoutOptions {
                grace: GRACE,
                idle: IDLE,
                ..TimeoutOptions::default()
            },
            ..FileServerOptions::default()
        };
        let server = FileServer::new(
            Arc::new(store),
            DiskThreads::new(Handle::current()),
            options,
        );
        let line = Arc::new(ConnectionState::new(Arc::new(server), None, false, false));
        line.becomes_second();
        line
    }

    /// Minds a line as its connection's task does, which nothing wakes but the timer. Why and when it was given up.
    async fn mind(line: Arc<ConnectionState>) -> (TimeoutKind, Duration) {
        let sleep = pin!(sleep(Duration::ZERO));
        let mut minder = ConnectionTimer::new(Arc::clone(&line), None, sleep);
        let tired = std::future::poll_fn(|cx| {
            loop {
                match minder.poll(cx) {
                    ConnectionTimerAction::Nothing => return Poll::Pending,
                    ConnectionTimerAction::Look => line.looked(0),
                    ConnectionTimerAction::Rest => unreachable!("it was not asked for"),
                    ConnectionTimerAction::End(tired) => return Poll::Ready(tired),
                }
            }
        });
        (tired.await, line.now())
    }

    /// Runs a stream's task beside the connection's.
    async fn given_up<F>(stream: impl FnOnce(Arc<ConnectionState>) -> F) -> (TimeoutKind, Duration)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let line = line();
        let mut tasks = JoinSet::new();
        line.patience().head_done();
        tasks.spawn(stream(Arc::clone(&line)));
        let minded = tokio::time::timeout(10 * IDLE, mind(line));
        minded.await.expect("it is given up")
    }

    #[tokio::test(start_paused = true)]
    async fn d9_a_timeout_still_applies_after_a_long_pause() {
        let paused = 3 * IDLE;
        let (tired, when) = given_up(|line| async move {
            let pause = line.pause();
            sleep(paused).await;
            drop(pause);
            let now = line.now();
            line.patience().body_started(now);
        })
        .await;
        assert_eq!(tired, TimeoutKind::SlowBody);
        assert!(
            paused + GRACE <= when && when <= paused + 2 * GRACE,
            "{when:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn d9_an_http2_body_has_a_timeout_of_its_own() {
        let (tired, when) = given_up(|line| async move {
            tokio::task::yield_now().await;
            let now = line.now();
            line.patience().body_started(now);
        })
        .await;
        assert_eq!(tired, TimeoutKind::SlowBody);
        // Not when it would have been idle for too long.
        assert!(GRACE <= when && when <= 2 * GRACE, "{when:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_does_not_wake_before_its_timeout() {
        let (tired, when) = mind(line()).await;
        assert_eq!((tired, when), (TimeoutKind::Idle, IDLE));
    }
}
