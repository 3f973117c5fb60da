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

use super::rate_limit::{ByteRate, RateLimit, RateLimitTurn};
use super::sys::{bytes_unacknowledged, set_low_water, unlock_buffer_sizes};

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

/// TCP with a [`SocketState`] and the rate limit of its connector.
#[derive(Debug)]
pub struct TcpTransport {
    stream: TcpStream,
    state: SocketState,
    /// The low-water mark that the kernel has.
    low_water: u32,
    rate_limit: RateLimit,
    /// The turns of this stream, once there was a limit.
    turns: Option<Box<StreamTurns>>,
    /// The rate that the receive buffer was made for. `None`: the system finds its size.
    buffer_rate: Option<ByteRate>,
}

/// When a stream may read and write under a limit, which is one of both directions together.
#[derive(Debug)]
struct StreamTurns {
    read: RateLimitTurn,
    write: RateLimitTurn,
}

impl TcpTransport {
    pub(crate) fn new(stream: TcpStream, rate_limit: RateLimit) -> Self {
        let mut tcp = Self {
            stream,
            state: SocketState::default(),
            low_water: 1,
            rate_limit,
            turns: None,
            buffer_rate: None,
        };
        tcp.current_rate();
        tcp
    }

    /// The stream alone, unless it has a rate limit now. A limit that is set later does not hold for it.
    pub(super) fn into_inner(self) -> Result<TcpStream, Self> {
        match self.rate_limit.rate() {
            // The new owner sets a mark of its own, so it must not inherit one.
            None if self.low_water == 1 => Ok(self.stream),
            _ => Err(self),
        }
    }

    /// The rate now. When it has changed, the receive buffer changes with it.
    fn current_rate(&mut self) -> Option<ByteRate> {
        let rate = self.rate_limit.rate();
        if rate != self.buffer_rate {
            self.buffer_rate = rate;
            self.resize_receive_buffer(rate);
        }
        rate
    }

    /// A system that wants another size is no reason to fail.
    fn resize_receive_buffer(&self, rate: Option<ByteRate>) {
        let socket = socket2::SockRef::from(&self.stream);
        match rate {
            Some(rate) => {
                let _ = socket.set_recv_buffer_size(rate.receive_buffer());
            }
            None => {
                // Large at once, also where the system cannot go on from there by itself.
                let _ = socket.set_recv_buffer_size(ByteRate::UNLIMITED.receive_buffer());
                let _ = unlock_buffer_sizes(self.stream.as_fd());
            }
        }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn state(&self) -> SocketState {
        self.state.clone()
    }

    /// Moves the kernel's low-water mark to where the reader wants it.
    fn apply_low_water(&mut self, rate: Option<ByteRate>) {
        let wanted = match rate {
            None => self.state.low_water(),
            // Under a rate limit reads are small on purpose.
            Some(_) => 1,
        };
        if wanted == self.low_water {
            return;
        }
        self.low_water = wanted;
        // A failure does no harm: the reader is woken more often.
        let _ = set_low_water(self.stream.as_fd(), wanted);
    }

    /// Reads when it is time, and no more than the limit allows at once.
    fn poll_limited_read(
        &mut self,
        rate: ByteRate,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let turn = &mut StreamTurns::of(&mut self.turns, rate).read;
        std::task::ready!(turn.poll(rate, cx));
        let size = rate.turn_size(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(size));
        let stream = Pin::new(&mut self.stream);
        std::task::ready!(stream.poll_read(cx, &mut part))?;
        let count = part.filled().len();
        buffer.advance(count);
        turn.take(&self.rate_limit, rate, count as u64);
        Poll::Ready(Ok(count))
    }

    /// Writes when it is time, and no more than the limit allows at once.
    fn poll_limited_write(
        &mut self,
        rate: ByteRate,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let turn = &mut StreamTurns::of(&mut self.turns, rate).write;
        std::task::ready!(turn.poll(rate, cx));
        let size = rate.turn_size(bytes.len());
        let stream = Pin::new(&mut self.stream);
        let count = std::task::ready!(stream.poll_write(cx, &bytes[..size]))?;
        turn.take(&self.rate_limit, rate, count as u64);
        Poll::Ready(Ok(count))
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
        let rate = tcp.current_rate();
        tcp.apply_low_water(rate);
        tcp.note_unacknowledged();
        let count = match rate {
            None => {
                let before = buffer.filled().len();
                let stream = Pin::new(&mut tcp.stream);
                std::task::ready!(stream.poll_read(cx, buffer))?;
                buffer.filled().len() - before
            }
            Some(rate) => std::task::ready!(tcp.poll_limited_read(rate, cx, buffer))?,
        };
        let received = &tcp.state.0.bytes_received;
        received.fetch_add(count as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl StreamTurns {
    /// The turns of a stream, which it has from its first read or write under a limit on.
    fn of(turns: &mut Option<Box<Self>>, rate: ByteRate) -> &mut Self {
        turns.get_or_insert_with(|| {
            Box::new(Self {
                read: RateLimitTurn::new(rate),
                write: RateLimitTurn::new(rate),
            })
        })
    }
}

impl AsyncWrite for TcpTransport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let tcp = self.get_mut();
        match tcp.rate_limit.rate() {
            None => Pin::new(&mut tcp.stream).poll_write(cx, bytes),
            Some(rate) => tcp.poll_limited_write(rate, cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.rate_limit.rate().is_some() {
            let first = slices.iter().find(|slice| !slice.is_empty());
            return self.poll_write(cx, first.map_or(&[][..], |slice| slice));
        }
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.rate_limit.rate().is_none() && self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;
    use tokio::time::{Instant, sleep};

    use super::*;

    /// A stream whose peer sends without end.
    async fn endless_stream(limit: &RateLimit) -> (TcpTransport, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut peer = TcpStream::connect(address).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { while peer.write_all(&[7; 16 << 10]).await.is_ok() {} });
        (TcpTransport::new(stream, limit.clone()), tasks)
    }

    /// How long it takes to read so many bytes.
    async fn read(stream: &mut TcpTransport, bytes: usize) -> f64 {
        let started = Instant::now();
        stream.read_exact(&mut vec![0; bytes]).await.unwrap();
        started.elapsed().as_secs_f64()
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_changes_holds_for_a_stream_that_is_open() {
        const BYTES: usize = 100_000;
        let limit = RateLimit::new(None);
        let (mut stream, _peer) = endless_stream(&limit).await;
        assert_eq!(read(&mut stream, BYTES).await, 0.0);
        for (rate, seconds) in [
            (Some(100_000), 1.0),
            (Some(1_000_000), 0.1),
            (Some(50_000), 2.0),
            (None, 0.0),
            (Some(100_000), 1.0),
        ] {
            limit.set(rate);
            let elapsed = read(&mut stream, BYTES).await;
            // The first turn comes at once, and perhaps the last of the limit before is still to be paid for.
            assert!((elapsed - seconds).abs() <= 0.06, "{elapsed} at {rate:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_waits_for_its_turn_notices_soon_that_the_limit_is_lifted() {
        for lifted in [None, Some(1 << 30)] {
            let limit = RateLimit::new(Some(0));
            let (mut stream, _peer) = endless_stream(&limit).await;
            let lift = async {
                sleep(Duration::from_millis(10_100)).await;
                limit.set(lifted);
            };
            let (elapsed, ()) = tokio::join!(read(&mut stream, 100_000), lift);
            assert!((10.1..10.5).contains(&elapsed), "{elapsed}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_holds_for_writes_too() {
        let limit = RateLimit::new(Some(100_000));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (peer, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (_peer, mut stream) = (
            peer.unwrap(),
            TcpTransport::new(accepted.unwrap().0, limit.clone()),
        );
        let started = Instant::now();
        stream.write_all(&[1; 20_000]).await.unwrap();
        let limited = started.elapsed().as_secs_f64();
        assert!((0.15..0.25).contains(&limited), "{limited}");
        limit.set(None);
        stream.write_all(&[1; 20_000]).await.unwrap();
        assert_eq!(started.elapsed().as_secs_f64(), limited);
    }

    #[tokio::test]
    async fn a_receive_buffer_is_small_as_long_as_the_limit_is() {
        let limit = RateLimit::new(Some(1000));
        let (mut stream, _peer) = endless_stream(&limit).await;
        let size = |stream: &TcpTransport| {
            let socket = socket2::SockRef::from(&stream.stream);
            socket.recv_buffer_size().unwrap()
        };
        let small = size(&stream);
        limit.set(None);
        stream.read_u8().await.unwrap();
        assert!(size(&stream) > 2 * small, "{} and {small}", size(&stream));
        limit.set(Some(1000));
        stream.read_u8().await.unwrap();
        assert_eq!(size(&stream), small);
    }
}
