//! HTTP/2 connections: their limits, and how they end.
//!
//! An HTTP/2 client sends whenever it likes. Closing the socket while it sends causes a reset,
//! which discards what the client has not read: the last response, or the GOAWAY that says which
//! requests were never begun and may be sent again. So hyper only borrows the I/O
//! ([`ReclaimableIo`]). When hyper is done, the connection lingers, as HTTP/1.1 connections do.
//!
//! # Refused uploads
//!
//! A server that has responded may reset the stream of an upload that it does not want, with
//! NO_ERROR (RFC 9113 8.1). But curl 7.88 forgets a response that it has not read when it learns of
//! the reset while it sends, and Python's httpx reads nothing while it has room to send. So the
//! server goes on to read the body and drops its bytes, as on HTTP/1.1, and resets the stream only
//! at a limit ([`ConnectionState::discard_body`]).
//!
//! # Memory
//!
//! One connection holds at most [`CONNECTION_WINDOW`] bytes of request bodies that nobody has read
//! yet, [`MAX_STREAMS`] times [`STREAM_SEND_BUFFER`] bytes of responses that the client has no room
//! for, and one head of [`MAX_HEADER_LIST`] bytes. What an upload gathers while the disk is busy
//! comes on top, as on HTTP/1.1. If a client sends its bytes one by one, unread bytes cost some ten
//! times as much, until the disk proceeds.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use super::counted_io::CountedIo;
use super::drive::{
    ConnectionPollMode, EarlyClose, MAX_HEAD, SHUTDOWN_LINGER_TIME, ServerConnectionDriver,
};
use super::peer_timeouts::TimeoutKind;
use super::socket::ServerTransport;
use super::state::ConnectionState;
use crate::http::ConnectionService;

/// Maximum concurrent requests of a connection: enough for browsers and RFC 9113 6.5.2.
const MAX_STREAMS: u32 = 100;

/// Bytes of a response that are kept until the client accepts them: as many as fit a TCP window,
/// and a thousand stuck readers take 64 MiB.
const STREAM_SEND_BUFFER: usize = 64 << 10;

/// Bytes of one upload that may be in flight or unread. An upload gets this many for each round
/// trip: 40 MB/s over 100 ms, where HTTP/2's own 64 KiB would give 0.6. hyper can adapt the window
/// to each connection, but begins at 64 KiB and doubles once a round trip, so most uploads are over
/// before. A window costs nothing until it is used.
const STREAM_WINDOW: u32 = 4 << 20;

/// The same for all uploads of a connection together: two fast ones, or many slow ones. This bounds
/// memory: bytes are unread only while the disk keeps an upload waiting.
const CONNECTION_WINDOW: u32 = 8 << 20;

/// Maximum bytes of a frame: a TLS record. Most clients send no longer frames even if they may, and
/// a frame is held until it is complete.
const MAX_FRAME: u32 = 16 << 10;

/// Maximum bytes of a head, as HTTP/2 counts them: the same as on HTTP/1.1, so that both accept the
/// same requests.
const MAX_HEADER_LIST: u32 = 64 << 10;
const _: () = assert!(MAX_HEADER_LIST as usize == MAX_HEAD, "equal limits");

/// How long the server reads a body that it does not want. Clients that read while they send stop
/// within a round trip; the others send all of it before they read the response.
const DISCARD_TIME: Duration = Duration::from_secs(30);

/// Maximum bytes of such a body that are read.
const DISCARD_BYTES: usize = 256 << 20;

/// Runs the tasks of streams, so that a shutdown waits for them.
#[derive(Debug, Clone)]
struct Http2StreamTasks(TaskTracker);

impl<F> hyper::rt::Executor<F> for Http2StreamTasks
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, task: F) {
        self.0.spawn(task);
    }
}

impl ConnectionState {
    /// Reads and drops the rest of a body that the server does not want, so that the client reads
    /// the response before the stream is reset. The reset follows when the body is dropped.
    pub(crate) fn discard_body(&self, mut body: Incoming) {
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let discard = async move {
            let mut discarded = 0;
            while discarded < DISCARD_BYTES
                && let Some(Ok(frame)) =
                    std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await
            {
                discarded += frame.data_ref().map_or(0, Bytes::len);
            }
        };
        self.tasks
            .spawn(tokio::time::timeout(DISCARD_TIME, discard));
    }
}

impl ServerConnectionDriver {
    /// Serves HTTP/2.
    pub(super) async fn serve_http2<S: ServerTransport + 'static>(
        &self,
        io: CountedIo<S>,
        service: ConnectionService,
    ) -> Result<(), EarlyClose> {
        self.connection.switch_to_http2();
        let (io, mut reclaimed) = ReclaimableIo::new(io);
        let result = self.run_http2(io, service).await;
        // A client that timed out gets no more time; for others a last frame may be in flight.
        if !matches!(result, Err(EarlyClose::TimedOut(kind)) if kind != TimeoutKind::Idle)
            && let Ok(io) = reclaimed.try_recv()
        {
            let may_receive = !io.has_ended();
            let _ = Box::pin(self.close(io, may_receive)).await;
        }
        result
    }

    async fn run_http2<S: ServerTransport + 'static>(
        &self,
        io: ReclaimableIo<S>,
        service: ConnectionService,
    ) -> Result<(), EarlyClose> {
        let mut http2 = pin!(
            http2::Builder::new(Http2StreamTasks(self.connection.tasks.clone()))
                .timer(TokioTimer::new())
                .max_concurrent_streams(MAX_STREAMS)
                .max_send_buf_size(STREAM_SEND_BUFFER)
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .max_frame_size(MAX_FRAME)
                .max_header_list_size(MAX_HEADER_LIST)
                .serve_connection(TokioIo::new(io), service)
        );
        let run = self.run(ConnectionPollMode::Http2, |cx, must_stop| {
            if must_stop {
                http2.as_mut().graceful_shutdown();
            }
            http2.as_mut().poll(cx)
        });
        let result = tokio::select! {
            outcome = run => outcome.map(drop),
            () = self.stopped_and_idle() => Ok(()),
        };
        if matches!(result, Err(EarlyClose::TimedOut(TimeoutKind::Idle))) {
            // The GOAWAY tells a client that sends a request just now that it may send it
            // elsewhere.
            http2.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(SHUTDOWN_LINGER_TIME, http2).await;
        }
        result
    }

    /// Waits until the server shuts down and no request is left. hyper would wait for the client's
    /// acknowledgement, which a sleeping client never sends.
    async fn stopped_and_idle(&self) {
        self.stop.cancelled().await;
        loop {
            tokio::time::sleep(SHUTDOWN_LINGER_TIME).await;
            if self.connection.timeouts.is_idle() {
                return;
            }
        }
    }
}

/// The I/O of a connection while hyper borrows it: dropping it sends it back, where hyper would
/// close it.
struct ReclaimableIo<S: ServerTransport> {
    /// Present until this is dropped.
    io: Option<CountedIo<S>>,
    owner: Option<oneshot::Sender<CountedIo<S>>>,
}

impl<S: ServerTransport> ReclaimableIo<S> {
    fn new(io: CountedIo<S>) -> (Self, oneshot::Receiver<CountedIo<S>>) {
        let (owner, reclaimed) = oneshot::channel();
        let reclaimable = Self {
            io: Some(io),
            owner: Some(owner),
        };
        (reclaimable, reclaimed)
    }

    #[expect(clippy::expect_used, reason = "only dropping takes it")]
    fn io(&mut self) -> Pin<&mut CountedIo<S>> {
        Pin::new(self.io.as_mut().expect("not dropped"))
    }
}

impl<S: ServerTransport> Drop for ReclaimableIo<S> {
    fn drop(&mut self) {
        if let (Some(io), Some(owner)) = (self.io.take(), self.owner.take()) {
            // The owner may be gone.
            let _ = owner.send(io);
        }
    }
}

impl<S: ServerTransport> AsyncRead for ReclaimableIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.io().poll_read(cx, buffer)
    }
}

impl<S: ServerTransport> AsyncWrite for ReclaimableIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.io().poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io().poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_shutdown(cx)
    }
}
