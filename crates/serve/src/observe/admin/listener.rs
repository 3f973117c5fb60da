//! Where the endpoint is asked: at a port, or at a socket file.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

/// Where the endpoint is asked.
#[derive(Debug)]
pub enum AdminListener {
    /// A port.
    Tcp(TcpListener),
    /// A socket file, whose permissions say who may ask.
    Unix(UnixListener),
}

/// A connection of either kind. There are few, so that what a box costs does not matter.
pub(super) type Stream = Box<dyn Duplex>;

pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

impl AdminListener {
    pub(super) async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => Ok(Box::new(listener.accept().await?.0)),
            Self::Unix(listener) => Ok(Box::new(listener.accept().await?.0)),
        }
    }
}

impl From<TcpListener> for AdminListener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<UnixListener> for AdminListener {
    fn from(listener: UnixListener) -> Self {
        Self::Unix(listener)
    }
}
