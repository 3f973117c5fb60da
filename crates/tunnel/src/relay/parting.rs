//! How a client is left that may have something to hear still.
//!
//! A socket that is closed with something unread in it is reset, and what was on its way is lost: all that the client was told last. So
//! what it still says is read for a while. Those who have heard everything hang up, and nobody is waited for long. A client that is to
//! be reset is not, where the system tells, before everything has arrived.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, interval, timeout};

use super::direction::RelayDirection;
use super::end::{RelayReader, RelayWriter};
use super::hearing::{ResponseReadError, ResponseReader};
use super::{Error, RelayStream, RelayedBytes};
#[cfg(target_os = "linux")]
use crate::diag;

/// For a client to take words of our own, and to hang up.
const SAYING: Duration = Duration::from_secs(10);

/// For a client to hang up when it is told of the end.
const HEARING: Duration = Duration::from_secs(2);

/// For one that is not told, and is reset then, where nobody tells what has arrived.
const UNTOLD: Duration = Duration::from_secs(5);

/// For a client to take something of the last words.
const STALLED: Duration = Duration::from_secs(30);

/// For the next of them to be there, which should be at once.
const QUIET: Duration = Duration::from_millis(200);

/// Between two looks at what has arrived.
const LOOK: Duration = Duration::from_millis(10);

/// Says something to a client, ends our side, and gives it time to hear and to hang up. Whether it has or not, it is to be closed then.
pub(crate) async fn part(client: &mut RelayStream, words: &[u8]) {
    let said = async {
        if client.write_all(words).await.is_ok() {
            gone(client, true).await;
        }
    };
    let _ = timeout(SAYING, said).await;
}

/// How a client is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloseReason {
    /// At once.
    Now,
    /// With an end, when it has heard it.
    Told,
    /// Without one, when what came before has arrived.
    Untold,
}

impl CloseReason {
    /// Waits until a client has hung up, or long enough.
    pub(super) async fn wait(self, client: &mut RelayStream) {
        let _ = match (self, &client) {
            (Self::Now, _) => return,
            (Self::Told, _) => timeout(HEARING, gone(client, true)).await,
            (Self::Untold, RelayStream::Tcp(stream)) if unsent(stream).is_some() => {
                return arrived(|| unsent(stream).unwrap_or(0)).await;
            }
            (Self::Untold, RelayStream::Tcp(_)) => timeout(UNTOLD, gone(client, false)).await,
            // What was written is there, and no reset takes it back.
            (Self::Untold, _) => timeout(UNTOLD, async { drop(client.flush().await) }).await,
        };
    }
}

/// Bytes that were written to a socket and have not arrived at its peer; `None` where nobody says.
#[cfg(target_os = "linux")]
fn unsent(stream: &TcpStream) -> Option<u32> {
    let (ours, peer) = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
    diag::unsent(ours, peer)
}

/// Nobody is asked elsewhere.
#[cfg(not(target_os = "linux"))]
fn unsent(_: &TcpStream) -> Option<u32> {
    None
}

/// What a target that broke has said to begin with, as far as it is there. Whatever it is, somebody makes something of it.
pub(super) async fn rest(
    mut answer: Box<ResponseReader>,
    (from, to): (&mut RelayReader<'_>, &mut RelayWriter<'_>),
    moved: &RelayedBytes,
) -> Result<Bytes, Box<Error>> {
    let heard = poll_fn(|cx| answer.poll(cx, (from, to), &moved.down));
    match timeout(QUIET, heard).await {
        Ok(Ok(said)) => Ok(said),
        Ok(Err(ResponseReadError::Refused(error))) => Err(error),
        Ok(Err(_)) | Err(_) => Ok(answer.given_up()),
    }
}

/// Hands on all that a target said before it broke by this error. Its stream seems to end behind that; whether it did is known of
/// sockets that tell whether the end had come before the reset.
pub(super) async fn last_words(
    down: &mut RelayDirection,
    (from, to): (&mut RelayReader<'_>, &mut RelayWriter<'_>),
    (moved, error): (&RelayedBytes, &io::Error),
) -> CloseReason {
    let is_tcp = matches!(from.socket(), Some(super::socket::RelaySocket::Tcp(_)));
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
            Ok(Ok(())) if is_told => return CloseReason::Told,
            Ok(_) => break,
            // It is read no more, or taken no more.
            Err(_) if moved.down() == before && is_held_up == down.is_deaf() => break,
            Err(_) => {}
        }
    }
    match moved.down() {
        0 => CloseReason::Now,
        _ => CloseReason::Untold,
    }
}

/// Waits until nothing is left that has not arrived, or none of it does any more.
async fn arrived(left: impl Fn() -> u32) {
    let (mut last, mut since) = (u32::MAX, Instant::now());
    let mut looks = interval(LOOK);
    loop {
        looks.tick().await;
        let now = left();
        if now < last {
            (last, since) = (now, Instant::now());
        }
        if now == 0 || since.elapsed() >= STALLED {
            return;
        }
    }
}

async fn gone(client: &mut RelayStream, is_told: bool) {
    if is_told && client.shutdown().await.is_err() {
        return;
    }
    // It may talk on, and listen nevertheless.
    let mut rest = [0; 4096];
    while matches!(client.read(&mut rest).await, Ok(1..)) {}
}
