//! A stream whose reader gives way after so many bytes.
//!
//! h2 queues what it reads for the tasks that wait for it, and reads on as long as there is something. A peer that sends heads faster than
//! these tasks run would fill the memory: a head of 2 KB may need 200 KB. After each turn the tasks run, and what they take is gone.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes of a turn: four of the largest frames that carry bodies.
const BYTES_PER_TURN: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct ReadingTurns<S> {
    stream: S,
    /// Bytes that were read in this turn.
    read: usize,
}

impl<S> ReadingTurns<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, read: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadingTurns<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read >= BYTES_PER_TURN {
            self.read = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.read = match result {
            Poll::Ready(_) => self.read + buffer.filled().len() - before,
            Poll::Pending => 0,
        };
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReadingTurns<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::task::noop_waker_ref;

    use super::*;

    #[test]
    fn an_endless_stream_is_read_in_turns() {
        let mut stream = ReadingTurns::new(tokio::io::repeat(0));
        let mut context = Context::from_waker(noop_waker_ref());
        for _ in 0..3 {
            let (mut read, mut bytes) = (0, vec![0; 10_000]);
            loop {
                let mut buffer = ReadBuf::new(&mut bytes);
                match Pin::new(&mut stream).poll_read(&mut context, &mut buffer) {
                    Poll::Ready(result) => result.unwrap(),
                    Poll::Pending => break,
                }
                read += buffer.filled().len();
            }
            assert_eq!(read, 70_000);
        }
    }
}
