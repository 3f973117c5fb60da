//! What is live, as one who asks from outside is told: an object that `haul tunnel status` reads again.

use serde::{Deserialize, Serialize};

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelStatus {
    /// The process.
    pub pid: u32,
    /// Its listeners, in their order.
    pub tunnels: Vec<ListenerStatus>,
    /// Its connections, the oldest first.
    pub connections: Vec<ConnectionStatus>,
}

/// A listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerStatus {
    /// As it was written.
    pub listen: String,
    /// Where it leads: a target, or how its clients name theirs.
    pub to: String,
    /// Whether there is TLS with its targets.
    #[serde(default)]
    pub tls: bool,
    /// Connections that stand ready.
    pub ready: usize,
}

/// A connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionStatus {
    /// A number of its own.
    pub id: u64,
    /// The listener that it came to.
    pub listen: String,
    /// Who came.
    pub client: String,
    /// Where it goes; none before it has said so.
    pub target: Option<String>,
    /// By which way; none before it is there.
    pub via: Option<String>,
    /// Bytes to the target.
    pub up: u64,
    /// Bytes to the client.
    pub down: u64,
    /// Milliseconds since it came.
    pub ms: u64,
}
