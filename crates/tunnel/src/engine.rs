//! Accepts connections, and owns everything that runs: listeners, connections, warm pools.
//!
//! A listener and what it does are apart: an open [`TunnelListener`] can be given another [`TunnelConfig`], and connections that it has
//! accepted go on with the one before. That is how settings are reloaded. Every task is tracked: [`TunnelEngine::shut_down`] closes the
//! listeners, gives connections some time, and cuts off the rest.

mod accepting;
mod listener;

use std::sync::Arc;
use std::time::Duration;

use haul_service::accept::Acceptor;
use haul_service::listen::Listener;
use haul_service::observe::{AdminPage, LineLog, MetricSource};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::active_connections::ActiveConnections;
use crate::config::TunnelConfig;
use crate::connection_log::ConnectionLog;
use crate::log_record::TunnelLogFormat;
use crate::metrics::TunnelMetrics;
use crate::status::{ListenerStatus, TunnelStatus};
pub use listener::TunnelListener;
use listener::TunnelListeners;

/// What all tunnels of a process share.
#[derive(Debug, Clone)]
pub struct TunnelEngineOptions {
    /// Connections at one time. One more is accepted and reset at once.
    pub max_connections: usize,
    /// What limits them, for the log: a flag, or a limit of the system.
    pub max_connections_set_by: Arc<str>,
    /// Where a line for each connection goes, and its format.
    pub log: Option<(Arc<LineLog>, TunnelLogFormat)>,
}

impl Default for TunnelEngineOptions {
    fn default() -> Self {
        Self {
            max_connections: 65_536,
            max_connections_set_by: "the default".into(),
            log: None,
        }
    }
}

/// All tunnels of a process. Clones share them.
#[derive(Debug, Clone)]
pub struct TunnelEngine {
    shared: Arc<TunnelEngineState>,
}

#[derive(Debug)]
pub(crate) struct TunnelEngineState {
    max_connections: usize,
    max_connections_set_by: Arc<str>,
    active: Arc<ActiveConnections>,
    metrics: Arc<TunnelMetrics>,
    log: Arc<ConnectionLog>,
    listeners: TunnelListeners,
    /// Every task of the engine.
    tasks: TaskTracker,
    /// Cancelled when nothing more is accepted.
    closing: CancellationToken,
    /// Cancelled when connections are cut off.
    cutting: CancellationToken,
}

impl TunnelEngine {
    /// An engine without listeners.
    #[must_use]
    pub fn new(options: TunnelEngineOptions) -> Self {
        let active = Arc::new(ActiveConnections::default());
        let metrics = Arc::new(TunnelMetrics::new(Arc::clone(&active)));
        let log = ConnectionLog::new(Arc::clone(&active), Arc::clone(&metrics), options.log);
        Self {
            shared: Arc::new(TunnelEngineState {
                max_connections: options.max_connections,
                max_connections_set_by: options.max_connections_set_by,
                active,
                metrics,
                log: Arc::new(log),
                listeners: TunnelListeners::default(),
                tasks: TaskTracker::new(),
                closing: CancellationToken::new(),
                cutting: CancellationToken::new(),
            }),
        }
    }

    /// Accepts the clients of a tunnel until the returned listener is closed. To be called on a runtime.
    ///
    /// # Errors
    /// When the runtime cannot watch one of the sockets; then none of them accepts.
    pub fn listen(
        &self,
        sockets: Vec<Listener>,
        config: TunnelConfig,
    ) -> std::io::Result<Arc<TunnelListener>> {
        // All of them before the first accepts: if one fails, none does.
        let acceptors = sockets
            .into_iter()
            .map(|socket| Acceptor::new(socket, config.name.to_string()))
            .collect::<std::io::Result<Vec<_>>>()?;
        let listener = Arc::new(TunnelListener::new(config, &self.shared));
        for acceptor in acceptors {
            let shared = Arc::clone(&self.shared);
            let accepting = accepting::accept(acceptor, Arc::clone(&listener), shared);
            self.shared.tasks.spawn(accepting);
        }
        self.shared.listeners.add(&listener);
        Ok(listener)
    }

    /// Counters for the admin endpoint.
    #[must_use]
    pub fn metrics(&self) -> Arc<dyn MetricSource> {
        Arc::clone(&self.shared.metrics) as Arc<dyn MetricSource>
    }

    /// The page of the admin endpoint that shows listeners and open connections.
    #[must_use]
    pub fn status_page(&self) -> Arc<dyn AdminPage> {
        Arc::new(StatusPage(Arc::clone(&self.shared)))
    }

    /// Cancelled when nothing more is accepted.
    #[must_use]
    pub fn closing(&self) -> CancellationToken {
        self.shared.closing.clone()
    }

    /// How many connections are open.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.shared.active.count()
    }

    /// Accepts nothing more, waits up to `grace` for open connections to end, and cuts off the rest; returns how many those were. Cancel
    /// safe: called again, it waits for the new `grace`.
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
    fn status(&self) -> TunnelStatus {
        let listener = |config: Arc<TunnelConfig>| ListenerStatus {
            listen: config.name.to_string(),
            to: config.kind.to_string(),
            tls: config.upstream.has_target_tls(),
            ready: config
                .warm_pool
                .as_ref()
                .map_or(0, |pool| pool.ready_count()),
        };
        TunnelStatus {
            pid: std::process::id(),
            tunnels: self.listeners.configs().into_iter().map(listener).collect(),
            connections: self.active.statuses(),
        }
    }
}

struct StatusPage(Arc<TunnelEngineState>);

impl AdminPage for StatusPage {
    fn path(&self) -> &'static str {
        "/tunnels"
    }

    fn content_type(&self) -> &'static str {
        "application/json"
    }

    fn render(&self) -> Vec<u8> {
        // Strings and numbers: this cannot fail.
        let mut text = serde_json::to_vec(&self.0.status()).unwrap_or_default();
        text.push(b'\n');
        text
    }
}
