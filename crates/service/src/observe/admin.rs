//! The admin endpoint: `/healthz` for load balancers, `/metrics` for Prometheus, and pages that its server adds.
//!
//! It has a listener of its own, so that it responds when the server accepts no more, and strangers do not see it. A few clients
//! poll it: a connection carries one request within a few seconds, and the number of connections is limited. [`endpoint`] decides the
//! responses.

mod endpoint;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::accept::{AcceptedSocket, Acceptor};
pub use endpoint::{AdminEndpoint, AdminPage};

/// The maximum number of connections. More wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 16;

/// The time limit for a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// The time limit for a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit for running requests at shutdown.
const GRACE: Duration = Duration::from_secs(1);

trait AdminStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> AdminStream for T {}

/// Serves the endpoint until `stop` is cancelled; then finishes running requests. Dropping the future drops its connections.
pub async fn serve_admin(
    mut acceptor: Acceptor,
    endpoint: Arc<AdminEndpoint>,
    stop: CancellationToken,
) {
    let is_loopback = acceptor.is_loopback();
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let (socket, permit) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            // Connections that have ended leave the set.
            Some(_) = connections.join_next() => continue,
            Some(accepted) = accept(&mut acceptor, &permits) => accepted,
        };
        // Registering fails only without memory.
        let Ok(stream) = registered(socket) else {
            continue;
        };
        let served = serve(stream, is_loopback, Arc::clone(&endpoint), stop.clone());
        connections.spawn(async move {
            // A connection that takes longer is dropped: only its client is concerned, and sees it.
            let _ = tokio::time::timeout(CONNECTION_TIMEOUT, served).await;
            drop(permit);
        });
    }
    drop(acceptor);
    while connections.join_next().await.is_some() {}
}

/// Waits for a permit before it accepts: until then a connection costs only a place in the kernel's queue. The semaphore is never closed.
async fn accept(
    acceptor: &mut Acceptor,
    permits: &Arc<Semaphore>,
) -> Option<(AcceptedSocket, OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.ok()?;
    Some((acceptor.accept().await, permit))
}

/// Boxed: there are few connections.
fn registered(socket: AcceptedSocket) -> io::Result<Box<dyn AdminStream>> {
    Ok(match socket {
        AcceptedSocket::Tcp(stream, _) => Box::new(TcpStream::from_std(stream)?),
        AcceptedSocket::Unix(stream) => Box::new(UnixStream::from_std(stream)?),
    })
}

async fn serve(
    stream: Box<dyn AdminStream>,
    is_loopback: bool,
    endpoint: Arc<AdminEndpoint>,
    stop: CancellationToken,
) {
    let service = service_fn(|request: Request<Incoming>| {
        let response = Arc::clone(&endpoint).respond(is_loopback, request);
        async { Ok::<_, Infallible>(response.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // Errors are the client's doing: it left, or does not speak HTTP.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(GRACE, connection).await;
}
