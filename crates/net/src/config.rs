//! What a client is set to, and what one request is.

use std::time::Duration;

use haul_plan::{HttpVersionChoice, RedirectOptions};
use http::HeaderName;
use http::header::HeaderMap;

use crate::auth::UserCredentials;
use crate::connector::ConnectorConfig;
use crate::proxy::ProxyRules;
use crate::tls::TlsOptions;

/// Settings of a [`Client`](super::Client).
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// How streams are made.
    pub connector: ConnectorConfig,
    /// How long a peer may be silent, before its answer's head or within the body.
    pub stall_timeout: Duration,
    /// Which proxy for which URL.
    pub proxy: ProxyRules,
    /// Which version of HTTP, for requests that may share a connection. Over plain TCP it is HTTP/1.1 in any case.
    pub http_version: HttpVersionChoice,
    /// Whom to trust.
    pub tls: TlsOptions,
    /// What redirects may do.
    pub redirects: RedirectOptions,
    /// Who we are.
    pub credentials: UserCredentials,
    /// Header fields in place of our own of the same name. To origins that the user did not name go only those that are
    /// about what is wanted, and not about who wants it.
    pub headers: HeaderMap,
    /// Own header fields that are not sent.
    pub removed_headers: Vec<HeaderName>,
    /// Connections kept at rest for each peer.
    pub max_idle_per_host: usize,
    /// Connections kept at rest in all, each of them a file descriptor; `max_idle_per_host` if that is more. As many shared ones
    /// may rest besides.
    pub max_idle: usize,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            connector: ConnectorConfig::default(),
            // Longer than a TCP retransmission after a lost wireless link, shorter than a user's patience.
            stall_timeout: Duration::from_secs(30),
            proxy: ProxyRules::default(),
            http_version: HttpVersionChoice::default(),
            tls: TlsOptions::default(),
            redirects: RedirectOptions::default(),
            credentials: UserCredentials::default(),
            headers: HeaderMap::new(),
            removed_headers: Vec::new(),
            max_idle_per_host: 16,
            // Eight hosts with as many as they may have, and far below the 1024 that a process usually gets.
            max_idle: 128,
        }
    }
}
