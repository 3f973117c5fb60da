//! How a client is left that may have something to hear still.
//!
//! A socket that is closed with something unread in it is reset, and what was on its way is lost: all that the client was told last. So
//! what it still says is read for a while. Those who have heard everything hang up, and nobody is waited for long.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::direction::Direction;
use super::end::{Sink, Source};
use super::{End, Moved};

/// For a client to hang up when it is told of the end.
const HEARING: Duration = Duration::from_secs(2);

/// For one that is not told, and is reset then.
const UNTOLD: Duration = Duration::from_secs(5);

/// For a client to take something of the last words.
const STALLED: Duration = Duration::from_secs(30);

/// For the next of them to be there, which should be at once.
const QUIET: Duration = Duration::from_millis(200);

/// Bytes of what it says meanwhile that are read. The rest waits in its socket.
const REST: usize = 1 << 20;

/// How a client is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parting {
    /// At once.
    Now,
    /// With an end, when it has heard it.
    Told,
    /// Without one, when it had time to hear what came before.
    Untold,
}

impl Parting {
    /// Waits until a client has hung up, or long enough.
    pub(super) async fn wait(self, client: &mut End) {
        let _ = match self {
            Self::Now => return,
            Self::Told => timeout(HEARING, gone(client, true)).await,
            Self::Untold => timeout(UNTOLD, gone(client, false)).await,
        };
    }
}

/// Hands on all that a target said before it broke by this error. Its stream seems to end behind that; whether it did is known of
/// sockets that tell whether the end had come before the reset.
pub(super) async fn last_words(
    down: &mut Direction,
    (from, to): (&mut Source<'_>, &mut Sink<'_>),
    (moved, error): (&Moved, &io::Error),
) -> Parting {
    let is_tcp = matches!(from.socket(), Some(super::socket::Socket::Tcp(_)));
    // Linux says so by a name of its own for a reset behind the end.
    let is_ended = cfg!(target_os = "linux") && is_tcp && error.kind() == io::ErrorKind::BrokenPipe;
    if !is_ended && !down.is_done() {
        down.forgo_end();
    }
    let is_told = is_ended || down.is_done();
    loop {
        let (before, is_held_up) = (moved.down(), down.is_deaf());
        let limit = if is_held_up { STALLED } else { QUIET };
        let handed = poll_fn(|cx| down.poll(cx, (from, to), &moved.down, false));
        match timeout(limit, handed).await {
            Ok(Ok(())) if is_told => return Parting::Told,
            Ok(_) => break,
            // It is read no more, or taken no more.
            Err(_) if moved.down() == before && is_held_up == down.is_deaf() => break,
            Err(_) => {}
        }
    }
    match moved.down() {
        0 => Parting::Now,
        _ => Parting::Untold,
    }
}

async fn gone(client: &mut End, is_told: bool) {
    if is_told && client.shutdown().await.is_err() {
        return;
    }
    let (mut read, mut rest) = (0, [0; 4096]);
    while read < REST {
        match client.read(&mut rest).await {
            Ok(count @ 1..) => read += count,
            _ => return,
        }
    }
    // It talks on, and may listen nevertheless.
    std::future::pending().await
}
