//! Where a stream leads, and the settings that all streams share.

use std::net::SocketAddr;
use std::time::Duration;

use url::Url;

use super::{Pin, Resolver};

/// Which addresses may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// All, IPv6 first, both raced (RFC 8305).
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Any => "IP",
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// The far end of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// A name, or an address without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl Target {
    /// Where a URL points. `None` for a URL without host or port.
    #[must_use]
    pub fn of(url: &Url) -> Option<Self> {
        let host = url
            .host_str()?
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        Some(Self {
            host,
            port: url.port_or_known_default()?,
        })
    }
}

impl std::fmt::Display for Target {
    /// As a request writes it: IPv6 addresses in brackets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Settings of a [`Connector`](super::Connector).
#[derive(Debug, Clone)]
pub struct ConnectorConfig {
    /// The longest that the whole way may take: name, TCP, proxy and TLS.
    pub connect_timeout: Duration,
    /// Which addresses may be used.
    pub family: Family,
    /// Addresses told beforehand (`--resolve`): these names are not looked up.
    pub pins: Vec<Pin>,
    /// Who looks up the others.
    pub resolver: Resolver,
    /// Name servers to ask in place of the system's, by our own resolver and with nobody asked instead of them. Names that mean
    /// something on this machine alone are still the system's.
    pub dns_servers: Vec<SocketAddr>,
    /// Bytes a second that all streams together may read.
    pub limit_rate: Option<u64>,
}

impl Default for ConnectorConfig {
    fn default() -> Self {
        // A lost SYN is sent again after 1, 3 and 7 seconds; by 15 a host that lives has answered.
        Self {
            connect_timeout: Duration::from_secs(15),
            family: Family::default(),
            pins: Vec::new(),
            resolver: Resolver::default(),
            dns_servers: Vec::new(),
            limit_rate: None,
        }
    }
}
