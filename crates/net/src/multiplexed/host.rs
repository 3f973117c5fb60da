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
use super::apart::Http2Ineligible;
use super::slot::{ConnectionReservation, StreamLease};
use crate::error::Error;
use crate::pool::REST;

/// Shared connections of a route. The second is for peers that take few requests at once; more would be what HTTP/2 is there
/// to avoid.
const MOST: usize = 2;

/// A limit that refusals have set is lifted by one when so many times as many requests were taken.
const PATIENCE: usize = 64;

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
    pub(super) lanes: Vec<PooledHttp2Connection>,
    /// How many lanes there may be; fewer for a peer that would not have another.
    pub(super) most: usize,
    /// How many requests the peer was seen to take on a connection, if that is fewer than it says.
    pub(super) limit: usize,
    /// Requests that were not refused since the limit was last moved.
    pub(super) welcome: usize,
    /// A connection that is being made.
    pub(super) flight: Option<Arc<PendingConnection>>,
    /// What the next lane is called.
    pub(super) next: u64,
}

/// A connection and who is on it.
#[derive(Debug)]
pub(super) struct PooledHttp2Connection {
    pub(super) name: u64,
    pub(super) connection: Arc<Http2Connection>,
    /// Requests that are on it.
    pub(super) busy: usize,
    /// When the last request left it.
    pub(super) since: Instant,
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
    Shared(StreamLease),
    /// Make one.
    Open(ConnectionReservation),
    /// Go over a connection of its own.
    Separate,
}

enum LeaseAttempt {
    Turn(StreamDecision),
    Wait(Option<Arc<PendingConnection>>),
}

impl Http2Host {
    pub(super) fn new() -> Self {
        let state = Http2HostState {
            separate: None,
            wait: None,
            lanes: Vec::new(),
            most: MOST,
            limit: usize::MAX,
            welcome: 0,
            flight: None,
            next: 0,
        };
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    /// Waits for a turn, or for the failure of whoever made a connection for all. Cancel safe.
    pub(crate) async fn turn(self: &Arc<Self>) -> Result<StreamDecision, Error> {
        loop {
            let mut changed = pin!(self.changed.notified());
            // From now on, so that what changes after the attempt is not missed.
            changed.as_mut().enable();
            let flight = match self.attempt() {
                LeaseAttempt::Turn(turn) => return Ok(turn),
                LeaseAttempt::Wait(flight) => flight,
            };
            changed.await;
            if let Some(failure) = flight.as_ref().and_then(|flight| flight.failure.get()) {
                return Err(failure.clone());
            }
        }
    }

    fn attempt(self: &Arc<Self>) -> LeaseAttempt {
        let mut closed = Vec::new();
        let mut state = self.lock();
        if state.separate.is_some() {
            return LeaseAttempt::Turn(StreamDecision::Separate);
        }
        state.clear(&mut closed);
        if let Some((lane, connection)) = state.board() {
            if state.has_room() {
                // One was told that there is room, and there is more.
                self.changed.notify_one();
            }
            return LeaseAttempt::Turn(StreamDecision::Shared(self.slot(lane, connection)));
        }
        if state.flight.is_none() && state.lanes.len() < state.most {
            let flight = Arc::new(PendingConnection::default());
            state.flight = Some(Arc::clone(&flight));
            return LeaseAttempt::Turn(StreamDecision::Open(ConnectionReservation::new(
                Arc::clone(self),
                flight,
            )));
        }
        if state.is_served_apart() {
            return LeaseAttempt::Turn(StreamDecision::Separate);
        }
        LeaseAttempt::Wait(state.flight.clone())
    }

    pub(super) fn slot(
        self: &Arc<Self>,
        lane: u64,
        connection: Arc<Http2Connection>,
    ) -> StreamLease {
        StreamLease::new(Arc::clone(self), lane, connection)
    }

    /// From now on each request goes over a connection of its own.
    pub(crate) fn separate(&self) {
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
    pub(crate) fn streams(&self) -> Option<usize> {
        let state = self.lock();
        let lane = state.lanes.first().filter(|_| state.separate.is_none())?;
        Some(state.most * lane.connection.streams())
    }

    /// Whether there is a connection, which may have no room.
    pub(crate) fn is_connected(&self) -> bool {
        !self.lock().lanes.is_empty()
    }

    /// Lanes that nobody is on, with the time since when. Those that have rested for too long are closed.
    pub(super) fn resting(&self) -> impl Iterator<Item = (Instant, u64)> {
        let mut closed = Vec::new();
        let mut state = self.lock();
        state.clear(&mut closed);
        let idle = state.lanes.iter().filter(|lane| lane.busy == 0);
        let idle: Vec<_> = idle.map(|lane| (lane.since, lane.name)).collect();
        drop(state);
        idle.into_iter()
    }

    /// Closes a lane, if nobody is on it.
    pub(super) fn close(&self, name: u64) {
        let mut state = self.lock();
        let at = state.lanes.iter().position(|lane| lane.name == name);
        let closed = at
            .filter(|at| state.lanes[*at].busy == 0)
            .map(|at| state.lanes.swap_remove(at));
        drop(state);
        drop(closed);
    }

    /// Whether nothing would be lost but what it has learnt.
    pub(super) fn is_empty(&self) -> bool {
        let state = self.lock();
        state.lanes.is_empty() && state.flight.is_none()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Http2HostState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Http2HostState {
    /// Takes out lanes that are closed, or have rested for too long; what is on them still goes on.
    fn clear(&mut self, closed: &mut Vec<PooledHttp2Connection>) {
        let is_over = |lane: &mut PooledHttp2Connection| {
            !lane.connection.is_open() || lane.busy == 0 && lane.since.elapsed() >= REST
        };
        closed.extend(self.lanes.extract_if(.., is_over));
    }

    /// Whether requests had connections of their own until the way turned out to be long: these go on until there is one to share.
    pub(super) fn is_served_apart(&self) -> bool {
        self.next == 0 && self.wait.is_some()
    }

    /// Lets a request on, where there is room.
    fn board(&mut self) -> Option<(u64, Arc<Http2Connection>)> {
        let limit = self.limit;
        let lane = self.lanes.iter_mut().find(|lane| lane.has_room(limit))?;
        lane.busy += 1;
        Some((lane.name, Arc::clone(&lane.connection)))
    }

    /// A request was not refused. A peer that takes few may do so for a while only: now and then it is tried with one more.
    pub(super) fn welcomed(&mut self) {
        self.welcome += 1;
        if self.limit < usize::MAX && self.welcome / PATIENCE >= self.limit {
            (self.limit, self.welcome) = (self.limit + 1, 0);
        }
    }

    fn has_room(&self) -> bool {
        self.lanes.iter().any(|lane| lane.has_room(self.limit))
    }
}

impl PooledHttp2Connection {
    fn has_room(&self, limit: usize) -> bool {
        self.busy < limit.min(self.connection.streams())
    }
}
