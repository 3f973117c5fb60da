//! The connections of HTTP/2: their limits, and their ends.
//!
//! A peer of HTTP/2 sends when it likes, so whoever closes under it may meet its bytes with a reset, which throws away what it has not read: the
//! last answer, or the GOAWAY that says which requests were never begun and may be sent again. So the wire is only lent to hyper. When that
//! is done with it, it comes back, and the connection lingers as one of HTTP/1.1 does.
//!
//! # Memory
//!
//! One connection holds at most [`CONNECTION_WINDOW`] bytes of bodies that nobody has read yet, [`STREAMS`] times [`STREAM_BUFFER`] bytes of answers
//! that its peer has no room for, and one head of [`HEAD_LIST`] bytes. What an upload gathers while the disk is busy comes on top, as on
//! HTTP/1.1. A peer that sends its bytes one by one makes those that nobody has read yet cost some ten times as much, until the disk goes on.

use std::pin::pin;

use haul_plan::serving::TimeoutKind;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio_util::task::TaskTracker;

use super::drive::{EarlyClose, HEAD, ServerConnection};
use super::ending::LAST;
use super::lent::ReclaimableIo;
use super::transport::ServerTransport;
use super::wire::CountedIo;
use crate::http::ConnectionService;

/// Requests at one time on one connection: what browsers and RFC 9113 6.5.2 take for enough.
const STREAMS: u32 = 100;

/// Bytes that are kept for one of them until its peer takes them: a load of its TCP's window, and a thousand stuck readers are 64 MiB.
const STREAM_BUFFER: usize = 64 << 10;

/// Bytes of one upload that may be on their way or unread: an upload gets this much for each round trip, so 40 MB/s over 100 ms, where
/// HTTP/2's own 64 KiB would be 0.6. hyper can learn the number for each connection, but begins at those 64 KiB and doubles once a round trip, by
/// when most uploads are over; and a window costs nothing before it is used.
const STREAM_WINDOW: u32 = 4 << 20;

/// The same for all uploads of a connection together: two that are fast, or many that are not. It is what bounds memory: a window is unread only
/// while the disk keeps an upload waiting.
const CONNECTION_WINDOW: u32 = 8 << 20;

/// Bytes of the longest frame that is taken: a record of TLS. Most clients send no longer ones when they may, and a frame is held until it is whole.
const FRAME: u32 = 16 << 10;

/// Bytes of the longest head, by HTTP/2's own count: as many as on HTTP/1.1, so that it does not depend on the road whether a request is taken.
const HEAD_LIST: u32 = 64 << 10;
const _: () = assert!(HEAD_LIST as usize == HEAD, "the same on both roads");

/// Runs the tasks of streams, so that a server that ends waits for them.
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

impl ServerConnection {
    /// Serves a connection of HTTP/2.
    pub(super) async fn second<S: ServerTransport + 'static>(
        &self,
        wire: CountedIo<S>,
        service: ConnectionService,
    ) -> Result<(), EarlyClose> {
        self.line.becomes_second();
        let (lent, mut back) = ReclaimableIo::new(wire);
        let ended = self.streams(lent, service).await;
        // A peer that dawdles gets no more time; to all others a last word may still be under way.
        if !matches!(ended, Err(EarlyClose::Tired(tired)) if tired != TimeoutKind::Idle)
            && let Ok(wire) = back.try_recv()
        {
            let _ = Box::pin(self.leave(wire, self.line.peer_may_send())).await;
        }
        ended
    }

    /// Answers until there is nothing more to answer.
    async fn streams<S: ServerTransport + 'static>(
        &self,
        lent: ReclaimableIo<S>,
        service: ConnectionService,
    ) -> Result<(), EarlyClose> {
        let mut connection = pin!(
            http2::Builder::new(Http2StreamTasks(self.tasks.clone()))
                .timer(TokioTimer::new())
                .max_concurrent_streams(STREAMS)
                .max_send_buf_size(STREAM_BUFFER)
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .max_frame_size(FRAME)
                .max_header_list_size(HEAD_LIST)
                .serve_connection(TokioIo::new(lent), service)
        );
        let turned = self.turns(None, |cx, is_ending| {
            if is_ending {
                connection.as_mut().graceful_shutdown();
            }
            connection.as_mut().poll(cx)
        });
        let ended = tokio::select! {
            turned = turned => turned.map(drop),
            () = self.is_left_alone() => Ok(()),
        };
        if matches!(ended, Err(EarlyClose::Tired(TimeoutKind::Idle))) {
            // In good order: a request that is on its way now may be sent again elsewhere, and its sender must know that.
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(LAST, connection).await;
        }
        ended
    }

    /// Waits until the server has ended and nothing is under way here. hyper would wait until its peer has heard of it, and one that is asleep never
    /// does.
    async fn is_left_alone(&self) {
        self.stop.cancelled().await;
        loop {
            tokio::time::sleep(LAST).await;
            if self.line.patience().is_idle() {
                return;
            }
        }
    }
}
