//! A connection's end of the wire, between hyper and the socket.
//!
//! All bytes of a connection pass here, so this is where they are counted, where heads are watched, and where a slice that stands for a
//! stretch of a file becomes a `sendfile(2)` ([`MappingRegistry`](crate::sendfile::MappingRegistry) tells which do). Before a stretch is sent it is looked at whether it
//! is in memory; if not, it is brought there on a thread that may wait, and the connection is not ready meanwhile.

use std::future::Future;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::drive::PREFACE;
use super::line::{ConnectionState, TimeoutPause};
use super::pace::ConnectionRate;
use super::transport::ServerTransport;
use crate::sendfile::{MappedBody, MappedRun};
use crate::store::{DiskThreads, OpenObject};

/// Bytes of a file that are looked at, and brought into memory, before they are sent.
const WINDOW: u64 = 4 << 20;

/// Bytes at the end of a stretch that leave by themselves, if those before them took more than one call: before they do, it is looked at
/// whether the file is still what it was.
const END: u64 = 4 << 10;

/// A stretch that is on its way into memory.
type PendingPrefetch = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// The wire.
pub(crate) struct CountedIo<S> {
    /// What it runs over.
    stream: S,
    /// What the connection's parts know.
    line: Arc<ConnectionState>,
    /// Where waiting is allowed.
    disk: DiskThreads,
    /// What of the file that is being sent is known to be in memory.
    ready: Range<u64>,
    /// What is being brought there.
    bringing: Option<PendingPrefetch>,
    /// Bytes that were read and are to be read again. In a box, since there are hardly ever any.
    again: Option<Box<Bytes>>,
    /// What came first, while that may become HTTP/2's preface. `None` once it is known.
    first: Option<Vec<u8>>,
    /// How fast it may send. In a box, since most connections have no limit.
    out: Option<Box<ConnectionRate>>,
    /// How fast it may receive.
    inward: Option<Box<ConnectionRate>>,
    /// Whether it is a limit that it waits for.
    is_held: bool,
    /// While it waits to send, for the disk or for a limit, its peer waits for the server.
    pause: Option<TimeoutPause>,
    /// The same while it waits to receive.
    pause_inward: Option<TimeoutPause>,
}

impl<S: ServerTransport> CountedIo<S> {
    /// A connection's end.
    pub(crate) fn new(stream: S, line: Arc<ConnectionState>, disk: DiskThreads) -> Self {
        let server = &line.server;
        let (rate, totals) = (server.options.connection_rate, &server.totals);
        Self {
            out: ConnectionRate::new(rate, totals.send.as_ref()).map(Box::new),
            inward: ConnectionRate::new(rate, totals.receive.as_ref()).map(Box::new),
            is_held: false,
            pause: None,
            pause_inward: None,
            stream,
            line,
            disk,
            ready: 0..0,
            bringing: None,
            again: None,
            first: Some(Vec::new()),
        }
    }

    /// Nothing is under way: whatever it waited for, its peer does not wait for the server any more.
    pub(crate) fn rest(&mut self) {
        self.pause = None;
        self.pause_inward = None;
    }

    /// Whether something has come: a hint.
    pub(crate) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.again.is_some() {
            return Poll::Ready(Ok(()));
        }
        self.stream.poll_readable(cx)
    }

    /// Bytes that came from here are to be read again.
    pub(crate) fn rewind(&mut self, bytes: Bytes) {
        self.again = (!bytes.is_empty()).then(|| Box::new(bytes));
    }

    /// Holds back the beginning of HTTP/2's preface until the rest is there: hyper takes a part of it for a bad request.
    fn holds_back(&mut self, buffer: &mut ReadBuf<'_>, before: usize) -> bool {
        let Some(first) = &mut self.first else {
            return false;
        };
        let came = &buffer.filled()[before..];
        if first.is_empty() && (came.len() >= PREFACE.len() || !PREFACE.starts_with(came)) {
            // As nearly always: a request, or a preface that came whole.
            self.first = None;
            return false;
        }
        first.extend_from_slice(came);
        let came = came.len();
        if came > 0 && first.len() < PREFACE.len() && PREFACE.starts_with(first) {
            buffer.set_filled(before);
            return true;
        }
        if first.len() > came {
            buffer.set_filled(before);
            let first = std::mem::take(first);
            self.rewind(first.into());
            self.read_again(buffer);
        }
        self.first = None;
        false
    }

    /// Gives some of what was read before.
    fn read_again(&mut self, buffer: &mut ReadBuf<'_>) {
        if let Some(again) = &mut self.again {
            let some = again.len().min(buffer.remaining());
            buffer.put_slice(&again.split_to(some));
            if again.is_empty() {
                self.again = None;
            }
        }
    }

    /// Looks how much the system has not sent, if somebody wants to know.
    fn look(&self) {
        if self.line.is_look_wanted() {
            self.line.looked(self.stream.unsent());
        }
    }

    /// Its peer waits from here on until the next byte passes.
    fn wait(&mut self) {
        if self.pause.is_none() {
            self.pause = Some(self.line.pause());
        }
    }

    /// Reads some of what has come.
    fn poll_come(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
        room: usize,
    ) -> Poll<io::Result<()>> {
        if room >= buffer.remaining() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let mut some = ReadBuf::new(buffer.initialize_unfilled_to(room));
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut some))?;
        let came = some.filled().len();
        buffer.advance(came);
        Poll::Ready(Ok(()))
    }

    /// Sends some of what is to be sent.
    fn poll_some(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let room = match &mut self.out {
            Some(pace) => {
                self.is_held = true;
                let room = ready!(pace.poll_room(cx));
                self.is_held = false;
                room
            }
            None => usize::MAX,
        };
        let first = match self.line.ledger() {
            Some(ledger) => ledger.next_run(slices),
            None => MappedRun::Memory(slices.len()),
        };
        match first {
            MappedRun::File(mapped, range) => self.poll_send(cx, &mapped, &range, room as u64),
            MappedRun::Memory(some) => {
                // What follows may be another file.
                self.ready = 0..0;
                let bytes: usize = slices[..some].iter().map(|slice| slice.len()).sum();
                match slices.first() {
                    Some(first) if bytes > room => {
                        let part = &first[..first.len().min(room)];
                        Pin::new(&mut self.stream).poll_write(cx, part)
                    }
                    _ if some < slices.len() => self.stream.poll_write_more(cx, &slices[..some]),
                    _ => Pin::new(&mut self.stream).poll_write_vectored(cx, slices),
                }
            }
        }
    }

    /// Sends some of a stretch of a file.
    ///
    /// The kernel sends pages and no copies of them: what is written to a file while its bytes wait in a socket's buffer is sent, too, and no
    /// look comes behind that. What is written before the last bytes go there is noticed.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        mapped: &MappedBody,
        range: &Range<u64>,
        room: u64,
    ) -> Poll<io::Result<usize>> {
        let object = mapped.object();
        ready!(self.poll_ready(cx, object, range))?;
        let until = range.start.saturating_add(room);
        let mut end = range.end.min(self.ready.end).min(until);
        if mapped.mark_started() && end == range.end {
            match range.end - range.start > END {
                true => end -= END,
                false => object.check_unchanged()?,
            }
        }
        let sent = ready!(
            self.stream
                .poll_send(cx, object, range.start, end - range.start)
        )?;
        if sent == 0 {
            let text = "the file shrank while it was sent";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, text)));
        }
        Poll::Ready(Ok(sent))
    }

    /// Waits until the start of a stretch is in memory.
    fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        object: &Arc<OpenObject>,
        range: &Range<u64>,
    ) -> Poll<io::Result<()>> {
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
            self.bringing = Some(Box::pin(self.disk.run(move || object.prefetch(window))));
        }
    }
}

impl<S: ServerTransport> AsyncRead for CountedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.again.is_some() {
            self.read_again(buffer);
            return Poll::Ready(Ok(()));
        }
        let mut room = usize::MAX;
        if let Some(pace) = &mut self.inward {
            let Poll::Ready(passes) = pace.poll_room(cx) else {
                if self.pause_inward.is_none() {
                    self.pause_inward = Some(self.line.pause());
                }
                return Poll::Pending;
            };
            room = passes;
            self.pause_inward = None;
        }
        loop {
            let before = buffer.filled().len();
            ready!(self.poll_come(cx, buffer, room))?;
            match &buffer.filled()[before..] {
                [] if buffer.remaining() > 0 => self.line.peer_ended(),
                came => {
                    self.line.came(came);
                    let bytes = came.len();
                    if let Some(pace) = &mut self.inward {
                        pace.passed(bytes);
                    }
                }
            }
            if !self.holds_back(buffer, before) {
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
        this.look();
        let polled = this.poll_some(cx, slices);
        match &polled {
            // Whether it is the peer that is waited for, or the disk, or a limit.
            Poll::Pending if this.bringing.is_some() || this.is_held => this.wait(),
            Poll::Pending => {}
            Poll::Ready(Ok(sent)) => {
                this.pause = None;
                this.line.went(*sent);
                if let Some(pace) = &mut this.out {
                    pace.passed(*sent);
                }
            }
            Poll::Ready(Err(_)) => this.pause = None,
        }
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // One that waits for its peer's window has nothing to write.
        self.look();
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.line.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
