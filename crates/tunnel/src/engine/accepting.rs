//! Accepts connections, and gives each a task of its own.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use haul_service::listen::Listener;
use haul_service::observe::FailureReports;
use tokio::net::{TcpListener, UnixListener};
use tokio::time::{Instant, timeout};

use super::{TunnelEngineState, TunnelListener};
use crate::active_connections::ActiveConnection;
use crate::config::ClientAddress;
use crate::log_record::TunnelOutcome;
use crate::relay::RelayStream;
use crate::session;

/// The pause before the next try when the system has no descriptor for a connection.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// A listening socket that the runtime watches.
#[derive(Debug)]
pub(super) enum PolledListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl PolledListener {
    pub(super) fn new(listener: Listener) -> io::Result<Self> {
        Ok(match listener {
            Listener::Tcp(listener) => Self::Tcp(TcpListener::from_std(listener)?),
            Listener::Unix(listener) => Self::Unix(UnixListener::from_std(listener)?),
        })
    }

    /// The next connection. TCP's have their options, TCP_NODELAY among them, from the listening socket.
    async fn accept(&self) -> io::Result<(RelayStream, ClientAddress)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((RelayStream::Tcp(stream), ClientAddress::Tcp(peer)))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((RelayStream::Unix(stream), ClientAddress::Unix))
            }
        }
    }
}

/// Accepts until the listener is closed.
pub(super) async fn accept(
    socket: PolledListener,
    listener: Arc<TunnelListener>,
    engine: Arc<TunnelEngineState>,
) {
    let mut failures = FailureReports::default();
    loop {
        let accepted = tokio::select! {
            biased;
            () = listener.closed().cancelled() => break,
            accepted = socket.accept() => accepted,
        };
        match accepted {
            Ok((client, address)) => {
                failures.worked();
                start(client, address, &listener, &engine);
            }
            // The client left before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                // It fails ten times a second, and may for hours: not every failure is reported.
                if failures.failed(1, Instant::now()) {
                    tracing::warn!(listener = %listener.config().name, %error, "cannot accept");
                }
                let _ = timeout(RETRY_DELAY, listener.closed().cancelled()).await;
            }
        }
    }
}

/// Starts the task of one connection, if there is room for it.
fn start(
    client: RelayStream,
    address: ClientAddress,
    listener: &TunnelListener,
    engine: &Arc<TunnelEngineState>,
) {
    let (config, replaced) = listener.current();
    let connection = Arc::new(ActiveConnection::new(config, address));
    let Some(guard) = engine.active.insert(&connection, engine.max_connections) else {
        client.reset_on_drop();
        let outcome = TunnelOutcome::TooManyConnections {
            limit: engine.max_connections,
            set_by: Arc::clone(&engine.max_connections_set_by),
        };
        return engine.log.record(&connection, &outcome);
    };
    client.keep_alive(connection.config.timeouts.keepalive);
    let engine_of_task = Arc::clone(engine);
    engine.tasks.spawn(async move {
        let outcome = tokio::select! {
            outcome = session::serve(client, &connection, &engine_of_task.log, replaced) => outcome,
            () = engine_of_task.cutting.cancelled() => TunnelOutcome::Stopped,
        };
        engine_of_task.log.record(&connection, &outcome);
        drop(guard);
    });
}
