//! Connections as they come in, each given to a task of its own.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use haul_service::listen::Listener;
use haul_service::observe::FailureReports;
use tokio::net::{TcpListener, UnixListener};
use tokio::time::{Instant, timeout};

use super::{TunnelEngineState, TunnelListener};
use crate::active_connections::ActiveConnection;
use crate::record::TunnelOutcome;
use crate::relay::RelayStream;
use crate::session::{self, ClientAddress};

/// Before another try when the system has no descriptor for a connection.
const BREATH: Duration = Duration::from_millis(100);

/// A listener that the runtime watches.
#[derive(Debug)]
pub(super) enum PolledListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl PolledListener {
    pub(super) fn of(listener: Listener) -> io::Result<Self> {
        Ok(match listener {
            Listener::Tcp(listener) => Self::Tcp(TcpListener::from_std(listener)?),
            Listener::Unix(listener) => Self::Unix(UnixListener::from_std(listener)?),
        })
    }

    async fn accept(&self) -> io::Result<(RelayStream, ClientAddress)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Linux has it from the listener.
                #[cfg(not(target_os = "linux"))]
                let _ = stream.set_nodelay(true);
                Ok((RelayStream::Tcp(stream), ClientAddress::Tcp(peer)))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((RelayStream::Unix(stream), ClientAddress::Unix))
            }
        }
    }
}

/// Accepts until the door is closed.
pub(super) async fn accept(
    listener: PolledListener,
    door: Arc<TunnelListener>,
    shared: Arc<TunnelEngineState>,
) {
    let mut failing = FailureReports::default();
    loop {
        let accepted = tokio::select! {
            biased;
            () = door.closed().cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((client, peer)) => {
                failing.worked();
                begin(client, peer, &door, &shared);
            }
            // Of a connection that was gone before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                // It fails ten times a second, and may for hours.
                if failing.failed(1, Instant::now()) {
                    tracing::warn!(listener = %door.tunnel().name, %error, "cannot accept");
                }
                let _ = timeout(BREATH, door.closed().cancelled()).await;
            }
        }
    }
}

/// Has a connection served, if there is room for one.
fn begin(
    client: RelayStream,
    peer: ClientAddress,
    door: &TunnelListener,
    shared: &Arc<TunnelEngineState>,
) {
    let tunnel = door.tunnel();
    let entry = Arc::new(ActiveConnection::new(Arc::clone(&tunnel), peer));
    let Some(place) = shared.live.enter(&entry, shared.options.max_connections) else {
        client.reset_on_drop();
        return shared.refused(tunnel, peer);
    };
    client.keep_alive(tunnel.timeouts.keepalive);
    let shared_too = Arc::clone(shared);
    shared.tasks.spawn(async move {
        let outcome = tokio::select! {
            outcome = session::serve(client, &entry.tunnel, &entry) => outcome,
            () = shared_too.cutting.cancelled() => TunnelOutcome::Stopped,
        };
        shared_too.over(&entry, Some(place), &outcome);
    });
}
