//! A client of a SOCKS5 listener: greeted, asked where to, and told what came of it.

use std::io;

use bytes::{Buf, BytesMut};
use haul_net::{Kind, ProxyRefusal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::socks_wire::{self as wire, SocksMessage, SocksMessageError, SocksReply};
use super::{ClientReply, ClientRequest, ClientRequestError};
use crate::relay::{RelayStream, part};
use crate::upstream::UpstreamConnectError;

/// Bytes that are read ahead: both messages at their longest, and what little a hasty client adds.
const ROOM: usize = 2048;

/// Hears where a client wants to go.
pub(super) async fn ask(client: &mut RelayStream) -> Result<ClientRequest, ClientRequestError> {
    let mut buffer = BytesMut::with_capacity(ROOM);
    read(client, &mut buffer, wire::greeting).await?;
    client.write_all(&wire::METHOD).await?;
    client.flush().await?;
    let target = read(client, &mut buffer, wire::request).await?;
    Ok(ClientRequest {
        target,
        answer: ClientReply::Socks,
        early: buffer.freeze(),
        request: None,
    })
}

/// Reads until there is a message.
async fn read<T>(
    client: &mut RelayStream,
    buffer: &mut BytesMut,
    message: impl Fn(&[u8]) -> Result<SocksMessage<T>, SocksMessageError>,
) -> Result<T, ClientRequestError> {
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
async fn refuse(client: &mut RelayStream, problem: SocksMessageError) -> ClientRequestError {
    let (said, why): (&[u8], _) = match problem {
        SocksMessageError::Version => (b"", "the client does not speak SOCKS5"),
        SocksMessageError::Method => (
            &wire::NO_METHOD,
            "the client insists on a login, and there is none",
        ),
        SocksMessageError::Told(reply) => (
            &wire::reply(reply),
            match reply {
                SocksReply::CommandUnsupported => "the client wants another command than CONNECT",
                _ => "the client names no target",
            },
        ),
    };
    part(client, said).await;
    ClientRequestError::Refused(why)
}

/// The target was reached.
pub(super) async fn reached(client: &mut RelayStream) -> io::Result<()> {
    client
        .write_all(&wire::reply(SocksReply::Succeeded))
        .await?;
    client.flush().await
}

/// It was not, for this reason.
pub(super) async fn unreached(client: &mut RelayStream, why: &UpstreamConnectError) {
    let reply = match why.errors().last() {
        None => SocksReply::Failed,
        Some(error) => match (error.kind(), error.proxy_refusal()) {
            (_, Some(ProxyRefusal::NotAllowed)) => SocksReply::NotAllowed,
            (_, Some(ProxyRefusal::TargetUnreachable)) => SocksReply::HostUnreachable,
            (Kind::Connect(_), _) if !error.is_proxy_unreachable() => SocksReply::Refused,
            (Kind::NoSuchHost(_) | Kind::ConnectTimeout(_), _) => SocksReply::HostUnreachable,
            _ => SocksReply::Failed,
        },
    };
    part(client, &wire::reply(reply)).await;
}
