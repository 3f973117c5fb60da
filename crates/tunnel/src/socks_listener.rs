//! A client of a SOCKS5 listener (RFC 1928): it is greeted, names its target, and hears whether that was reached.

mod messages;

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use haul_net::{Kind, ProxyRefusal, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::relay::{RelayStream, send_and_linger};
use crate::upstream::UpstreamConnectError;
use messages::{SocksMessage, SocksMessageError, SocksReply};
#[cfg(feature = "fuzzing")]
pub(crate) use messages::{greeting_length, request_target};

/// Both messages at their longest, and room for what a client may send behind them.
const BUFFER: usize = 2048;

/// What a client asks for.
pub(crate) struct SocksClientRequest {
    pub(crate) target: Target,
    /// What the client sent for the target already.
    pub(crate) early: Bytes,
}

/// Why there is no target.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocksClientError {
    /// The client speaks another protocol, or wants what is not served.
    #[error("{0}")]
    Refused(&'static str),
    #[error("the client left before it named a target")]
    Left(#[from] io::Error),
}

/// Greets a client and reads its request. A client that is refused gets a reply of the protocol.
pub(crate) async fn accept(
    client: &mut RelayStream,
) -> Result<SocksClientRequest, SocksClientError> {
    let mut buffer = BytesMut::with_capacity(BUFFER);
    read_message(client, &mut buffer, messages::parse_greeting).await?;
    client.write_all(&messages::NO_LOGIN).await?;
    client.flush().await?;
    let target = read_message(client, &mut buffer, messages::parse_request).await?;
    Ok(SocksClientRequest {
        target,
        early: buffer.freeze(),
    })
}

/// Reads until there is a whole message.
async fn read_message<T>(
    client: &mut RelayStream,
    buffer: &mut BytesMut,
    parse: impl Fn(&[u8]) -> Result<SocksMessage<T>, SocksMessageError>,
) -> Result<T, SocksClientError> {
    loop {
        match parse(buffer) {
            Ok(SocksMessage::Whole(message, length)) => {
                buffer.advance(length);
                return Ok(message);
            }
            Ok(SocksMessage::Partial) => {}
            Err(error) => return Err(refuse(client, error).await),
        }
        // No message is as long as the buffer: there is always room left.
        if client.read_buf(buffer).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
}

/// Refuses a client in the words of the protocol.
async fn refuse(client: &mut RelayStream, error: SocksMessageError) -> SocksClientError {
    let (reply, reason): (&[u8], _) = match error {
        SocksMessageError::Version => (b"", "the client does not speak SOCKS5"),
        SocksMessageError::Method => (
            &messages::NO_ACCEPTABLE_METHOD,
            "the client insists on a login, and this listener has none",
        ),
        SocksMessageError::Unsupported(reply) => (
            &messages::reply(reply),
            match reply {
                SocksReply::CommandUnsupported => "the client wants another command than CONNECT",
                _ => "the client names no target",
            },
        ),
    };
    send_and_linger(client, reply).await;
    SocksClientError::Refused(reason)
}

/// Tells a client that its target was reached.
pub(crate) async fn reply_connected(client: &mut RelayStream) -> io::Result<()> {
    client
        .write_all(&messages::reply(SocksReply::Succeeded))
        .await?;
    client.flush().await
}

/// Tells a client that its target was not reached.
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
