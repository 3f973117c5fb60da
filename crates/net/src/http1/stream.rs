//! The stream that hyper reads HTTP/1.1 responses from, with the line ends of chunked bodies put right.
//!
//! A server that refuses an upload may send its response and close while the body is still being sent. The write then fails, and
//! hyper would give up although the response is there to be read. So after a failed write this stream swallows the rest of the
//! request, and reads on: either the response comes, or the error.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use haul_plan::ChunkLineScanner;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::transport::TransportStream;

/// A [`TransportStream`] in whose chunked bodies each line of the framing ends with CRLF, also where the server sends LF alone.
#[derive(Debug)]
pub(super) struct Http1Stream {
    transport: TransportStream,
    scanner: ChunkLineScanner,
    response_start: ResponseStart,
    /// Bytes behind the first line end that was put right. Nearly always empty.
    corrected: BytesMut,
    /// Whether the peer takes no more bytes.
    is_write_closed: bool,
}

/// Tells an [`Http1Stream`] that the next byte begins a response.
#[derive(Debug, Clone, Default)]
pub(super) struct ResponseStart(Arc<AtomicBool>);

impl ResponseStart {
    pub(super) fn expect(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Http1Stream {
    pub(super) fn new(transport: TransportStream, response_start: ResponseStart) -> Self {
        Self {
            transport,
            scanner: ChunkLineScanner::default(),
            response_start,
            corrected: BytesMut::new(),
            is_write_closed: false,
        }
    }

    /// The result of a write of `length` bytes. After the peer has closed, they go nowhere.
    fn written(
        &mut self,
        result: Poll<io::Result<usize>>,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let is_closed = |error: &io::Error| {
            matches!(
                error.kind(),
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
            )
        };
        match result {
            Poll::Ready(Err(error)) if is_closed(&error) => {
                self.is_write_closed = true;
                Poll::Ready(Ok(length))
            }
            other => other,
        }
    }

    /// Puts right the line ends of what was read into `buffer` behind its first `start` bytes.
    fn correct_line_ends(&mut self, buffer: &mut ReadBuf<'_>, start: usize) {
        if self.response_start.0.load(Ordering::Relaxed) {
            self.response_start.0.store(false, Ordering::Relaxed);
            self.scanner.begin_response();
        }
        let mut rest = &buffer.filled()[start..];
        let mut kept = rest.len();
        while let Some(index) = self.scanner.find_bare_line_feed(rest) {
            if self.corrected.is_empty() {
                kept = index;
            } else {
                self.corrected.extend_from_slice(&rest[..index]);
            }
            self.corrected.extend_from_slice(b"\r\n");
            rest = &rest[index + 1..];
        }
        if !self.corrected.is_empty() {
            self.corrected.extend_from_slice(rest);
        }
        buffer.set_filled(start + kept);
    }

    fn read_corrected(&mut self, buffer: &mut ReadBuf<'_>) {
        let count = self.corrected.len().min(buffer.remaining());
        buffer.put_slice(&self.corrected[..count]);
        self.corrected.advance(count);
    }
}

impl AsyncRead for Http1Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.corrected.is_empty() {
            let start = buffer.filled().len();
            std::task::ready!(Pin::new(&mut this.transport).poll_read(cx, buffer))?;
            this.correct_line_ends(buffer, start);
        }
        this.read_corrected(buffer);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Http1Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.is_write_closed {
            return Poll::Ready(Ok(bytes.len()));
        }
        let result = Pin::new(&mut this.transport).poll_write(cx, bytes);
        this.written(result, bytes.len())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let length = slices.iter().map(|slice| slice.len()).sum();
        if this.is_write_closed {
            return Poll::Ready(Ok(length));
        }
        let result = Pin::new(&mut this.transport).poll_write_vectored(cx, slices);
        this.written(result, length)
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.is_write_closed {
            return Poll::Ready(Ok(()));
        }
        // TLS writes when it is flushed.
        let flushed = Pin::new(&mut this.transport).poll_flush(cx);
        this.written(flushed.map_ok(|()| 0), 0).map_ok(drop)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().transport).poll_shutdown(cx)
    }
}
