//! Accepted sockets: not registered with the runtime until they must wait, and TLS over them.
//!
//! A runtime polls a socket from the moment that it owns it, reads nothing before the first event,
//! and must be told when the socket closes. For a connection with one request, which has arrived
//! before anybody looks, that is half of the work. So the first few calls are made at once. The
//! socket is registered when a call would have to wait, or after several calls: a socket that never
//! waits would never let other tasks run.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::io::retry_on_intr;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

use crate::store::OpenObject;
use haul_net::bytes_unacknowledged;

/// Maximum bytes of a file that one call sends, so that a fast reader does not block a reactor.
const MAX_SENDFILE: u64 = 2 << 20;

/// Calls that are made before the socket is registered: those of a request and its response, and
/// some more.
const EAGER_CALLS: u8 = 8;

/// Maximum bytes that such a call reads: a head, and the little that may follow it. They are copied
/// once more.
const MAX_EAGER_READ: usize = 8 << 10;

/// The byte stream of a connection: a [`ServerSocket`], or TLS over one.
pub(crate) trait ServerTransport: AsyncRead + AsyncWrite + Unpin + Send {
    /// Whether the kernel can send files on it.
    const CAN_SENDFILE: bool;

    /// Whether closing it sends a message of the protocol, beyond the end of the socket.
    const HAS_CLOSE_MESSAGE: bool;

    /// Writes slices that others follow at once, so that a head is not sent alone.
    fn poll_write_more(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;

    /// Waits until a read may return something, or the client is gone. May be wrong.
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// The next byte, which stays in the socket; `None` at the end.
    fn poll_peek(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<u8>>>;

    /// Bytes that were given to the system and not acknowledged by the client.
    fn unsent(&self) -> u64;

    /// Sends some of a range of a file. Zero: the file has no more.
    fn poll_sendfile(
        &mut self,
        cx: &mut Context<'_>,
        object: &OpenObject,
        offset: u64,
        len: u64,
    ) -> Poll<io::Result<usize>>;
}

/// A socket that is registered with the runtime.
pub(crate) trait RuntimeSocket:
    AsyncRead + AsyncWrite + AsFd + Unpin + Send + Sized
{
    /// The same socket, not registered.
    type Unregistered: AsFd + Unpin + Send;

    fn register(socket: Self::Unregistered) -> io::Result<Self>;

    /// See [`ServerTransport::poll_readable`].
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Makes a call when the socket is ready for it.
    fn poll_io<R>(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
        call: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>>;
}

/// Implements [`RuntimeSocket`] for sockets that differ in their types alone.
macro_rules! runtime_socket {
    ($socket:ty, $unregistered:ty) => {
        impl RuntimeSocket for $socket {
            type Unregistered = $unregistered;

            fn register(socket: $unregistered) -> io::Result<Self> {
                Self::from_std(socket)
            }

            fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_read_ready(cx)
            }

            fn poll_io<R>(
                &self,
                cx: &mut Context<'_>,
                interest: Interest,
                mut call: impl FnMut() -> io::Result<R>,
            ) -> Poll<io::Result<R>> {
                loop {
                    ready!(match interest.is_readable() {
                        true => self.poll_read_ready(cx),
                        false => self.poll_write_ready(cx),
                    })?;
                    match self.try_io(interest, &mut call) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        other => return Poll::Ready(other),
                    }
                }
            }
        }
    };
}

runtime_socket!(TcpStream, std::net::TcpStream);
runtime_socket!(UnixStream, std::os::unix::net::UnixStream);

/// An accepted socket.
pub(crate) enum ServerSocket<T: RuntimeSocket> {
    Unregistered {
        /// In non-blocking mode.
        socket: T::Unregistered,
        /// Calls that may be made before it is registered.
        calls_left: u8,
    },
    Registered {
        socket: T,
        /// Writes that are made although the runtime may not know yet whether the socket is
        /// writable: hyper loses a response that ends a connection if it cannot be written at once.
        calls_left: u8,
    },
    Failed,
}

impl<T: RuntimeSocket> ServerSocket<T> {
    /// Wraps a socket in non-blocking mode.
    pub(crate) fn new(socket: T::Unregistered) -> Self {
        Self::Unregistered {
            socket,
            calls_left: EAGER_CALLS,
        }
    }

    /// Makes a call at once, if the socket is not registered and the call need not wait.
    fn try_call<R>(
        &mut self,
        call: impl FnOnce(&T::Unregistered) -> io::Result<R>,
    ) -> Option<io::Result<R>> {
        let Self::Unregistered { socket, calls_left } = self else {
            return None;
        };
        *calls_left = calls_left.checked_sub(1)?;
        match call(socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            done => Some(done),
        }
    }

    /// The registered socket; registers it if necessary.
    fn registered(&mut self) -> io::Result<&mut T> {
        if let Self::Unregistered { .. } = self
            && let Self::Unregistered { socket, .. } = std::mem::replace(self, Self::Failed)
        {
            *self = Self::Registered {
                socket: T::register(socket)?,
                calls_left: EAGER_CALLS,
            };
        }
        match self {
            Self::Registered { socket, .. } => Ok(socket),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Makes a call that sends.
    fn poll_send_call<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut call: impl FnMut(std::os::fd::BorrowedFd<'_>) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        if let Some(done) = self.try_call(|socket| call(socket.as_fd())) {
            return Poll::Ready(done);
        }
        self.registered()?;
        if let Self::Registered { socket, calls_left } = self
            && let Some(left) = calls_left.checked_sub(1)
        {
            *calls_left = left;
            match call(socket.as_fd()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => *calls_left = 0,
                done => return Poll::Ready(done),
            }
        }
        let socket = self.registered()?;
        socket.poll_io(cx, Interest::WRITABLE, || call(socket.as_fd()))
    }
}

impl<T: RuntimeSocket> ServerTransport for ServerSocket<T> {
    const CAN_SENDFILE: bool = true;
    const HAS_CLOSE_MESSAGE: bool = false;

    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.registered()?.poll_readable(cx)
    }

    fn poll_peek(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<u8>>> {
        if let Some(done) = self.try_call(|socket| peek(socket)) {
            return Poll::Ready(done);
        }
        let socket = self.registered()?;
        socket.poll_io(cx, Interest::READABLE, || peek(socket.as_fd()))
    }

    fn unsent(&self) -> u64 {
        match self {
            Self::Unregistered { socket, .. } => bytes_unacknowledged(socket.as_fd()),
            Self::Registered { socket, .. } => bytes_unacknowledged(socket.as_fd()),
            Self::Failed => 0,
        }
    }

    fn poll_write_more(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send_call(cx, |socket| write(socket, slices, SendFlags::MORE))
    }

    fn poll_sendfile(
        &mut self,
        cx: &mut Context<'_>,
        object: &OpenObject,
        offset: u64,
        len: u64,
    ) -> Poll<io::Result<usize>> {
        self.poll_send_call(cx, |socket| sendfile(socket, object, offset, len))
    }
}

impl<T: RuntimeSocket> AsyncRead for ServerSocket<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let len = buffer.remaining().min(MAX_EAGER_READ);
        let read = |socket: &T::Unregistered| {
            let unfilled = buffer.initialize_unfilled_to(len);
            let (received, _) =
                retry_on_intr(|| rustix::net::recv(socket, &mut *unfilled, RecvFlags::empty()))?;
            buffer.advance(received);
            Ok(())
        };
        if let Some(done) = self.try_call(read) {
            return Poll::Ready(done);
        }
        let read = ready!(Pin::new(self.registered()?).poll_read(cx, buffer));
        // The runtime has had an event, so it knows whether the socket is writable, too.
        if let Self::Registered { calls_left, .. } = &mut *self {
            *calls_left = 0;
        }
        Poll::Ready(read)
    }
}

impl<T: RuntimeSocket> AsyncWrite for ServerSocket<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send_call(cx, |socket| write(socket, slices, SendFlags::empty()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing is buffered here.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unregistered { socket, .. } => {
                Poll::Ready(Ok(rustix::net::shutdown(socket, Shutdown::Write)?))
            }
            Self::Registered { socket, .. } => Pin::new(socket).poll_shutdown(cx),
            Self::Failed => Poll::Ready(Ok(())),
        }
    }
}

impl<S: ServerTransport> ServerTransport for TlsStream<S> {
    const CAN_SENDFILE: bool = false;
    const HAS_CLOSE_MESSAGE: bool = true;

    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().0.poll_readable(cx)
    }

    fn poll_peek(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Option<u8>>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn unsent(&self) -> u64 {
        self.get_ref().0.unsent()
    }

    fn poll_write_more(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self).poll_write_vectored(cx, slices)
    }

    fn poll_sendfile(
        &mut self,
        _: &mut Context<'_>,
        _: &OpenObject,
        _: u64,
        _: u64,
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}

fn peek(socket: impl AsFd) -> io::Result<Option<u8>> {
    let mut byte = [0];
    let (_, len) = retry_on_intr(|| rustix::net::recv(&socket, &mut byte[..], RecvFlags::PEEK))?;
    Ok((len > 0).then_some(byte[0]))
}

fn write(socket: impl AsFd, slices: &[IoSlice<'_>], flags: SendFlags) -> io::Result<usize> {
    let mut control = SendAncillaryBuffer::default();
    let flags = flags | SendFlags::NOSIGNAL;
    Ok(retry_on_intr(|| {
        rustix::net::sendmsg(&socket, slices, &mut control, flags)
    })?)
}

fn sendfile(
    socket: impl AsFd,
    object: &OpenObject,
    mut offset: u64,
    len: u64,
) -> io::Result<usize> {
    let len = usize::try_from(len.min(MAX_SENDFILE)).unwrap_or(usize::MAX);
    Ok(retry_on_intr(|| {
        rustix::fs::sendfile(&socket, object.file(), Some(&mut offset), len)
    })?)
}
