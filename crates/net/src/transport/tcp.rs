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
use super::sys::set_low_water;

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
    rate_limit: Option<ReadRateLimit>,
}

#[derive(Debug)]
struct ReadRateLimit {
    limit: RateLimit,
    /// When the next byte may be read. The timer is created once for the stream, and only moved later.
    next_read: Pin<Box<Sleep>>,
}

impl TcpTransport {
    pub(crate) fn new(stream: TcpStream, rate_limit: Option<RateLimit>) -> Self {
        let rate_limit = rate_limit.map(|limit| ReadRateLimit {
            limit,
            next_read: Box::pin(sleep_until(Instant::now())),
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
}

impl AsyncRead for TcpTransport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let tcp = self.get_mut();
        tcp.apply_low_water();
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

impl ReadRateLimit {
    /// Reads when it is time, and no more than the limit allows at once.
    fn poll_read(
        &mut self,
        stream: Pin<&mut TcpStream>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.next_read.as_mut().poll(cx));
        let size = self.limit.max_read().min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(size));
        std::task::ready!(stream.poll_read(cx, &mut part))?;
        let count = part.filled().len();
        buffer.advance(count);
        let next_read = self.limit.next_read_after(count as u64);
        self.next_read.as_mut().reset(next_read);
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for TcpTransport {
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
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
