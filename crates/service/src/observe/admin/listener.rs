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

/// Who comes that way, as far as an address tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AdminPeer {
    /// Programs of this machine alone, of which a browser is one.
    Loopback,
    /// Others, too; or whoever may write to a socket file, which no browser does.
    Other,
}

/// A connection of either kind. There are few, so that what a box costs does not matter.
pub(super) type AdminStream = Box<dyn AdminDuplex>;

pub(super) trait AdminDuplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> AdminDuplex for T {}

impl AdminListener {
    /// Who comes here. Where the system does not say, the narrower is taken.
    pub(super) fn way(&self) -> AdminPeer {
        let is_private = match self {
            Self::Tcp(listener) => listener
                .local_addr()
                .map_or(true, |local| local.ip().to_canonical().is_loopback()),
            Self::Unix(_) => false,
        };
        match is_private {
            true => AdminPeer::Loopback,
            false => AdminPeer::Other,
        }
    }

    pub(super) async fn accept(&self) -> io::Result<AdminStream> {
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
