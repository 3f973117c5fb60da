//! Which thread serves an accepted connection: the one that accepted it, or each of several in
//! turn.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::serve_connection::{AcceptedConnection, ConnectionContext, spawn_connection};
use crate::observe::ServeMetrics;

/// Connections that may queue for one of the threads that are served in turn.
pub(super) const DISPATCH_QUEUE: usize = 1024;

/// Hands accepted connections to a runtime.
pub(super) trait ConnectionDispatch {
    fn dispatch(&mut self, connection: AcceptedConnection);
}

/// Connections live on the runtime that accepted them.
pub(super) struct LocalDispatch(pub(super) ConnectionContext);

impl ConnectionDispatch for LocalDispatch {
    fn dispatch(&mut self, connection: AcceptedConnection) {
        spawn_connection(&self.0, connection);
    }
}

/// Connections go to each thread in turn.
pub(super) struct RoundRobinDispatch {
    threads: Vec<mpsc::Sender<AcceptedConnection>>,
    /// Index of the next thread, modulo their number.
    next: usize,
    /// Counts connections that every thread was too busy for.
    metrics: Arc<ServeMetrics>,
}

impl RoundRobinDispatch {
    pub(super) fn new(
        threads: Vec<mpsc::Sender<AcceptedConnection>>,
        metrics: Arc<ServeMetrics>,
    ) -> Self {
        Self {
            threads,
            next: 0,
            metrics,
        }
    }
}

impl ConnectionDispatch for RoundRobinDispatch {
    fn dispatch(&mut self, mut connection: AcceptedConnection) {
        // A thread whose queue is full is skipped. When all are full the connection is dropped, and
        // its peer tries again.
        for _ in 0..self.threads.len() {
            let thread = &self.threads[self.next % self.threads.len()];
            self.next = self.next.wrapping_add(1);
            match thread.try_send(connection) {
                Ok(()) => return,
                Err(
                    mpsc::error::TrySendError::Full(returned)
                    | mpsc::error::TrySendError::Closed(returned),
                ) => connection = returned,
            }
        }
        self.metrics.count_refused_connection();
    }
}
