//! How an origin is set up.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;

use super::{Origin, OriginResource, OriginState, ServerRole};
use crate::bandwidth_limit::BandwidthLimit;
use crate::generated_files::GeneratedFiles;

/// How an origin is set up.
#[derive(Debug)]
pub struct OriginBuilder {
    /// Which resources there are, or that it is a proxy.
    pub(crate) role: ServerRole,
    /// Has what no resource is named for.
    generated_files: Option<GeneratedFiles>,
    /// Speaks TLS with these.
    tls: Option<Arc<ServerConfig>>,
    /// Bytes a second for each connection.
    rate_per_connection: Option<u64>,
    /// Bytes a second for all together.
    total_rate: Option<u64>,
    /// Before each answer.
    latency: Duration,
    /// A path that nobody has breaks the test.
    strict: bool,
    /// Where it listens.
    ip: IpAddr,
}

impl OriginBuilder {
    pub(crate) fn new(role: ServerRole) -> Self {
        Self {
            role,
            generated_files: None,
            tls: None,
            rate_per_connection: None,
            total_rate: None,
            latency: Duration::ZERO,
            strict: false,
            ip: Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// Serves a resource under a path.
    #[must_use]
    pub fn resource(mut self, path: &str, resource: OriginResource) -> Self {
        if let ServerRole::Origin(resources) = &mut self.role {
            resources.insert(path.into(), resource);
        }
        self
    }

    /// Serves a shelf's file under every path that no resource has.
    #[must_use]
    pub fn generated_files(mut self, shelf: GeneratedFiles) -> Self {
        self.generated_files = Some(shelf);
        self
    }

    /// Speaks TLS with these settings.
    #[must_use]
    pub fn tls(mut self, config: Arc<ServerConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Gives each connection no more than this, in bytes of bodies a second.
    #[must_use]
    pub fn rate_per_connection(mut self, rate: u64) -> Self {
        self.rate_per_connection = Some(rate);
        self
    }

    /// Gives all connections together no more than this, in bytes of bodies a second.
    #[must_use]
    pub fn total_rate(mut self, rate: u64) -> Self {
        self.total_rate = Some(rate);
        self
    }

    /// Waits this long before each answer.
    #[must_use]
    pub fn latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// A request for a path that it does not have makes the origin panic when it is dropped. Otherwise it is a 404.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Listens on this address in place of 127.0.0.1.
    #[must_use]
    pub fn listen_on(mut self, ip: IpAddr) -> Self {
        self.ip = ip;
        self
    }

    /// Starts it on a free port.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(self) -> Origin {
        let state = OriginState {
            role: self.role.into(),
            generated_files: self.generated_files,
            log: Default::default(),
            open_connections: Default::default(),
            first_panic: Default::default(),
            rate_per_connection: self.rate_per_connection,
            total_rate: self.total_rate.map(BandwidthLimit::new),
            latency: self.latency,
            strict: self.strict,
        };
        Origin::start(self.ip, self.tls, Arc::new(state)).await
    }
}

impl Default for OriginBuilder {
    fn default() -> Self {
        Self::new(ServerRole::Origin(HashMap::new()))
    }
}
