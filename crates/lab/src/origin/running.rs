//! A running origin, as a test holds it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rustls::ServerConfig;

use super::{OriginBuilder, OriginResource, OriginState, RecordedRequest, connection};
use crate::running_listener::RunningListener;

/// A running origin. Dropped, it closes all its connections, and panics when a script of its did.
#[derive(Debug)]
pub struct Origin {
    /// What its connections share with it.
    state: Arc<OriginState>,
    /// Its tasks.
    listener: RunningListener,
    /// For URLs.
    scheme: &'static str,
}

impl Origin {
    /// Begins to set one up.
    #[must_use]
    pub fn builder() -> OriginBuilder {
        OriginBuilder::default()
    }

    pub(crate) async fn start(
        ip: IpAddr,
        tls: Option<Arc<ServerConfig>>,
        state: Arc<OriginState>,
    ) -> Self {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let accepted = connection::serve_connections(tls, Arc::clone(&state));
        let listening = RunningListener::start(ip, state.first_panic.clone(), accepted).await;
        Self {
            state,
            listener: listening,
            scheme,
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address
    }

    /// The URL of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address())
    }

    /// Replaces a resource, or adds one: the next answer is of the new one.
    pub fn replace(&self, path: &str, resource: OriginResource) {
        self.state.replace_resource(path, resource);
    }

    /// Everything that was asked so far, in order, with what became of it.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state.log.requests()
    }

    /// Bytes of bodies that went out so far.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.state.log.bytes_sent()
    }

    /// How many connections carried a request so far.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.state.log.connection_count()
    }

    /// How many connections are open now.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.state.open_connections.count()
    }

    /// Ends it, waits for its tasks, and tells everything that was asked.
    ///
    /// # Panics
    /// When a script did.
    pub async fn stop(self) -> Vec<RecordedRequest> {
        self.listener.stop().await;
        self.state.log.requests()
    }
}
