//! The accept loop, and what happens to a socket before HTTP begins.

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
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::dispatch::ConnectionDispatch;
use super::{plain_http_on_tls_port, sys};
use crate::FileServer;
use crate::connection::{
    ConnectionProtocol, ConnectionState, ServerSocket, ServerTransport, drive,
};
use crate::observe::ConnectionFault;

/// How long the loop pauses when the system has no descriptors left: a connection has to end first.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// What every connection gets.
#[derive(Debug, Clone)]
pub(super) struct ConnectionContext {
    pub(super) server: Arc<FileServer>,
    /// Bounds the number of connections.
    pub(super) permits: Arc<Semaphore>,
    /// Cancelled at shutdown: no more connections are accepted, and each ends after its current
    /// request.
    pub(super) stop: CancellationToken,
    /// Tracks the tasks of connections and of their HTTP/2 streams.
    pub(super) tasks: TaskTracker,
}

/// An accepted socket, not yet registered with a runtime.
#[derive(Debug)]
pub(super) enum AcceptedSocket {
    /// A TCP connection and its peer's address.
    Tcp(std::net::TcpStream, Option<SocketAddr>),
    /// A connection to a Unix socket; its peer has no address.
    Unix(std::os::unix::net::UnixStream),
}

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
        dispatch.dispatch((accepted, tls.clone(), permit));
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
                #[cfg(not(target_os = "linux"))]
                stream.set_nodelay(true)?;
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

/// Serves an accepted socket on the current runtime.
pub(super) async fn serve(
    accepted: AcceptedSocket,
    tls: Option<TlsAcceptor>,
    context: ConnectionContext,
    permit: OwnedSemaphorePermit,
) {
    let _permit = permit;
    match accepted {
        AcceptedSocket::Tcp(stream, peer) => {
            serve_stream(ServerSocket::<TcpStream>::new(stream), peer, tls, context).await;
        }
        AcceptedSocket::Unix(stream) => {
            serve_stream(ServerSocket::<UnixStream>::new(stream), None, tls, context).await;
        }
    }
}

async fn serve_stream<S: ServerTransport + 'static>(
    stream: S,
    peer: Option<SocketAddr>,
    tls: Option<TlsAcceptor>,
    context: ConnectionContext,
) {
    let _open = context.server.options.metrics.track_connection();
    match tls {
        // Boxed, so that a plain connection does not reserve the space that a TLS one needs.
        Some(tls) => Box::pin(serve_tls(stream, peer, tls, context)).await,
        None => {
            let ConnectionContext {
                server,
                stop,
                tasks,
                ..
            } = context;
            let connection = Arc::new(ConnectionState::new(server, peer, false, S::CAN_SENDFILE));
            drive(stream, ConnectionProtocol::Detect, connection, tasks, stop).await;
        }
    }
}

/// Performs the TLS handshake, then serves the connection.
async fn serve_tls<S: ServerTransport + 'static>(
    stream: S,
    peer: Option<SocketAddr>,
    tls: TlsAcceptor,
    context: ConnectionContext,
) {
    let ConnectionContext {
        server,
        stop,
        tasks,
        ..
    } = context;
    let timeout = server.options.timeouts.handshake;
    let metrics = &server.options.metrics;
    let stream = tokio::select! {
        () = stop.cancelled() => return,
        stream = tls_handshake(stream, tls) => match stream {
            Ok(Some(stream)) => stream,
            Ok(None) => {
                metrics.count_fault(ConnectionFault::TlsHandshake);
                tracing::debug!(?peer, "plain HTTP on a TLS port");
                return;
            }
            Err(error) => {
                metrics.count_fault(ConnectionFault::TlsHandshake);
                tracing::debug!(?peer, %error, "the TLS handshake failed");
                return;
            }
        },
        () = tokio::time::sleep(timeout), if !timeout.is_zero() => {
            metrics.count_fault(ConnectionFault::TlsTimeout);
            return;
        }
    };
    let protocol = match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => ConnectionProtocol::Http2,
        _ => ConnectionProtocol::Detect,
    };
    let connection = Arc::new(ConnectionState::new(server, peer, true, false));
    drive(stream, protocol, connection, tasks, stop).await;
}

/// Performs the TLS handshake. `None` means that the peer spoke plain HTTP and got a response that
/// says so.
async fn tls_handshake<S: ServerTransport>(
    mut stream: S,
    tls: TlsAcceptor,
) -> io::Result<Option<TlsStream<S>>> {
    if plain_http_on_tls_port::speaks_http(&mut stream).await? {
        plain_http_on_tls_port::send_https_hint(stream).await?;
        return Ok(None);
    }
    tls.accept(stream).await.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileServerOptions;
    use crate::store::{DiskThreads, FileStore, FileStoreOptions};

    /// Ten thousand idle connections must fit into a hundred megabytes; while idle they have no
    /// buffers, and little but this future (row D11).
    #[tokio::test]
    async fn d11_an_idle_connection_takes_little_memory() {
        let folder = tempfile::tempdir().expect("a directory");
        let store = FileStore::open(folder.path(), FileStoreOptions::default()).expect("a store");
        let disk = DiskThreads::new(tokio::runtime::Handle::current());
        let server = FileServer::new(Arc::new(store), disk, FileServerOptions::default());
        let context = ConnectionContext {
            server: Arc::new(server),
            permits: Arc::new(Semaphore::new(1)),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let permit = Arc::clone(&context.permits)
            .try_acquire_owned()
            .expect("room");
        let (_peer, stream) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let future = serve(AcceptedSocket::Unix(stream), None, context, permit);
        let size = size_of_val(&future);
        assert!(size <= 2560, "{size} bytes");
    }
}
