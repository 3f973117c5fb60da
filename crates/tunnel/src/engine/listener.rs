//! A listener that is open, and the tunnel that it leads into now.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::TunnelEngineState;
use crate::session::TunnelConfig;

/// An open listener. It stays open when this is dropped; [`close`](Self::close) closes it.
#[derive(Debug)]
pub struct TunnelListener {
    /// Where it leads, and what keeps connections ready for that.
    inside: Mutex<TunnelListenerState>,
    /// Cancelled when it is closed.
    closed: CancellationToken,
    /// What accepts, and has the sockets for that.
    accepting: TaskTracker,
    /// Whose tasks it has.
    shared: Weak<TunnelEngineState>,
}

#[derive(Debug)]
struct TunnelListenerState {
    tunnel: Arc<TunnelConfig>,
    /// Ends the task that keeps connections ready.
    warming: CancellationToken,
}

impl TunnelListener {
    pub(super) fn new(tunnel: TunnelConfig, shared: &Arc<TunnelEngineState>) -> Self {
        let tunnel = Arc::new(tunnel);
        let closed = shared.closing.child_token();
        Self {
            inside: Mutex::new(TunnelListenerState {
                warming: warm(&tunnel, shared, &closed),
                tunnel,
            }),
            closed,
            accepting: TaskTracker::new(),
            shared: Arc::downgrade(shared),
        }
    }

    /// Leads into another tunnel from here on. Who came before goes on with the old one.
    pub fn reconfigure(&self, tunnel: TunnelConfig) {
        let tunnel = Arc::new(tunnel);
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let inside = TunnelListenerState {
            warming: warm(&tunnel, &shared, &self.closed),
            tunnel,
        };
        let mut known = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        known.warming.cancel();
        *known = inside;
    }

    /// Accepts no more. Who came before goes on.
    pub fn close(&self) {
        self.closed.cancel();
    }

    /// Whether it accepts no more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Waits until what it listened on is free for others: it has been closed, and its sockets with it. Cancel safe.
    pub async fn wait_closed(&self) {
        self.closed.cancelled().await;
        self.accepting.close();
        self.accepting.wait().await;
    }

    /// Something accepts for it.
    pub(super) fn accepting<F: Future<Output = ()>>(
        &self,
        accepting: F,
    ) -> impl Future<Output = ()> + use<F> {
        self.accepting.track_future(accepting)
    }

    /// Where it leads now.
    pub(super) fn tunnel(&self) -> Arc<TunnelConfig> {
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&inside.tunnel)
    }

    pub(super) fn closed(&self) -> &CancellationToken {
        &self.closed
    }
}

/// Begins to keep connections ready, if the tunnel wants that; what ends it.
fn warm(
    tunnel: &TunnelConfig,
    shared: &TunnelEngineState,
    closed: &CancellationToken,
) -> CancellationToken {
    let stop = closed.child_token();
    if let Some(warm) = &tunnel.warm_pool {
        shared.tasks.spawn(Arc::clone(warm).run(stop.clone()));
    }
    stop
}

/// Those that there are.
#[derive(Debug, Default)]
pub(super) struct TunnelListeners(Mutex<Vec<Arc<TunnelListener>>>);

impl TunnelListeners {
    pub(super) fn add(&self, door: &Arc<TunnelListener>) {
        let mut doors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        doors.retain(|door| !door.closed.is_cancelled());
        doors.push(Arc::clone(door));
    }

    /// Where those that are open lead.
    pub(super) fn tunnels(&self) -> Vec<Arc<TunnelConfig>> {
        let doors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open = doors.iter().filter(|door| !door.closed.is_cancelled());
        open.map(|door| door.tunnel()).collect()
    }
}
