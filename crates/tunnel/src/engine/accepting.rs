//! Accepts connections, and gives each a task of its own.

use std::io;
use std::sync::Arc;

use haul_service::accept::{AcceptedSocket, Acceptor};
use tokio::net::{TcpStream, UnixStream};

use super::{TunnelEngineState, TunnelListener};
use crate::active_connections::ActiveConnection;
use crate::config::ClientAddress;
use crate::log_record::TunnelOutcome;
use crate::relay::RelayStream;
use crate::session;

/// Accepts until the listener is closed.
pub(super) async fn accept(
    mut acceptor: Acceptor,
    listener: Arc<TunnelListener>,
    engine: Arc<TunnelEngineState>,
) {
    loop {
        let socket = tokio::select! {
            biased;
            () = listener.closed().cancelled() => break,
            socket = acceptor.accept() => socket,
        };
        // Registering fails only without memory.
        if let Ok((client, address)) = registered(socket) {
            start(client, address, &listener, &engine);
        }
    }
}

fn registered(socket: AcceptedSocket) -> io::Result<(RelayStream, ClientAddress)> {
    Ok(match socket {
        AcceptedSocket::Tcp(stream, peer) => {
            let peer = peer.map_or_else(|| stream.peer_addr(), Ok)?;
            let stream = TcpStream::from_std(stream)?;
            (RelayStream::Tcp(stream), ClientAddress::Tcp(peer))
        }
        AcceptedSocket::Unix(stream) => {
            let stream = UnixStream::from_std(stream)?;
            (RelayStream::Unix(stream), ClientAddress::Unix)
        }
    })
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
