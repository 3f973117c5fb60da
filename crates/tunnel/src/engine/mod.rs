//! Accepts, and owns everything that lives: listeners, connections, what stands ready for them.
//!
//! A listener and what it does are apart: a [`TunnelListener`] can be given another [`TunnelConfig`] while it is open, and connections go on with the one
//! that they came to. That is how settings are read again without anybody noticing. All tasks are tracked: [`TunnelEngine::shut_down`] closes the
//! doors, gives connections some time, and cuts off the rest.

mod accepting;
mod listener;

use std::sync::Arc;
use std::time::Duration;

use haul_service::listen::Listener;
use haul_service::observe::{AdminPage, LineLog, MetricSource};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::active_connections::{ActiveConnection, ActiveConnectionGuard, ActiveConnections};
use crate::metrics::TunnelMetrics;
use crate::record::{TunnelLogFormat, TunnelOutcome, TunnelRecord};
use crate::session::{ClientAddress, TunnelConfig};
use crate::status::{ConnectionStatus, ListenerStatus, TunnelStatus};
pub use listener::TunnelListener;
use listener::TunnelListeners;

/// What all tunnels of a process share.
#[derive(Debug, Clone)]
pub struct TunnelEngineOptions {
    /// Connections at one time. One more is accepted and closed at once.
    pub max_connections: usize,
    /// Who allows no more, as the log says it to whoever wonders: a flag, a limit of the system's.
    pub max_connections_set_by: Arc<str>,
    /// Where a line for each connection goes, and what it looks like.
    pub log: Option<(Arc<LineLog>, TunnelLogFormat)>,
}

/// All tunnels of a process. Clones are the same.
#[derive(Debug, Clone)]
pub struct TunnelEngine {
    shared: Arc<TunnelEngineState>,
}

#[derive(Debug)]
pub(crate) struct TunnelEngineState {
    options: TunnelEngineOptions,
    live: Arc<ActiveConnections>,
    metrics: Arc<TunnelMetrics>,
    /// Those that are open.
    doors: TunnelListeners,
    /// Every task that there is.
    tasks: TaskTracker,
    /// Cancelled when no more are accepted.
    closing: CancellationToken,
    /// Cancelled when connections are cut off.
    cutting: CancellationToken,
}

impl TunnelEngine {
    /// One without tunnels.
    #[must_use]
    pub fn new(options: TunnelEngineOptions) -> Self {
        let live = Arc::new(ActiveConnections::default());
        Self {
            shared: Arc::new(TunnelEngineState {
                metrics: Arc::new(TunnelMetrics::new(Arc::clone(&live))),
                options,
                live,
                doors: TunnelListeners::default(),
                tasks: TaskTracker::new(),
                closing: CancellationToken::new(),
                cutting: CancellationToken::new(),
            }),
        }
    }

    /// Opens a door: accepts on a listener what comes to a tunnel, until the door is closed. To be called on a runtime.
    ///
    /// # Errors
    /// When the runtime cannot watch the listener.
    pub fn listen(
        &self,
        listeners: Vec<Listener>,
        tunnel: TunnelConfig,
    ) -> std::io::Result<Arc<TunnelListener>> {
        // All before any is served: one that fails leaves none that accepts.
        let watched = listeners.into_iter().map(accepting::PolledListener::of);
        let watched = watched.collect::<std::io::Result<Vec<_>>>()?;
        let door = Arc::new(TunnelListener::new(tunnel, &self.shared));
        for listener in watched {
            let shared = Arc::clone(&self.shared);
            let accepting = accepting::accept(listener, Arc::clone(&door), shared);
            self.shared.tasks.spawn(door.accepting(accepting));
        }
        self.shared.doors.add(&door);
        Ok(door)
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> Arc<dyn MetricSource> {
        Arc::clone(&self.shared.metrics) as Arc<dyn MetricSource>
    }

    /// What is live, as a page of the admin endpoint.
    #[must_use]
    pub fn status_page(&self) -> Arc<dyn AdminPage> {
        Arc::new(StatusPage(Arc::clone(&self.shared)))
    }

    /// Cancelled when no more are accepted.
    #[must_use]
    pub fn closing(&self) -> CancellationToken {
        self.shared.closing.clone()
    }

    /// How many connections there are.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.shared.live.count()
    }

    /// Accepts no more, waits up to `grace` for the connections that there are, and cuts off the rest; how many those were. Cancel safe:
    /// called again, it goes on with less patience.
    pub async fn shut_down(&self, grace: Duration) -> usize {
        self.shared.closing.cancel();
        self.shared.tasks.close();
        if tokio::time::timeout(grace, self.shared.tasks.wait())
            .await
            .is_ok()
        {
            return 0;
        }
        let left = self.connection_count();
        self.shared.cutting.cancel();
        self.shared.tasks.wait().await;
        left
    }
}

impl TunnelEngineState {
    /// What is live now.
    fn status(&self) -> TunnelStatus {
        let connection = |(id, entry): (u64, Arc<ActiveConnection>)| ConnectionStatus {
            id,
            listen: entry.tunnel.name.to_string(),
            client: entry.peer.to_string(),
            target: entry.target().map(ToString::to_string),
            via: entry.via().map(str::to_owned),
            up: entry.moved().up(),
            down: entry.moved().down(),
            ms: u64::try_from(entry.since.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        let tunnel = |tunnel: Arc<TunnelConfig>| ListenerStatus {
            listen: tunnel.name.to_string(),
            to: tunnel.kind.to_string(),
            tls: tunnel.upstream.has_target_tls(),
            ready: tunnel
                .warm_pool
                .as_ref()
                .map_or(0, |warm| warm.ready_count()),
        };
        TunnelStatus {
            pid: std::process::id(),
            tunnels: self.doors.tunnels().into_iter().map(tunnel).collect(),
            connections: self.live.all().into_iter().map(connection).collect(),
        }
    }

    /// Counts and logs a connection that is over.
    fn over(
        &self,
        entry: &ActiveConnection,
        place: Option<ActiveConnectionGuard>,
        outcome: &TunnelOutcome,
    ) {
        let record = TunnelRecord {
            started_at: entry.when,
            listener: &entry.tunnel.name,
            client: entry.peer,
            target: entry.target().map(ToString::to_string),
            via: entry.via(),
            up: entry.moved().up(),
            down: entry.moved().down(),
            duration: entry.since.elapsed(),
            outcome,
        };
        match place {
            Some(place) => place.leave(|| self.metrics.ended(&record)),
            None => self.metrics.ended(&record),
        }
        if let Some((log, format)) = &self.options.log {
            log.write(|line| format.render(&record, line));
        }
    }

    /// A connection that is refused, for there are too many.
    fn refused(&self, tunnel: Arc<TunnelConfig>, peer: ClientAddress) {
        let outcome = TunnelOutcome::TooManyConnections {
            most: self.options.max_connections,
            by: Arc::clone(&self.options.max_connections_set_by),
        };
        self.over(&ActiveConnection::new(tunnel, peer), None, &outcome);
    }
}

/// What is live, for whoever asks.
struct StatusPage(Arc<TunnelEngineState>);

impl AdminPage for StatusPage {
    fn path(&self) -> &'static str {
        "/tunnels"
    }

    fn content_type(&self) -> &'static str {
        "application/json"
    }

    fn render(&self) -> Vec<u8> {
        // Strings and numbers: there is nothing that JSON cannot say.
        let mut text = serde_json::to_vec(&self.0.status()).unwrap_or_default();
        text.push(b'\n');
        text
    }
}
