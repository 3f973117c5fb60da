//! Where a connection lives after it was accepted: on the same thread, or on each of several in turn.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_rustls::TlsAcceptor;

use super::accept_loop::{AcceptedSocket, ConnectionContext, serve};
use crate::observe::ServeMetrics;

/// Connections that may wait for one thread of those that they are dealt to.
pub(super) const DISPATCH_QUEUE: usize = 1024;

/// A connection, what it is met with, and its right to be.
pub(super) type DispatchedConnection = (AcceptedSocket, Option<TlsAcceptor>, OwnedSemaphorePermit);

/// Where a connection goes.
pub(super) trait ConnectionDispatch {
    /// Takes a connection.
    fn dispatch(&mut self, dealt: DispatchedConnection);
}

/// Serves a connection on the runtime that this is called on.
pub(super) fn spawn_connection(
    context: &ConnectionContext,
    (accepted, tls, permit): DispatchedConnection,
) {
    // In a box, as a task's future is moved a few times before it is polled.
    let serving = Box::pin(serve(accepted, tls, context.clone(), permit));
    context.tasks.spawn(serving);
}

/// Connections live where they were accepted.
pub(super) struct LocalDispatch(pub(super) ConnectionContext);

impl ConnectionDispatch for LocalDispatch {
    fn dispatch(&mut self, dealt: DispatchedConnection) {
        spawn_connection(&self.0, dealt);
    }
}

/// Connections go to each thread in turn.
pub(super) struct RoundRobinDispatch {
    /// The threads.
    threads: Vec<mpsc::Sender<DispatchedConnection>>,
    /// Whose turn it is, of as many as there are.
    next: usize,
    /// Counts those that nobody had room for.
    metrics: Arc<ServeMetrics>,
}

impl RoundRobinDispatch {
    /// Deals to these.
    pub(super) fn new(
        threads: Vec<mpsc::Sender<DispatchedConnection>>,
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
    fn dispatch(&mut self, mut dealt: DispatchedConnection) {
        // A thread that has no room is passed over; where none has any, the connection is dropped: its peer tries again.
        for _ in 0..self.threads.len() {
            let to = &self.threads[self.next % self.threads.len()];
            self.next = self.next.wrapping_add(1);
            match to.try_send(dealt) {
                Ok(()) => return,
                Err(
                    mpsc::error::TrySendError::Full(back) | mpsc::error::TrySendError::Closed(back),
                ) => dealt = back,
            }
        }
        self.metrics.count_refused_connection();
    }
}
