//! The admin endpoint: `/healthz` for load balancers, `/metrics` for Prometheus, and pages that its owner adds.
//!
//! It has a listener of its own, so that it answers when the server's own takes no more, and nobody outside sees it. It is
//! asked now and then by a few: a connection carries one request and has a few seconds for it, and there is a fixed number of them.
//! What is answered is in [`answer`].

mod answer;
mod listener;
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
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::FailureReports;
pub use answer::{AdminEndpoint, AdminPage};
pub use listener::AdminListener;
use listener::{AdminPeer, AdminStream};

/// Connections at once. Others wait to be accepted.
const MOST: usize = 16;

/// For a request's head.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// For a whole connection.
const WHOLE_TIME: Duration = Duration::from_secs(10);

/// For what runs when it is told to stop.
const GRACE: Duration = Duration::from_secs(1);

/// Before another try when the system has no descriptor for a connection.
const BREATH: Duration = Duration::from_millis(100);

/// Answers on `listener` until `stop` is cancelled, and then what was asked already. Dropped, it cuts everything off.
pub async fn serve_admin(
    listener: impl Into<AdminListener>,
    admin: Arc<AdminEndpoint>,
    stop: CancellationToken,
) {
    let listener = listener.into();
    let way = listener.way();
    let permits = Arc::new(Semaphore::new(MOST));
    let mut connections = JoinSet::new();
    let mut failing = FailureReports::default();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            // Those that have ended leave the set.
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &permits) => accepted,
        };
        let (stream, permit) = match accepted {
            Ok(accepted) => {
                failing.worked();
                accepted
            }
            Err(error) => {
                if failing.failed(1, Instant::now()) {
                    tracing::warn!(%error, "the admin endpoint cannot accept");
                }
                let _ = tokio::time::timeout(BREATH, stop.cancelled()).await;
                continue;
            }
        };
        let served = serve(stream, way, Arc::clone(&admin), stop.clone());
        connections.spawn(async move {
            // When its time is over it is cut off. Whoever asked sees that, and nobody else is concerned.
            let _ = tokio::time::timeout(WHOLE_TIME, served).await;
            drop(permit);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Accepts when there is a permit, and not before: what waits costs the kernel's backlog and nothing here.
async fn accept(
    listener: &AdminListener,
    permits: &Arc<Semaphore>,
) -> io::Result<(AdminStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await;
    let permit = permit.map_err(io::Error::other)?;
    let stream = listener.accept().await?;
    Ok((stream, permit))
}

/// Serves one request.
async fn serve(
    stream: AdminStream,
    way: AdminPeer,
    admin: Arc<AdminEndpoint>,
    stop: CancellationToken,
) {
    let service = service_fn(|request: Request<Incoming>| {
        let answer = Arc::clone(&admin).answer(way, request);
        async { Ok::<_, Infallible>(answer.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // Errors are of the peer's making: it went away, or does not speak HTTP.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(GRACE, connection).await;
}
