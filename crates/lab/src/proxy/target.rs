//! The targets of a proxy: connects to them, and relays between them and clients.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::TcpStream;

use crate::origin::ClientStream;
use crate::running_listener::reset_on_close;

/// Bytes in flight in one direction.
const BUFFER_BYTES: usize = 64 * 1024;

/// The addresses of the names of a test.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostMap(HashMap<String, SocketAddr>);

impl HostMap {
    /// Maps `target`, a host and a port, to an address.
    pub(crate) fn add(&mut self, target: &str, address: SocketAddr) {
        self.0.insert(target.to_ascii_lowercase(), address);
    }

    /// Connects to a host and a port.
    ///
    /// # Errors
    /// Those of TCP and the resolver.
    pub(crate) async fn connect(&self, target: &str) -> io::Result<TcpStream> {
        let stream = match self.0.get(&target.to_ascii_lowercase()) {
            Some(address) => TcpStream::connect(address).await,
            None => TcpStream::connect(target).await,
        }?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Copies in both directions until both sides have closed, and reports the bytes of each write to the client to `sent`.
/// Half-closes are passed on, and a reset of one side becomes one of the other.
///
/// # Errors
/// When either side breaks.
pub(super) async fn relay(
    client: impl ClientStream,
    target: TcpStream,
    sent: impl Fn(u64) + Send,
) -> io::Result<()> {
    let (mut from_client, mut to_client) = split(client);
    let (mut from_target, mut to_target) = split(target);
    let ended = tokio::try_join!(
        copy(&mut from_client, &mut to_target, |_| ()),
        copy(&mut from_target, &mut to_client, sent),
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
    sent: impl Fn(u64),
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..count]).await?;
        to.flush().await?;
        sent(count as u64);
    }
}
