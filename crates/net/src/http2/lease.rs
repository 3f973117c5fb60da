//! What a request holds of its host: the duty to make a connection, or a place on one.

use std::sync::Arc;

use tokio::time::Instant;

use super::Http2Connection;
use super::eligibility::Http2Ineligible;
use super::host::{Http2Host, PendingConnection, PooledHttp2Connection};
use crate::error::Error;

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
