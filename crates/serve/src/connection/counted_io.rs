//! The I/O of a connection, between hyper and the socket.
//!
//! All bytes of a connection pass here. So this is where they are counted, where request heads are
//! watched, where rate limits apply, and where a slice that stands for a range of a file becomes a
//! `sendfile(2)` (the [`MappingRegistry`](crate::sendfile::MappingRegistry) recognises those).

use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::rate_limit::ConnectionRate;
use super::socket::ServerTransport;
use super::state::ConnectionState;
use super::timeouts::TimeoutPause;
use crate::sendfile::{FilePrefetch, MappedBody, MappedRun};

/// The first bytes of an HTTP/2 connection (RFC 9113 3.4).
pub(super) const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes at the end of a range that are sent by themselves, unless the whole range was sent at
/// once: before they are sent, the file is checked for changes.
const CHECKED_END: u64 = 4 << 10;

/// The longest range that is sent at once: what the kernel moves to a socket in one piece. A call
/// for more goes on while the client reads, and meanwhile the file may change.
const SENT_AT_ONCE: u64 = 64 << 10;

/// The I/O of a connection.
pub(super) struct CountedIo<S> {
    stream: S,
    connection: Arc<ConnectionState>,
    prefetch: FilePrefetch,
    /// Bytes that were read and must be read again. Boxed, since there are hardly ever any.
    rewound: Option<Box<Bytes>>,
    /// The first bytes, while they may become HTTP/2's preface; `None` once that is decided.
    preface: Option<Vec<u8>>,
    /// Boxed, since most connections have no limit.
    send_rate: Option<Box<ConnectionRate>>,
    receive_rate: Option<Box<ConnectionRate>>,
    /// While sending waits for the disk or a rate limit, the client waits for the server.
    send_pause: Option<TimeoutPause>,
    receive_pause: Option<TimeoutPause>,
    /// Bytes that the client had acknowledged at the last check.
    acknowledged: u64,
    /// Whether the client has closed its sending half.
    has_ended: bool,
}

impl<S: ServerTransport> CountedIo<S> {
    pub(super) fn new(stream: S, connection: Arc<ConnectionState>) -> Self {
        let server = &connection.server;
        let (rate, totals) = (server.options.connection_rate, &server.totals);
        Self {
            send_rate: ConnectionRate::new(rate, totals.send.as_ref()).map(Box::new),
            receive_rate: ConnectionRate::new(rate, totals.receive.as_ref()).map(Box::new),
            prefetch: FilePrefetch::new(server.disk.clone()),
            send_pause: None,
            receive_pause: None,
            stream,
            connection,
            rewound: None,
            preface: Some(Vec::new()),
            acknowledged: 0,
            has_ended: false,
        }
    }

    /// Ends all pauses: nothing is being sent or received.
    pub(super) fn end_pauses(&mut self) {
        self.send_pause = None;
        self.receive_pause = None;
    }

    /// Whether the client has closed its sending half.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Waits until a read may return something. May be wrong.
    pub(super) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.rewound.is_some() {
            return Poll::Ready(Ok(()));
        }
        self.stream.poll_readable(cx)
    }

    /// Returns bytes, which the next read gets again.
    pub(super) fn rewind(&mut self, bytes: Bytes) {
        self.rewound = (!bytes.is_empty()).then(|| Box::new(bytes));
    }

    /// Holds back a part of HTTP/2's preface until the rest is received: hyper takes a part of it
    /// for a bad request. Returns whether it did.
    fn hold_back_preface(&mut self, buffer: &mut ReadBuf<'_>, before: usize) -> bool {
        let Some(preface) = &mut self.preface else {
            return false;
        };
        let received = &buffer.filled()[before..];
        if preface.is_empty()
            && (received.len() >= HTTP2_PREFACE.len() || !HTTP2_PREFACE.starts_with(received))
        {
            // The usual case: a request, or a whole preface.
            self.preface = None;
            return false;
        }
        preface.extend_from_slice(received);
        let received = received.len();
        if received > 0 && preface.len() < HTTP2_PREFACE.len() && HTTP2_PREFACE.starts_with(preface)
        {
            buffer.set_filled(before);
            return true;
        }
        if preface.len() > received {
            buffer.set_filled(before);
            let preface = std::mem::take(preface);
            self.rewind(preface.into());
            self.read_rewound(buffer);
        }
        self.preface = None;
        false
    }

    fn read_rewound(&mut self, buffer: &mut ReadBuf<'_>) {
        if let Some(rewound) = &mut self.rewound {
            let len = rewound.len().min(buffer.remaining());
            buffer.put_slice(&rewound.split_to(len));
            if rewound.is_empty() {
                self.rewound = None;
            }
        }
    }

    /// Reports how many bytes the client has acknowledged, if the timer wants to know.
    fn report_acknowledged(&mut self) {
        if self.connection.responses.take_unsent_request() {
            let sent = self.connection.responses.sent();
            let acknowledged = sent.saturating_sub(self.stream.unsent());
            let new = acknowledged.saturating_sub(self.acknowledged);
            self.acknowledged += new;
            self.connection.timeouts.response_sent(new);
        }
    }

    /// Begins a pause that ends when bytes are sent.
    fn pause_sending(&mut self) {
        if self.send_pause.is_none() {
            self.send_pause = Some(self.connection.timeouts.pause());
        }
    }

    /// Reads at most `burst` bytes.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
        burst: usize,
    ) -> Poll<io::Result<()>> {
        if burst >= buffer.remaining() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let mut limited = ReadBuf::new(buffer.initialize_unfilled_to(burst));
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut limited))?;
        let received = limited.filled().len();
        buffer.advance(received);
        Poll::Ready(Ok(()))
    }

    /// Sends some of the slices, at most about `burst` bytes.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
        burst: usize,
    ) -> Poll<io::Result<usize>> {
        let run = match &self.connection.mappings {
            Some(mappings) => mappings.next_run(slices),
            None => MappedRun::Memory(slices.len()),
        };
        let count = match run {
            MappedRun::File(mapped, range) => {
                return self.poll_sendfile(cx, &mapped, &range, burst as u64);
            }
            MappedRun::Memory(count) => count,
        };
        // The next range may be of another file.
        self.prefetch.reset();
        let bytes: usize = slices[..count].iter().map(|slice| slice.len()).sum();
        match slices.first() {
            Some(first) if bytes > burst => {
                let part = &first[..first.len().min(burst)];
                Pin::new(&mut self.stream).poll_write(cx, part)
            }
            _ if count < slices.len() => self.stream.poll_write_more(cx, &slices[..count]),
            _ => Pin::new(&mut self.stream).poll_write_vectored(cx, slices),
        }
    }

    /// Sends some of a range of a file.
    ///
    /// The kernel sends pages and no copies of them: bytes that are written to the file while they
    /// wait in the socket's buffer are sent too, and no check can follow that. Changes before the
    /// last bytes are given to the socket are noticed, in ranges that are not sent at once.
    fn poll_sendfile(
        &mut self,
        cx: &mut Context<'_>,
        mapped: &MappedBody,
        range: &Range<u64>,
        burst: u64,
    ) -> Poll<io::Result<usize>> {
        let object = mapped.object();
        let resident_end = ready!(self.prefetch.poll_resident(cx, object, range))?;
        let burst_end = range.start.saturating_add(burst);
        let mut end = range.end.min(resident_end).min(burst_end);
        let is_first = !mapped.mark_started();
        let is_at_once = is_first && range.end - range.start <= SENT_AT_ONCE;
        if end == range.end && !is_at_once {
            if range.end - range.start > CHECKED_END {
                end -= CHECKED_END
            } else {
                object.check_unchanged()?
            }
        }
        let len = end - range.start;
        let sent = ready!(self.stream.poll_sendfile(cx, object, range.start, len))?;
        if sent == 0 {
            let text = "the file shrank while it was sent";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, text)));
        }
        Poll::Ready(Ok(sent))
    }
}

impl<S: ServerTransport> AsyncRead for CountedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.rewound.is_some() {
            self.read_rewound(buffer);
            return Poll::Ready(Ok(()));
        }
        let mut burst = usize::MAX;
        if let Some(rate) = &mut self.receive_rate {
            let Poll::Ready(allowed) = rate.poll_burst(cx) else {
                if self.receive_pause.is_none() {
                    self.receive_pause = Some(self.connection.timeouts.pause());
                }
                return Poll::Pending;
            };
            burst = allowed;
            self.receive_pause = None;
        }
        loop {
            let before = buffer.filled().len();
            ready!(self.poll_receive(cx, buffer, burst))?;
            match &buffer.filled()[before..] {
                [] if buffer.remaining() > 0 => self.has_ended = true,
                received => {
                    self.connection.received(received);
                    let bytes = received.len();
                    if let Some(rate) = &mut self.receive_rate {
                        rate.take(bytes);
                    }
                }
            }
            if !self.hold_back_preface(buffer, before) {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: ServerTransport> AsyncWrite for CountedIo<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        this.report_acknowledged();
        let mut burst = usize::MAX;
        if let Some(rate) = &mut this.send_rate {
            let Poll::Ready(allowed) = rate.poll_burst(cx) else {
                this.pause_sending();
                return Poll::Pending;
            };
            burst = allowed;
        }
        let polled = this.poll_send(cx, slices, burst);
        match &polled {
            // Sending waits for the disk. Otherwise it waits for the client.
            Poll::Pending if this.prefetch.is_pending() => this.pause_sending(),
            Poll::Pending => {}
            Poll::Ready(Ok(sent)) => {
                this.send_pause = None;
                this.connection.responses.add_sent(*sent);
                if let Some(rate) = &mut this.send_rate {
                    rate.take(*sent);
                }
            }
            Poll::Ready(Err(_)) => this.send_pause = None,
        }
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // An HTTP/2 connection that waits for the client's window flushes without writing.
        self.report_acknowledged();
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.connection.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
