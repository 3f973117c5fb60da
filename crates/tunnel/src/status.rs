//! Listeners and open connections as the admin endpoint shows them: JSON that `haul tunnel status` reads.

use serde::{Deserialize, Serialize};

/// Everything that a process has open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelStatus {
    /// The process id.
    pub pid: u32,
    /// Its listeners, in the order in which they were opened.
    pub tunnels: Vec<ListenerStatus>,
    /// Its connections, the oldest first.
    pub connections: Vec<ConnectionStatus>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerStatus {
    /// Its address as the user wrote it.
    pub listen: String,
    /// Its target, or the protocol by which its clients name theirs.
    pub to: String,
    /// Whether there is TLS with its targets.
    #[serde(default)]
    pub tls: bool,
    /// Connections in its warm pool.
    pub ready: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionStatus {
    /// A number that no other connection of the process has.
    pub id: u64,
    pub listen: String,
    /// The client's address.
    pub client: String,
    /// Its target; none before the client has named it.
    pub target: Option<String>,
    /// The route's proxies; none before the target is reached.
    pub via: Option<String>,
    /// Bytes to the target.
    pub up: u64,
    /// Bytes to the client.
    pub down: u64,
    /// Milliseconds since it began.
    pub ms: u64,
}
