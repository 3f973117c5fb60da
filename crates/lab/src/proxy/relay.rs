//! Copies between a client and a target, both ways, until both have closed.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::TcpStream;

use crate::origin::ClientStream;
use crate::running_listener::reset_on_close;

/// Bytes under way in one direction.
const BUFFER_BYTES: usize = 64 * 1024;

/// Copies both ways; `down` is told of every piece towards the client. Half-closes are passed on, and a reset of one side
/// becomes one of the other.
///
/// # Errors
/// When either side breaks.
pub(super) async fn relay(
    client: impl ClientStream,
    target: TcpStream,
    down: impl Fn(u64) + Send,
) -> io::Result<()> {
    let (from_client, to_client) = split(client);
    let (from_target, to_target) = split(target);
    let (mut from_client, mut to_client) = (from_client, to_client);
    let (mut from_target, mut to_target) = (from_target, to_target);
    let ended = tokio::try_join!(
        copy(&mut from_client, &mut to_target, |_| ()),
        copy(&mut from_target, &mut to_client, down),
    );
    if ended.is_err() {
        reset_on_close(from_client.unsplit(to_client).socket());
        reset_on_close(&from_target.unsplit(to_target));
    }
    ended.map(|_| ())
}

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    told: impl Fn(u64),
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..count]).await?;
        to.flush().await?;
        told(count as u64);
    }
}
