//! HTTP/2: connections that the slots of a worker share, and exchanges on them.
//!
//! Each connection has a task of the worker's runtime that reads and writes it. Without keep-alive each request has a connection of its own.

use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use haul_plan::parse_retry_after;
use http::{Request, header};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::connect::LoadConnector;
use super::outcome::{ConnectTimes, ExchangeFailure, LoadFailure, LoadResponse};
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
    /// Its number, by which the pool knows it.
    number: u64,
    send: SendRequest<Bytes>,
}

/// The connections of a worker.
pub(super) struct WorkerConnections {
    /// The shared connection to each origin. The lock is held while it is made, so that there is only one.
    shared: Vec<tokio::sync::Mutex<Option<SharedConnection>>>,
    drivers: Mutex<ConnectionDrivers>,
}

struct SharedConnection {
    connection: Http2Client,
    driver: AbortHandle,
}

/// The tasks that read and write connections.
#[derive(Default)]
struct ConnectionDrivers {
    tasks: JoinSet<()>,
    /// How many there have been.
    count: u64,
}

/// A connection from the pool.
pub(super) struct PooledConnection {
    pub(super) connection: Http2Client,
    /// The times of making it; `None` if it was there.
    pub(super) made: Option<ConnectTimes>,
}

impl WorkerConnections {
    pub(super) fn new(origins: usize) -> Self {
        Self {
            shared: (0..origins)
                .map(|_| tokio::sync::Mutex::default())
                .collect(),
            drivers: Mutex::default(),
        }
    }

    /// The shared connection to an origin. It is made if there is none, or if it is `broken`.
    pub(super) async fn connect_shared(
        &self,
        connector: &LoadConnector,
        index: usize,
        origin: &LoadOrigin,
        broken: Option<u64>,
    ) -> Result<PooledConnection, LoadFailure> {
        let mut shared = self.shared[index].lock().await;
        let usable = shared.as_ref().filter(|shared| {
            broken != Some(shared.connection.number) && !shared.driver.is_finished()
        });
        if let Some(usable) = usable {
            return Ok(PooledConnection {
                connection: usable.connection.clone(),
                made: None,
            });
        }
        let (made, driver) = self.make(connector, origin).await?;
        *shared = Some(SharedConnection {
            connection: made.connection.clone(),
            driver,
        });
        Ok(made)
    }

    /// A connection for one request.
    pub(super) async fn connect(
        &self,
        connector: &LoadConnector,
        origin: &LoadOrigin,
    ) -> Result<PooledConnection, LoadFailure> {
        self.make(connector, origin).await.map(|(made, _)| made)
    }

    async fn make(
        &self,
        connector: &LoadConnector,
        origin: &LoadOrigin,
    ) -> Result<(PooledConnection, AbortHandle), LoadFailure> {
        let (stream, times) = connector.connect(origin).await?;
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEAD);
        let shaken = builder.handshake(stream).await;
        let (send, connection) = shaken.map_err(|error| failure(&error).kind)?;
        let mut drivers = self.drivers.lock().unwrap_or_else(PoisonError::into_inner);
        while drivers.tasks.try_join_next().is_some() {}
        drivers.count += 1;
        let number = drivers.count;
        // How a connection ends is seen by the requests on it.
        let driver = drivers.tasks.spawn(async move { drop(connection.await) });
        let made = PooledConnection {
            connection: Http2Client { number, send },
            made: Some(times),
        };
        Ok((made, driver))
    }
}

impl Http2Client {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Sends a request with a body of this length, which repeats the bytes, and reads the response.
    pub(super) async fn exchange(
        &mut self,
        request: Request<()>,
        bytes: &Bytes,
        length: u64,
    ) -> Result<LoadResponse, ExchangeFailure> {
        let fails = |error: h2::Error| failure(&error);
        let mut left = length;
        poll_fn(|cx| self.send.poll_ready(cx))
            .await
            .map_err(fails)?;
        let (response, mut stream) = self.send.send_request(request, left == 0).map_err(fails)?;
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
        let (head, mut body) = response.await.map_err(fails)?.into_parts();
        let first_byte = Instant::now();
        let mut body_bytes = 0;
        while let Some(data) = body.data().await {
            let length = data.map_err(|error| failure(&error).kind)?.len();
            body_bytes += length as u64;
            let released = body.flow_control().release_capacity(length);
            released.map_err(|error| failure(&error).kind)?;
        }
        Ok(LoadResponse {
            status: head.status.as_u16(),
            body_bytes,
            first_byte,
            end: Instant::now(),
            retry_after: retry_after(&head),
            keeps_connection: true,
        })
    }
}

fn retry_after(head: &http::response::Parts) -> Option<Duration> {
    if !matches!(head.status.as_u16(), 429 | 503) {
        return None;
    }
    let value = head.headers.get(header::RETRY_AFTER)?;
    parse_retry_after(value, SystemTime::now())
}

/// The failure of a request whose response has not begun.
fn failure(error: &h2::Error) -> ExchangeFailure {
    let kind = match error.get_io() {
        Some(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => LoadFailure::Closed,
        Some(error) => LoadFailure::from(error),
        None if error.is_go_away() => LoadFailure::Closed,
        None if error.is_reset() && error.is_remote() => LoadFailure::StreamReset,
        None => LoadFailure::InvalidResponse,
    };
    let is_refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
    ExchangeFailure {
        kind,
        is_before_response: error.is_io() || error.is_go_away() || is_refused,
    }
}
