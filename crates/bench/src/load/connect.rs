//! Connections: the lookup of the name, TCP and TLS, and the time of each. Sockets block a thread, or are tokio's; the streams above them are
//! the same.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::Errno;
use rustls::HandshakeKind;
use rustls::client::Resumption;
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::outcome::{ConnectTimes, LoadFailure};
use super::target::{LoadOrigin, OriginAddress};
use super::{LoadClient, LoadPlan, LoadProtocol};

/// The limit of all phases together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a socket blocks its thread before time limits and the end are looked at.
const BLOCKED_TIME: Duration = Duration::from_millis(50);

pub(super) trait LoadStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> LoadStream for T {}

/// Makes connections.
pub(super) struct LoadConnector {
    tls: TlsConnector,
    /// Whether sockets block their threads.
    is_blocking: bool,
    is_http2: bool,
}

impl LoadConnector {
    pub(super) fn new(plan: &LoadPlan) -> Self {
        let is_http2 = plan.protocol == LoadProtocol::Http2;
        let mut tls = rustls::ClientConfig::clone(&plan.tls);
        tls.alpn_protocols = vec![if is_http2 { "h2" } else { "http/1.1" }.into()];
        if plan.protocol != LoadProtocol::HttpsResumed {
            tls.resumption = Resumption::disabled();
        }
        Self {
            tls: TlsConnector::from(Arc::new(tls)),
            // HTTP/2 reads while it writes, so that a read must not block.
            is_blocking: plan.client == LoadClient::Threads && !is_http2,
            is_http2,
        }
    }

    pub(super) async fn connect(
        &self,
        origin: &LoadOrigin,
    ) -> Result<(Box<dyn LoadStream>, ConnectTimes), LoadFailure> {
        let connecting = async {
            let mut times = ConnectTimes::default();
            let begin = Instant::now();
            let addresses: Vec<SocketAddr> = match &origin.address {
                OriginAddress::Socket(address) => vec![*address],
                OriginAddress::Name(host, port) => {
                    let found = tokio::net::lookup_host((host.as_str(), *port)).await;
                    times.dns = begin.elapsed();
                    found.map_err(|_| LoadFailure::NameResolution)?.collect()
                }
            };
            let mut opened = Err(LoadFailure::NameResolution);
            for address in addresses {
                opened = self.open(address).await;
                if opened.is_ok() {
                    break;
                }
            }
            let stream = opened?;
            times.connect = begin.elapsed().saturating_sub(times.dns);
            let Some(name) = &origin.tls_name else {
                return Ok((stream, times));
            };
            let begin = Instant::now();
            let stream = self.tls.connect(name.clone(), stream).await?;
            times.tls = begin.elapsed();
            let connection = stream.get_ref().1;
            times.is_resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
            if self.is_http2 && connection.alpn_protocol() != Some(b"h2") {
                return Err(LoadFailure::NoHttp2);
            }
            let stream: Box<dyn LoadStream> = Box::new(stream);
            Ok((stream, times))
        };
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        connected.unwrap_or(Err(LoadFailure::Timeout))
    }

    async fn open(&self, address: SocketAddr) -> Result<Box<dyn LoadStream>, LoadFailure> {
        if self.is_blocking {
            return Ok(Box::new(BlockingStream::connect(address).await?));
        }
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }
}

/// A socket that blocks its thread for [`BLOCKED_TIME`] at most: after that, a poll is pending, and is repeated at once.
struct BlockingStream(Socket);

impl BlockingStream {
    async fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_tcp_nodelay(true)?;
        socket.set_read_timeout(Some(BLOCKED_TIME))?;
        // This one limits how long connect() blocks, too; repeated, it waits on for the same connection.
        socket.set_write_timeout(Some(BLOCKED_TIME))?;
        let address = address.into();
        std::future::poll_fn(|cx| poll_blocking(cx, || socket.connect(&address))).await?;
        Ok(Self(socket))
    }
}

/// Calls what may block. It is pending when it was blocked for as long as the socket allows.
fn poll_blocking<T>(
    cx: &mut Context<'_>,
    mut call: impl FnMut() -> io::Result<T>,
) -> Poll<io::Result<T>> {
    loop {
        match call() {
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::INTR) => {}
                Some(Errno::AGAIN | Errno::INPROGRESS | Errno::ALREADY) => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                _ => return Poll::Ready(Err(error)),
            },
            done => return Poll::Ready(done),
        }
    }
}

impl AsyncRead for BlockingStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let unfilled = buffer.initialize_unfilled();
        poll_blocking(cx, || (&self.0).read(unfilled)).map_ok(|count| buffer.advance(count))
    }
}

impl AsyncWrite for BlockingStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        poll_blocking(cx, || (&self.0).write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.shutdown(std::net::Shutdown::Write))
    }
}
