//! What a request holds of its host: the duty to make a connection, or a place on one.

use std::sync::Arc;

use tokio::time::Instant;

use super::Http2Connection;
use super::apart::Http2Ineligible;
use super::host::{Http2Host, PendingConnection, PooledHttp2Connection};
use crate::error::Error;

/// The duty to make a connection, while others wait. Dropped, it is another's.
#[derive(Debug)]
pub(crate) struct ConnectionReservation {
    host: Arc<Http2Host>,
    flight: Arc<PendingConnection>,
}

impl ConnectionReservation {
    pub(super) fn new(host: Arc<Http2Host>, flight: Arc<PendingConnection>) -> Self {
        Self { host, flight }
    }

    /// What is being made is no shared connection. Where there is none, each request is to have its own.
    pub(crate) fn separate(self, why: Http2Ineligible) {
        let mut state = self.host.lock();
        if state.lanes.is_empty() {
            state.separate = Some(why);
        } else {
            state.most = state.lanes.len();
        }
    }

    /// It is there: others may come along. The place of whoever made it is taken.
    pub(crate) fn shared(self, connection: Http2Connection) -> StreamLease {
        let connection = Arc::new(connection);
        let mut state = self.host.lock();
        let name = state.next;
        state.next += 1;
        state.lanes.push(PooledHttp2Connection {
            name,
            connection: Arc::clone(&connection),
            busy: 1,
            since: Instant::now(),
        });
        drop(state);
        self.host.slot(name, connection)
    }

    /// It cannot be made. Where there is a connection already, there will be no other, and true is returned: that one is to be
    /// waited for. So it is where connections of one's own are known to do, which go on to be used. Else all who wait are told.
    pub(crate) fn failed(self, error: &Error) -> bool {
        let mut state = self.host.lock();
        if state.is_served_apart() {
            state.separate = Some(Http2Ineligible::Lasting);
            return true;
        }
        if state.lanes.is_empty() {
            let _ = self.flight.failure.set(error.clone());
            return false;
        }
        state.most = state.lanes.len();
        true
    }
}

impl Drop for ConnectionReservation {
    fn drop(&mut self) {
        self.host.lock().flight = None;
        self.host.changed.notify_waiters();
    }
}

/// A place on a shared connection, for one request and its answer.
#[derive(Debug)]
pub(crate) struct StreamLease {
    host: Arc<Http2Host>,
    lane: u64,
    connection: Arc<Http2Connection>,
    /// Whether the peer refused the request.
    refused: bool,
}

impl StreamLease {
    pub(super) fn new(host: Arc<Http2Host>, lane: u64, connection: Arc<Http2Connection>) -> Self {
        Self {
            host,
            lane,
            connection,
            refused: false,
        }
    }

    pub(crate) fn connection(&self) -> &Http2Connection {
        &self.connection
    }

    /// How many requests the peer takes at once, if all connections to it are like this one.
    pub(super) fn streams(&self) -> usize {
        self.host.lock().most * self.connection.streams()
    }

    /// The peer refused the request, though there was room by its own word: it takes no more than the others that are there.
    pub(crate) fn refuse(&mut self) {
        self.refused = true;
        let mut state = self.host.lock();
        let lane = state.lanes.iter().find(|lane| lane.name == self.lane);
        if let Some(others) = lane.map(|lane| lane.busy.saturating_sub(1)) {
            state.limit = state.limit.min(others).max(1);
            state.welcome = 0;
        }
    }

    /// Nothing came for this request for as long as the stall timeout. When nothing came for any other either, since `heard`
    /// heads and pieces had come, the connection is not trusted any more.
    pub(crate) fn stood_still(&self, heard: u64) {
        if self.connection.heard() == heard {
            self.connection.condemn();
        }
    }
}

impl Drop for StreamLease {
    fn drop(&mut self) {
        let mut state = self.host.lock();
        if let Some(lane) = state.lanes.iter_mut().find(|lane| lane.name == self.lane) {
            lane.busy -= 1;
            lane.since = Instant::now();
        }
        if !self.refused {
            state.welcomed();
        }
        drop(state);
        self.host.changed.notify_one();
    }
}
