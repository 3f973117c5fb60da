//! The shared connections of one route: who may go over which, and who makes a new one.
//!
//! While a connection is being made that may come to be shared, all others for the route wait for it: each would otherwise make
//! its own, for nothing. When it turns out that the origin has HTTP/1.1 alone, or is too near for anything else, they go on at
//! once, each for itself. A failure to connect is that of all who waited. One that was only thought to be near is found out by
//! how long its answers take; then nobody waits, for there are connections that go on.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Http2Connection;
use super::eligibility::Http2Ineligible;
use crate::error::Error;
use crate::http1::MAX_IDLE_TIME;

/// Shared connections of a route. The second is for peers that take few requests at once; more would be what HTTP/2 is there
/// to avoid.
const MAX_CONNECTIONS: usize = 2;

/// A limit that refusals have set is lifted by one when so many times as many requests were taken.
const ACCEPTED_PER_LIMIT_RAISE: usize = 64;

/// One route.
#[derive(Debug)]
pub(crate) struct Http2Host {
    state: Mutex<Http2HostState>,
    /// There is room, or a connection was made, or could not be.
    pub(super) changed: Notify,
}

#[derive(Debug)]
pub(super) struct Http2HostState {
    /// Whether each request goes over a connection of its own, and why.
    pub(super) separate: Option<Http2Ineligible>,
    /// The least that an answer has taken, where that showed that the way is longer than connecting told.
    pub(super) wait: Option<Duration>,
    pub(super) connections: Vec<PooledHttp2Connection>,
    /// How many lanes there may be; fewer for a peer that would not have another.
    pub(super) max_connections: usize,
    /// How many requests the peer was seen to take on a connection, if that is fewer than it says.
    pub(super) stream_limit: usize,
    /// Requests that were not refused since the limit was last moved.
    pub(super) accepted: usize,
    /// A connection that is being made.
    pub(super) pending: Option<Arc<PendingConnection>>,
    /// What the next lane is called.
    pub(super) next_id: u64,
}

/// A connection and who is on it.
#[derive(Debug)]
pub(super) struct PooledHttp2Connection {
    pub(super) id: u64,
    pub(super) connection: Arc<Http2Connection>,
    /// Requests that are on it.
    pub(super) active_streams: usize,
    /// When the last request left it.
    pub(super) idle_since: Instant,
}

/// A connection that is being made, as those see it who wait for it.
#[derive(Debug, Default)]
pub(super) struct PendingConnection {
    pub(super) failure: OnceLock<Error>,
}

/// What a request for a route is to do.
#[derive(Debug)]
pub(crate) enum StreamDecision {
    /// Go over a shared connection that is there.
    Send(StreamLease),
    /// Make one.
    Connect(ConnectionReservation),
    /// Go over a connection of its own.
    UseHttp1,
}

enum LeaseAttempt {
    Decided(StreamDecision),
    Wait(Option<Arc<PendingConnection>>),
}

impl Http2Host {
    pub(super) fn new() -> Self {
        let state = Http2HostState {
            separate: None,
            wait: None,
            connections: Vec::new(),
            max_connections: MAX_CONNECTIONS,
            stream_limit: usize::MAX,
            accepted: 0,
            pending: None,
            next_id: 0,
        };
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    /// Waits for a turn, or for the failure of whoever made a connection for all. Cancel safe.
    pub(crate) async fn lease(self: &Arc<Self>) -> Result<StreamDecision, Error> {
        loop {
            let mut changed = pin!(self.changed.notified());
            // From now on, so that what changes after the attempt is not missed.
            changed.as_mut().enable();
            let flight = match self.try_lease() {
                LeaseAttempt::Decided(turn) => return Ok(turn),
                LeaseAttempt::Wait(flight) => flight,
            };
            changed.await;
            if let Some(failure) = flight.as_ref().and_then(|flight| flight.failure.get()) {
                return Err(failure.clone());
            }
        }
    }

    fn try_lease(self: &Arc<Self>) -> LeaseAttempt {
        let mut closed = Vec::new();
        let mut state = self.lock();
        if state.separate.is_some() {
            return LeaseAttempt::Decided(StreamDecision::UseHttp1);
        }
        state.remove_closed(&mut closed);
        if let Some((lane, connection)) = state.add_stream() {
            if state.has_room() {
                // One was told that there is room, and there is more.
                self.changed.notify_one();
            }
            return LeaseAttempt::Decided(StreamDecision::Send(
                self.stream_lease(lane, connection),
            ));
        }
        if state.pending.is_none() && state.connections.len() < state.max_connections {
            let flight = Arc::new(PendingConnection::default());
            state.pending = Some(Arc::clone(&flight));
            return LeaseAttempt::Decided(StreamDecision::Connect(ConnectionReservation::new(
                Arc::clone(self),
                flight,
            )));
        }
        if state.is_served_apart() {
            return LeaseAttempt::Decided(StreamDecision::UseHttp1);
        }
        LeaseAttempt::Wait(state.pending.clone())
    }

    pub(super) fn stream_lease(
        self: &Arc<Self>,
        lane: u64,
        connection: Arc<Http2Connection>,
    ) -> StreamLease {
        StreamLease::new(Arc::clone(self), lane, connection)
    }

    /// From now on each request goes over a connection of its own.
    pub(crate) fn use_http1(&self) {
        self.lock().separate = Some(Http2Ineligible::Lasting);
        self.changed.notify_waiters();
    }

    /// A handshake for a connection of its own, or an answer over it, took so long. Where the quickest of many shows that the way is long,
    /// which `is_long` tells, the next request makes a connection to be shared.
    pub(crate) fn waited(&self, wait: Duration, is_long: impl Fn(Duration) -> bool) {
        let mut state = self.lock();
        let least = state.separate.as_mut().and_then(|apart| apart.waited(wait));
        if let Some(least) = least.filter(|least| is_long(*least)) {
            (state.separate, state.wait) = (None, Some(least));
        }
    }

    /// About a journey there and back, by what is known beside how long it took to connect.
    pub(crate) fn wait(&self) -> Duration {
        self.lock().wait.unwrap_or_default()
    }

    /// How many requests the peer takes at once, where there is a connection to share.
    pub(crate) fn max_streams(&self) -> Option<usize> {
        let state = self.lock();
        let lane = state
            .connections
            .first()
            .filter(|_| state.separate.is_none())?;
        Some(state.max_connections * lane.connection.max_streams())
    }

    /// Whether there is a connection, which may have no room.
    pub(crate) fn is_connected(&self) -> bool {
        !self.lock().connections.is_empty()
    }

    /// Lanes that nobody is on, with the time since when. Those that have rested for too long are closed.
    pub(super) fn idle_connections(&self) -> impl Iterator<Item = (Instant, u64)> {
        let mut closed = Vec::new();
        let mut state = self.lock();
        state.remove_closed(&mut closed);
        let idle = state
            .connections
            .iter()
            .filter(|lane| lane.active_streams == 0);
        let idle: Vec<_> = idle.map(|lane| (lane.idle_since, lane.id)).collect();
        drop(state);
        idle.into_iter()
    }

    /// Closes a lane, if nobody is on it.
    pub(super) fn close_idle(&self, name: u64) {
        let mut state = self.lock();
        let at = state.connections.iter().position(|lane| lane.id == name);
        let closed = at
            .filter(|at| state.connections[*at].active_streams == 0)
            .map(|at| state.connections.swap_remove(at));
        drop(state);
        drop(closed);
    }

    /// Whether nothing would be lost but what it has learnt.
    pub(super) fn has_no_connections(&self) -> bool {
        let state = self.lock();
        state.connections.is_empty() && state.pending.is_none()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Http2HostState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Http2HostState {
    /// Takes out lanes that are closed, or have rested for too long; what is on them still goes on.
    fn remove_closed(&mut self, closed: &mut Vec<PooledHttp2Connection>) {
        let is_over = |lane: &mut PooledHttp2Connection| {
            !lane.connection.is_open()
                || lane.active_streams == 0 && lane.idle_since.elapsed() >= MAX_IDLE_TIME
        };
        closed.extend(self.connections.extract_if(.., is_over));
    }

    /// Whether requests had connections of their own until the way turned out to be long: these go on until there is one to share.
    pub(super) fn is_served_apart(&self) -> bool {
        self.next_id == 0 && self.wait.is_some()
    }

    /// Lets a request on, where there is room.
    fn add_stream(&mut self) -> Option<(u64, Arc<Http2Connection>)> {
        let limit = self.stream_limit;
        let lane = self
            .connections
            .iter_mut()
            .find(|lane| lane.has_room(limit))?;
        lane.active_streams += 1;
        Some((lane.id, Arc::clone(&lane.connection)))
    }

    /// A request was not refused. A peer that takes few may do so for a while only: now and then it is tried with one more.
    pub(super) fn record_accepted(&mut self) {
        self.accepted += 1;
        if self.stream_limit < usize::MAX
            && self.accepted / ACCEPTED_PER_LIMIT_RAISE >= self.stream_limit
        {
            (self.stream_limit, self.accepted) = (self.stream_limit + 1, 0);
        }
    }

    fn has_room(&self) -> bool {
        self.connections
            .iter()
            .any(|lane| lane.has_room(self.stream_limit))
    }
}

impl PooledHttp2Connection {
    fn has_room(&self, limit: usize) -> bool {
        self.active_streams < limit.min(self.connection.max_streams())
    }
}

/// The duty to make a connection, while others wait. Dropped, it is another's.
#[derive(Debug)]
pub(crate) struct ConnectionReservation {
    host: Arc<Http2Host>,
    pending: Arc<PendingConnection>,
}

impl ConnectionReservation {
    pub(super) fn new(host: Arc<Http2Host>, pending: Arc<PendingConnection>) -> Self {
        Self { host, pending }
    }

    /// What is being made is no shared connection. Where there is none, each request is to have its own.
    pub(crate) fn use_http1(self, why: Http2Ineligible) {
        let mut state = self.host.lock();
        if state.connections.is_empty() {
            state.separate = Some(why);
        } else {
            state.max_connections = state.connections.len();
        }
    }

    /// It is there: others may come along. The place of whoever made it is taken.
    pub(crate) fn connected(self, connection: Http2Connection) -> StreamLease {
        let connection = Arc::new(connection);
        let mut state = self.host.lock();
        let name = state.next_id;
        state.next_id += 1;
        state.connections.push(PooledHttp2Connection {
            id: name,
            connection: Arc::clone(&connection),
            active_streams: 1,
            idle_since: Instant::now(),
        });
        drop(state);
        self.host.stream_lease(name, connection)
    }

    /// It cannot be made. Where there is a connection already, there will be no other, and true is returned: that one is to be
    /// waited for. So it is where connections of one's own are known to do, which go on to be used. Else all who wait are told.
    pub(crate) fn failed(self, error: &Error) -> bool {
        let mut state = self.host.lock();
        if state.is_served_apart() {
            state.separate = Some(Http2Ineligible::Lasting);
            return true;
        }
        if state.connections.is_empty() {
            let _ = self.pending.failure.set(error.clone());
            return false;
        }
        state.max_connections = state.connections.len();
        true
    }
}

impl Drop for ConnectionReservation {
    fn drop(&mut self) {
        self.host.lock().pending = None;
        self.host.changed.notify_waiters();
    }
}

/// A place on a shared connection, for one request and its answer.
#[derive(Debug)]
pub(crate) struct StreamLease {
    host: Arc<Http2Host>,
    connection_id: u64,
    connection: Arc<Http2Connection>,
    /// Whether the peer refused the request.
    is_refused: bool,
}

impl StreamLease {
    pub(super) fn new(
        host: Arc<Http2Host>,
        connection_id: u64,
        connection: Arc<Http2Connection>,
    ) -> Self {
        Self {
            host,
            connection_id,
            connection,
            is_refused: false,
        }
    }

    pub(crate) fn connection(&self) -> &Http2Connection {
        &self.connection
    }

    /// How many requests the peer takes at once, if all connections to it are like this one.
    pub(super) fn max_streams(&self) -> usize {
        self.host.lock().max_connections * self.connection.max_streams()
    }

    /// The peer refused the request, though there was room by its own word: it takes no more than the others that are there.
    pub(crate) fn record_refusal(&mut self) {
        self.is_refused = true;
        let mut state = self.host.lock();
        let lane = state
            .connections
            .iter()
            .find(|lane| lane.id == self.connection_id);
        if let Some(others) = lane.map(|lane| lane.active_streams.saturating_sub(1)) {
            state.stream_limit = state.stream_limit.min(others).max(1);
            state.accepted = 0;
        }
    }

    /// Nothing came for this request for as long as the stall timeout. When nothing came for any other either, since `activity`
    /// heads and pieces had come, the connection is not trusted any more.
    pub(crate) fn record_stall(&self, heard: u64) {
        if self.connection.activity() == heard {
            self.connection.drain();
        }
    }
}

impl Drop for StreamLease {
    fn drop(&mut self) {
        let mut state = self.host.lock();
        if let Some(lane) = state
            .connections
            .iter_mut()
            .find(|lane| lane.id == self.connection_id)
        {
            lane.active_streams -= 1;
            lane.idle_since = Instant::now();
        }
        if !self.is_refused {
            state.record_accepted();
        }
        drop(state);
        self.host.changed.notify_one();
    }
}
