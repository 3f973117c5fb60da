//! Streams under hyper that count what is written to them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use haul_net::TransportStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::HttpSession;
use crate::active_connections::ActiveConnection;
use crate::relay::RelayStream;

/// The client's stream. It also notifies the session when hyper has nothing left to write, which is when a response is over.
pub(super) struct ClientIo {
    stream: RelayStream,
    session: Arc<HttpSession>,
}

impl ClientIo {
    pub(super) fn new(stream: RelayStream, session: Arc<HttpSession>) -> Self {
        Self { stream, session }
    }

    pub(super) fn into_stream(self) -> RelayStream {
        self.stream
    }

    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = written {
            self.session.connection.bytes().add_down(count);
        }
        written
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper calls this when its own buffer is empty.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.session.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The stream to an origin or a proxy.
///
/// A server that reads no more of a request may have responded before it closed. hyper would give up at the failed write and never read
/// the response. So after a failed write bytes are discarded here, and hyper reads what the stream has, or the error that it ends with.
pub(super) struct UpstreamIo {
    stream: TransportStream,
    /// Whether a write has failed.
    is_write_closed: bool,
    /// The connection for which bytes are counted; `None` for a probe, whose bytes are not counted.
    counted_for: Option<Arc<ActiveConnection>>,
}

impl UpstreamIo {
    pub(super) fn new(stream: TransportStream, counted_for: Option<Arc<ActiveConnection>>) -> Self {
        Self {
            stream,
            is_write_closed: false,
            counted_for,
        }
    }

    pub(super) fn into_stream(self) -> TransportStream {
        self.stream
    }

    /// Counts what was written; if the write failed, all `offered` bytes are taken.
    fn written(&mut self, written: io::Result<usize>, offered: usize) -> Poll<io::Result<usize>> {
        if let (Ok(count), Some(connection)) = (&written, &self.counted_for) {
            connection.bytes().add_up(*count);
        }
        self.is_write_closed = written.is_err();
        Poll::Ready(Ok(written.unwrap_or(offered)))
    }
}

impl AsyncRead for UpstreamIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for UpstreamIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_write_closed {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes));
        self.written(written, bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = slices.iter().map(|slice| slice.len()).sum();
        if self.is_write_closed {
            return Poll::Ready(Ok(offered));
        }
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices));
        self.written(written, offered)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_write_closed {
            let flushed = ready!(Pin::new(&mut self.stream).poll_flush(cx));
            self.is_write_closed = flushed.is_err();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
