//! The HTTP/2 connections of one host, by which requests lease streams, and the choice between HTTP/2 and HTTP/1.1.
//!
//! While one request connects, all others for the host wait for it: each would otherwise make a connection of its own, for
//! nothing. As soon as TCP has shown that the path is long, every second request that waits makes a connection, too, up to the
//! number that such a path gets, and requests go to the connection with the fewest streams. When the host turns out to speak
//! HTTP/1.1 alone, or to be too near for HTTP/2 to pay, they go on at once, each over a connection of its own. A failure to
//! connect is the failure of all that waited, unless there is another connection, or one is being made.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use haul_plan::{REQUESTS_PER_NEW_CONNECTION, STREAMS_BEFORE_NEXT_CONNECTION, http2_connections};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::connection::Http2Connection;
use crate::error::Error;
use crate::http1::MAX_IDLE_TIME;

/// A stream limit that came from refusals is raised by one after this many times as many requests were accepted.
const ACCEPTED_PER_LIMIT_RAISE: usize = 64;

/// One host, or strictly one route.
#[derive(Debug)]
pub(crate) struct Http2Host {
    state: Mutex<Http2HostState>,
    /// A stream is free, a connection was made, or it could not be made.
    changed: Notify,
}

#[derive(Debug)]
struct Http2HostState {
    /// Whether requests use HTTP/1.1, each over a connection of its own.
    uses_http1: bool,
    connections: Vec<PooledHttp2Connection>,
    /// How many connections there may be: few until the path is known to be long.
    max_connections: usize,
    /// Whether the peer refused a connection beside others. Then there may be no more than it accepted.
    has_refused_connection: bool,
    /// How many streams the peer was seen to take on a connection, if that is fewer than it says.
    stream_limit: usize,
    /// Requests that were not refused since `stream_limit` last changed.
    accepted: usize,
    /// Connections that are being made.
    connecting: usize,
    /// The requests that wait for these find here that the last one has failed.
    failure: ConnectFailure,
    /// Requests that wait for a stream.
    waiting: usize,
    next_id: u64,
}

/// Why no connection could be made, for the requests that waited for one.
type ConnectFailure = Arc<OnceLock<Error>>;

#[derive(Debug)]
struct PooledHttp2Connection {
    id: u64,
    connection: Arc<Http2Connection>,
    active_streams: usize,
    /// When the last stream ended.
    idle_since: Instant,
}

/// How a request goes on.
#[derive(Debug)]
pub(crate) enum StreamDecision {
    /// Over an existing connection.
    Send(StreamLease),
    Connect(ConnectionReservation),
    /// Over an HTTP/1.1 connection of its own.
    UseHttp1,
}

enum LeaseAttempt {
    Decided(StreamDecision),
    Wait(ConnectFailure),
}

impl Http2Host {
    pub(super) fn new() -> Self {
        let state = Http2HostState {
            uses_http1: false,
            connections: Vec::new(),
            max_connections: http2_connections(Duration::ZERO),
            has_refused_connection: false,
            stream_limit: usize::MAX,
            accepted: 0,
            connecting: 0,
            failure: ConnectFailure::default(),
            waiting: 0,
            next_id: 0,
        };
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    /// Waits until the request can go on. Cancel safe.
    ///
    /// # Errors
    /// Another request was making the connection for all, and failed.
    pub(crate) async fn lease(self: &Arc<Self>) -> Result<StreamDecision, Error> {
        let mut waiting = None;
        loop {
            let mut changed = pin!(self.changed.notified());
            // Registered before the attempt, so that no change after it is missed.
            changed.as_mut().enable();
            let failure = match self.try_lease(waiting.is_none()) {
                LeaseAttempt::Decided(decision) => return Ok(decision),
                LeaseAttempt::Wait(failure) => failure,
            };
            waiting.get_or_insert_with(|| WaitingRequest::new(self));
            changed.await;
            if let Some(failure) = failure.get() {
                return Err(failure.clone());
            }
        }
    }

    fn try_lease(self: &Arc<Self>, is_new: bool) -> LeaseAttempt {
        let mut closed = Vec::new();
        let mut state = self.lock();
        if state.uses_http1 {
            return LeaseAttempt::Decided(StreamDecision::UseHttp1);
        }
        state.remove_closed(&mut closed);
        if let Some((id, connection)) = state.add_stream() {
            if state.has_free_stream() {
                // One task was woken for a free stream, and there are more.
                self.changed.notify_one();
            }
            let lease = StreamLease::new(Arc::clone(self), id, connection);
            return LeaseAttempt::Decided(StreamDecision::Send(lease));
        }
        if state.needs_connection(is_new) {
            state.connecting += 1;
            let host = Arc::clone(self);
            let reservation = ConnectionReservation { host };
            return LeaseAttempt::Decided(StreamDecision::Connect(reservation));
        }
        LeaseAttempt::Wait(Arc::clone(&state.failure))
    }

    /// TCP took about a round trip to connect. Over a long path the requests that wait make more connections.
    pub(crate) fn set_round_trip(&self, round_trip: Duration) {
        let max_connections = http2_connections(round_trip);
        let mut state = self.lock();
        if !state.has_refused_connection && max_connections > state.max_connections {
            state.max_connections = max_connections;
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// From now on, each request goes over an HTTP/1.1 connection of its own. Running streams end as they would.
    pub(crate) fn use_http1(&self) {
        let mut state = self.lock();
        state.uses_http1 = true;
        let closed = std::mem::take(&mut state.connections);
        drop(state);
        drop(closed);
        self.changed.notify_waiters();
    }

    /// How many streams the peer takes at once over all connections that there may be; `None` where requests use HTTP/1.1.
    pub(crate) fn max_streams(&self) -> Option<usize> {
        let state = self.lock();
        let pooled = state.connections.first()?;
        Some(state.max_connections * pooled.connection.max_streams())
    }

    /// Whether there is a connection, which may be full.
    pub(crate) fn is_connected(&self) -> bool {
        !self.lock().connections.is_empty()
    }

    /// Connections without streams, with the time since when. Those that were idle for too long are closed.
    pub(super) fn idle_connections(&self) -> impl Iterator<Item = (Instant, u64)> {
        let mut closed = Vec::new();
        let mut state = self.lock();
        state.remove_closed(&mut closed);
        let idle: Vec<_> = state
            .connections
            .iter()
            .filter(|pooled| pooled.active_streams == 0)
            .map(|pooled| (pooled.idle_since, pooled.id))
            .collect();
        drop(state);
        idle.into_iter()
    }

    /// Closes a connection, if it has no streams.
    pub(super) fn close_idle(&self, id: u64) {
        let mut state = self.lock();
        let mut connections = state.connections.iter();
        let index = connections.position(|pooled| pooled.id == id && pooled.active_streams == 0);
        let closed = index.map(|index| state.connections.swap_remove(index));
        drop(state);
        drop(closed);
    }

    /// Whether nothing would be lost with the host but its choice of version.
    pub(super) fn has_no_connections(&self) -> bool {
        let state = self.lock();
        state.connections.is_empty() && state.connecting == 0
    }

    fn lock(&self) -> MutexGuard<'_, Http2HostState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Http2HostState {
    /// Removes connections that are closed, or were idle for too long. Their streams go on.
    fn remove_closed(&mut self, closed: &mut Vec<PooledHttp2Connection>) {
        let is_over = |pooled: &mut PooledHttp2Connection| {
            !pooled.connection.is_open()
                || pooled.active_streams == 0 && pooled.idle_since.elapsed() >= MAX_IDLE_TIME
        };
        closed.extend(self.connections.extract_if(.., is_over));
    }

    /// Adds a stream to the connection with the fewest, if it has room.
    fn add_stream(&mut self) -> Option<(u64, Arc<Http2Connection>)> {
        let limit = self.stream_limit_now();
        let connections = self.connections.iter_mut();
        let free = connections.filter(|pooled| pooled.has_free_stream(limit));
        let pooled = free.min_by_key(|pooled| pooled.active_streams)?;
        pooled.active_streams += 1;
        Some((pooled.id, Arc::clone(&pooled.connection)))
    }

    fn has_free_stream(&self) -> bool {
        let limit = self.stream_limit_now();
        let mut connections = self.connections.iter();
        connections.any(|pooled| pooled.has_free_stream(limit))
    }

    /// Streams that a connection may have now. Where there may be many connections, the first ones do not take the requests of those to come.
    fn stream_limit_now(&self) -> usize {
        let may_be_more = self.connecting > 0 || self.has_room_for_connection();
        if self.has_many_connections() && may_be_more {
            self.stream_limit.min(STREAMS_BEFORE_NEXT_CONNECTION)
        } else {
            self.stream_limit
        }
    }

    fn has_many_connections(&self) -> bool {
        self.max_connections > http2_connections(Duration::ZERO)
    }

    fn has_room_for_connection(&self) -> bool {
        self.connections.len() + self.connecting < self.max_connections
    }

    /// Whether the request that found no stream makes a connection. Otherwise it waits for one of those that are being made, or for a stream.
    /// `is_new`: it is not counted among those that wait.
    fn needs_connection(&self, is_new: bool) -> bool {
        let requests = self.connecting + self.waiting + usize::from(is_new);
        let will_get_stream = if self.has_many_connections() {
            requests <= self.connecting * REQUESTS_PER_NEW_CONNECTION
        } else {
            self.connecting > 0
        };
        self.has_room_for_connection() && !will_get_stream
    }

    /// The peer refuses a connection beside those that there are, or that are being made.
    fn refuse_connection(&mut self) {
        let others = self.connections.len() + self.connecting.saturating_sub(1);
        self.max_connections = self.max_connections.min(others).max(1);
        self.has_refused_connection = true;
    }

    /// A request was not refused. A peer may take few streams for a while only, so now and then it is tried with one more.
    fn record_accepted(&mut self) {
        self.accepted += 1;
        if self.stream_limit < usize::MAX
            && self.accepted / ACCEPTED_PER_LIMIT_RAISE >= self.stream_limit
        {
            (self.stream_limit, self.accepted) = (self.stream_limit + 1, 0);
        }
    }
}

impl PooledHttp2Connection {
    fn has_free_stream(&self, limit: usize) -> bool {
        self.active_streams < limit.min(self.connection.max_streams())
    }
}

/// A request that waits for a stream.
struct WaitingRequest<'a>(&'a Http2Host);

impl<'a> WaitingRequest<'a> {
    fn new(host: &'a Http2Host) -> Self {
        host.lock().waiting += 1;
        Self(host)
    }
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

/// The right, and the duty, of one request to make a connection that others wait for. Dropped, it passes to another request.
#[derive(Debug)]
pub(crate) struct ConnectionReservation {
    host: Arc<Http2Host>,
}

impl ConnectionReservation {
    /// The connection speaks HTTP/1.1. Without an HTTP/2 connection that holds for the whole host; beside one, there will be no
    /// other.
    pub(crate) fn use_http1(self) {
        let mut state = self.host.lock();
        if state.connections.is_empty() {
            state.uses_http1 = true;
        } else {
            state.refuse_connection();
        }
    }

    /// The connection is there for all; its first stream is for the request that made it.
    pub(crate) fn connected(self, connection: Http2Connection) -> StreamLease {
        let connection = Arc::new(connection);
        let mut state = self.host.lock();
        let id = state.next_id;
        state.next_id += 1;
        // Another connection may have shown meanwhile that HTTP/1.1 is better.
        if !state.uses_http1 {
            state.connections.push(PooledHttp2Connection {
                id,
                connection: Arc::clone(&connection),
                active_streams: 1,
                idle_since: Instant::now(),
            });
        }
        drop(state);
        StreamLease::new(Arc::clone(&self.host), id, connection)
    }

    /// The connection could not be made. Beside another one, there will be no further connection, and the request should wait
    /// for a stream: then this returns true. Else the error is that of all requests that wait.
    pub(crate) fn failed(self, error: &Error) -> bool {
        let mut state = self.host.lock();
        if state.connections.is_empty() && state.connecting == 1 {
            let _ = std::mem::take(&mut state.failure).set(error.clone());
            return false;
        }
        state.refuse_connection();
        true
    }
}

impl Drop for ConnectionReservation {
    fn drop(&mut self) {
        self.host.lock().connecting -= 1;
        self.host.changed.notify_waiters();
    }
}

/// A stream of a connection, for one request and its response.
#[derive(Debug)]
pub(crate) struct StreamLease {
    host: Arc<Http2Host>,
    connection_id: u64,
    connection: Arc<Http2Connection>,
    /// Whether the peer refused the request.
    is_refused: bool,
}

impl StreamLease {
    fn new(host: Arc<Http2Host>, connection_id: u64, connection: Arc<Http2Connection>) -> Self {
        Self {
            host,
            connection_id,
            connection,
            is_refused: false,
        }
    }

    pub(super) fn connection(&self) -> &Http2Connection {
        &self.connection
    }

    /// The peer refused the request, though by its own word it had room. So it takes no more streams than there are now.
    pub(super) fn record_refusal(&mut self) {
        self.is_refused = true;
        let mut state = self.host.lock();
        let mut connections = state.connections.iter();
        let pooled = connections.find(|pooled| pooled.id == self.connection_id);
        if let Some(others) = pooled.map(|pooled| pooled.active_streams.saturating_sub(1)) {
            state.stream_limit = state.stream_limit.min(others).max(1);
            state.accepted = 0;
        }
    }

    /// The stream was silent for the stall timeout. If no other stream of the connection received anything either since
    /// `last_activity`, new requests avoid the connection.
    pub(super) fn record_stall(&self, last_activity: u64) {
        if self.connection.activity() == last_activity {
            self.connection.drain();
        }
    }
}

impl Drop for StreamLease {
    fn drop(&mut self) {
        let mut state = self.host.lock();
        let mut connections = state.connections.iter_mut();
        if let Some(pooled) = connections.find(|pooled| pooled.id == self.connection_id) {
            pooled.active_streams -= 1;
            pooled.idle_since = Instant::now();
        }
        if !self.is_refused {
            state.record_accepted();
        }
        drop(state);
        self.host.changed.notify_one();
    }
}
