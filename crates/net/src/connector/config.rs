//! The settings that all streams of a connector share.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::target::AddressFamily;

/// Settings of a [`Connector`](super::Connector).
#[derive(Debug, Clone)]
pub struct ConnectorConfig {
    /// The longest that the whole way may take: name, TCP, proxy and TLS.
    pub connect_timeout: Duration,
    /// Which addresses may be used.
    pub address_family: AddressFamily,
    /// Addresses told beforehand (`--resolve`): these names are not looked up.
    pub pinned_addresses: Vec<PinnedAddress>,
    /// Who looks up the others.
    pub resolver: ResolverChoice,
    /// Name servers to ask in place of the system's, by our own resolver and with nobody asked instead of them. Names that mean
    /// something on this machine alone are still the system's.
    pub dns_servers: Vec<SocketAddr>,
    /// Bytes a second that all streams together may read.
    pub rate_limit: Option<u64>,
    /// A connection without traffic is probed after this long, so that a peer that is gone is noticed; `None` is never.
    pub keepalive: Option<Duration>,
}

impl Default for ConnectorConfig {
    fn default() -> Self {
        // A lost SYN is sent again after 1, 3 and 7 seconds; by 15 a host that lives has answered.
        Self {
            connect_timeout: Duration::from_secs(15),
            address_family: AddressFamily::default(),
            pinned_addresses: Vec::new(),
            resolver: ResolverChoice::default(),
            dns_servers: Vec::new(),
            rate_limit: None,
            keepalive: Some(Duration::from_secs(60)),
        }
    }
}

/// Who looks names up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResolverChoice {
    /// Our own, where it answers as the system would; else the system's.
    #[default]
    Auto,
    /// The system's.
    System,
    /// Our own, whatever else the system is set up to ask.
    BuiltIn,
}

/// An address told beforehand for a name and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedAddress {
    /// The name.
    pub host: String,
    /// The port that it holds for.
    pub port: u16,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}
