//! Byte streams to peers: TCP, TLS over any stream, and streams of which a proxy's response took some bytes.

pub(crate) mod rate_limit;
mod sys;
mod tcp;
pub(crate) mod tls_error;
mod tls_read_buffer;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub(crate) use sys::handshake_round_trip;
pub use sys::{bytes_unacknowledged, set_low_water};
pub use tcp::{SocketState, TcpTransport};
use tls_error::{is_certificate_refused, stream_error};
pub use tls_read_buffer::TlsReadBuffer;

/// A stream to a peer.
#[derive(Debug)]
pub enum TransportStream {
    /// Plain TCP.
    Tcp(TcpTransport),
    /// TLS over any stream, a proxy's tunnel among them.
    Tls(Box<TlsStream<TlsReadBuffer<Self>>>),
    /// A stream of which some bytes were read already, after a proxy's response. They come first.
    Rewound(Bytes, Box<Self>),
}

impl TransportStream {
    /// The state of the TCP stream at the bottom.
    #[must_use]
    pub fn socket_state(&self) -> SocketState {
        match self {
            Self::Tcp(stream) => stream.state(),
            Self::Tls(stream) => stream.get_ref().0.stream().socket_state(),
            Self::Rewound(_, stream) => stream.socket_state(),
        }
    }

    /// The socket at the bottom, for its options. Reading from it or writing to it directly corrupts the stream.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Tcp(stream) => stream.socket(),
            Self::Tls(stream) => stream.get_ref().0.stream().socket(),
            Self::Rewound(_, stream) => stream.socket(),
        }
    }

    /// The TCP stream alone, and the bytes that were read of it already, for a caller that copies bytes in the kernel.
    ///
    /// # Errors
    /// The stream itself, if its bytes must pass through this process: it has TLS, or a rate limit.
    pub fn into_tcp(self) -> Result<(Bytes, TcpStream), Self> {
        match self {
            Self::Tcp(tcp) => match tcp.into_inner() {
                Ok(stream) => Ok((Bytes::new(), stream)),
                Err(tcp) => Err(Self::Tcp(tcp)),
            },
            Self::Rewound(first, inner) => match inner.into_tcp() {
                Ok((rest, stream)) if rest.is_empty() => Ok((first, stream)),
                // Each proxy of a chain may have left some bytes.
                Ok((rest, stream)) => Ok(([first, rest].concat().into(), stream)),
                Err(inner) => Err(Self::Rewound(first, Box::new(inner))),
            },
            tls @ Self::Tls(_) => Err(tls),
        }
    }

    /// Whether the TLS handshake agreed on HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        match self {
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
            _ => false,
        }
    }
}

impl AsyncRead for TransportStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => {
                let read = Pin::new(stream.as_mut())
                    .poll_read(cx, buffer)
                    .map_err(stream_error);
                if let Poll::Ready(Err(error)) = &read
                    && is_certificate_refused(error)
                {
                    stream
                        .get_ref()
                        .0
                        .stream()
                        .socket_state()
                        .set_certificate_refused();
                }
                read
            }
            Self::Rewound(first, stream) => {
                if first.is_empty() {
                    return Pin::new(stream.as_mut()).poll_read(cx, buffer);
                }
                let count = first.len().min(buffer.remaining());
                buffer.put_slice(&first[..count]);
                first.advance(count);
                Poll::Ready(Ok(()))
            }
        }
    }
}

/// Calls the same method of the stream below.
macro_rules! delegate {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            TransportStream::Tcp(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
            TransportStream::Tls(stream) => {
                let $stream = Pin::new(stream.as_mut());
                $call
            }
            TransportStream::Rewound(_, stream) => {
                let $stream = Pin::new(stream.as_mut());
                $call
            }
        }
    };
}

impl AsyncWrite for TransportStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, stream => stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, stream => stream.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
            Self::Rewound(_, stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => stream.poll_shutdown(cx))
    }
}
