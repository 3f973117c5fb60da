//! How a client is left that may not have read everything yet.
//!
//! A socket that is closed with unread bytes in it sends a reset, and the peer's system may then throw away the last bytes that were sent to
//! it. So what the client still sends is read for a while. A client that has read everything closes, and no client is waited for long. A
//! client that is to see a reset, because its stream has no proper end, sees it when all bytes before have arrived.

use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, interval, timeout};

use super::direction::RelayDirection;
use super::socket::RelaySocket;
use super::stream::{RelayReader, RelayWriter};
use super::sys::unacknowledged;
use super::{RelayStream, RelayedBytes};

/// How long a client may take to read a reply of ours and to hang up.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client may take to hang up when its stream has ended.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a stream that is not TCP may take to hand over what it holds.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client may take nothing of what is left for it.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the next bytes of a target that broke are waited for. They should be there.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_millis(200);

/// Between two looks at what has arrived.
const DELIVERY_CHECK: Duration = Duration::from_millis(10);

/// How the client of a relay is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientClose {
    AtOnce,
    /// Its stream has ended: it is given time to read.
    Linger,
    /// Its stream has no proper end: it is reset when all bytes have arrived.
    ResetWhenDelivered,
}

/// Writes the last bytes for a client, and [lingers](linger).
pub(crate) async fn send_and_linger(client: &mut RelayStream, bytes: &[u8]) {
    let sending = async {
        if client.write_all(bytes).await.is_ok() {
            hang_up(client).await;
        }
    };
    let _ = timeout(REPLY_TIMEOUT, sending).await;
}

/// Ends our side, and gives the client a moment to read and to hang up. Whether it has or not, it is to be closed then.
pub(crate) async fn linger(client: &mut RelayStream) {
    let _ = timeout(LINGER_TIMEOUT, hang_up(client)).await;
}

/// Waits until the client has received all that was written for it, or takes no more of it. When it is dropped then, the client sees a
/// reset.
pub(crate) async fn reset_when_delivered(client: &mut RelayStream) {
    if let RelayStream::Tcp(stream) = client {
        delivered(stream).await;
    } else {
        // A Unix socket's bytes are there when they are written, and it has no resets.
        let _ = timeout(FLUSH_TIMEOUT, client.flush()).await;
    }
    client.reset_on_drop();
}

/// Passes on what a target sent before it failed with `error`. The stream seems to end after that. Whether it did is known only if the end
/// of the stream came before the reset.
pub(super) async fn pass_on_last_words(
    mut down: RelayDirection,
    mut from: RelayReader<'_>,
    mut to: RelayWriter<'_>,
    bytes: &RelayedBytes,
    error: &io::Error,
) -> ClientClose {
    let is_tcp = matches!(from.socket(), Some(RelaySocket::Tcp(_)));
    // A reset that comes behind the end of a TCP stream is EPIPE, and no ECONNRESET.
    let has_end = down.is_done() || is_tcp && error.kind() == io::ErrorKind::BrokenPipe;
    if !has_end {
        down.withhold_end();
    }
    loop {
        let (before, is_reading) = (bytes.down(), down.is_reading());
        let limit = if is_reading {
            LAST_WORDS_TIMEOUT
        } else {
            STALL_TIMEOUT
        };
        let passed_on = poll_fn(|cx| down.poll(cx, &mut from, &mut to, &bytes.down, false));
        match timeout(limit, passed_on).await {
            Ok(Ok(())) if has_end => return ClientClose::Linger,
            Ok(_) => break,
            Err(_) if bytes.down() == before && down.is_reading() == is_reading => break,
            Err(_) => {}
        }
    }
    match bytes.down() {
        0 => ClientClose::AtOnce,
        _ => ClientClose::ResetWhenDelivered,
    }
}

/// Waits until the peer has acknowledged everything, is gone, or acknowledges nothing any more.
async fn delivered(stream: &TcpStream) {
    let (mut least, mut since) = (u32::MAX, Instant::now());
    let mut checks = interval(DELIVERY_CHECK);
    loop {
        checks.tick().await;
        let Ok(left @ 1..) = unacknowledged(stream.as_fd()) else {
            return;
        };
        if left < least {
            (least, since) = (left, Instant::now());
        }
        let is_gone = !matches!(stream.take_error(), Ok(None));
        if is_gone || since.elapsed() >= STALL_TIMEOUT {
            return;
        }
    }
}

/// Ends our side, and reads until the client has ended its own: it may go on sending while it reads.
async fn hang_up(client: &mut RelayStream) {
    if client.shutdown().await.is_err() {
        return;
    }
    let mut rest = [0; 4096];
    while matches!(client.read(&mut rest).await, Ok(1..)) {}
}
