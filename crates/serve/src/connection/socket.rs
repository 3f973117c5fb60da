//! A socket that nothing watches until it has to be waited for.
//!
//! A runtime watches a socket from the moment that it owns it, reads nothing before it has heard of the first byte, and has to be told when
//! it ends. Of a connection that carries one request, whose bytes have come before anybody looks, that is half of the work. So the first few
//! calls are made at once, and the runtime gets the socket when one of them would have to wait, or when it has shown that it will be busy for
//! longer: what never waits would never let others have their turn.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::io::retry_on_intr;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::sys;
use super::transport::ServerTransport;
use crate::store::OpenObject;

/// Bytes that one call sends of a file, so that one fast reader does not keep a reactor from all others.
const AT_ONCE: u64 = 2 << 20;

/// Calls that are made before the runtime watches: of a request and its answer, with some to spare.
const TRIES: u8 = 8;

/// Bytes that such a call reads: a head, and what little may come with it. They are written twice.
const FIRST: usize = 8 << 10;

/// A runtime's socket.
pub(crate) trait RuntimeSocket:
    AsyncRead + AsyncWrite + AsFd + Unpin + Send + Sized
{
    /// The same, of no runtime's.
    type Loose: AsFd + Unpin + Send;

    /// Has the runtime watch it.
    fn tie(loose: Self::Loose) -> io::Result<Self>;

    /// See [`ServerTransport::poll_readable`].
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Makes a call as soon as the socket has something, or takes something.
    fn poll_call<R>(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
        call: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>>;
}

/// They differ by their names alone.
macro_rules! tied {
    ($socket:ty, $loose:ty) => {
        impl RuntimeSocket for $socket {
            type Loose = $loose;

            fn tie(loose: $loose) -> io::Result<Self> {
                Self::from_std(loose)
            }

            fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_read_ready(cx)
            }

            fn poll_call<R>(
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

tied!(TcpStream, std::net::TcpStream);
tied!(UnixStream, std::os::unix::net::UnixStream);

/// An accepted socket.
pub(crate) enum ServerSocket<T: RuntimeSocket> {
    /// Nothing watches it.
    Loose {
        /// It does not block.
        socket: T::Loose,
        /// Calls that are left.
        tries: u8,
    },
    /// The runtime watches it.
    Tied {
        /// The runtime's.
        socket: T,
        /// Calls that are left which are made although the runtime may not have heard yet whether the socket takes anything. hyper would
        /// lose an answer, of those that end a connection, that cannot be written at once.
        tries: u8,
    },
    /// The runtime could not.
    Lost,
}

impl<T: RuntimeSocket> ServerSocket<T> {
    /// Of one that does not block.
    pub(crate) fn new(socket: T::Loose) -> Self {
        Self::Loose {
            socket,
            tries: TRIES,
        }
    }

    /// Makes a call, unless the socket would have to be waited for, or is watched.
    fn try_call<R>(
        &mut self,
        call: impl FnOnce(&T::Loose) -> io::Result<R>,
    ) -> Option<io::Result<R>> {
        let Self::Loose { socket, tries } = self else {
            return None;
        };
        *tries = tries.checked_sub(1)?;
        match call(socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            done => Some(done),
        }
    }

    /// The same, watched from here on.
    fn tied(&mut self) -> io::Result<&mut T> {
        if let Self::Loose { .. } = self
            && let Self::Loose { socket, .. } = std::mem::replace(self, Self::Lost)
        {
            *self = Self::Tied {
                socket: T::tie(socket)?,
                tries: TRIES,
            };
        }
        match self {
            Self::Tied { socket, .. } => Ok(socket),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Makes a call that sends.
    fn poll_call<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut call: impl FnMut(std::os::fd::BorrowedFd<'_>) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        if let Some(done) = self.try_call(|socket| call(socket.as_fd())) {
            return Poll::Ready(done);
        }
        self.tied()?;
        if let Self::Tied { socket, tries } = self
            && let Some(left) = tries.checked_sub(1)
        {
            *tries = left;
            match call(socket.as_fd()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => *tries = 0,
                done => return Poll::Ready(done),
            }
        }
        let socket = self.tied()?;
        socket.poll_call(cx, Interest::WRITABLE, || call(socket.as_fd()))
    }
}

impl<T: RuntimeSocket> ServerTransport for ServerSocket<T> {
    const SENDS_FILES: bool = cfg!(target_os = "linux");
    const HAS_FAREWELL: bool = false;

    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tied()?.poll_readable(cx)
    }

    fn poll_peek(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<u8>>> {
        if let Some(done) = self.try_call(|socket| peek(socket)) {
            return Poll::Ready(done);
        }
        let socket = self.tied()?;
        socket.poll_call(cx, Interest::READABLE, || peek(socket.as_fd()))
    }

    fn unsent(&self) -> u64 {
        match self {
            Self::Loose { socket, .. } => sys::unsent(socket),
            Self::Tied { socket, .. } => sys::unsent(socket),
            Self::Lost => 0,
        }
    }

    fn poll_write_more(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        #[cfg(target_os = "linux")]
        let flags = SendFlags::MORE;
        #[cfg(not(target_os = "linux"))]
        let flags = SendFlags::empty();
        self.poll_call(cx, |socket| write(socket, slices, flags))
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        object: &OpenObject,
        offset: u64,
        len: u64,
    ) -> Poll<io::Result<usize>> {
        self.poll_call(cx, |socket| send(socket, object, offset, len))
    }
}

impl<T: RuntimeSocket> AsyncRead for ServerSocket<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buffer.remaining().min(FIRST);
        let read = |socket: &T::Loose| {
            let room = buffer.initialize_unfilled_to(room);
            let (came, _) =
                retry_on_intr(|| rustix::net::recv(socket, &mut *room, RecvFlags::empty()))?;
            buffer.advance(came);
            Ok(())
        };
        if let Some(done) = self.try_call(read) {
            return Poll::Ready(done);
        }
        let read = ready!(Pin::new(self.tied()?).poll_read(cx, buffer));
        // It has heard of the one, and so of the other.
        if let Self::Tied { tries, .. } = &mut *self {
            *tries = 0;
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
        self.poll_call(cx, |socket| write(socket, slices, SendFlags::empty()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing is kept here.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Loose { socket, .. } => {
                Poll::Ready(Ok(rustix::net::shutdown(socket, Shutdown::Write)?))
            }
            Self::Tied { socket, .. } => Pin::new(socket).poll_shutdown(cx),
            Self::Lost => Poll::Ready(Ok(())),
        }
    }
}

fn peek(socket: impl AsFd) -> io::Result<Option<u8>> {
    let mut byte = [0];
    let (_, came) = retry_on_intr(|| rustix::net::recv(&socket, &mut byte[..], RecvFlags::PEEK))?;
    Ok((came > 0).then_some(byte[0]))
}

fn write(socket: impl AsFd, slices: &[IoSlice<'_>], flags: SendFlags) -> io::Result<usize> {
    let mut control = SendAncillaryBuffer::default();
    let flags = flags | SendFlags::NOSIGNAL;
    Ok(retry_on_intr(|| {
        rustix::net::sendmsg(&socket, slices, &mut control, flags)
    })?)
}

#[cfg(target_os = "linux")]
fn send(socket: impl AsFd, object: &OpenObject, mut offset: u64, len: u64) -> io::Result<usize> {
    let len = usize::try_from(len.min(AT_ONCE)).unwrap_or(usize::MAX);
    Ok(retry_on_intr(|| {
        rustix::fs::sendfile(&socket, object.file(), Some(&mut offset), len)
    })?)
}

#[cfg(not(target_os = "linux"))]
fn send(_: impl AsFd, _: &OpenObject, _: u64, _: u64) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}
