//! The stream that hyper reads HTTP/1.1 responses from, with the line ends of chunked bodies put right.

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
        Pin::new(&mut self.get_mut().transport).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().transport).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().transport).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().transport).poll_shutdown(cx)
    }
}
