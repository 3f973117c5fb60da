//! The streams that a relay joins.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use haul_net::TransportStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::{TcpStream, UnixStream};

use super::socket::RelaySocket;

/// A stream that is no plain socket.
pub trait AnyStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> AnyStream for T {}

/// The stream of one peer.
pub enum RelayStream {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// TLS over TCP, with the target or with a proxy. Its bytes pass through buffers.
    Tls(Box<TransportStream>),
    /// Standard input and output. Its bytes pass through buffers.
    Other(Box<dyn AnyStream>),
}

impl RelayStream {
    /// The two directions, which can be used at the same time.
    pub(crate) fn split(&mut self) -> (RelayReader<'_>, RelayWriter<'_>) {
        match self {
            Self::Other(stream) => split_buffered(stream.as_mut()),
            Self::Tls(stream) => split_buffered(stream.as_mut()),
            Self::Tcp(stream) => (
                RelayReader::Socket(RelaySocket::Tcp(stream)),
                RelayWriter::Socket(RelaySocket::Tcp(stream)),
            ),
            Self::Unix(stream) => (
                RelayReader::Socket(RelaySocket::Unix(stream)),
                RelayWriter::Socket(RelaySocket::Unix(stream)),
            ),
        }
    }

    /// A stream of `net`'s connector, and what was read of it already.
    #[must_use]
    pub fn from_transport(stream: TransportStream) -> (Self, Bytes) {
        match stream.into_tcp() {
            Ok((early, stream)) => (Self::Tcp(stream), early),
            // What was read of it already comes first when it is read.
            Err(stream) => (Self::Tls(Box::new(stream)), Bytes::new()),
        }
    }

    /// Has TCP probe a peer without traffic after so long; `None` is never.
    pub(crate) fn keep_alive(&self, after: Option<Duration>) {
        if let (Self::Tcp(stream), Some(after)) = (self, after) {
            let keepalive = socket2::TcpKeepalive::new().with_time(after);
            // Without probes a peer that is gone is noticed later: no reason to fail.
            let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive);
        }
    }

    /// When this is dropped the peer sees a reset, and no end of the stream. Only TCP has resets.
    pub fn reset_on_drop(&self) {
        let tcp = match self {
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => stream.socket(),
            Self::Unix(_) | Self::Other(_) => return,
        };
        // A socket that refuses is gone already.
        let _ = socket2::SockRef::from(tcp).set_linger(Some(Duration::ZERO));
    }

    fn inner(&mut self) -> Pin<&mut dyn AnyStream> {
        match self {
            Self::Tcp(stream) => Pin::new(stream),
            Self::Unix(stream) => Pin::new(stream),
            Self::Tls(stream) => Pin::new(stream.as_mut()),
            Self::Other(stream) => Pin::new(stream.as_mut()),
        }
    }
}

impl fmt::Debug for RelayStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp(_) => "Tcp",
            Self::Unix(_) => "Unix",
            Self::Tls(_) => "Tls",
            Self::Other(_) => "Other",
        })
    }
}

impl AsyncRead for RelayStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.get_mut().inner().poll_read(cx, buffer)
    }
}

impl AsyncWrite for RelayStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().inner().poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().inner().poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        matches!(self, Self::Tcp(_) | Self::Unix(_))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().inner().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().inner().poll_shutdown(cx)
    }
}

fn split_buffered(stream: &mut dyn AnyStream) -> (RelayReader<'_>, RelayWriter<'_>) {
    let (reader, writer) = tokio::io::split(stream);
    (RelayReader::Buffered(reader), RelayWriter::Buffered(writer))
}

pub(crate) enum RelayReader<'a> {
    Socket(RelaySocket<'a>),
    Buffered(ReadHalf<&'a mut dyn AnyStream>),
}

impl<'a> RelayReader<'a> {
    /// The socket, if it is a plain one.
    pub(crate) fn socket(&self) -> Option<RelaySocket<'a>> {
        match self {
            Self::Socket(socket) => Some(*socket),
            Self::Buffered(_) => None,
        }
    }

    /// Reads what has come; 0 is the end of the stream.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Socket(socket) => socket.poll_read(cx, buffer),
            Self::Buffered(stream) => {
                let mut buffer = ReadBuf::new(buffer);
                let read = Pin::new(stream).poll_read(cx, &mut buffer);
                read.map_ok(|()| buffer.filled().len())
            }
        }
    }
}

pub(crate) enum RelayWriter<'a> {
    Socket(RelaySocket<'a>),
    Buffered(WriteHalf<&'a mut dyn AnyStream>),
}

impl RelayWriter<'_> {
    /// Writes one byte at least.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(match self {
            Self::Socket(socket) => socket.poll_write(cx, bytes),
            Self::Buffered(stream) => Pin::new(stream).poll_write(cx, bytes),
        })?;
        Poll::Ready(match count {
            0 => Err(io::ErrorKind::WriteZero.into()),
            count => Ok(count),
        })
    }

    /// Whether what was written has to be flushed.
    pub(super) fn is_buffered(&self) -> bool {
        matches!(self, Self::Buffered(_))
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Socket(_) => Poll::Ready(Ok(())),
            Self::Buffered(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Ends the stream.
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Socket(socket) => {
                socket.shut_down();
                Poll::Ready(Ok(()))
            }
            Self::Buffered(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
