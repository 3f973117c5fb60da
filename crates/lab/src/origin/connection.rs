//! Serves the connections of an origin: reads requests and writes responses.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::client_stream::ClientStream;
use super::response_writer::{AfterResponseAction, ResponseWriter};
use super::state::{OriginState, ServerRole};
use super::{OriginResponse, RecordedRequest};
use crate::bandwidth_limit::BandwidthLimit;
use crate::open_counter::OpenCounterGuard;
use crate::proxy::{ForwardedRequest, ForwardingProxyState};
use crate::running_listener::reset_on_close;

/// The longest request head that is read, in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Room for a read, in bytes: most heads fit.
const READ_BYTES: usize = 4 * 1024;

/// A connection among all of an origin.
struct ConnectionInfo {
    /// From 0 on.
    number: usize,
    open_guard: OpenCounterGuard,
}

/// The function that serves an accepted connection.
pub(super) fn serve_connections(
    tls: Option<Arc<ServerConfig>>,
    state: Arc<OriginState>,
) -> impl Fn(TcpStream) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + 'static {
    let tls = tls.map(TlsAcceptor::from);
    let count = AtomicUsize::new(0);
    move |stream| {
        let connection = ConnectionInfo {
            number: count.fetch_add(1, Ordering::Relaxed),
            open_guard: state.open_connections.open(),
        };
        let (tls, state) = (tls.clone(), Arc::clone(&state));
        Box::pin(async move {
            // The peer sees how it ends; nobody here needs the error.
            let _ = match tls {
                None => serve_requests(stream, &state, &connection).await,
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => serve_requests(stream, &state, &connection).await,
                    Err(error) => Err(error),
                },
            };
        })
    }
}

async fn serve_requests(
    mut stream: impl ClientStream,
    state: &OriginState,
    connection: &ConnectionInfo,
) -> io::Result<()> {
    let limit = state.rate_per_connection.map(BandwidthLimit::new);
    let limits: Vec<&BandwidthLimit> = limit.iter().chain(&state.total_rate).collect();
    let mut buffer = Vec::new();
    while let Some(head) = read_head(&mut stream, &mut buffer).await? {
        let active = state.active_requests.open();
        let (request, mut response, position) = match RecordedRequest::parse(&head) {
            Some(request) => state.respond(RecordedRequest {
                connection: connection.number,
                open_connections: connection.open_guard.count,
                active_requests: active.count,
                ..request
            }),
            None => return stream.write_all(&bad_request()).await,
        };
        let delay = state.latency + response.delay;
        if !wait_before_response(&mut stream, &mut buffer, delay).await? {
            return Ok(());
        }
        if let ServerRole::Proxy(proxy) = &state.role
            && ForwardingProxyState::is_forwarded(&request, &response)
        {
            let forwarded = ForwardedRequest {
                request,
                response,
                early_bytes: buffer,
            };
            return proxy.forward(stream, forwarded, &state.log, position).await;
        }
        if request.closes_connection() && response.header("connection").is_none() {
            response.set_header("Connection", "close");
        }
        let writer = ResponseWriter {
            limits: &limits,
            log: &state.log,
            position,
        };
        match writer.write(&mut stream, &request, &response).await? {
            AfterResponseAction::Keep => {}
            AfterResponseAction::Close => return stream.shutdown().await,
            AfterResponseAction::Reset => {
                reset_on_close(stream.socket());
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The response to a malformed request.
fn bad_request() -> Vec<u8> {
    let mut response = OriginResponse::empty(400);
    response.set_header("Connection", "close");
    response.head()
}

/// Reads up to the end of a head; bytes after it stay in the buffer. `None` at the end of the connection.
pub(crate) async fn read_head(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> io::Result<Option<String>> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = buffer.split_off(end + 4);
            let head = String::from_utf8_lossy(buffer).into_owned();
            *buffer = rest;
            return Ok(Some(head));
        }
        buffer.reserve(READ_BYTES);
        if buffer.len() > MAX_HEAD_BYTES || stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// Waits, and keeps the bytes that the client sends meanwhile. Returns whether the client has waited, too.
async fn wait_before_response(
    stream: &mut impl ClientStream,
    buffer: &mut Vec<u8>,
    time: Duration,
) -> io::Result<bool> {
    if time.is_zero() {
        return Ok(true);
    }
    let mut over = pin!(tokio::time::sleep(time));
    loop {
        buffer.reserve(READ_BYTES);
        tokio::select! {
            () = &mut over => return Ok(true),
            read = stream.read_buf(buffer), if buffer.len() <= MAX_HEAD_BYTES => if read? == 0 {
                return Ok(false);
            },
        }
    }
}
