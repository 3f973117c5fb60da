//! Listening sockets, and how they are made.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use socket2::Socket;

use super::socket_file::SocketFile;

/// How to listen.
#[derive(Debug, Clone)]
pub struct BindOptions {
    /// The number of sockets for each address. The kernel distributes connections over several TCP sockets (`SO_REUSEPORT`);
    /// several sockets of a Unix address, or of one that was handed over, are duplicates with one queue.
    pub sockets: NonZeroUsize,
    /// The maximum number of connections that wait to be accepted, for each socket. `net.core.somaxconn` limits it, too.
    pub backlog: u32,
}

impl Default for BindOptions {
    fn default() -> Self {
        Self {
            sockets: NonZeroUsize::MIN,
            // The default of Linux. A full queue costs a client a second; a waiting connection costs a few bytes.
            backlog: 4096,
        }
    }
}

impl BindOptions {
    /// The argument of `listen(2)`.
    pub(super) fn backlog(&self) -> libc::c_int {
        libc::c_int::try_from(self.backlog).unwrap_or(libc::c_int::MAX)
    }
}

/// A listening socket. It does not block, and child processes do not inherit it.
#[derive(Debug)]
pub enum Listener {
    /// `TCP_NODELAY` is set on it, and accepted sockets inherit that.
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Listener {
    /// Its address.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn local(&self) -> io::Result<BoundAddress> {
        match self {
            Self::Tcp(listener) => Ok(BoundAddress::Tcp(listener.local_addr()?)),
            Self::Unix(listener) => {
                let address = listener.local_addr()?;
                Ok(BoundAddress::Unix(address.as_pathname().map(Into::into)))
            }
        }
    }

    /// Another descriptor of the same socket.
    pub(super) fn duplicate(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(listener) => listener.try_clone().map(Self::Tcp),
            Self::Unix(listener) => listener.try_clone().map(Self::Unix),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundAddress {
    /// With the actual port, also where 0 was requested.
    Tcp(SocketAddr),
    /// The socket's file; none for an abstract socket that was handed over.
    Unix(Option<PathBuf>),
}

impl fmt::Display for BoundAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(Some(path)) => write!(f, "unix:{}", path.display()),
            Self::Unix(None) => f.write_str("unix:@"),
        }
    }
}

#[derive(Debug)]
pub struct BoundListener {
    /// [`BindOptions::sockets`] listeners of the address.
    pub listeners: Vec<Listener>,
    pub local: BoundAddress,
    /// The file that was created for a Unix socket. Dropping it removes the file: keep it until nothing more is accepted.
    pub file: Option<SocketFile>,
}

impl BoundListener {
    /// A socket and duplicates of it.
    pub(super) fn duplicates(
        first: Listener,
        file: Option<SocketFile>,
        options: &BindOptions,
    ) -> io::Result<Self> {
        let local = first.local()?;
        let more = options.sockets.get() - 1;
        let mut listeners = vec![first];
        for _ in 0..more {
            listeners.push(listeners[0].duplicate()?);
        }
        Ok(Self {
            listeners,
            local,
            file,
        })
    }
}

/// Sets the options that accepted sockets inherit, which saves a system call for each.
///
/// Small writes are sent at once. On loopback no link can be too slow: the pacing of BBR costs a third of the sender's time in timers.
/// Every system has `reno`.
pub(super) fn set_inherited_options(socket: &Socket) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    if let Some(address) = socket.local_addr()?.as_socket()
        && address.ip().to_canonical().is_loopback()
        && let Ok(algorithm) = socket.tcp_congestion()
        && algorithm.starts_with(b"bbr")
    {
        // If this fails, sending is only slower.
        let _ = socket.set_tcp_congestion(b"reno");
    }
    Ok(())
}
