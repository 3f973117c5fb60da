//! What a wire runs over: sockets, plain or with TLS.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

use super::sys;
use crate::store::Object;

/// Bytes that one call sends of a file, so that one fast reader does not keep a reactor from all others.
const AT_ONCE: u64 = 2 << 20;

/// A byte stream of a connection.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send {
    /// Whether the kernel can send files on it.
    const SENDS_FILES: bool;

    /// Whether its end is more than the socket's own: a word to be sent.
    const HAS_FAREWELL: bool;

    /// Writes slices of which more will follow at once, so that a head does not go out alone.
    fn poll_write_more(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;

    /// Whether something has come, or the peer is gone: a hint, which may be wrong.
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// The next byte that its peer has sent, which stays where it is; `None`: there will be none.
    fn poll_peek(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<u8>>>;

    /// Bytes that were given to the system and are not with the peer.
    fn unsent(&self) -> u64;

    /// Sends some of a range of a file. Zero: the file has no more.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        object: &Object,
        offset: u64,
        len: u64,
    ) -> Poll<io::Result<usize>>;
}

/// Plain sockets differ by their names alone.
macro_rules! plain {
    ($socket:ty) => {
        impl Transport for $socket {
            const SENDS_FILES: bool = cfg!(target_os = "linux");
            const HAS_FAREWELL: bool = false;

            fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_read_ready(cx)
            }

            fn poll_peek(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<u8>>> {
                loop {
                    ready!(self.poll_read_ready(cx))?;
                    match self.try_io(Interest::READABLE, || peek(&*self)) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        other => return Poll::Ready(other),
                    }
                }
            }

            fn unsent(&self) -> u64 {
                sys::unsent(self)
            }

            fn poll_write_more(
                &mut self,
                cx: &mut Context<'_>,
                slices: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                loop {
                    ready!(self.poll_write_ready(cx))?;
                    match self.try_io(Interest::WRITABLE, || write_more(&*self, slices)) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        other => return Poll::Ready(other),
                    }
                }
            }

            fn poll_send(
                &mut self,
                cx: &mut Context<'_>,
                object: &Object,
                offset: u64,
                len: u64,
            ) -> Poll<io::Result<usize>> {
                loop {
                    ready!(self.poll_write_ready(cx))?;
                    match self.try_io(Interest::WRITABLE, || send(&*self, object, offset, len)) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        other => return Poll::Ready(other),
                    }
                }
            }
        }
    };
}

plain!(TcpStream);
plain!(UnixStream);

impl<S: Transport> Transport for TlsStream<S> {
    const SENDS_FILES: bool = false;
    const HAS_FAREWELL: bool = true;

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_ref().0.poll_readable(cx)
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
        std::pin::Pin::new(self).poll_write_vectored(cx, slices)
    }

    fn poll_send(
        &mut self,
        _: &mut Context<'_>,
        _: &Object,
        _: u64,
        _: u64,
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}

fn peek(socket: impl AsFd) -> io::Result<Option<u8>> {
    let mut byte = [0];
    let (_, came) =
        rustix::io::retry_on_intr(|| rustix::net::recv(&socket, &mut byte[..], RecvFlags::PEEK))?;
    Ok((came > 0).then_some(byte[0]))
}

fn write_more(socket: impl AsFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    #[cfg(target_os = "linux")]
    let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
    #[cfg(not(target_os = "linux"))]
    let flags = SendFlags::NOSIGNAL;
    let mut control = SendAncillaryBuffer::default();
    Ok(rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(&socket, slices, &mut control, flags)
    })?)
}

#[cfg(target_os = "linux")]
fn send(socket: impl AsFd, object: &Object, mut offset: u64, len: u64) -> io::Result<usize> {
    let len = usize::try_from(len.min(AT_ONCE)).unwrap_or(usize::MAX);
    let sent = rustix::fs::sendfile(socket, object.file(), Some(&mut offset), len)?;
    Ok(sent)
}

#[cfg(not(target_os = "linux"))]
fn send(_: impl AsFd, _: &Object, _: u64, _: u64) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}
