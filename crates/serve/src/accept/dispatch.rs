//! Which thread serves an accepted connection: the one that accepted it, or each of several in
//! turn.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_rustls::TlsAcceptor;

use super::accept_loop::{AcceptedSocket, ConnectionContext, serve};
use crate::observe::ServeMetrics;

/// Connections that may queue for one of the threads that are served in turn.
pub(super) const DISPATCH_QUEUE: usize = 1024;

/// An accepted socket with its TLS acceptor and the permit that bounds the number of connections.
pub(super) type DispatchedConnection = (AcceptedSocket, Option<TlsAcceptor>, OwnedSemaphorePermit);

/// Hands accepted connections to a runtime.
pub(super) trait ConnectionDispatch {
    fn dispatch(&mut self, dealt: DispatchedConnection);
}

/// Serves a connection on the current runtime.
pub(super) fn spawn_connection(
    context: &ConnectionContext,
    (accepted, tls, permit): DispatchedConnection,
) {
    // Boxed, as a task's future is moved a few times before it is polled.
    let task = Box::pin(serve(accepted, tls, context.clone(), permit));
    context.tasks.spawn(task);
}

/// Connections live on the runtime that accepted them.
pub(super) struct LocalDispatch(pub(super) ConnectionContext);

impl ConnectionDispatch for LocalDispatch {
    fn dispatch(&mut self, dealt: DispatchedConnection) {
        spawn_connection(&self.0, dealt);
    }
}

/// Connections go to each thread in turn.
pub(super) struct RoundRobinDispatch {
    threads: Vec<mpsc::Sender<DispatchedConnection>>,
    /// Index of the next thread, modulo their number.
    next: usize,
    /// Counts connections that every thread was too busy for.
    metrics: Arc<ServeMetrics>,
}

impl RoundRobinDispatch {
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
        // A thread whose queue is full is skipped. When all are full the connection is dropped, and
        // its peer tries again.
        for _ in 0..self.threads.len() {
            let senders = &self.threads[self.next % self.threads.len()];
            self.next = self.next.wrapping_add(1);
            match senders.try_send(dealt) {
                Ok(()) => return,
                Err(
                    mpsc::error::TrySendError::Full(back) | mpsc::error::TrySendError::Closed(back),
                ) => dealt = back,
            }
        }
        self.metrics.count_refused_connection();
    }
}
