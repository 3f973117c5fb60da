//! The two ends of a relay, whatever they are made of.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use haul_net::TransportStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::{TcpStream, UnixStream};

use super::socket::RelaySocket;

/// What can be read and written, and is no plain socket.
pub trait AnyStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> AnyStream for T {}

/// An end of a relay.
pub enum RelayStream {
    /// TCP.
    Tcp(TcpStream),
    /// A socket in the file system.
    Unix(UnixStream),
    /// TLS, by way of a proxy or with the target: its bytes pass through buffers, and there is TCP below.
    Tls(Box<TransportStream>),
    /// Standard input and output: buffers, and no telling what is below.
    Other(Box<dyn AnyStream>),
}

impl RelayStream {
    /// What comes from it, and what goes to it.
    pub(crate) fn split(&mut self) -> (RelayReader<'_>, RelayWriter<'_>) {
        match self {
            Self::Other(stream) => buffered(stream.as_mut()),
            Self::Tls(stream) => buffered(stream.as_mut()),
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

    /// The end of a stream of `net`'s, and what was read of that already.
    #[must_use]
    pub fn from_transport(stream: TransportStream) -> (Self, Bytes) {
        match stream.into_tcp() {
            Ok((early, stream)) => (Self::Tcp(stream), early),
            // What was read of it comes first by itself.
            Err(stream) => (Self::Tls(Box::new(stream)), Bytes::new()),
        }
    }

    /// Has a peer without traffic probed after so long, if that is told.
    pub(crate) fn keep_alive(&self, after: Option<Duration>) {
        if let (Self::Tcp(stream), Some(after)) = (self, after) {
            let keepalive = socket2::TcpKeepalive::new().with_time(after);
            // A system that knows none is no reason to fail.
            let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive);
        }
    }

    /// Has a peer see a reset, and not an end, when this is dropped. Only TCP has such a thing.
    pub fn reset_on_drop(&self) {
        let tcp = match self {
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => stream.socket(),
            Self::Unix(_) | Self::Other(_) => return,
        };
        // A socket that cannot do it is gone already.
        let _ = socket2::SockRef::from(tcp).set_linger(Some(Duration::ZERO));
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

/// Both directions of what is no plain socket.
fn buffered(stream: &mut dyn AnyStream) -> (RelayReader<'_>, RelayWriter<'_>) {
    let (source, sink) = tokio::io::split(stream);
    (RelayReader::Other(source), RelayWriter::Other(sink))
}

/// What comes from an end.
pub(crate) enum RelayReader<'a> {
    Socket(RelaySocket<'a>),
    Other(ReadHalf<&'a mut dyn AnyStream>),
}

impl<'a> RelayReader<'a> {
    /// The socket, if it is nothing else.
    pub(crate) fn socket(&self) -> Option<RelaySocket<'a>> {
        match self {
            Self::Socket(socket) => Some(*socket),
            Self::Other(_) => None,
        }
    }

    /// Reads what is there into `room`; 0 is the end of the stream.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Socket(socket) => socket.poll_read(cx, room),
            Self::Other(stream) => {
                let mut room = ReadBuf::new(room);
                let read = Pin::new(stream).poll_read(cx, &mut room);
                read.map_ok(|()| room.filled().len())
            }
        }
    }
}

/// What goes to an end.
pub(crate) enum RelayWriter<'a> {
    Socket(RelaySocket<'a>),
    Other(WriteHalf<&'a mut dyn AnyStream>),
}

impl RelayWriter<'_> {
    /// Writes what it takes, one byte at least.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = std::task::ready!(match self {
            Self::Socket(socket) => socket.poll_write(cx, bytes),
            Self::Other(stream) => Pin::new(stream).poll_write(cx, bytes),
        })?;
        Poll::Ready(match wrote {
            0 => Err(io::ErrorKind::WriteZero.into()),
            wrote => Ok(wrote),
        })
    }

    /// Whether what was written has to be flushed.
    pub(super) fn is_buffered(&self) -> bool {
        matches!(self, Self::Other(_))
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Socket(_) => Poll::Ready(Ok(())),
            Self::Other(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Ends the stream.
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Socket(socket) => {
                socket.shut_down();
                Poll::Ready(Ok(()))
            }
            Self::Other(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
