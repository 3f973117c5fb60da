//! What a client is set to, and what one request is.

use std::ops::Range;
use std::time::Duration;

use haul_plan::{HttpVersionChoice, RedirectOptions};
use http::HeaderName;
use http::header::HeaderMap;
use url::Url;

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

/// One request.
#[derive(Debug)]
pub struct FetchRequest<'a> {
    /// Where to ask.
    pub url: &'a Url,
    /// The URL that the user gave: credentials that are for no named host go to its origin only.
    pub user_url: &'a Url,
    /// Which bytes; an end of `u64::MAX` is open. `None`: no Range is sent.
    pub range: Option<Range<u64>>,
    /// The user's own header fields for this request, beside those of the [`ClientConfig`] and under the same rule: to origins that the
    /// user did not name go only those that say what is wanted.
    pub user_headers: Option<&'a HeaderMap>,
    /// Further header fields: conditions.
    pub conditions: HeaderMap,
    /// Whether it may share a connection with others, by HTTP/2. For small files; what is large enough to come in segments is
    /// faster over connections of its own.
    pub may_multiplex: bool,
}
