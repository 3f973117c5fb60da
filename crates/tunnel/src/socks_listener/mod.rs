//! A client of a SOCKS5 listener (RFC 1928): it is greeted, names its target, and hears whether that was reached.

mod messages;

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use haul_net::{Kind, ProxyRefusal, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::relay::{RelayStream, send_and_linger};
use crate::upstream::UpstreamConnectError;
use messages::{SocksMessage, SocksMessageError, SocksReply};

/// Bytes that are read ahead: both messages at their longest, and what little a hasty client adds.
const ROOM: usize = 2048;

/// What a client asks for.
pub(crate) struct SocksRequest {
    pub(crate) target: Target,
    /// What the client sent for the target already.
    pub(crate) early: Bytes,
}

/// Why there is no target.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocksError {
    /// The client speaks another protocol, or wants what is not served.
    #[error("{0}")]
    Refused(&'static str),
    #[error("the client left before it named a target")]
    Left(#[from] io::Error),
}

/// Reads where a client wants to go. A client that is refused is told in the protocol's words.
pub(crate) async fn accept(client: &mut RelayStream) -> Result<SocksRequest, SocksError> {
    let mut buffer = BytesMut::with_capacity(ROOM);
    read(client, &mut buffer, messages::greeting).await?;
    client.write_all(&messages::METHOD).await?;
    client.flush().await?;
    let target = read(client, &mut buffer, messages::request).await?;
    Ok(SocksRequest {
        target,
        early: buffer.freeze(),
    })
}

/// Reads until there is a message.
async fn read<T>(
    client: &mut RelayStream,
    buffer: &mut BytesMut,
    message: impl Fn(&[u8]) -> Result<SocksMessage<T>, SocksMessageError>,
) -> Result<T, SocksError> {
    loop {
        match message(buffer) {
            Ok(SocksMessage::Whole(what, length)) => {
                buffer.advance(length);
                return Ok(what);
            }
            Ok(SocksMessage::Part) => {}
            Err(problem) => return Err(refuse(client, problem).await),
        }
        // No message is as long as the room: there is always some left.
        if client.read_buf(buffer).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
}

/// Says no, and why.
async fn refuse(client: &mut RelayStream, problem: SocksMessageError) -> SocksError {
    let (said, why): (&[u8], _) = match problem {
        SocksMessageError::Version => (b"", "the client does not speak SOCKS5"),
        SocksMessageError::Method => (
            &messages::NO_METHOD,
            "the client insists on a login, and there is none",
        ),
        SocksMessageError::Told(reply) => (
            &messages::reply(reply),
            match reply {
                SocksReply::CommandUnsupported => "the client wants another command than CONNECT",
                _ => "the client names no target",
            },
        ),
    };
    send_and_linger(client, said).await;
    SocksError::Refused(why)
}

/// The target was reached.
pub(crate) async fn reply_connected(client: &mut RelayStream) -> io::Result<()> {
    client
        .write_all(&messages::reply(SocksReply::Succeeded))
        .await?;
    client.flush().await
}

/// It was not, for this reason.
pub(crate) async fn reply_unreached(client: &mut RelayStream, error: &UpstreamConnectError) {
    let reply = match error.errors().last() {
        None => SocksReply::Failed,
        Some(error) => match (error.kind(), error.proxy_refusal()) {
            (_, Some(ProxyRefusal::NotAllowed)) => SocksReply::NotAllowed,
            (_, Some(ProxyRefusal::TargetUnreachable)) => SocksReply::HostUnreachable,
            (Kind::Connect(_), _) if !error.is_proxy_unreachable() => SocksReply::Refused,
            (Kind::NoSuchHost(_) | Kind::ConnectTimeout(_), _) => SocksReply::HostUnreachable,
            _ => SocksReply::Failed,
        },
    };
    send_and_linger(client, &messages::reply(reply)).await;
}
