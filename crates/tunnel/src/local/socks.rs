//! A client of a SOCKS5 listener: greeted, asked where to, and told what came of it.

use std::io;

use bytes::{Buf, BytesMut};
use haul_net::{Kind, Refusal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::socks_wire::{self as wire, Message, Problem, Reply};
use super::{Answer, Asked, Misunderstood};
use crate::relay::{End, part};
use crate::upstream::Unreached;

/// Bytes that are read ahead: both messages at their longest, and what little a hasty client adds.
const ROOM: usize = 2048;

/// Hears where a client wants to go.
pub(super) async fn ask(client: &mut End) -> Result<Asked, Misunderstood> {
    let mut buffer = BytesMut::with_capacity(ROOM);
    read(client, &mut buffer, wire::greeting).await?;
    client.write_all(&wire::METHOD).await?;
    client.flush().await?;
    let target = read(client, &mut buffer, wire::request).await?;
    Ok(Asked {
        target,
        answer: Answer::Socks,
        early: buffer.freeze(),
        request: None,
    })
}

/// Reads until there is a message.
async fn read<T>(
    client: &mut End,
    buffer: &mut BytesMut,
    message: impl Fn(&[u8]) -> Result<Message<T>, Problem>,
) -> Result<T, Misunderstood> {
    loop {
        match message(buffer) {
            Ok(Message::Whole(what, length)) => {
                buffer.advance(length);
                return Ok(what);
            }
            Ok(Message::Part) => {}
            Err(problem) => return Err(refuse(client, problem).await),
        }
        // No message is as long as the room: there is always some left.
        if client.read_buf(buffer).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
}

/// Says no, and why.
async fn refuse(client: &mut End, problem: Problem) -> Misunderstood {
    let (said, why): (&[u8], _) = match problem {
        Problem::Version => (b"", "the client does not speak SOCKS5"),
        Problem::Method => (
            &wire::NO_METHOD,
            "the client insists on a login, and there is none",
        ),
        Problem::Told(reply) => (
            &wire::reply(reply),
            match reply {
                Reply::CommandUnsupported => "the client wants another command than CONNECT",
                _ => "the client names no target",
            },
        ),
    };
    part(client, said).await;
    Misunderstood::Refused(why)
}

/// The target was reached.
pub(super) async fn reached(client: &mut End) -> io::Result<()> {
    client.write_all(&wire::reply(Reply::Succeeded)).await?;
    client.flush().await
}

/// It was not, for this reason.
pub(super) async fn unreached(client: &mut End, why: &Unreached) {
    let reply = match why.errors().last() {
        None => Reply::Failed,
        Some(error) => match (error.kind(), error.refusal()) {
            (_, Some(Refusal::NotAllowed)) => Reply::NotAllowed,
            (_, Some(Refusal::Unreachable)) => Reply::HostUnreachable,
            (Kind::Connect(_), _) if !error.is_of_proxy() => Reply::Refused,
            (Kind::NoSuchHost(_) | Kind::ConnectTimeout(_), _) => Reply::HostUnreachable,
            _ => Reply::Failed,
        },
    };
    part(client, &wire::reply(reply)).await;
}
