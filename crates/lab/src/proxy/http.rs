//! An HTTP proxy under a script: CONNECT and absolute-form (RFC 9110 9.3.6, RFC 9112 3.2.2).
//!
//! It is an origin whose rules apply to requests for other servers: a request that its rules leave alone is forwarded. A rule that sets a
//! body on the 2xx of a CONNECT acts as a target that speaks first, in the same packet (row E2).

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ServerConfig;

use super::ForwardingProxyState;
use crate::origin::faults::RequiredLogin;
use crate::origin::{
    Origin, OriginBuilder, OriginResponse, RecordedRequest, RequestMatcher, ResponseRule,
    ServerRole,
};

#[derive(Debug, Default)]
pub struct HttpProxyBuilder {
    /// The routes and rules.
    forwarding: ForwardingProxyState,
    /// The TLS configuration for its clients.
    tls: Option<Arc<ServerConfig>>,
}

impl HttpProxyBuilder {
    /// Connects requests for this host and port to this address: `.route("files.test:443", origin.address())`.
    #[must_use]
    pub fn route(mut self, target: &str, address: SocketAddr) -> Self {
        self.forwarding.host_map.add(target, address);
        self
    }

    /// Adds a rule. Rules apply in the order in which they were added. If they leave the status at 2xx, the request is forwarded.
    #[must_use]
    pub fn rule(
        mut self,
        when: RequestMatcher,
        change: impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync + 'static,
    ) -> Self {
        self.forwarding.rules.push(ResponseRule::new(when, change));
        self
    }

    /// Requires a login: 407 without it (rows A21, E4).
    #[must_use]
    pub fn require_login(self, login: RequiredLogin) -> Self {
        self.rule(RequestMatcher::always(), login.for_proxy().rule())
    }

    /// Speaks TLS to its clients with this configuration.
    #[must_use]
    pub fn tls(mut self, config: Arc<ServerConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Starts the proxy on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(self) -> HttpProxy {
        let mut builder = OriginBuilder::new(ServerRole::Proxy(self.forwarding));
        if let Some(tls) = self.tls {
            builder = builder.tls(tls);
        }
        HttpProxy {
            origin: builder.start().await,
        }
    }
}

/// A running HTTP proxy. When dropped, it closes all its connections, and panics if one of its scripts did.
#[derive(Debug)]
pub struct HttpProxy {
    /// The server, in the role of a proxy.
    origin: Origin,
}

impl HttpProxy {
    #[must_use]
    pub fn builder() -> HttpProxyBuilder {
        HttpProxyBuilder::default()
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.origin.address()
    }

    /// Its URL, as `--proxy` takes it: `http://127.0.0.1:1234`.
    #[must_use]
    pub fn url(&self) -> String {
        self.origin.url("")
    }

    #[must_use]
    pub fn url_with_login(&self, user: &str, password: &str) -> String {
        self.url()
            .replacen("://", &format!("://{user}:{password}@"), 1)
    }

    /// All requests so far, in order. The target of a tunnel is a host and a port, that of a forwarded request a URL.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.origin.requests()
    }

    /// How many connections are open now, including tunnels.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.origin.open_connections()
    }

    /// Stops the proxy, waits for its tasks, and returns all requests.
    ///
    /// # Panics
    /// If a script did.
    pub async fn stop(self) -> Vec<RecordedRequest> {
        self.origin.stop().await
    }
}
