//! What a client is set to, and what one request is.

use std::ops::Range;
use std::time::Duration;

use haul_plan::RedirectOptions;
use http::HeaderName;
use http::header::HeaderMap;
use url::Url;

use crate::auth::Credentials;
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
    /// Whom to trust.
    pub tls: TlsOptions,
    /// What redirects may do.
    pub redirects: RedirectOptions,
    /// Who we are.
    pub credentials: Credentials,
    /// Header fields in place of our own of the same name. To origins that the user did not name go only those that are
    /// about what is wanted, and not about who wants it.
    pub headers: HeaderMap,
    /// Own header fields that are not sent.
    pub without: Vec<HeaderName>,
    /// Connections kept at rest for each peer.
    pub idle: usize,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            connector: ConnectorConfig::default(),
            // Longer than a TCP retransmission after a lost wireless link, shorter than a user's patience.
            stall_timeout: Duration::from_secs(30),
            proxy: ProxyRules::default(),
            tls: TlsOptions::default(),
            redirects: RedirectOptions::default(),
            credentials: Credentials::default(),
            headers: HeaderMap::new(),
            without: Vec::new(),
            idle: 16,
        }
    }
}

/// One request.
#[derive(Debug)]
pub struct Fetch<'a> {
    /// Where to ask.
    pub url: &'a Url,
    /// The URL that the user gave: credentials that are for no named host go to its origin only.
    pub given: &'a Url,
    /// Which bytes; an end of `u64::MAX` is open. `None`: no Range is sent.
    pub range: Option<Range<u64>>,
    /// Further header fields: conditions.
    pub headers: HeaderMap,
}
