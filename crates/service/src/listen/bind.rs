//! From an address to sockets that listen.
//!
//! One address may become several [`BoundListener`]s: a name has as many addresses as it has, and a service manager may hand over more
//! than one socket. Each of them has as many [`Listener`]s as were asked for, so that every reactor can have one of its own.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use super::address::ListenAddress;
use super::error::ListenError;
use super::systemd::InheritedSockets;
use super::unix::SocketFile;
use super::{tcp, unix};

/// How to listen.
#[derive(Debug, Clone)]
pub struct BindOptions {
    /// How many sockets each address has. With more than one of TCP the kernel spreads connections over them (`SO_REUSEPORT`);
    /// for a unix socket and for one that was handed over they are duplicates, which share one queue.
    pub sockets: NonZeroUsize,
    /// How many connections may wait to be accepted, of each socket. The kernel takes no more than `net.core.somaxconn`.
    pub backlog: u32,
}

impl Default for BindOptions {
    fn default() -> Self {
        Self {
            sockets: NonZeroUsize::MIN,
            // What Linux allows unless told otherwise. A full queue costs a client a second, waiting costs us a few bytes.
            backlog: 4096,
        }
    }
}

impl BindOptions {
    /// As `listen(2)` takes it.
    pub(super) fn backlog(&self) -> libc::c_int {
        libc::c_int::try_from(self.backlog).unwrap_or(libc::c_int::MAX)
    }
}

/// A socket that listens and does not block, and that a child of ours will not inherit.
#[derive(Debug)]
pub enum Listener {
    /// `TCP_NODELAY` is set on it. On Linux what it accepts inherits that; elsewhere it must be set again.
    Tcp(TcpListener),
    /// Of the file system, or handed over.
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
    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn local(&self) -> io::Result<BoundAddress> {
        match self {
            Self::Tcp(listener) => Ok(BoundAddress::Tcp(listener.local_addr()?)),
            Self::Unix(listener) => {
                let address = listener.local_addr()?;
                Ok(BoundAddress::Unix(address.as_pathname().map(Into::into)))
            }
        }
    }

    /// The same socket by another descriptor.
    pub(super) fn duplicate(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(listener) => listener.try_clone().map(Self::Tcp),
            Self::Unix(listener) => listener.try_clone().map(Self::Unix),
        }
    }
}

/// Where a socket came to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundAddress {
    /// With the port that was found, when any was asked for.
    Tcp(SocketAddr),
    /// The socket's file; none for an abstract one that was handed over.
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

/// One address that is listened on.
#[derive(Debug)]
pub struct BoundListener {
    /// As many as were asked for, all of the same address.
    pub listeners: Vec<Listener>,
    /// Where that is.
    pub local: BoundAddress,
    /// The file of a unix socket that we have made. It goes when this is dropped: keep it until nothing is accepted any more.
    pub file: Option<SocketFile>,
}

impl BoundListener {
    /// One socket, and duplicates of it up to the number asked for.
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

/// Listens on an address: on every one that it means, or on none. Names are looked up here, so it may block.
///
/// # Errors
/// See [`ListenError`], whose [`hint`](ListenError::hint) says what to do.
pub fn bind(
    address: &ListenAddress,
    options: &BindOptions,
    handed: &mut InheritedSockets,
) -> Result<Vec<BoundListener>, ListenError> {
    match address {
        ListenAddress::Tcp { host, port } => tcp::bind(address, host, *port, options),
        ListenAddress::Unix { path, mode } => {
            let failed = |source| ListenError::Io {
                address: address.clone(),
                source,
            };
            let (listener, file) = unix::bind(path, *mode, options).map_err(|e| match e {
                unix::UnixBindError::Io(source) => failed(source),
                unix::UnixBindError::InUse => ListenError::SocketInUse { path: path.clone() },
                unix::UnixBindError::NotASocket => ListenError::NotASocket { path: path.clone() },
            })?;
            let bound = BoundListener::duplicates(listener, Some(file), options).map_err(failed)?;
            Ok(vec![bound])
        }
        ListenAddress::Systemd { name } => {
            let found = handed.take_named(name.as_deref());
            if found.is_empty() {
                return Err(ListenError::NotInherited {
                    address: address.clone(),
                    others: handed.names(),
                });
            }
            let bound = found
                .into_iter()
                .map(|listener| BoundListener::duplicates(listener, None, options));
            bound
                .collect::<io::Result<_>>()
                .map_err(|source| ListenError::Io {
                    address: address.clone(),
                    source,
                })
        }
    }
}
