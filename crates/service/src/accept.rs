//! Accepts connections, with one answer to every error of accept(2).
//!
//! A connection that ended before it was accepted is skipped. Any other error is a shortage of this machine (descriptors, memory), which ends
//! when a connection ends: it is logged once, and the next try follows after a pause.

mod sys;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::net::{SocketFlags, accept_with, acceptfrom_with};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep};

use crate::listen::Listener;
use crate::observe::FailureReports;

/// The pause after an error, until a connection may have ended.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// A listening socket that a runtime watches.
#[derive(Debug)]
pub struct Acceptor {
    socket: AsyncFd<Listener>,
    /// The listener's name in the log.
    name: String,
    failures: FailureReports,
}

/// An accepted socket. It does not block, and no runtime watches it yet, so that it may be given to any.
///
/// TCP's options, `TCP_NODELAY` among them, are those of the listening socket.
#[derive(Debug)]
pub enum AcceptedSocket {
    /// A TCP connection and its peer's address.
    Tcp(std::net::TcpStream, Option<SocketAddr>),
    /// A connection to a Unix socket; its peer has no address.
    Unix(std::os::unix::net::UnixStream),
}

impl Acceptor {
    /// Watches a listening socket on the current runtime.
    ///
    /// # Errors
    /// When the runtime cannot watch it.
    pub fn new(listener: Listener, name: impl Into<String>) -> io::Result<Self> {
        Ok(Self {
            socket: sys::register(listener)?,
            name: name.into(),
            failures: FailureReports::default(),
        })
    }

    /// Whether only programs of this machine can connect over TCP. True where the system does not say.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self.socket.get_ref() {
            Listener::Tcp(listener) => listener
                .local_addr()
                .map_or(true, |local| local.ip().to_canonical().is_loopback()),
            Listener::Unix(_) => false,
        }
    }

    /// The next connection. Cancel safe.
    pub async fn accept(&mut self) -> AcceptedSocket {
        loop {
            match self.try_accept().await {
                Ok(accepted) => return accepted,
                Err(error) => self.wait_after(&error).await,
            }
        }
    }

    /// The next connection, or the error of a shortage. The caller frees what is short, or calls [`wait_after`](Self::wait_after), and tries
    /// again. Cancel safe.
    ///
    /// # Errors
    /// When this machine is short of descriptors, memory and the like.
    pub async fn try_accept(&mut self) -> io::Result<AcceptedSocket> {
        loop {
            match self.socket.async_io(Interest::READABLE, accept).await {
                Ok(accepted) => {
                    self.failures.worked();
                    return Ok(accepted);
                }
                Err(error) if is_connection_error(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Logs a shortage, and waits until it may have ended.
    pub async fn wait_after(&mut self, error: &io::Error) {
        // It may last for hours: not every failure is logged.
        if self.failures.failed(1, Instant::now()) {
            tracing::warn!(listener = self.name, %error, "cannot accept connections at the moment");
        }
        sleep(RETRY_DELAY).await;
    }
}

fn accept(listener: &Listener) -> io::Result<AcceptedSocket> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    match listener {
        Listener::Tcp(listener) => {
            let (stream, peer) = acceptfrom_with(listener, flags)?;
            let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
            Ok(AcceptedSocket::Tcp(stream.into(), peer))
        }
        Listener::Unix(listener) => Ok(AcceptedSocket::Unix(accept_with(listener, flags)?.into())),
    }
}

/// Whether an error concerns only the connection that was to be accepted, so that the next may be
/// fine (accept(2)).
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionReset, HostUnreachable, Interrupted, NetworkDown,
        NetworkUnreachable,
    };
    matches!(
        error.kind(),
        ConnectionAborted
            | ConnectionReset
            | Interrupted
            | NetworkDown
            | NetworkUnreachable
            | HostUnreachable
    )
}
