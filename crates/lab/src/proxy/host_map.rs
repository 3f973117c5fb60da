//! Where a proxy finds what it is asked for.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;

/// Addresses by the names that a test gave them.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostMap(HashMap<String, SocketAddr>);

impl HostMap {
    /// `target`, a host and a port, is at this address.
    pub(crate) fn add(&mut self, target: &str, address: SocketAddr) {
        self.0.insert(target.to_ascii_lowercase(), address);
    }

    /// Connects to a host and a port.
    ///
    /// # Errors
    /// As TCP and the resolver have them.
    pub(crate) async fn connect(&self, target: &str) -> io::Result<TcpStream> {
        let stream = match self.0.get(&target.to_ascii_lowercase()) {
            Some(address) => TcpStream::connect(address).await,
            None => TcpStream::connect(target).await,
        }?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}
