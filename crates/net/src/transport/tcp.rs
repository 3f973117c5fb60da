//! The TCP stream at the bottom of every other: how much its reader is woken for, and how fast it may be read.
//!
//! A peer on a fast link sends small pieces, and each wakes the reader: it reads sixteen kilobytes, finds nothing more and
//! sleeps again, tens of thousands of times a second, on a processor that the next piece needs. With a low-water mark
//! (`SO_RCVLOWAT`) the kernel wakes it when enough has come. Bytes below the mark are still handed out when asked for.
//!
//! A rate limit is kept here and not above, where TLS and HTTP have read ahead already: what is not read yet fills the
//! socket's buffer, and the peer waits.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::transport::rate_limit::RateLimit;

/// What a stream at the bottom and the reader at the top tell each other past everything between. Clones are one gauge.
#[derive(Debug, Clone, Default)]
pub struct SocketState(Arc<SocketStateFields>);

#[derive(Debug, Default)]
struct SocketStateFields {
    /// How many bytes are worth being woken for; 0 is as good as 1. Set above, obeyed below at the next read.
    low_water: AtomicU32,
    /// Bytes that were read from the socket. Set below.
    bytes_received: AtomicU64,
    /// Whether TLS ended because of our certificate. Set in between: HTTP/2 keeps no more than the text of an error.
    certificate_refused: AtomicBool,
}

impl SocketState {
    /// Moves the low-water mark; 1 is to be woken for every byte.
    pub fn set_low_water(&self, bytes: u32) {
        self.0.low_water.store(bytes, Ordering::Relaxed);
    }

    /// Where the low-water mark is.
    #[must_use]
    pub fn low_water(&self) -> u32 {
        self.0.low_water.load(Ordering::Relaxed).max(1)
    }

    /// Bytes that came over the socket, whatever became of them above.
    #[must_use]
    pub fn bytes_received(&self) -> u64 {
        self.0.bytes_received.load(Ordering::Relaxed)
    }

    /// The peer ended TLS because of our certificate.
    pub(crate) fn set_certificate_refused(&self) {
        self.0.certificate_refused.store(true, Ordering::Relaxed);
    }

    /// Whether it did.
    pub(crate) fn is_certificate_refused(&self) -> bool {
        self.0.certificate_refused.load(Ordering::Relaxed)
    }
}

/// TCP with a [`SocketState`], and with a rate limit if there is one.
#[derive(Debug)]
pub struct TcpTransport {
    stream: TcpStream,
    state: SocketState,
    /// Where the kernel has the low-water mark.
    low_water: u32,
    /// The limit, and when the next byte may be read.
    rate_limit: Option<ReadRateLimit>,
}

#[derive(Debug)]
struct ReadRateLimit {
    limit: RateLimit,
    /// Boxed once for the stream's life; only moved later.
    next_read: Pin<Box<Sleep>>,
}

impl TcpTransport {
    pub(crate) fn new(stream: TcpStream, limit: Option<RateLimit>) -> Self {
        let rate_limit = limit.map(|limit| ReadRateLimit {
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

    /// The stream alone, unless it is to be read at a rate.
    pub(super) fn into_inner(self) -> Result<TcpStream, Self> {
        match self.rate_limit {
            // The mark is the reader's affair, and nobody has moved it by now.
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

    /// Tells the kernel where the mark is now wanted. Not to be heard is no harm: then the reader is woken more often.
    fn apply_low_water(&mut self) {
        // Under a limit pieces are small on purpose.
        let wanted = if self.rate_limit.is_some() {
            1
        } else {
            self.state.low_water()
        };
        if wanted == self.low_water {
            return;
        }
        self.low_water = wanted;
        let _ = super::set_low_water(self.stream.as_fd(), wanted);
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
        let came = match &mut tcp.rate_limit {
            None => {
                let before = buffer.filled().len();
                std::task::ready!(stream.poll_read(cx, buffer))?;
                buffer.filled().len() - before
            }
            Some(pace) => std::task::ready!(pace.poll_read(stream, cx, buffer))?,
        };
        tcp.state
            .0
            .bytes_received
            .fetch_add(came as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl ReadRateLimit {
    /// Reads when it is time, and no more than a turn's worth.
    fn poll_read(
        &mut self,
        stream: Pin<&mut TcpStream>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.next_read.as_mut().poll(cx));
        let turn = self.limit.max_read().min(buffer.remaining());
        let mut turn = ReadBuf::new(buffer.initialize_unfilled_to(turn));
        std::task::ready!(stream.poll_read(cx, &mut turn))?;
        let came = turn.filled().len();
        buffer.advance(came);
        self.next_read
            .as_mut()
            .reset(self.limit.next_read_after(came as u64));
        Poll::Ready(Ok(came))
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
