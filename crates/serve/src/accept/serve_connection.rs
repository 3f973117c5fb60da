//! Serves an accepted socket: performs the TLS handshake, if there is one, and drives the
//! connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use haul_service::accept::AcceptedSocket;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::plain_http_on_tls_port;
use crate::FileServer;
use crate::connection::{
    ConnectionProtocol, ConnectionState, ServerSocket, ServerTransport, drive,
};
use crate::observe::ConnectionFault;

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
    /// Tracks connections, to count them.
    pub(super) connections: TaskTracker,
}

impl ConnectionContext {
    /// The same, for the connections of another thread.
    pub(super) fn for_another_thread(&self) -> Self {
        Self {
            tasks: TaskTracker::new(),
            connections: TaskTracker::new(),
            ..self.clone()
        }
    }
}

/// An accepted socket with what it needs to be served.
pub(super) struct AcceptedConnection {
    pub(super) socket: AcceptedSocket,
    /// Present if the connection is encrypted.
    pub(super) tls: Option<TlsAcceptor>,
    /// Bounds the number of connections.
    pub(super) permit: OwnedSemaphorePermit,
}

/// Serves a connection on the current runtime.
pub(super) fn spawn_connection(context: &ConnectionContext, connection: AcceptedConnection) {
    // Boxed, as a task's future is moved a few times before it is polled.
    let task = Box::pin(serve(connection, context.clone()));
    context.tasks.spawn(context.connections.track_future(task));
}

async fn serve(connection: AcceptedConnection, context: ConnectionContext) {
    let AcceptedConnection {
        socket,
        tls,
        permit: _permit,
    } = connection;
    match socket {
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
            let connection = Arc::new(ConnectionState::new(
                server,
                tasks,
                peer,
                false,
                S::CAN_SENDFILE,
            ));
            drive(stream, ConnectionProtocol::Detect, connection, stop).await;
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
    let connection = Arc::new(ConnectionState::new(server, tasks, peer, true, false));
    drive(stream, protocol, connection, stop).await;
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
            connections: TaskTracker::new(),
        };
        let permit = Arc::clone(&context.permits)
            .try_acquire_owned()
            .expect("room");
        let (_peer, stream) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let connection = AcceptedConnection {
            socket: AcceptedSocket::Unix(stream),
            tls: None,
            permit,
        };
        let future = serve(connection, context);
        let size = size_of_val(&future);
        assert!(size <= 2560, "{size} bytes");
    }
}
