//! An origin: its builder, and the running server.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;

use super::connection::serve_connections;
use super::request_log::RequestLog;
use super::{OriginResource, OriginState, RecordedRequest, ServerRole};
use crate::bandwidth_limit::BandwidthLimit;
use crate::generated_files::GeneratedFiles;
use crate::open_counter::OpenCounter;
use crate::running_listener::{FirstPanic, RunningListener};

#[derive(Debug)]
pub struct OriginBuilder {
    state: OriginState,
    tls: Option<Arc<ServerConfig>>,
    ip: IpAddr,
}

impl OriginBuilder {
    pub(crate) fn new(role: ServerRole) -> Self {
        Self {
            state: OriginState {
                role,
                generated_files: None,
                log: RequestLog::default(),
                open_connections: OpenCounter::default(),
                active_requests: OpenCounter::default(),
                first_panic: FirstPanic::default(),
                rate_per_connection: None,
                total_rate: None,
                latency: Duration::ZERO,
                strict: false,
            },
            tls: None,
            ip: Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// Serves a resource under a path.
    #[must_use]
    pub fn resource(mut self, path: &str, resource: OriginResource) -> Self {
        if let ServerRole::Origin(resources) = &mut self.state.role {
            let resources = resources.get_mut().unwrap_or_else(PoisonError::into_inner);
            resources.insert(path.into(), resource);
        }
        self
    }

    /// Serves a generated file under every path without a resource.
    #[must_use]
    pub fn generated_files(mut self, files: GeneratedFiles) -> Self {
        self.state.generated_files = Some(files);
        self
    }

    /// Speaks TLS with this configuration.
    #[must_use]
    pub fn tls(mut self, config: Arc<ServerConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Limits each connection to this rate, in bytes of bodies a second.
    #[must_use]
    pub fn rate_per_connection(mut self, rate: u64) -> Self {
        self.state.rate_per_connection = Some(rate);
        self
    }

    /// Limits all connections together to this rate, in bytes of bodies a second.
    #[must_use]
    pub fn total_rate(mut self, rate: u64) -> Self {
        self.state.total_rate = Some(BandwidthLimit::new(rate));
        self
    }

    /// Waits this long before each response.
    #[must_use]
    pub fn latency(mut self, latency: Duration) -> Self {
        self.state.latency = latency;
        self
    }

    /// Lets a request for an unknown path fail the test: the origin panics when it is dropped. Otherwise the response is a 404.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.state.strict = true;
        self
    }

    /// Listens on this address instead of 127.0.0.1.
    #[must_use]
    pub fn listen_on(mut self, ip: IpAddr) -> Self {
        self.ip = ip;
        self
    }

    /// Starts the origin on a free port.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(self) -> Origin {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let state = Arc::new(self.state);
        let serve = serve_connections(self.tls, Arc::clone(&state));
        let listener = RunningListener::start(self.ip, state.first_panic.clone(), serve).await;
        Origin {
            state,
            listener,
            scheme,
        }
    }
}

impl Default for OriginBuilder {
    fn default() -> Self {
        Self::new(ServerRole::Origin(HashMap::new().into()))
    }
}

/// A running origin. When dropped, it closes all its connections, and panics if one of its scripts did.
#[derive(Debug)]
pub struct Origin {
    state: Arc<OriginState>,
    listener: RunningListener,
    /// For URLs.
    scheme: &'static str,
}

impl Origin {
    #[must_use]
    pub fn builder() -> OriginBuilder {
        OriginBuilder::default()
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address
    }

    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address())
    }

    /// Replaces or adds a resource: the next response is of the new one.
    pub fn replace(&self, path: &str, resource: OriginResource) {
        self.state.replace_resource(path, resource);
    }

    /// All requests so far, in order, with their outcomes.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state.log.requests()
    }

    /// Bytes of bodies sent so far, those that are being written included.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.state.log.bytes_sent()
    }

    /// How many connections have carried a request so far.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.state.log.connection_count()
    }

    /// How many connections are open now.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.state.open_connections.count()
    }

    /// Stops the origin, waits for its tasks, and returns all requests.
    ///
    /// # Panics
    /// If a script did.
    pub async fn stop(self) -> Vec<RecordedRequest> {
        self.listener.stop().await;
        self.state.log.requests()
    }
}
