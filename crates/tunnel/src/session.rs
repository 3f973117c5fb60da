//! One connection from its first byte to its last.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use haul_net::Target;
use tokio::time::timeout;

use crate::active_connections::ActiveConnection;
use crate::local::{self, ClientReply, ClientRequest, ForwardRequest, ListenerKind};
use crate::record::TunnelOutcome;
use crate::relay::{
    BodyFraming, EarlyBytes, RelayOutcome, RelayStream, RelayedBytes, ResponseObserver, relay,
};
use crate::request::{self, RequestError};
use crate::upstream::{StreamPurpose, Upstream, UpstreamConnectError};
use crate::waiting::{ClientLeft, while_it_waits};
use crate::warm_pool::WarmPool;

/// For a client to say where to, where it has to.
const SAYING: Duration = Duration::from_secs(30);

/// What one listener does with its clients.
#[derive(Debug)]
pub struct TunnelConfig {
    /// What logs and tables call it: its listener, as it was written.
    pub name: Arc<str>,
    /// What its clients say first.
    pub kind: ListenerKind,
    /// How their targets are reached.
    pub upstream: Arc<Upstream>,
    /// Connections that stand ready for them.
    pub warm_pool: Option<Arc<WarmPool>>,
    /// Its limits.
    pub timeouts: TunnelTimeouts,
}

/// How long anybody is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TunnelTimeouts {
    /// A connection on which nothing moves for so long is ended; `None` is never.
    pub idle: Option<Duration>,
    /// A client without traffic is probed after this long, so that one that is gone is noticed; `None` is never. The other end has
    /// that from its connector.
    pub keepalive: Option<Duration>,
}

/// Who came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAddress {
    /// By TCP.
    Tcp(SocketAddr),
    /// By a socket file, which has no address.
    Unix,
    /// Whoever started us, over standard input and output.
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

/// An end of a target's, with what is known of it.
struct ReachedTarget {
    end: RelayStream,
    early: Bytes,
    via: Arc<str>,
    /// Of a request that was passed on: bytes of its head, and who hears the answer first.
    request: Option<(usize, ResponseObserver)>,
}

/// Serves one client to the end.
pub(crate) async fn serve(
    mut client: RelayStream,
    tunnel: &TunnelConfig,
    entry: &ActiveConnection,
) -> TunnelOutcome {
    let asked = match tunnel.kind {
        // Nothing is said, and so nothing waited for.
        ListenerKind::Forward(_) => local::ask(&tunnel.kind, &mut client).await,
        _ => match timeout(SAYING, local::ask(&tunnel.kind, &mut client)).await {
            Ok(asked) => asked,
            Err(_) => return TunnelOutcome::Silent,
        },
    };
    let asked = match asked {
        Ok(asked) => asked,
        Err(why) => return TunnelOutcome::BadRequest(why.to_string()),
    };
    entry.asked(&asked.target);
    let mut early = EarlyBytes {
        up: asked.early.clone(),
        extent: asked
            .request
            .as_ref()
            .map_or(BodyFraming::ALL, ForwardRequest::body),
        ..EarlyBytes::default()
    };
    // Apart, since it needs the most room and is over soon: what lives for hours is the relay.
    let way = Box::pin(reach(tunnel, &asked));
    let reached = match while_it_waits(&mut client, &mut early, way).await {
        Ok(Ok(reached)) => reached,
        Ok(Err(RequestError::Idle)) => return TunnelOutcome::Relayed(RelayOutcome::IdleTimeout),
        Ok(Err(RequestError::Unreached(why))) => {
            asked.answer.unreached(&mut client, &why).await;
            return TunnelOutcome::Unreached(why);
        }
        Err(ClientLeft) => return TunnelOutcome::ClientLeft,
    };
    entry.reached(&reached.via);
    if asked.answer.reached(&mut client).await.is_err() {
        return TunnelOutcome::ClientLeft;
    }
    early.down = reached.early;
    if let Some((head, listener)) = reached.request {
        entry.moved().began(head);
        early.listener = Some(listener);
    }
    let idle = tunnel.timeouts.idle;
    match relay(client, reached.end, early, (entry.moved(), idle)).await {
        Ok(ended) => TunnelOutcome::Relayed(ended),
        Err(refused) => {
            let (mut client, error) = refused.into_parts();
            let why = UpstreamConnectError::from(error);
            // Apart, as the way was.
            Box::pin(asked.answer.unreached(client.end(), &why)).await;
            TunnelOutcome::Unreached(why)
        }
    }
}

/// The way to the target, or one that was gone before.
async fn reach(
    tunnel: &TunnelConfig,
    asked: &ClientRequest,
) -> Result<ReachedTarget, RequestError> {
    let warm = tunnel.warm_pool.as_ref();
    let warm = warm.filter(|warm| *warm.target() == asked.target && asked.request.is_none());
    if let Some(taken) = warm.and_then(|warm| warm.take()) {
        return Ok(ReachedTarget {
            end: taken.end,
            early: taken.early,
            via: taken.via,
            request: None,
        });
    }
    if let (ClientReply::Request, Some(request)) = (asked.answer, &asked.request) {
        let sending = request::send(&tunnel.upstream, request, tunnel.timeouts.idle);
        let sent = Box::pin(sending).await?;
        return Ok(ReachedTarget {
            end: sent.end,
            early: sent.early,
            via: sent.via,
            request: Some((sent.head, sent.listener)),
        });
    }
    let found = tunnel
        .upstream
        .connect(&asked.target, StreamPurpose::Tunnel)
        .await?;
    let (end, early) = RelayStream::from_transport(found.stream);
    Ok(ReachedTarget {
        end,
        early,
        via: found.via,
        request: None,
    })
}

/// Joins one client that is no listener's to a target: standard input and output.
///
/// # Errors
/// When no way leads to the target.
pub async fn relay_to_target(
    client: RelayStream,
    target: &Target,
    upstream: &Upstream,
    idle: Option<Duration>,
) -> Result<RelayOutcome, UpstreamConnectError> {
    let found = upstream.connect(target, StreamPurpose::Tunnel).await?;
    let (end, early) = RelayStream::from_transport(found.stream);
    let early = EarlyBytes {
        down: early,
        ..EarlyBytes::default()
    };
    let relayed = relay(client, end, early, (&RelayedBytes::default(), idle)).await;
    // Nobody hears the target first, and so refuses what it says.
    relayed.map_err(|refused| refused.into_parts().1.into())
}
