//! An open listener, and what it does with its clients now.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio_util::sync::CancellationToken;

use super::TunnelEngineState;
use crate::config::TunnelConfig;

/// An open listener. It stays open when this is dropped; [`close`](Self::close) closes it.
#[derive(Debug)]
pub struct TunnelListener {
    current: Mutex<ReloadableConfig>,
    /// Cancelled when it is closed.
    closed: CancellationToken,
    engine: Weak<TunnelEngineState>,
}

/// What a listener does with its clients, until it is given another.
#[derive(Debug)]
struct ReloadableConfig {
    config: Arc<TunnelConfig>,
    /// Cancelled when the listener is closed or has another config.
    replaced: CancellationToken,
}

impl TunnelListener {
    pub(super) fn new(config: TunnelConfig, engine: &Arc<TunnelEngineState>) -> Self {
        let closed = engine.closing.child_token();
        Self {
            current: Mutex::new(ReloadableConfig::start(config, engine, &closed)),
            closed,
            engine: Arc::downgrade(engine),
        }
    }

    /// Serves clients by another config from here on. Connections that are open go on with the one before.
    pub fn reconfigure(&self, config: TunnelConfig) {
        let Some(engine) = self.engine.upgrade() else {
            return;
        };
        let next = ReloadableConfig::start(config, &engine, &self.closed);
        let before = std::mem::replace(&mut *self.lock(), next);
        before.replaced.cancel();
    }

    /// Accepts nothing more. Connections that are open go on.
    pub fn close(&self) {
        self.closed.cancel();
    }

    /// Whether it accepts nothing more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    pub(super) fn config(&self) -> Arc<TunnelConfig> {
        Arc::clone(&self.lock().config)
    }

    /// The config, and a token that is cancelled when the listener is closed or has another.
    pub(super) fn current(&self) -> (Arc<TunnelConfig>, CancellationToken) {
        let current = self.lock();
        (Arc::clone(&current.config), current.replaced.clone())
    }

    pub(super) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    fn lock(&self) -> MutexGuard<'_, ReloadableConfig> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReloadableConfig {
    /// Starts to fill the config's warm pool, if it has one.
    fn start(config: TunnelConfig, engine: &TunnelEngineState, closed: &CancellationToken) -> Self {
        let replaced = closed.child_token();
        if let Some(pool) = &config.warm_pool {
            engine.tasks.spawn(Arc::clone(pool).run(replaced.clone()));
        }
        Self {
            config: Arc::new(config),
            replaced,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct TunnelListeners(Mutex<Vec<Arc<TunnelListener>>>);

impl TunnelListeners {
    pub(super) fn add(&self, listener: &Arc<TunnelListener>) {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| !listener.is_closed());
        listeners.push(Arc::clone(listener));
    }

    /// The configs of those that are open.
    pub(super) fn configs(&self) -> Vec<Arc<TunnelConfig>> {
        let listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open = listeners.iter().filter(|listener| !listener.is_closed());
        open.map(|listener| listener.config()).collect()
    }
}
