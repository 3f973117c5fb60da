//! A wire that is lent to hyper: it comes back, where hyper would close it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use super::transport::ServerTransport;
use super::wire::CountedIo;

/// A wire that comes back when hyper is done with it.
pub(super) struct ReclaimableIo<S: ServerTransport> {
    /// There until this is dropped.
    wire: Option<CountedIo<S>>,
    /// Where it goes then.
    back: Option<oneshot::Sender<CountedIo<S>>>,
}

impl<S: ServerTransport> ReclaimableIo<S> {
    /// Lends it. Whoever has the receiver gets it back.
    pub(super) fn new(wire: CountedIo<S>) -> (Self, oneshot::Receiver<CountedIo<S>>) {
        let (back, receiver) = oneshot::channel();
        let lent = Self {
            wire: Some(wire),
            back: Some(back),
        };
        (lent, receiver)
    }

    #[expect(clippy::expect_used, reason = "it is taken by what drops the holder")]
    fn wire(&mut self) -> Pin<&mut CountedIo<S>> {
        Pin::new(self.wire.as_mut().expect("it is lent"))
    }
}

impl<S: ServerTransport> Drop for ReclaimableIo<S> {
    fn drop(&mut self) {
        if let (Some(wire), Some(back)) = (self.wire.take(), self.back.take()) {
            // Whoever lent it may not want it back.
            let _ = back.send(wire);
        }
    }
}

impl<S: ServerTransport> AsyncRead for ReclaimableIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.wire().poll_read(cx, buffer)
    }
}

impl<S: ServerTransport> AsyncWrite for ReclaimableIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.wire().poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.wire().poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire
            .as_ref()
            .is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire().poll_shutdown(cx)
    }
}
