//! A read buffer below TLS. rustls reads four to sixteen kilobytes at a time, which would be a system call each:
//! 290,000 for 2 GiB instead of 10,000.
//!
//! The buffer is allocated only while it holds bytes: there may be ten thousand idle connections.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// How much is read at once from a stream that keeps filling the buffer: a little more than the largest low-water mark, so that one
/// call empties the socket. In bytes.
const LARGE_READ: usize = 288 * 1024;

/// How much is read at once from other streams: one TLS record of the largest size.
const SMALL_READ: usize = 17 * 1024;

/// A stream that is read in large chunks. Writes pass through.
#[derive(Debug)]
pub struct TlsReadBuffer<S> {
    stream: S,
    /// Bytes that were read from the stream and not yet by TLS.
    buffered: BytesMut,
    read_size: usize,
    /// Whether the stream began with the words of an HTTP response: the peer does not speak TLS.
    is_http: Option<bool>,
}

impl<S> TlsReadBuffer<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream,
            buffered: BytesMut::new(),
            read_size: SMALL_READ,
            is_http: None,
        }
    }

    /// Whether the stream began as an HTTP response does.
    pub(crate) fn is_http(&self) -> bool {
        self.is_http == Some(true)
    }

    pub(crate) fn stream(&self) -> &S {
        &self.stream
    }
}

impl<S: AsyncRead + Unpin> TlsReadBuffer<S> {
    /// Reads up to `read_size` bytes into the empty buffer; 0 is the end of the stream.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // The buffer is empty, so its memory is used again and nothing is moved.
        self.buffered.reserve(self.read_size);
        let read = pin!(self.stream.read_buf(&mut self.buffered)).poll(cx);
        match &read {
            Poll::Ready(Ok(read)) if *read >= self.read_size => self.read_size = LARGE_READ,
            Poll::Ready(Ok(read)) if *read <= SMALL_READ => self.read_size = SMALL_READ,
            _ => {}
        }
        if self.is_http.is_none() && !self.buffered.is_empty() {
            self.is_http = Some(self.buffered.starts_with(b"HTTP/"));
        }
        if self.buffered.is_empty() {
            self.buffered = BytesMut::new();
        }
        read
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TlsReadBuffer<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.buffered.is_empty() {
            ready!(this.poll_fill(cx))?;
        }
        let count = this.buffered.len().min(buffer.remaining());
        buffer.put_slice(&this.buffered[..count]);
        this.buffered.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TlsReadBuffer<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // TLS has sent its close_notify. If TCP were shut down, too, proxies on the way would end both directions, and what the peer
        // still sends would be lost. TCP ends when the stream is dropped.
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::FutureExt;
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// Reads once; the number of bytes, or none without a chunk.
    async fn read(reader: &mut TlsReadBuffer<tokio::io::DuplexStream>) -> Option<usize> {
        poll_fn(|cx| {
            let mut bytes = [0; 16 << 10];
            let mut bytes = ReadBuf::new(&mut bytes);
            Poll::Ready(match Pin::new(&mut *reader).poll_read(cx, &mut bytes) {
                Poll::Ready(done) => done.map(|()| Some(bytes.filled().len())).unwrap(),
                Poll::Pending => None,
            })
        })
        .await
    }

    #[tokio::test]
    async fn an_idle_stream_has_no_buffer_whatever_it_read_before() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let mut reader = TlsReadBuffer::new(near);
        assert_eq!(read(&mut reader).await, None);
        assert_eq!(reader.buffered.capacity(), 0);
        for length in [10, 500_000, 10] {
            far.write_all(&vec![7; length]).await.unwrap();
            let mut remaining = length;
            while let Some(count @ 1..) = read(&mut reader).await {
                remaining -= count;
            }
            assert_eq!((remaining, reader.buffered.capacity()), (0, 0), "{length}");
        }
    }

    #[tokio::test]
    async fn shutdown_does_not_shut_down_the_stream_below_before_it_is_dropped() {
        let (near, mut far) = tokio::io::duplex(1 << 10);
        let mut reader = TlsReadBuffer::new(near);
        reader.shutdown().await.unwrap();
        let mut byte = [0];
        assert!(far.read(&mut byte).now_or_never().is_none());
        drop(reader);
        assert_eq!(far.read(&mut byte).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_busy_stream_is_read_in_large_chunks_and_others_in_small_ones() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let mut reader = TlsReadBuffer::new(near);
        far.write_all(&vec![7; 1 << 20]).await.unwrap();
        let mut largest = 0;
        while read(&mut reader).await.is_some() {
            largest = largest.max(reader.buffered.len());
        }
        assert!(largest > LARGE_READ / 2, "{largest}");
        far.write_all(b"a word").await.unwrap();
        assert_eq!(read(&mut reader).await, Some(6));
        assert_eq!(reader.read_size, SMALL_READ);
        drop(far);
        assert_eq!(read(&mut reader).await, Some(0));
    }
}
