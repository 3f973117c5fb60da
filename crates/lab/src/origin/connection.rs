//! Connections: reads requests, has them answered, goes on or ends.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::request_log::OpenCounterGuard;
use super::response_writer::{AfterResponse, ResponseWriter, write_response};
use super::state::OriginRoleState;
use super::{OriginResponse, OriginState, RecordedRequest};
use crate::bandwidth_limit::BandwidthLimit;
use crate::proxy::{ForwardedRequest, ForwardingProxyState};
use crate::running_listener::reset_on_close;

/// The longest request head that is read, in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Room for a read: most heads fit, in bytes.
const READ_BYTES: usize = 4 * 1024;

/// A stream to a client, whose socket can be reached beneath whatever is on top of it.
pub(crate) trait ClientStream: AsyncRead + AsyncWrite + Unpin + Send {
    /// The socket.
    fn socket(&self) -> &TcpStream;
}

impl ClientStream for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl ClientStream for TlsStream<TcpStream> {
    fn socket(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// A connection's place among all.
struct ConnectionInfo {
    /// From 0 on.
    number: usize,
    /// Counts it while it is there.
    open_guard: OpenCounterGuard,
}

/// What is done with a connection that was accepted.
pub(super) fn serve_connections(
    tls: Option<Arc<ServerConfig>>,
    state: Arc<OriginState>,
) -> impl Fn(TcpStream) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + Send + 'static {
    let tls = tls.map(TlsAcceptor::from);
    let count = AtomicUsize::new(0);
    move |stream| {
        let number = ConnectionInfo {
            number: count.fetch_add(1, Ordering::Relaxed),
            open_guard: state.open_connections.open(),
        };
        let (tls, state) = (tls.clone(), Arc::clone(&state));
        Box::pin(async move {
            // The peer sees how it ends; nobody here is to be told.
            let _ = match tls {
                None => serve_requests(stream, &state, &number).await,
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => serve_requests(stream, &state, &number).await,
                    Err(error) => Err(error),
                },
            };
        })
    }
}

async fn serve_requests(
    mut stream: impl ClientStream,
    state: &OriginState,
    number: &ConnectionInfo,
) -> io::Result<()> {
    let pace = state.rate_per_connection.map(BandwidthLimit::new);
    let paces: Vec<&BandwidthLimit> = pace.iter().chain(&state.total_rate).collect();
    let mut buffer = Vec::new();
    while let Some(head) = read_head(&mut stream, &mut buffer).await? {
        let (asked, mut reply, place) = match RecordedRequest::parse(&head) {
            Some(asked) => state.respond(RecordedRequest {
                connection: number.number,
                open_connections: number.open_guard.count,
                ..asked
            }),
            None => return stream.write_all(&bad_request()).await,
        };
        if !wait_before_response(&mut stream, &mut buffer, state.latency + reply.delay).await? {
            return Ok(());
        }
        if let OriginRoleState::Proxy(upstream) = &state.role
            && ForwardingProxyState::is_forwarded(&asked, &reply)
        {
            let passage = ForwardedRequest {
                request: asked,
                response: reply,
                early_bytes: buffer,
            };
            return upstream.forward(stream, passage, (&state.log, place)).await;
        }
        if asked.closes_connection() && reply.header("connection").is_none() {
            reply.set_header("Connection", "close");
        }
        let outlet = ResponseWriter {
            limits: &paces,
            log: &state.log,
            position: place,
        };
        match write_response(&mut stream, (&asked, &reply), outlet).await? {
            AfterResponse::Keep => {}
            AfterResponse::Close => return stream.shutdown().await,
            AfterResponse::Reset => {
                reset_on_close(stream.socket());
                return Ok(());
            }
        }
    }
    Ok(())
}

/// What a request that is none is answered with.
fn bad_request() -> Vec<u8> {
    let mut reply = OriginResponse::empty(400);
    reply.set_header("Connection", "close");
    reply.head()
}

/// Reads up to the end of a head; what came after it stays in the buffer. `None` at the end of the connection.
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

/// Waits, and tells whether the client did so too; what it sends meanwhile is kept.
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
