//! Copies between a client and a target, both ways, until both have closed.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::TcpStream;

use crate::origin::OriginStream;
use crate::running_listener::reset;

/// Bytes under way in one direction.
const BUFFER: usize = 64 * 1024;

/// Copies both ways; `down` is told of every piece towards the client. Half-closes are passed on, and a reset of one side
/// becomes one of the other.
///
/// # Errors
/// When either side breaks.
pub(super) async fn relay(
    client: impl OriginStream,
    target: TcpStream,
    down: impl Fn(u64) + Send,
) -> io::Result<()> {
    let (from_client, to_client) = split(client);
    let (from_target, to_target) = split(target);
    let (mut from_client, mut to_client) = (from_client, to_client);
    let (mut from_target, mut to_target) = (from_target, to_target);
    let ended = tokio::try_join!(
        one_way(&mut from_client, &mut to_target, |_| ()),
        one_way(&mut from_target, &mut to_client, down),
    );
    if ended.is_err() {
        reset(from_client.unsplit(to_client).socket());
        reset(&from_target.unsplit(to_target));
    }
    ended.map(|_| ())
}

async fn one_way(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    told: impl Fn(u64),
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
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
