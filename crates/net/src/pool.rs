//! Connections at rest, by where they lead.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::connection::Connection;

/// A connection that rested longer than this is not used again: servers close theirs after five to seventy-five
/// seconds, and a request sent into a close costs more than a new connection.
const REST: Duration = Duration::from_secs(30);

/// Where a connection leads: requests with equal routes can share it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    /// Scheme, host and port of the origin; for absolute-form requests those of the proxy.
    pub(crate) peer: String,
    /// The proxy in between, with its login's user: two users never share a connection.
    pub(crate) proxy: Option<String>,
}

/// Connections at rest.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The last to come is the first to go: it is the least likely to have been closed.
    idle: Mutex<HashMap<Route, Vec<(Connection, Instant)>>>,
    /// How many are kept a route.
    limit: usize,
}

impl Pool {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            idle: Mutex::default(),
            limit,
        }
    }

    /// A connection that can take a request, if one rests.
    pub(crate) fn take(&self, route: &Route) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let resting = idle.get_mut(route)?;
        while let Some((mut connection, since)) = resting.pop() {
            if since.elapsed() < REST && connection.is_reusable() {
                return Some(connection);
            }
        }
        idle.remove(route);
        None
    }

    /// Lets a connection rest, if it can be used again and there is room.
    pub(crate) fn give(&self, route: Route, mut connection: Connection) {
        if !connection.is_reusable() {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let resting = idle.entry(route).or_default();
        resting.retain(|(_, since)| since.elapsed() < REST);
        if resting.len() < self.limit {
            resting.push((connection, Instant::now()));
        }
    }
}
