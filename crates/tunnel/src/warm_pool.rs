//! Connections to a target that are open before a client comes: whoever does, does not wait for the proxy.
//!
//! A task of its own keeps as many ready as [`WarmPoolPlan`] says, and closes those that have waited too long. One is handed out after a
//! look whether it is still there: what the target has said meanwhile (a banner) goes with it, and one that has ended is passed over.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use haul_net::Target;
use haul_plan::tunnel::{WarmPoolOptions, WarmPoolPlan};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::relay::RelayStream;
use crate::upstream::{StreamPurpose, Upstream, UpstreamConnectError};

/// Bytes of a target's first words that are read when its connection is handed out.
const ROOM: usize = 4096;

/// Connections that stand ready for one target.
#[derive(Debug)]
pub struct WarmPool {
    upstream: Arc<Upstream>,
    target: Target,
    options: WarmPoolOptions,
    /// The oldest first.
    ready: Mutex<VecDeque<WarmConnection>>,
    /// Rung when one was taken.
    taken: Notify,
}

/// One of them.
#[derive(Debug)]
struct WarmConnection {
    end: RelayStream,
    /// What the target has said.
    early: Bytes,
    via: Arc<str>,
    since: Instant,
}

/// A connection to a target that a client can be joined to.
#[derive(Debug)]
pub(crate) struct TargetConnection {
    pub(crate) stream: RelayStream,
    /// What the target has sent already.
    pub(crate) early: Bytes,
    /// The proxies on the way, for the log.
    pub(crate) via: Arc<str>,
}

impl WarmPool {
    /// None is open before [`run`](Self::keep) runs.
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

    /// How many stand ready.
    #[must_use]
    pub fn ready_count(&self) -> usize {
        self.lock().len()
    }

    /// Where they lead.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// One that is still there, if any is.
    pub(crate) fn take(&self) -> Option<TargetConnection> {
        let mut taken = None;
        while taken.is_none() {
            // Not held while a socket is looked at.
            let ready = self.lock().pop_front();
            let Some(ready) = ready else { break };
            taken = ready.looked_at();
        }
        self.taken.notify_one();
        taken
    }

    /// Keeps as many open as are wanted, until it is stopped; then it closes them.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let epoch = Instant::now();
        let mut reserve = WarmPoolPlan::new(self.options);
        let mut opening = JoinSet::new();
        loop {
            self.drop_stale(&reserve);
            for _ in 0..reserve.begin_attempts(self.ready_count(), epoch.elapsed()) {
                opening.spawn(Arc::clone(&self).open());
            }
            let next = self.next(&reserve, epoch);
            tokio::select! {
                () = stop.cancelled() => break,
                Some(opened) = opening.join_next() => match opened {
                    Ok(Ok(ready)) => {
                        reserve.record_success();
                        self.lock().push_back(ready);
                    }
                    Ok(Err(error)) => {
                        if reserve.record_failure(epoch.elapsed(), error.is_of_login()) {
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
        // Whoever waits for this to end waits for what is under way as well.
        opening.shutdown().await;
    }

    /// Until something is to be done without anything having happened: the oldest is too old, or a failure is long enough ago.
    fn next(&self, reserve: &WarmPoolPlan, epoch: Instant) -> impl Future<Output = ()> + use<> {
        let oldest = self.lock().front().map(|ready| ready.since);
        let stale =
            oldest.map(|since| (since + self.options.max_idle).duration_since(Instant::now()));
        let again = reserve.next_attempt_in(epoch.elapsed());
        let wait = [stale, again].into_iter().flatten().min();
        async move {
            match wait {
                Some(wait) => sleep(wait).await,
                None => std::future::pending().await,
            }
        }
    }

    fn drop_stale(&self, reserve: &WarmPoolPlan) {
        let mut ready = self.lock();
        while ready
            .front()
            .is_some_and(|ready| reserve.is_stale(ready.since.elapsed()))
        {
            ready.pop_front();
        }
    }

    async fn open(self: Arc<Self>) -> Result<WarmConnection, UpstreamConnectError> {
        let found = self
            .upstream
            .connect(&self.target, StreamPurpose::Tunnel)
            .await?;
        let (end, early) = RelayStream::from_transport(found.stream);
        Ok(WarmConnection {
            end,
            early,
            via: found.via,
            since: Instant::now(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<WarmConnection>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WarmConnection {
    /// With what the target has said by now; none if it has ended.
    fn looked_at(mut self) -> Option<TargetConnection> {
        let mut room = BytesMut::zeroed(ROOM);
        let mut buffer = ReadBuf::new(&mut room);
        // Nobody waits here: what is not there now comes later.
        let mut cx = Context::from_waker(Waker::noop());
        let said = match Pin::new(&mut self.end).poll_read(&mut cx, &mut buffer) {
            Poll::Pending => 0,
            Poll::Ready(Err(_)) => return None,
            Poll::Ready(Ok(())) => match buffer.filled().len() {
                0 => return None,
                said => said,
            },
        };
        room.truncate(said);
        let early = match said {
            0 => self.early,
            _ => [&self.early[..], &room].concat().into(),
        };
        Some(TargetConnection {
            stream: self.end,
            early,
            via: self.via,
        })
    }
}
