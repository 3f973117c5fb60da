//! An HTTP proxy under a script: CONNECT and absolute-form (RFC 9110 9.3.6, RFC 9112 3.2.2).
//!
//! It is an origin whose rules look at requests for others: one that no rule answers otherwise is passed on. A rule that sets a
//! body on the 2xx of a CONNECT plays a target that speaks first, in the same packet (row E2).

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ServerConfig;

use super::ForwardingProxyState;
use crate::origin::faults::RequiredLogin;
use crate::origin::{
    Origin, OriginBuilder, OriginResponse, RecordedRequest, RequestMatcher, ResponseRule,
    ServerRole,
};

/// How an HTTP proxy is set up.
#[derive(Debug, Default)]
pub struct HttpProxyBuilder {
    /// Its routes and rules.
    forwarding: ForwardingProxyState,
    /// Speaks TLS to its clients with these.
    tls: Option<Arc<ServerConfig>>,
}

impl HttpProxyBuilder {
    /// What is asked for as this host and port is at this address: `.route("files.test:443", origin.address())`.
    #[must_use]
    pub fn route(mut self, target: &str, address: SocketAddr) -> Self {
        self.forwarding.host_map.add(target, address);
        self
    }

    /// Adds a rule; rules apply in the order they were added. One that leaves the status 2xx leaves the request to be passed on.
    #[must_use]
    pub fn rule(
        mut self,
        when: RequestMatcher,
        change: impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync + 'static,
    ) -> Self {
        self.forwarding.rules.push(ResponseRule::new(when, change));
        self
    }

    /// Asks for a login: 407 without it (row A21, E4).
    #[must_use]
    pub fn require_login(self, login: RequiredLogin) -> Self {
        self.rule(RequestMatcher::always(), login.for_proxy().rule())
    }

    /// Speaks TLS to its clients with these settings.
    #[must_use]
    pub fn tls(mut self, config: Arc<ServerConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Starts it on a free port of 127.0.0.1.
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

/// A running HTTP proxy. Dropped, it closes all its connections, and panics when a script of its did.
#[derive(Debug)]
pub struct HttpProxy {
    /// All of it: what it passes on is its role.
    origin: Origin,
}

impl HttpProxy {
    /// Begins to set one up.
    #[must_use]
    pub fn builder() -> HttpProxyBuilder {
        HttpProxyBuilder::default()
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.origin.address()
    }

    /// Its URL, as `--proxy` takes it: `http://127.0.0.1:1234`.
    #[must_use]
    pub fn url(&self) -> String {
        self.origin.url("")
    }

    /// Its URL with a login in it.
    #[must_use]
    pub fn url_with_login(&self, user: &str, password: &str) -> String {
        self.url()
            .replacen("://", &format!("://{user}:{password}@"), 1)
    }

    /// Everything that was asked so far, in order: a tunnel's target is the host and port, that of a request passed on its URL.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.origin.requests()
    }

    /// How many connections are open now, tunnels among them.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.origin.open_connections()
    }

    /// Ends it, waits for its tasks, and tells everything that was asked.
    ///
    /// # Panics
    /// When a script did.
    pub async fn stop(self) -> Vec<RecordedRequest> {
        self.origin.stop().await
    }
}
