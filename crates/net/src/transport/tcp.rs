//! The TCP stream below all others: how many bytes wake its reader, and how fast it may be read.
//!
//! A peer on a fast link sends small packets, and each wakes the reader: it reads sixteen kilobytes, finds nothing more and sleeps
//! again, tens of thousands of times a second, on a processor that the next packet needs. With a low-water mark (`SO_RCVLOWAT`)
//! the kernel wakes the reader when enough has arrived. A read that is not waited for still gets bytes below the mark.
//!
//! The rate limit is applied here and not above, where TLS and HTTP have read ahead already. What is not read stays in the
//! socket's buffer, and then the peer waits.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::rate_limit::RateLimit;
use super::sys::{bytes_unacknowledged, set_low_water};

/// What the TCP stream at the bottom and the reader at the top share past the layers between them. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct SocketState(Arc<SocketStateFields>);

#[derive(Debug, Default)]
struct SocketStateFields {
    /// How many bytes wake the reader; 0 is the same as 1. The reader sets it, the next read of the socket applies it.
    low_water: AtomicU32,
    /// Bytes that were read from the socket.
    bytes_received: AtomicU64,
    /// Whether the peer ended TLS because of the client certificate. The TLS layer sets it, since HTTP/2 passes on the text of an
    /// error alone.
    certificate_refused: AtomicBool,
    /// Whether reads note how many bytes the peer has not acknowledged: while a long body is sent.
    tracks_sending: AtomicBool,
    /// Bytes in the socket's send buffer at the last read.
    bytes_unacknowledged: AtomicU64,
}

impl SocketState {
    /// Moves the low-water mark; 1 wakes the reader for every byte.
    pub fn set_low_water(&self, bytes: u32) {
        self.0.low_water.store(bytes, Ordering::Relaxed);
    }

    /// Where the low-water mark is.
    #[must_use]
    pub fn low_water(&self) -> u32 {
        self.0.low_water.load(Ordering::Relaxed).max(1)
    }

    /// Bytes that were read from the socket, whatever became of them above.
    #[must_use]
    pub fn bytes_received(&self) -> u64 {
        self.0.bytes_received.load(Ordering::Relaxed)
    }

    /// Whether reads note how many bytes the peer has not acknowledged.
    pub(crate) fn track_sending(&self, is_on: bool) {
        self.0.tracks_sending.store(is_on, Ordering::Relaxed);
    }

    /// Bytes that were sent and not acknowledged when the socket was last read.
    pub(crate) fn bytes_unacknowledged(&self) -> u64 {
        self.0.bytes_unacknowledged.load(Ordering::Relaxed)
    }

    pub(crate) fn set_certificate_refused(&self) {
        self.0.certificate_refused.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_certificate_refused(&self) -> bool {
        self.0.certificate_refused.load(Ordering::Relaxed)
    }
}

/// TCP with a [`SocketState`], and with a rate limit if there is one.
#[derive(Debug)]
pub struct TcpTransport {
    stream: TcpStream,
    state: SocketState,
    /// The low-water mark that the kernel has.
    low_water: u32,
    rate_limit: Option<StreamRateLimit>,
}

/// A rate limit, of both directions together. The timers are created once for the stream, and only moved later.
#[derive(Debug)]
struct StreamRateLimit {
    limit: RateLimit,
    /// When the next byte may be read.
    next_read: Pin<Box<Sleep>>,
    /// When the next byte may be written.
    next_write: Pin<Box<Sleep>>,
}

impl TcpTransport {
    pub(crate) fn new(stream: TcpStream, rate_limit: Option<RateLimit>) -> Self {
        let rate_limit = rate_limit.map(|limit| StreamRateLimit {
            limit,
            next_read: Box::pin(sleep_until(Instant::now())),
            next_write: Box::pin(sleep_until(Instant::now())),
        });
        Self {
            stream,
            state: SocketState::default(),
            low_water: 1,
            rate_limit,
        }
    }

    /// The stream alone, unless it has a rate limit.
    pub(super) fn into_inner(self) -> Result<TcpStream, Self> {
        match self.rate_limit {
            // The new owner sets a mark of its own, so it must not inherit one.
            None if self.low_water == 1 => Ok(self.stream),
            _ => Err(self),
        }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn state(&self) -> SocketState {
        self.state.clone()
    }

    /// Moves the kernel's low-water mark to where the reader wants it.
    fn apply_low_water(&mut self) {
        // Under a rate limit reads are small on purpose.
        let wanted = if self.rate_limit.is_some() {
            1
        } else {
            self.state.low_water()
        };
        if wanted == self.low_water {
            return;
        }
        self.low_water = wanted;
        // A failure does no harm: the reader is woken more often.
        let _ = set_low_water(self.stream.as_fd(), wanted);
    }

    fn note_unacknowledged(&self) {
        let state = &self.state.0;
        if state.tracks_sending.load(Ordering::Relaxed) {
            let bytes = bytes_unacknowledged(self.stream.as_fd());
            state.bytes_unacknowledged.store(bytes, Ordering::Relaxed);
        }
    }
}

impl AsyncRead for TcpTransport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let tcp = self.get_mut();
        tcp.apply_low_water();
        tcp.note_unacknowledged();
        let stream = Pin::new(&mut tcp.stream);
        let count = match &mut tcp.rate_limit {
            None => {
                let before = buffer.filled().len();
                std::task::ready!(stream.poll_read(cx, buffer))?;
                buffer.filled().len() - before
            }
            Some(limit) => std::task::ready!(limit.poll_read(stream, cx, buffer))?,
        };
        let received = &tcp.state.0.bytes_received;
        received.fetch_add(count as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl StreamRateLimit {
    /// Reads when it is time, and no more than the limit allows at once.
    fn poll_read(
        &mut self,
        stream: Pin<&mut TcpStream>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.next_read.as_mut().poll(cx));
        let size = self.limit.max_turn().min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(size));
        std::task::ready!(stream.poll_read(cx, &mut part))?;
        let count = part.filled().len();
        buffer.advance(count);
        let next_read = self.limit.next_turn_after(count as u64);
        self.next_read.as_mut().reset(next_read);
        Poll::Ready(Ok(count))
    }

    /// Writes when it is time, and no more than the limit allows at once.
    fn poll_write(
        &mut self,
        stream: Pin<&mut TcpStream>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.next_write.as_mut().poll(cx));
        let size = self.limit.max_turn().min(bytes.len());
        let count = std::task::ready!(stream.poll_write(cx, &bytes[..size]))?;
        let next_write = self.limit.next_turn_after(count as u64);
        self.next_write.as_mut().reset(next_write);
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for TcpTransport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let tcp = self.get_mut();
        let stream = Pin::new(&mut tcp.stream);
        match &mut tcp.rate_limit {
            None => stream.poll_write(cx, bytes),
            Some(limit) => limit.poll_write(stream, cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.rate_limit.is_some() {
            let first = slices.iter().find(|slice| !slice.is_empty());
            return self.poll_write(cx, first.map_or(&[][..], |slice| slice));
        }
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.rate_limit.is_none() && self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
