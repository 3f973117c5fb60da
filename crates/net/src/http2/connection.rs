//! One HTTP/2 connection, and the task that drives it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::Request;
use tokio::task::JoinSet;

use crate::transport::{SocketState, TransportStream};

/// What a peer may send of one body before it is read, in bytes: a small file comes in one go, on any way.
const STREAM_WINDOW: u32 = 1024 * 1024;

/// The same for all bodies of a connection together, and so the memory that one may take. Fixed: windows that adapt begin small
/// and ask for pings.
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

/// Requests at once until the peer has said how many it takes (RFC 9113 6.5.2 recommends no less).
const INITIAL_MAX_STREAMS: usize = 100;

/// Requests at once, whatever the peer takes: beyond this a batch is no faster, and one lost connection costs more.
const MAX_STREAMS: usize = 256;

/// The largest frame, in bytes: what every peer must be content with, and small enough for bodies to take turns.
const MAX_FRAME_SIZE: u32 = 16 * 1024;

/// The longest head of an answer, in bytes as HTTP/2 counts them (row A23).
const MAX_HEADER_LIST_SIZE: u32 = 64 * 1024;

/// How many bodies that were given up are remembered for a second, so that what is on its way of them is no surprise.
const MAX_RESET_STREAMS: usize = 1_000;

/// An HTTP/2 connection. Dropped, it closes, whoever still waits for something.
#[derive(Debug)]
pub(crate) struct Http2Connection {
    sender: SendRequest<Bytes>,
    /// How TLS ended.
    pub(crate) socket_state: SocketState,
    /// Whether no further request should go over it, though it is not closed.
    is_draining: AtomicBool,
    /// Heads and pieces of bodies that came, of any request. Bytes would not tell: a peer that answers pings may do nothing else.
    activity: AtomicU64,
    /// The one task that reads and writes. It ends when the connection does, at the latest when this is dropped.
    _driver: JoinSet<()>,
}

impl Http2Connection {
    /// Makes a stream an HTTP/2 connection. The peer need not have said a word yet.
    pub(crate) async fn handshake(stream: TransportStream) -> Result<Self, h2::Error> {
        let gauge = stream.socket_state();
        let (sender, driver) = Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_max_send_streams(INITIAL_MAX_STREAMS)
            .max_frame_size(MAX_FRAME_SIZE)
            .max_header_list_size(MAX_HEADER_LIST_SIZE)
            .max_concurrent_reset_streams(MAX_RESET_STREAMS)
            .handshake(stream)
            .await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // What ends it is told to every request that waits.
            let _ = driver.await;
        });
        Ok(Self {
            sender,
            socket_state: gauge,
            is_draining: AtomicBool::new(false),
            activity: AtomicU64::new(0),
            _driver: tasks,
        })
    }

    /// Whether another request can be sent: it is not closed, and the peer has not said that it goes away.
    pub(crate) fn is_open(&self) -> bool {
        let ready = self
            .sender
            .clone()
            .poll_ready(&mut Context::from_waker(Waker::noop()));
        !self.is_draining.load(Ordering::Relaxed) && matches!(ready, Poll::Ready(Ok(())))
    }

    /// How many requests the peer takes at once. One at least: who takes none now may do so in a moment, and else the stall
    /// timeout says so.
    pub(crate) fn max_streams(&self) -> usize {
        self.sender.current_max_send_streams().clamp(1, MAX_STREAMS)
    }

    /// Sends a request without a body.
    pub(crate) fn send(&self, request: Request<()>) -> Result<ResponseFuture, h2::Error> {
        let (answer, _) = self.sender.clone().send_request(request, true)?;
        Ok(answer)
    }

    /// A head or a piece came.
    pub(super) fn record_activity(&self) -> u64 {
        self.activity.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// How many came.
    pub(super) fn activity(&self) -> u64 {
        self.activity.load(Ordering::Relaxed)
    }

    /// Lets no further request on: nothing came over it for so long that it may well be dead. What runs may end.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }
}
