//! What is read from a socket for TLS, whose library asks for four to sixteen kilobytes at a time: a system call each, were there
//! nothing between.
//!
//! The room is there while there is something in it. Connections that are idle have none, and there may be ten thousand of them.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Bytes that are read at once of a stream that keeps filling the room: a little more than the largest low-water mark, so that one call
/// empties the socket.
const LARGE_READ: usize = 288 * 1024;

/// Of any other: a record of the longest.
const SMALL_READ: usize = 17 * 1024;

/// A stream that is read in large pieces, and written as it is.
#[derive(Debug)]
pub struct TlsReadBuffer<S> {
    stream: S,
    /// Read, and not asked for.
    buffered: BytesMut,
    /// How much is read at once.
    read_size: usize,
}

impl<S> TlsReadBuffer<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream,
            buffered: BytesMut::new(),
            read_size: SMALL_READ,
        }
    }

    /// What it reads from.
    pub(crate) fn stream(&self) -> &S {
        &self.stream
    }
}

impl<S: AsyncRead + Unpin> TlsReadBuffer<S> {
    /// Reads as much as there is room for; how much, and 0 is the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // All of it was asked for, and so nothing is moved: what there is, is used again.
        self.buffered.reserve(self.read_size);
        let read = pin!(self.stream.read_buf(&mut self.buffered)).poll(cx);
        match &read {
            Poll::Ready(Ok(read)) if *read >= self.read_size => self.read_size = LARGE_READ,
            Poll::Ready(Ok(read)) if *read <= SMALL_READ => self.read_size = SMALL_READ,
            _ => {}
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
        let records = self.get_mut();
        if records.buffered.is_empty() {
            ready!(records.poll_fill(cx))?;
        }
        let count = records.buffered.len().min(buffer.remaining());
        buffer.put_slice(&records.buffered[..count]);
        records.buffered.advance(count);
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
        // TLS has said that no more comes. Were TCP to say so, too, proxies between would end both directions, and what the peer still says
        // would be lost; it does when the stream is dropped.
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::FutureExt;
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// Reads once, what there is: how many bytes, or none.
    async fn read(records: &mut TlsReadBuffer<tokio::io::DuplexStream>) -> Option<usize> {
        poll_fn(|cx| {
            let mut room = [0; 16 << 10];
            let mut room = ReadBuf::new(&mut room);
            Poll::Ready(match Pin::new(&mut *records).poll_read(cx, &mut room) {
                Poll::Ready(done) => done.map(|()| Some(room.filled().len())).unwrap(),
                Poll::Pending => None,
            })
        })
        .await
    }

    #[tokio::test]
    async fn an_idle_stream_has_no_room_whatever_came_before() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let mut records = TlsReadBuffer::new(near);
        assert_eq!(read(&mut records).await, None);
        assert_eq!(records.buffered.capacity(), 0);
        for length in [10, 500_000, 10] {
            far.write_all(&vec![7; length]).await.unwrap();
            let mut left = length;
            while let Some(count @ 1..) = read(&mut records).await {
                left -= count;
            }
            assert_eq!((left, records.buffered.capacity()), (0, 0), "{length}");
        }
    }

    /// TLS says its own end in a record, and what the peer still says is read.
    #[tokio::test]
    async fn an_end_is_not_told_below_before_the_stream_is_dropped() {
        let (near, mut far) = tokio::io::duplex(1 << 10);
        let mut records = TlsReadBuffer::new(near);
        records.shutdown().await.unwrap();
        let mut byte = [0];
        assert!(far.read(&mut byte).now_or_never().is_none());
        drop(records);
        assert_eq!(far.read(&mut byte).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn what_keeps_coming_is_read_by_much_and_what_does_not_by_little() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let mut records = TlsReadBuffer::new(near);
        far.write_all(&vec![7; 1 << 20]).await.unwrap();
        let mut most = 0;
        while read(&mut records).await.is_some() {
            most = most.max(records.buffered.len());
        }
        assert!(most > LARGE_READ / 2, "{most}");
        far.write_all(b"a word").await.unwrap();
        assert_eq!(read(&mut records).await, Some(6));
        assert_eq!(records.read_size, SMALL_READ);
        drop(far);
        assert_eq!(read(&mut records).await, Some(0));
    }
}
