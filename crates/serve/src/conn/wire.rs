//! A connection's end of the wire, between hyper and the socket.
//!
//! All bytes of a connection pass here, so this is where they are counted, where heads are watched, and where a slice that stands for a
//! stretch of a file becomes a `sendfile(2)` ([`Ledger`](crate::sendfile::Ledger) tells which do). Before a stretch is sent it is looked at whether it
//! is in memory; if not, it is brought there on a thread that may wait, and the connection is not ready meanwhile.

use std::future::Future;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::line::Line;
use super::transport::Transport;
use crate::sendfile::Stretch;
use crate::store::{Disk, Object};

/// Bytes of a file that are looked at, and brought into memory, before they are sent.
const WINDOW: u64 = 4 << 20;

/// A stretch that is on its way into memory.
type Bringing = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// The wire.
#[expect(missing_debug_implementations, reason = "a future without a name")]
pub(crate) struct Wire<S> {
    /// What it runs over.
    stream: S,
    /// What the connection's parts know.
    line: Arc<Line>,
    /// Where waiting is allowed.
    disk: Disk,
    /// What of the file that is being sent is known to be in memory.
    ready: Range<u64>,
    /// What is being brought there.
    bringing: Option<Bringing>,
    /// Bytes that were read and are to be read again.
    again: Bytes,
}

impl<S: Transport> Wire<S> {
    /// A connection's end.
    pub(crate) fn new(stream: S, line: Arc<Line>, disk: Disk) -> Self {
        Self {
            stream,
            line,
            disk,
            ready: 0..0,
            bringing: None,
            again: Bytes::new(),
        }
    }

    /// Bytes that came from here are to be read again.
    pub(crate) fn rewind(&mut self, bytes: Bytes) {
        self.again = bytes;
    }

    /// Sends some of a stretch of a file.
    fn poll_send(&mut self, cx: &mut Context<'_>, object: &Arc<Object>, range: Range<u64>) -> Poll<io::Result<usize>> {
        ready!(self.poll_ready(cx, object, &range))?;
        let len = range.end.min(self.ready.end) - range.start;
        let sent = ready!(self.stream.poll_send(cx, object, range.start, len))?;
        if sent == 0 {
            let text = "the file has become shorter while it was sent";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, text)));
        }
        Poll::Ready(Ok(sent))
    }

    /// Waits until the start of a stretch is in memory.
    fn poll_ready(&mut self, cx: &mut Context<'_>, object: &Arc<Object>, range: &Range<u64>) -> Poll<io::Result<()>> {
        loop {
            if let Some(bringing) = &mut self.bringing {
                let brought = ready!(bringing.as_mut().poll(cx));
                self.bringing = None;
                brought?;
            }
            if self.ready.contains(&range.start) {
                return Poll::Ready(Ok(()));
            }
            self.ready = range.start..range.end.min(range.start + WINDOW);
            if object.is_resident(self.ready.clone()) {
                return Poll::Ready(Ok(()));
            }
            let (object, window) = (Arc::clone(object), self.ready.clone());
            self.bringing = Some(Box::pin(self.disk.run(move || object.bring(window))));
        }
    }
}

impl<S: Transport> AsyncRead for Wire<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.again.is_empty() {
            let some = self.again.len().min(buffer.remaining());
            buffer.put_slice(&self.again.split_to(some));
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        match &buffer.filled()[before..] {
            [] if buffer.remaining() > 0 => self.line.peer_ended(),
            came => self.line.came(came),
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Transport> AsyncWrite for Wire<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let first = match &this.line.ledger {
            Some(ledger) => ledger.first(slices),
            None => Stretch::Memory(slices.len()),
        };
        if matches!(first, Stretch::Memory(_)) {
            // What follows may be another file.
            this.ready = 0..0;
        }
        let sent = ready!(match first {
            Stretch::File(object, range) => this.poll_send(cx, &object, range),
            Stretch::Memory(all) if all == slices.len() =>
                Pin::new(&mut this.stream).poll_write_vectored(cx, slices),
            Stretch::Memory(some) => this.stream.poll_write_more(cx, &slices[..some]),
        })?;
        this.line.went(sent);
        Poll::Ready(Ok(sent))
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
