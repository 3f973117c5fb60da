//! Connections to a target that are opened before a client needs them, so that the client does not wait for the proxies.
//!
//! A task of its own keeps as many as [`WarmPoolPlan`] says, and closes those that have waited too long. A connection is handed out after a
//! look whether it is still open. What the target has sent meanwhile, a greeting say, goes with it.

mod plan;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use haul_net::Target;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::relay::RelayStream;
use crate::upstream::{StreamPurpose, Upstream, UpstreamConnectError};
pub use plan::WarmPoolOptions;
use plan::WarmPoolPlan;

/// Bytes of a greeting that are read when its connection is handed out. The rest stays to be read by the relay.
const GREETING_BUFFER: usize = 4096;

/// Open connections to one target.
#[derive(Debug)]
pub struct WarmPool {
    upstream: Arc<Upstream>,
    target: Target,
    options: WarmPoolOptions,
    /// The oldest first.
    ready: Mutex<VecDeque<WarmConnection>>,
    /// Notified when a connection was taken.
    taken: Notify,
}

/// A connection to a target that a client can be joined to.
#[derive(Debug)]
pub(crate) struct TargetConnection {
    pub(crate) stream: RelayStream,
    /// What the target has sent already.
    pub(crate) early: Bytes,
    /// The route's name in the log.
    pub(crate) via: Arc<str>,
}

#[derive(Debug)]
struct WarmConnection {
    connection: TargetConnection,
    opened_at: Instant,
}

impl WarmPool {
    /// A pool that is empty until [`run`](Self::run) fills it.
    #[must_use]
    pub fn new(upstream: Arc<Upstream>, target: Target, options: WarmPoolOptions) -> Self {
        Self {
            upstream,
            target,
            options,
            ready: Mutex::default(),
            taken: Notify::new(),
        }
    }

    /// How many connections are ready.
    #[must_use]
    pub fn ready_count(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Takes the oldest connection that is still open.
    pub(crate) fn take(&self) -> Option<TargetConnection> {
        let mut taken = None;
        while taken.is_none() {
            // The lock is not held while the socket is read.
            let ready = self.lock().pop_front();
            let Some(ready) = ready else { break };
            taken = ready.into_open();
        }
        self.taken.notify_one();
        taken
    }

    /// Keeps the pool full until it is stopped, and closes all connections then.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let epoch = Instant::now();
        let mut plan = WarmPoolPlan::new(self.options);
        let mut opening = JoinSet::new();
        loop {
            self.close_stale(&plan);
            for _ in 0..plan.begin_attempts(self.ready_count(), epoch.elapsed()) {
                opening.spawn(Arc::clone(&self).open());
            }
            let next = self.wait_for_next(&plan, epoch);
            tokio::select! {
                () = stop.cancelled() => break,
                Some(opened) = opening.join_next() => match opened {
                    Ok(Ok(connection)) => {
                        plan.record_success();
                        self.lock().push_back(connection);
                    }
                    Ok(Err(error)) => {
                        if plan.record_failure(epoch.elapsed(), error.is_login_refused()) {
                            tracing::warn!(target = %self.target, %error, "cannot connect in advance");
                        }
                    }
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                () = self.taken.notified() => {}
                () = next => {}
            }
        }
        self.lock().clear();
        // When this returns no attempt is under way either.
        opening.shutdown().await;
    }

    /// Waits until the oldest connection is stale, or the wait after a failure is over.
    fn wait_for_next(
        &self,
        plan: &WarmPoolPlan,
        epoch: Instant,
    ) -> impl Future<Output = ()> + use<> {
        let oldest = self.lock().front().map(|ready| ready.opened_at);
        let stale = oldest
            .map(|opened_at| (opened_at + self.options.max_idle).duration_since(Instant::now()));
        let retry = plan.next_attempt_in(epoch.elapsed());
        let wait = [stale, retry].into_iter().flatten().min();
        async move {
            match wait {
                Some(wait) => sleep(wait).await,
                None => std::future::pending().await,
            }
        }
    }

    fn close_stale(&self, plan: &WarmPoolPlan) {
        let mut ready = self.lock();
        while ready
            .front()
            .is_some_and(|ready| plan.is_stale(ready.opened_at.elapsed()))
        {
            ready.pop_front();
        }
    }

    async fn open(self: Arc<Self>) -> Result<WarmConnection, UpstreamConnectError> {
        let reached = self
            .upstream
            .connect(&self.target, StreamPurpose::Tunnel)
            .await?;
        let (stream, early) = RelayStream::from_transport(reached.stream);
        Ok(WarmConnection {
            connection: TargetConnection {
                stream,
                early,
                via: reached.via,
            },
            opened_at: Instant::now(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<WarmConnection>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WarmConnection {
    /// The connection with what the target has sent by now; `None` if it was closed.
    fn into_open(self) -> Option<TargetConnection> {
        let mut connection = self.connection;
        let mut greeting = BytesMut::zeroed(GREETING_BUFFER);
        let mut buffer = ReadBuf::new(&mut greeting);
        // Nobody waits here: what has not come yet comes later.
        let mut cx = Context::from_waker(Waker::noop());
        let count = match Pin::new(&mut connection.stream).poll_read(&mut cx, &mut buffer) {
            Poll::Pending => return Some(connection),
            Poll::Ready(Err(_)) => return None,
            Poll::Ready(Ok(())) => buffer.filled().len(),
        };
        if count == 0 {
            return None;
        }
        connection.early = [&connection.early[..], &greeting[..count]].concat().into();
        Some(connection)
    }
}
