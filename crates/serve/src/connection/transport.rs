//! What a wire runs over: a [`ServerSocket`](super::socket::ServerSocket), or TLS over one.

use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::server::TlsStream;

use crate::store::OpenObject;

/// A byte stream of a connection.
pub(crate) trait ServerTransport: AsyncRead + AsyncWrite + Unpin + Send {
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
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// The next byte that its peer has sent, which stays where it is; `None`: there will be none.
    fn poll_peek(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<u8>>>;

    /// Bytes that were given to the system and are not with the peer.
    fn unsent(&self) -> u64;

    /// Sends some of a range of a file. Zero: the file has no more.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        object: &OpenObject,
        offset: u64,
        len: u64,
    ) -> Poll<io::Result<usize>>;
}

impl<S: ServerTransport> ServerTransport for TlsStream<S> {
    const SENDS_FILES: bool = false;
    const HAS_FAREWELL: bool = true;

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
        std::pin::Pin::new(self).poll_write_vectored(cx, slices)
    }

    fn poll_send(
        &mut self,
        _: &mut Context<'_>,
        _: &OpenObject,
        _: u64,
        _: u64,
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}
