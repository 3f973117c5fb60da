//! HTTP/2: connections that the slots of a worker share, and exchanges on them.
//!
//! Each connection has a task of the worker's runtime that reads and writes it. Without keep-alive each request has a connection of its own.
#![expect(
    clippy::future_not_send,
    reason = "the connections of a thread stay in it"
)]

use std::cell::RefCell;
use std::future::poll_fn;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::Request;
use tokio::sync::Mutex;
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::Instant;

use super::connect::LoadConnector;
use super::outcome::{ConnectTimes, ExchangeFailure, LoadFailure, LoadResponse, ResponseHead};
use super::target::LoadOrigin;

/// The bytes of a body that a server may send before we have read them: no link that is measured waits for our window.
const STREAM_WINDOW: u32 = 4 << 20;
/// The same of all bodies of a connection.
const CONNECTION_WINDOW: u32 = 64 << 20;
/// The most bytes of a head.
const MAX_HEAD: u32 = 64 * 1024;

/// A connection, as a slot uses it.
#[derive(Clone)]
pub(super) struct Http2Client {
    send: SendRequest<Bytes>,
    /// The task that reads and writes it.
    driver: AbortHandle,
}

pub(super) struct WorkerConnections {
    /// The shared connection to each origin. The lock is held while it is made, so that there is only one.
    shared: Vec<Mutex<Option<Http2Client>>>,
    /// The tasks that read and write connections. How one ends is seen by the requests on it.
    drivers: RefCell<JoinSet<()>>,
}

impl WorkerConnections {
    pub(super) fn new(origins: usize) -> Self {
        Self {
            shared: (0..origins).map(|_| Mutex::default()).collect(),
            drivers: RefCell::default(),
        }
    }

    /// The shared connection to an origin. It is made if there is none, or if it is the `broken` one: then with the times of that.
    pub(super) async fn connect_shared(
        &self,
        connector: &LoadConnector,
        index: usize,
        origin: &LoadOrigin,
        broken: Option<Id>,
    ) -> Result<(Http2Client, Option<ConnectTimes>), LoadFailure> {
        let mut shared = self.shared[index].lock().await;
        if let Some(known) = &*shared
            && broken != Some(known.id())
            && !known.driver.is_finished()
        {
            return Ok((known.clone(), None));
        }
        let (made, times) = self.connect(connector, origin).await?;
        *shared = Some(made.clone());
        Ok((made, Some(times)))
    }

    /// A connection for one request.
    pub(super) async fn connect(
        &self,
        connector: &LoadConnector,
        origin: &LoadOrigin,
    ) -> Result<(Http2Client, ConnectTimes), LoadFailure> {
        let (stream, times) = connector.connect(origin).await?;
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEAD);
        let shaken = builder.handshake(stream).await;
        let (send, connection) = shaken.map_err(|error| ExchangeFailure::from(error).kind)?;
        let mut drivers = self.drivers.borrow_mut();
        while drivers.try_join_next().is_some() {}
        let driver = drivers.spawn(async move { drop(connection.await) });
        Ok((Http2Client { send, driver }, times))
    }
}

impl Http2Client {
    /// What distinguishes it from other connections.
    pub(super) fn id(&self) -> Id {
        self.driver.id()
    }

    /// Sends a request with a body of this length, which repeats the bytes, and reads the response.
    pub(super) async fn exchange(
        &mut self,
        request: Request<()>,
        bytes: &Bytes,
        length: u64,
    ) -> Result<LoadResponse, ExchangeFailure> {
        let mut left = length;
        poll_fn(|cx| self.send.poll_ready(cx)).await?;
        let (response, mut stream) = self.send.send_request(request, left == 0)?;
        while left > 0 {
            let piece = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
            stream.reserve_capacity(piece);
            let Some(Ok(capacity)) = poll_fn(|cx| stream.poll_capacity(cx)).await else {
                // The server had enough of it. Its response, or the lack of one, says why.
                break;
            };
            let piece = bytes.slice(..piece.min(capacity));
            left -= piece.len() as u64;
            if stream.send_data(piece, left == 0).is_err() {
                break;
            }
        }
        let (parts, mut body) = response.await?.into_parts();
        let first_byte = Instant::now();
        let mut head = ResponseHead {
            status: parts.status.as_u16(),
            ..ResponseHead::default()
        };
        for (name, value) in &parts.headers {
            head.add_field(name.as_str(), value.as_bytes());
        }
        let mut body_bytes = 0;
        while let Some(data) = body.data().await {
            let length = data
                .map_err(|error| ExchangeFailure::from(error).kind)?
                .len();
            body_bytes += length as u64;
            body.flow_control().release_capacity(length)?;
        }
        Ok(LoadResponse {
            head,
            body_bytes,
            first_byte,
            end: Instant::now(),
            keeps_connection: true,
        })
    }
}

/// The failure of a request whose response has not begun.
impl From<h2::Error> for ExchangeFailure {
    fn from(error: h2::Error) -> Self {
        let is_refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
        let is_before_response = error.is_io() || error.is_go_away() || is_refused;
        let kind = if error.is_go_away() {
            LoadFailure::Closed
        } else if error.is_reset() && error.is_remote() {
            LoadFailure::StreamReset
        } else {
            let io_error = error.into_io();
            io_error.map_or(LoadFailure::InvalidResponse, LoadFailure::from)
        };
        Self {
            kind,
            is_before_response,
        }
    }
}
