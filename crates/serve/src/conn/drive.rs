//! One connection from its first byte to its last.
//!
//! A plain connection begins as HTTP/1.1; if its first bytes are HTTP/2's preface, hyper says so and it begins anew as that. Whoever drives it waits
//! for three things at once: the protocol, the moment at which the peer has been waited for long enough, and the server's end, at
//! which the request that is under way is still answered.
//!
//! A body that nobody wanted is still being sent when the answer goes out. Closing then would make the peer's system throw the answer
//! away, so the connection *lingers*: it says that nothing more will come, and what comes is read and dropped for a while.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::line::Line;
use super::transport::Transport;
use super::wire::Wire;
use crate::http::{Server, Service};

/// What an HTTP/2 connection begins with (RFC 9113 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long what comes after an answer is read and dropped.
const LINGER: Duration = Duration::from_secs(5);

/// Bytes of hyper's buffers for one connection: a head, or what is gathered of a body between two looks at it.
const BUFFER: usize = 256 << 10;

/// Which protocol was agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// None: it shows.
    Open,
    /// HTTP/2, by ALPN.
    Http2,
}

/// Runs the tasks of HTTP/2 streams, so that a server that ends waits for them.
#[derive(Debug, Clone)]
struct Streams(TaskTracker);

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, task: F) {
        self.0.spawn(task);
    }
}

/// Serves one connection.
pub(crate) async fn drive<S: Transport + 'static>(
    stream: S,
    protocol: Protocol,
    line: Arc<Line>,
    server: Arc<Server>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    let wire = Wire::new(stream, Arc::clone(&line), server.disk.clone());
    let service = Service::new(server, Arc::clone(&line));
    let ended = match protocol {
        Protocol::Open => first(wire, &line, service, &tasks, &stop).await,
        Protocol::Http2 => second(wire, &line, service, &tasks, &stop).await,
    };
    if let Err(error) = ended {
        tracing::debug!(peer = ?line.peer, error = &error as &dyn std::error::Error, "a connection ended early");
    }
}

/// HTTP/1.1.
async fn first<S: Transport + 'static>(
    wire: Wire<S>,
    line: &Line,
    service: Service,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> hyper::Result<()> {
    let mut connection = http1::Builder::new()
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(wire), service);
    let mut stopped = pin!(stop.cancelled());
    let mut is_ending = false;
    let ended = std::future::poll_fn(|cx| {
        if !is_ending && stopped.as_mut().poll(cx).is_ready() {
            is_ending = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        connection.poll_without_shutdown(cx)
    })
    .await;
    let parts = connection.into_parts();
    let mut wire = parts.io.into_inner();
    match ended {
        Err(error) if error.is_parse() && parts.read_buf.starts_with(PREFACE) => {
            wire.rewind(parts.read_buf);
            second(wire, line, parts.service, tasks, stop).await
        }
        Err(error) => Err(error),
        Ok(()) => {
            // Whatever is the matter now, the answers were given.
            let _ = leave(wire, line).await;
            Ok(())
        }
    }
}

/// Ends a connection so that its last answer arrives.
async fn leave<S: Transport>(mut wire: Wire<S>, line: &Line) -> io::Result<()> {
    wire.shutdown().await?;
    if line.may_have_more() {
        let mut buffer = vec![0; 16 << 10];
        let drained = async { while wire.read(&mut buffer).await? > 0 {} Ok(()) };
        return tokio::time::timeout(LINGER, drained).await.unwrap_or(Ok(()));
    }
    Ok(())
}

/// HTTP/2.
async fn second<S: Transport + 'static>(
    wire: Wire<S>,
    line: &Line,
    service: Service,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> hyper::Result<()> {
    line.watch().end();
    let mut connection = pin!(
        http2::Builder::new(Streams(tasks.clone()))
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(wire), service)
    );
    let mut stopped = pin!(stop.cancelled());
    let mut is_ending = false;
    std::future::poll_fn(|cx| {
        if !is_ending && stopped.as_mut().poll(cx).is_ready() {
            is_ending = true;
            connection.as_mut().graceful_shutdown();
        }
        match connection.as_mut().poll(cx) {
            Poll::Ready(ended) => Poll::Ready(ended),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
