//! What one listener does with its clients.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use haul_net::Target;

use crate::relay::RelayStream;
use crate::upstream::{StreamPurpose, Upstream, UpstreamConnectError};
use crate::warm_pool::{TargetConnection, WarmPool};

/// How the clients of a listener name their target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenerKind {
    /// They do not: the listener connects each of them to this one.
    Forward(Target),
    /// By SOCKS5 (RFC 1928).
    Socks,
    /// As to an HTTP proxy: by CONNECT, or by a request in absolute-form.
    Http,
}

impl fmt::Display for ListenerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forward(target) => write!(f, "{target}"),
            Self::Socks => f.write_str("SOCKS5"),
            Self::Http => f.write_str("HTTP proxy"),
        }
    }
}

/// Everything that one listener needs to serve a client.
#[derive(Debug)]
pub struct TunnelConfig {
    /// The listener's address as the user wrote it. Logs and tables show it.
    pub name: Arc<str>,
    /// How clients name their target.
    pub kind: ListenerKind,
    /// How targets are reached.
    pub upstream: Arc<Upstream>,
    /// Connections that are opened before a client needs them.
    pub warm_pool: Option<Arc<WarmPool>>,
    /// How long a silent peer is waited for.
    pub timeouts: TunnelTimeouts,
}

impl TunnelConfig {
    /// A connection to a target: a warm one, or a new one. Cancel safe.
    pub(crate) async fn connect(
        &self,
        target: &Target,
    ) -> Result<TargetConnection, UpstreamConnectError> {
        let pool = self.warm_pool.as_ref();
        let warm = pool.filter(|pool| *pool.target() == *target);
        if let Some(connection) = warm.and_then(|pool| pool.take()) {
            return Ok(connection);
        }
        let reached = self.upstream.connect(target, StreamPurpose::Tunnel).await?;
        let (stream, early) = RelayStream::from_transport(reached.stream);
        Ok(TargetConnection {
            stream,
            early,
            via: reached.via,
        })
    }
}

/// How long a silent peer is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TunnelTimeouts {
    /// A connection on which no byte has moved for so long is ended; `None` is never.
    pub idle: Option<Duration>,
    /// After so long without traffic TCP probes the client, so that a client that is gone is noticed; `None` is never. The connector
    /// has a setting of its own for the other end.
    pub keepalive: Option<Duration>,
}

/// Where a client connected from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAddress {
    /// Over TCP, from this address.
    Tcp(SocketAddr),
    /// Over a Unix socket, whose clients have no address.
    Unix,
    /// Over standard input and output.
    Stdio,
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix => f.write_str("unix"),
            Self::Stdio => f.write_str("stdio"),
        }
    }
}
