//! The settings of a client.

use std::sync::Arc;
use std::time::Duration;

use haul_plan::HttpVersionChoice;
use http::HeaderName;
use http::header::HeaderMap;

use crate::auth::UserCredentials;
use crate::connector::ConnectorConfig;
use crate::proxy::ProxyRules;
use crate::redirect::RedirectOptions;
use crate::signer::RequestSigner;
use crate::tls::TlsOptions;

/// Settings of a [`Client`](crate::Client).
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// How streams are made.
    pub connector: ConnectorConfig,
    /// How long a peer may be silent within a body, its own or the request's. A peer whose system acknowledges nothing for as long is
    /// gone, whatever the connection waits for.
    pub stall_timeout: Duration,
    /// How long the head of a response may take from the end of its request. The peer may work on the response all the time: make an
    /// archive, scan an upload for viruses, join the parts of an object.
    pub response_timeout: Duration,
    /// Which URL is requested through which proxy.
    pub proxy: ProxyRules,
    /// The HTTP version of requests that may share a connection. Over plain TCP it is HTTP/1.1 in any case.
    pub http_version: HttpVersionChoice,
    /// Trusted certificates, and the client's own.
    pub tls: TlsOptions,
    pub redirects: RedirectOptions,
    pub credentials: UserCredentials,
    /// Resolves and signs requests for `s3://` URLs. Without it they cannot be sent.
    pub signer: Option<Arc<dyn RequestSigner>>,
    /// The user's header fields, in place of the default ones. Origins that the user did not name get only the fields that say
    /// which content is wanted, and none that says who wants it.
    pub headers: HeaderMap,
    /// Default header fields that are not sent.
    pub removed_headers: Vec<HeaderName>,
    /// Idle HTTP/1.1 connections kept for each host.
    pub max_idle_per_host: usize,
    /// Idle HTTP/1.1 connections kept in all, each of them a file descriptor; `max_idle_per_host` if that is more. As many
    /// HTTP/2 connections may be idle beside them.
    pub max_idle: usize,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            connector: ConnectorConfig::default(),
            // Longer than a TCP retransmission after a lost wireless link, shorter than a user's patience.
            stall_timeout: Duration::from_secs(30),
            // Stores take minutes to join the parts of a large object, and proxies give their servers one to five.
            response_timeout: Duration::from_secs(300),
            proxy: ProxyRules::default(),
            http_version: HttpVersionChoice::default(),
            tls: TlsOptions::default(),
            redirects: RedirectOptions::default(),
            credentials: UserCredentials::default(),
            signer: None,
            headers: HeaderMap::new(),
            removed_headers: Vec::new(),
            max_idle_per_host: 16,
            // Eight hosts with as many connections as each may have, and far below the usual limit of 1024 descriptors.
            max_idle: 128,
        }
    }
}
