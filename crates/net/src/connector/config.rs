//! The settings that all streams of a connector share.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::target::AddressFamily;

/// Settings of a [`Connector`](super::Connector).
#[derive(Debug, Clone)]
pub struct ConnectorConfig {
    /// The longest that making a stream may take: name, TCP, proxies and TLS together.
    pub connect_timeout: Duration,
    /// Which addresses may be used.
    pub address_family: AddressFamily,
    /// Addresses that the user gave (`--resolve`). These names are not looked up.
    pub pinned_addresses: Vec<PinnedAddress>,
    /// Which resolver looks up the other names.
    pub resolver: ResolverChoice,
    /// Name servers for the built-in resolver, in place of the system's. Then no other server is asked. Names that mean something
    /// on this machine alone still go to the system's resolver.
    pub dns_servers: Vec<SocketAddr>,
    /// Bytes a second that all streams together may read and write. [`Connector::set_rate_limit`](super::Connector::set_rate_limit)
    /// changes it later.
    pub rate_limit: Option<u64>,
    /// A connection without traffic is probed after this time, so that a peer that is gone is noticed; `None` never probes.
    pub keepalive: Option<Duration>,
    /// A peer whose system acknowledges nothing for this long, neither data nor probes, is gone; `None`: as the system decides, mostly
    /// after a quarter of an hour. A client sets it to its stall timeout.
    pub dead_peer_timeout: Option<Duration>,
}

impl Default for ConnectorConfig {
    fn default() -> Self {
        // A lost SYN is sent again after 1, 3 and 7 seconds; a host that is up has answered by 15.
        Self {
            connect_timeout: Duration::from_secs(15),
            address_family: AddressFamily::default(),
            pinned_addresses: Vec::new(),
            resolver: ResolverChoice::default(),
            dns_servers: Vec::new(),
            rate_limit: None,
            keepalive: Some(Duration::from_secs(60)),
            dead_peer_timeout: None,
        }
    }
}

/// Which resolver looks up names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResolverChoice {
    /// The built-in one where it gives the same addresses as the system's; else the system's.
    #[default]
    Auto,
    /// The system's, which blocks a thread for each name.
    System,
    /// The built-in one, also where the system is configured to ask other sources than name servers.
    BuiltIn,
}

/// Addresses for a name and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedAddress {
    pub host: String,
    /// The port that the addresses are for.
    pub port: u16,
    /// The addresses, in the order in which they are tried.
    pub addresses: Vec<IpAddr>,
}
