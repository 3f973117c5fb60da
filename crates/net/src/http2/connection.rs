//! One HTTP/2 connection, and the task that drives it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::Request;
use tokio::task::JoinSet;

use super::reading_turns::ReadingTurns;
use crate::transport::{SocketState, TransportStream};

/// What a peer may send of one body before it is read, in bytes: a small file arrives in one go, however long the round trip is.
const STREAM_WINDOW: u32 = 1024 * 1024;

/// The same for all bodies of a connection together, and so the memory that a connection may take. It is fixed: adaptive windows
/// begin small and need pings.
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

/// Streams at once until the peer has said how many it takes (RFC 9113 6.5.2 recommends at least this).
const INITIAL_MAX_STREAMS: usize = 100;

/// Streams at once, however many the peer takes: with more a batch is no faster, and losing the connection costs more.
const MAX_STREAMS: usize = 256;

/// The largest frame, in bytes: every peer must accept this size, and it is small enough for bodies to take turns.
const MAX_FRAME_SIZE: u32 = 16 * 1024;

/// The longest response head, in bytes as HTTP/2 counts them (row A23).
const MAX_HEADER_LIST_SIZE: u32 = 64 * 1024;

/// How many reset streams are remembered for a second, so that frames that were still on their way are no protocol error.
const MAX_RESET_STREAMS: usize = 1_000;

/// An HTTP/2 connection. Dropped, it closes, also under requests that still wait for a response.
#[derive(Debug)]
pub(crate) struct Http2Connection {
    sender: SendRequest<Bytes>,
    pub(crate) socket_state: SocketState,
    /// Whether new requests avoid the connection, though it is not closed.
    is_draining: AtomicBool,
    /// Counts response heads and chunks of all streams. Bytes would not do: a peer that answers pings may send nothing else.
    activity: AtomicU64,
    /// The one task that reads and writes. It ends with the connection, at the latest when this is dropped.
    _driver: JoinSet<()>,
}

impl Http2Connection {
    /// Makes a stream an HTTP/2 connection. The peer's settings may still be on their way.
    pub(crate) async fn handshake(stream: TransportStream) -> Result<Self, h2::Error> {
        let socket_state = stream.socket_state();
        let (sender, driver) = Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_max_send_streams(INITIAL_MAX_STREAMS)
            .max_frame_size(MAX_FRAME_SIZE)
            .max_header_list_size(MAX_HEADER_LIST_SIZE)
            .max_concurrent_reset_streams(MAX_RESET_STREAMS)
            .handshake(ReadingTurns::new(stream))
            .await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // h2 reports the error that ends the connection to every request that waits.
            let _ = driver.await;
        });
        Ok(Self {
            sender,
            socket_state,
            is_draining: AtomicBool::new(false),
            activity: AtomicU64::new(0),
            _driver: tasks,
        })
    }

    /// Whether another request can be sent: the connection is not closed, and the peer has not sent GOAWAY.
    pub(crate) fn is_open(&self) -> bool {
        let ready = self
            .sender
            .clone()
            .poll_ready(&mut Context::from_waker(Waker::noop()));
        !self.is_draining.load(Ordering::Relaxed) && matches!(ready, Poll::Ready(Ok(())))
    }

    /// How many streams the peer takes at once, at least one: a peer that takes none now may take one in a moment, and if it does
    /// not, the request stalls.
    pub(crate) fn max_streams(&self) -> usize {
        self.sender.current_max_send_streams().clamp(1, MAX_STREAMS)
    }

    /// Sends a request without a body.
    pub(crate) fn send(&self, request: Request<()>) -> Result<ResponseFuture, h2::Error> {
        let (response, _) = self.sender.clone().send_request(request, true)?;
        Ok(response)
    }

    /// Counts a response head or a chunk; returns the count.
    pub(super) fn record_activity(&self) -> u64 {
        self.activity.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// How many response heads and chunks have arrived.
    pub(super) fn activity(&self) -> u64 {
        self.activity.load(Ordering::Relaxed)
    }

    /// Keeps new requests off a connection that was silent for so long that it may be dead. Running requests may end.
    pub(super) fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }
}
