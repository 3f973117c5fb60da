//! One connection from its first byte to its last.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use haul_net::Target;
use tokio::time::timeout;

use crate::live::Entry;
use crate::local::{self, Answer, Asked, ForwardRequest, Local};
use crate::record::Outcome;
use crate::relay::{Early, End, Ended, Extent, Listener, Moved, relay};
use crate::request::{self, Unsent};
use crate::reserve::Warm;
use crate::upstream::{Errand, Unreached, Upstream};
use crate::waiting::{Left, while_it_waits};

/// For a client to say where to, where it has to.
const SAYING: Duration = Duration::from_secs(30);

/// What one listener does with its clients.
#[derive(Debug)]
pub struct Tunnel {
    /// What logs and tables call it: its listener, as it was written.
    pub name: Arc<str>,
    /// What its clients say first.
    pub local: Local,
    /// How their targets are reached.
    pub upstream: Arc<Upstream>,
    /// Connections that stand ready for them.
    pub warm: Option<Arc<Warm>>,
    /// Its limits.
    pub options: TunnelOptions,
}

/// How long anybody is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TunnelOptions {
    /// A connection on which nothing moves for so long is ended; `None` is never.
    pub idle: Option<Duration>,
    /// A client without traffic is probed after this long, so that one that is gone is noticed; `None` is never. The other end has
    /// that from its connector.
    pub keepalive: Option<Duration>,
}

/// Who came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// By TCP.
    Tcp(SocketAddr),
    /// By a socket file, which has no address.
    Unix,
    /// Whoever started us, over standard input and output.
    Stdio,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix => f.write_str("unix"),
            Self::Stdio => f.write_str("stdio"),
        }
    }
}

/// An end of a target's, with what is known of it.
struct Reached {
    end: End,
    early: Bytes,
    via: Arc<str>,
    /// Of a request that was passed on: bytes of its head, and who hears the answer first.
    request: Option<(usize, Listener)>,
}

/// Serves one client to the end.
pub(crate) async fn serve(mut client: End, tunnel: &Tunnel, entry: &Entry) -> Outcome {
    let asked = match tunnel.local {
        // Nothing is said, and so nothing waited for.
        Local::Forward(_) => local::ask(&tunnel.local, &mut client).await,
        _ => match timeout(SAYING, local::ask(&tunnel.local, &mut client)).await {
            Ok(asked) => asked,
            Err(_) => return Outcome::Silent,
        },
    };
    let asked = match asked {
        Ok(asked) => asked,
        Err(why) => return Outcome::Misunderstood(why.to_string()),
    };
    entry.asked(&asked.target);
    let mut early = Early {
        up: asked.early.clone(),
        extent: asked
            .request
            .as_ref()
            .map_or(Extent::ALL, ForwardRequest::body),
        ..Early::default()
    };
    // Apart, since it needs the most room and is over soon: what lives for hours is the relay.
    let way = Box::pin(reach(tunnel, &asked));
    let reached = match while_it_waits(&mut client, &mut early, way).await {
        Ok(Ok(reached)) => reached,
        Ok(Err(Unsent::Idle)) => return Outcome::Ended(Ended::Idle),
        Ok(Err(Unsent::Unreached(why))) => {
            asked.answer.unreached(&mut client, &why).await;
            return Outcome::Unreached(why);
        }
        Err(Left) => return Outcome::Left,
    };
    entry.reached(&reached.via);
    if asked.answer.reached(&mut client).await.is_err() {
        return Outcome::Left;
    }
    early.down = reached.early;
    if let Some((head, listener)) = reached.request {
        entry.moved().began(head);
        early.listener = Some(listener);
    }
    let idle = tunnel.options.idle;
    match relay(client, reached.end, early, (entry.moved(), idle)).await {
        Ok(ended) => Outcome::Ended(ended),
        Err(refused) => {
            let (mut client, error) = refused.into_parts();
            let why = Unreached::from(error);
            // Apart, as the way was.
            Box::pin(asked.answer.unreached(client.end(), &why)).await;
            Outcome::Unreached(why)
        }
    }
}

/// The way to the target, or one that was gone before.
async fn reach(tunnel: &Tunnel, asked: &Asked) -> Result<Reached, Unsent> {
    let warm = tunnel.warm.as_ref();
    let warm = warm.filter(|warm| *warm.target() == asked.target && asked.request.is_none());
    if let Some(taken) = warm.and_then(|warm| warm.take()) {
        return Ok(Reached {
            end: taken.end,
            early: taken.early,
            via: taken.via,
            request: None,
        });
    }
    if let (Answer::Request, Some(request)) = (asked.answer, &asked.request) {
        let sending = request::send(&tunnel.upstream, request, tunnel.options.idle);
        let sent = Box::pin(sending).await?;
        return Ok(Reached {
            end: sent.end,
            early: sent.early,
            via: sent.via,
            request: Some((sent.head, sent.listener)),
        });
    }
    let found = tunnel.upstream.reach(&asked.target, Errand::Tunnel).await?;
    let (end, early) = End::of(found.stream);
    Ok(Reached {
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
pub async fn join(
    client: End,
    target: &Target,
    upstream: &Upstream,
    idle: Option<Duration>,
) -> Result<Ended, Unreached> {
    let found = upstream.reach(target, Errand::Tunnel).await?;
    let (end, early) = End::of(found.stream);
    let early = Early {
        down: early,
        ..Early::default()
    };
    let relayed = relay(client, end, early, (&Moved::default(), idle)).await;
    // Nobody hears the target first, and so refuses what it says.
    relayed.map_err(|refused| refused.into_parts().1.into())
}
