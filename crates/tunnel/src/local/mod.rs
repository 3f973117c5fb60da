//! What a listener's clients say before their bytes are relayed, and how they are answered.
//!
//! A forward's clients say nothing: the target is the listener's. Those of a SOCKS5 listener and of an HTTP proxy name their target
//! themselves, and want to hear whether it was reached. [`ask`] finds out, [`ClientReply`] tells; what follows what was read is kept.

mod answer_head;
mod forward_request;
mod hop;
mod http;
mod socks;
mod socks_wire;

use std::fmt;
use std::io;

use bytes::Bytes;
use haul_net::Target;

use crate::relay::RelayStream;
use crate::upstream::UpstreamConnectError;
pub(crate) use answer_head::ParsedResponseHead;
pub(crate) use forward_request::ForwardRequest;

/// What a listener does with its clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenerKind {
    /// Each is connected to this target.
    Forward(Target),
    /// Each names its target by SOCKS5 (RFC 1928).
    Socks,
    /// Each names its target as to an HTTP proxy: by CONNECT, or by a request in absolute-form.
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

/// What a client wants.
pub(crate) struct ClientRequest {
    /// Where to.
    pub(crate) target: Target,
    /// How it is told what came of it.
    pub(crate) answer: ClientReply,
    /// What it sent already for the target.
    pub(crate) early: Bytes,
    /// A request that an HTTP proxy takes as it is.
    pub(crate) request: Option<ForwardRequest>,
}

impl fmt::Debug for ClientRequest {
    /// Without what the client sent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked")
            .field("target", &self.target)
            .field("answer", &self.answer)
            .field("early", &self.early.len())
            .field("request", &self.request)
            .finish()
    }
}

/// How a client hears whether its target was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientReply {
    /// Not at all: its connection is closed, or the target speaks.
    Nothing,
    /// By a reply of SOCKS5.
    Socks,
    /// By an answer to CONNECT.
    Connect,
    /// By the target's own answer to the request, or by an error in its place.
    Request,
}

/// Why a client was not understood.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientRequestError {
    /// It speaks another protocol, or wants what there is not.
    #[error("{0}")]
    Refused(&'static str),
    /// It went away.
    #[error("the client left before it said where to")]
    Left(#[from] io::Error),
}

/// Hears what a client wants. Whoever says too much, or another protocol, is refused in the words of this one.
pub(crate) async fn ask(
    local: &ListenerKind,
    client: &mut RelayStream,
) -> Result<ClientRequest, ClientRequestError> {
    match local {
        ListenerKind::Forward(target) => Ok(ClientRequest {
            target: target.clone(),
            answer: ClientReply::Nothing,
            early: Bytes::new(),
            request: None,
        }),
        // Apart, and below: what is over soon is not to have its room for as long as the connection lives.
        ListenerKind::Socks => Box::pin(socks::ask(client)).await,
        ListenerKind::Http => Box::pin(http::ask(client)).await,
    }
}

impl ClientReply {
    /// The target was reached.
    pub(crate) async fn reached(self, client: &mut RelayStream) -> io::Result<()> {
        match self {
            Self::Nothing | Self::Request => Ok(()),
            Self::Socks => socks::reached(client).await,
            Self::Connect => http::connected(client).await,
        }
    }

    /// It was not. Over in a bounded time, whatever the client does.
    pub(crate) async fn unreached(self, client: &mut RelayStream, why: &UpstreamConnectError) {
        match self {
            Self::Nothing => {}
            Self::Socks => Box::pin(socks::unreached(client, why)).await,
            Self::Connect | Self::Request => Box::pin(http::unreached(client, why)).await,
        }
    }
}
