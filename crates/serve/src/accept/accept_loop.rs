//! The accept loop.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use haul_net::is_descriptor_limit;
use haul_service::accept::Acceptor;
use haul_service::listen::Listener;
use tokio_rustls::TlsAcceptor;

use super::dispatch::ConnectionDispatch;
use super::serve_connection::{AcceptedConnection, ConnectionContext};
use crate::FileServer;
use crate::observe::ConnectionFault;

/// Accepts connections until shutdown, on the current runtime.
pub(super) async fn accept_loop(
    listener: Listener,
    tls: Option<TlsAcceptor>,
    context: ConnectionContext,
    mut dispatch: impl ConnectionDispatch,
) -> io::Result<()> {
    let name = listener.local()?.to_string();
    let mut acceptor = Acceptor::new(listener, name)?;
    let mut stopped = pin!(context.stop.cancelled());
    loop {
        let accepted = tokio::select! {
            () = &mut stopped => return Ok(()),
            accepted = acceptor.try_accept() => accepted,
        };
        let socket = match accepted {
            Ok(socket) => socket,
            Err(error) => {
                if !free_descriptors(&context.server, &error).await {
                    acceptor.wait_after(&error).await;
                }
                continue;
            }
        };
        let permit = match Arc::clone(&context.permits).try_acquire_owned() {
            Ok(permit) => permit,
            // At the limit this connection waits here, and the following ones in the kernel's
            // queue.
            Err(_) => tokio::select! {
                () = &mut stopped => return Ok(()),
                Ok(permit) = Arc::clone(&context.permits).acquire_owned() => permit,
                else => return Ok(()),
            },
        };
        dispatch.dispatch(AcceptedConnection {
            socket,
            tls: tls.clone(),
            permit,
        });
    }
}

/// After an error of accept(2): closes cached files that nobody reads, which frees descriptors for the connection. Returns whether there were
/// any. Any other error is counted.
async fn free_descriptors(server: &FileServer, error: &io::Error) -> bool {
    if is_descriptor_limit(error) {
        let store = Arc::clone(&server.store);
        if server.disk.run(move || store.close_idle_files()).await {
            return true;
        }
    }
    server.options.metrics.count_fault(ConnectionFault::Accept);
    false
}
