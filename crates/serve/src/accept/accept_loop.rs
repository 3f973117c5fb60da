//! The loop that accepts, and what is done with a socket before HTTP begins.

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

/// How long accepting rests when the system can open no more: something else has to end first.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// What every connection gets.
#[derive(Debug, Clone)]
pub(super) struct ConnectionContext {
    /// What answers.
    pub(super) server: Arc<FileServer>,
    /// Connections that may be at one time.
    pub(super) permits: Arc<Semaphore>,
    /// Nothing more is accepted, connections end with their request.
    pub(super) stop: CancellationToken,
    /// Connections and their streams.
    pub(super) tasks: TaskTracker,
}

/// An accepted socket, tied to no runtime yet.
#[derive(Debug)]
pub(super) enum AcceptedSocket {
    /// And who is at the other end.
    Tcp(std::net::TcpStream, Option<SocketAddr>),
    /// Nobody knows who.
    Unix(std::os::unix::net::UnixStream),
}

/// Accepts until the end. Runs on the runtime that it is called on.
pub(super) async fn accept_loop(
    listener: Listener,
    tls: Option<TlsAcceptor>,
    context: ConnectionContext,
    mut deal: impl ConnectionDispatch,
) -> io::Result<()> {
    let socket = sys::watch(listener)?;
    let mut stopped = pin!(context.stop.cancelled());
    let mut is_short = false;
    loop {
        let accepted = tokio::select! {
            () = &mut stopped => return Ok(()),
            accepted = accept(&socket) => accepted,
        };
        let accepted = match accepted {
            Ok(accepted) => {
                is_short = false;
                accepted
            }
            // It was gone before it was taken.
            Err(error) if is_connection_error(&error) => continue,
            // Files that are kept open for others leave their descriptors to it.
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
                // It may go on for long: it is told when it begins.
                if !std::mem::replace(&mut is_short, true) {
                    tracing::warn!(%error, "no connection can be accepted just now");
                }
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            }
        };
        let permit = match Arc::clone(&context.permits).try_acquire_owned() {
            Ok(permit) => permit,
            // One that is too many waits here, and those behind it in the kernel's queue.
            Err(_) => tokio::select! {
                () = &mut stopped => return Ok(()),
                Ok(permit) = Arc::clone(&context.permits).acquire_owned() => permit,
                else => return Ok(()),
            },
        };
        deal.dispatch((accepted, tls.clone(), permit));
    }
}

/// Has files closed that nobody is reading; whether there were any.
async fn close_idle_files(server: &FileServer) -> bool {
    let store = Arc::clone(&server.store);
    server.disk.run(move || store.close_idle_files()).await
}

/// Accepts a connection without tying it to this runtime: that is for the one that it will live on.
async fn accept(socket: &AsyncFd<Listener>) -> io::Result<AcceptedSocket> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket
        .async_io(Interest::READABLE, |listener| match listener {
            Listener::Tcp(listener) => {
                let (stream, peer) = acceptfrom_with(listener, flags)?;
                let stream = std::net::TcpStream::from(stream);
                // Inherited on Linux alone.
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

/// Whether an error is of the one connection that was to be accepted, and the next may be fine (accept(2)).
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

/// Serves an accepted socket on the runtime that it is called on.
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
        // In boxes: each connection takes the room that its own kind needs.
        Some(tls) => Box::pin(serve_tls(stream, peer, tls, context)).await,
        None => {
            let ConnectionContext {
                server,
                stop,
                tasks,
                ..
            } = context;
            let line = Arc::new(ConnectionState::new(server, peer, false, S::SENDS_FILES));
            drive(stream, ConnectionProtocol::Open, line, tasks, stop).await;
        }
    }
}

/// Agrees on TLS, and serves what comes through it.
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
    let limit = server.options.timeouts.handshake;
    let metrics = &server.options.metrics;
    let stream = tokio::select! {
        () = stop.cancelled() => return,
        stream = tls_handshake(stream, tls) => match stream {
            Ok(Some(stream)) => stream,
            Ok(None) => {
                metrics.count_fault(ConnectionFault::TlsHandshake);
                tracing::debug!(?peer, "HTTP was spoken where TLS is");
                return;
            }
            Err(error) => {
                metrics.count_fault(ConnectionFault::TlsHandshake);
                tracing::debug!(?peer, %error, "no TLS was agreed on");
                return;
            }
        },
        () = tokio::time::sleep(limit), if !limit.is_zero() => {
            metrics.count_fault(ConnectionFault::TlsTimeout);
            return;
        }
    };
    let protocol = match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => ConnectionProtocol::Http2,
        _ => ConnectionProtocol::Open,
    };
    let line = Arc::new(ConnectionState::new(server, peer, true, false));
    drive(stream, protocol, line, tasks, stop).await;
}

/// The handshake. `None`: its peer speaks HTTP, and was told.
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

    /// Ten thousand idle connections are to fit into a hundred megabytes; at rest they have no buffers, and little but this (row D11).
    #[tokio::test]
    async fn d11_a_connection_takes_little_room() {
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
