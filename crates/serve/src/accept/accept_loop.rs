//! The accept loop.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use haul_net::is_descriptor_limit;
use haul_service::listen::Listener;
use rustix::net::{SocketFlags, accept_with, acceptfrom_with};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio_rustls::TlsAcceptor;

use super::dispatch::ConnectionDispatch;
use super::serve_connection::{AcceptedConnection, AcceptedSocket, ConnectionContext};
use super::sys;
use crate::FileServer;
use crate::observe::ConnectionFault;

/// How long the loop pauses when the system has no descriptors left: a connection has to end first.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Accepts connections until shutdown, on the current runtime.
pub(super) async fn accept_loop(
    listener: Listener,
    tls: Option<TlsAcceptor>,
    context: ConnectionContext,
    mut dispatch: impl ConnectionDispatch,
) -> io::Result<()> {
    let socket = sys::watch(listener)?;
    let mut stopped = pin!(context.stop.cancelled());
    let mut is_failing = false;
    loop {
        let accepted = tokio::select! {
            () = &mut stopped => return Ok(()),
            accepted = accept(&socket) => accepted,
        };
        let accepted = match accepted {
            Ok(accepted) => {
                is_failing = false;
                accepted
            }
            // The connection was gone before it was accepted.
            Err(error) if is_connection_error(&error) => continue,
            // Closing cached files that nobody reads frees descriptors for the connection.
            Err(error)
                if is_descriptor_limit(&error) && close_idle_files(&context.server).await =>
            {
                continue;
            }
            Err(error) => {
                context
                    .server
                    .options
                    .metrics
                    .count_fault(ConnectionFault::Accept);
                // The shortage may last long, so only its beginning is logged.
                if !std::mem::replace(&mut is_failing, true) {
                    tracing::warn!(%error, "cannot accept connections at the moment");
                }
                tokio::time::sleep(RETRY_DELAY).await;
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
            socket: accepted,
            tls: tls.clone(),
            permit,
        });
    }
}

/// Closes cached files that nobody reads. Returns whether there were any.
async fn close_idle_files(server: &FileServer) -> bool {
    let store = Arc::clone(&server.store);
    server.disk.run(move || store.close_idle_files()).await
}

/// Accepts a connection without registering it with this runtime: it may live on another one.
async fn accept(socket: &AsyncFd<Listener>) -> io::Result<AcceptedSocket> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket
        .async_io(Interest::READABLE, |listener| match listener {
            Listener::Tcp(listener) => {
                let (stream, peer) = acceptfrom_with(listener, flags)?;
                let stream = std::net::TcpStream::from(stream);
                let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                Ok(AcceptedSocket::Tcp(stream, peer))
            }
            Listener::Unix(listener) => {
                Ok(AcceptedSocket::Unix(accept_with(listener, flags)?.into()))
            }
        })
        .await
}

/// Whether an error concerns only the connection that was to be accepted, so that the next may be
/// fine (accept(2)).
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionReset, HostUnreachable, Interrupted, NetworkDown,
        NetworkUnreachable,
    };
    matches!(
        error.kind(),
        ConnectionAborted
            | ConnectionReset
            | Interrupted
            | NetworkDown
            | NetworkUnreachable
            | HostUnreachable
    )
}
