//! Connections as they come in, each given to a task of its own.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use haul_service::listen::Listener;
use haul_service::observe::Failing;
use tokio::net::{TcpListener, UnixListener};
use tokio::time::{Instant, timeout};

use super::{Door, Shared};
use crate::live::Entry;
use crate::record::Outcome;
use crate::relay::End;
use crate::session::{self, Peer};

/// Before another try when the system has no descriptor for a connection.
const BREATH: Duration = Duration::from_millis(100);

/// A listener that the runtime watches.
#[derive(Debug)]
pub(super) enum Watched {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Watched {
    pub(super) fn of(listener: Listener) -> io::Result<Self> {
        Ok(match listener {
            Listener::Tcp(listener) => Self::Tcp(TcpListener::from_std(listener)?),
            Listener::Unix(listener) => Self::Unix(UnixListener::from_std(listener)?),
        })
    }

    async fn accept(&self) -> io::Result<(End, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Linux has it from the listener.
                #[cfg(not(target_os = "linux"))]
                let _ = stream.set_nodelay(true);
                Ok((End::Tcp(stream), Peer::Tcp(peer)))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((End::Unix(stream), Peer::Unix))
            }
        }
    }
}

/// Accepts until the door is closed.
pub(super) async fn accept(listener: Watched, door: Arc<Door>, shared: Arc<Shared>) {
    let mut failing = Failing::default();
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
fn begin(client: End, peer: Peer, door: &Door, shared: &Arc<Shared>) {
    let tunnel = door.tunnel();
    let entry = Arc::new(Entry::new(Arc::clone(&tunnel), peer));
    let Some(place) = shared.live.enter(&entry, shared.options.max_connections) else {
        client.reset_on_drop();
        return shared.refused(tunnel, peer);
    };
    client.keep_alive(tunnel.options.keepalive);
    let shared_too = Arc::clone(shared);
    shared.tasks.spawn(async move {
        let outcome = tokio::select! {
            outcome = session::serve(client, &entry.tunnel, &entry) => outcome,
            () = shared_too.cutting.cancelled() => Outcome::Stopped,
        };
        shared_too.over(&entry, Some(place), &outcome);
    });
}
