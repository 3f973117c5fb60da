//! TLS settings by what is offered to a peer: versions of HTTP (ALPN, RFC 7301).

use std::sync::Arc;

use haul_plan::AlpnOffer;
use rustls::ClientConfig;

use crate::credential_scope::CredentialScope;

/// The same settings by what is offered; sessions are resumed across them.
#[derive(Debug, Clone)]
pub(crate) struct AlpnConfigs {
    http1: Arc<ClientConfig>,
    http2_or_http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
    none: Arc<ClientConfig>,
}

impl AlpnConfigs {
    pub(crate) fn new(config: &ClientConfig) -> Self {
        let offering = |protocols: &[&[u8]]| {
            let mut config = config.clone();
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            Arc::new(config)
        };
        Self {
            // Said explicitly: with h2 offered, many segments would silently share one connection and its limits.
            http1: offering(&[b"http/1.1"]),
            http2_or_http1: offering(&[b"h2", b"http/1.1"]),
            http2: offering(&[b"h2"]),
            // A server of mail or of a database may know none of those names, and refuse whoever says one.
            none: offering(&[]),
        }
    }

    pub(crate) fn config(&self, offer: AlpnOffer) -> &Arc<ClientConfig> {
        match offer {
            AlpnOffer::Http1 => &self.http1,
            AlpnOffer::Http2OrHttp1 => &self.http2_or_http1,
            AlpnOffer::Http2 => &self.http2,
            AlpnOffer::None => &self.none,
        }
    }
}

/// Whom TLS is made with.
#[derive(Debug, Clone, Copy)]
pub struct TlsPeer<'a> {
    /// The name that its certificate must be for.
    pub host: &'a str,
    /// Whether the user named it: only then it sees our certificate.
    pub scope: CredentialScope,
    /// What is offered to it.
    pub alpn: AlpnOffer,
}
