//! Drives one connection from its first byte to its last.
//!
//! A plain connection begins as HTTP/1.1. If its first bytes are HTTP/2's preface, hyper reports an
//! error, and the connection begins again as HTTP/2 (`http2`). The driver waits for three events at
//! once: the protocol's end, a timeout, and the shutdown of the server, after which the current
//! request still gets its response.
//!
//! A connection may end while the client is still sending a body that the server did not want.
//! Closing the socket then would make the client's system discard the response. So the connection
//! *lingers*: the server closes its sending half, then reads and drops what it receives for a
//! while.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use super::counted_io::{CountedIo, HTTP2_PREFACE};
use super::exchange_record::log_malformed_request;
use super::peer_timeouts::TimeoutKind;
use super::socket::ServerTransport;
use super::state::ConnectionState;
use super::timeouts::{ConnectionTimer, ConnectionTimerAction};
use crate::http::ConnectionService;
use crate::observe::ConnectionFault;

/// How long a connection is idle before it is parked: longer than the pauses of an active client,
/// as a new `http1::Connection` costs some microseconds.
const PARK_AFTER: Duration = Duration::from_millis(100);

/// Maximum bytes of hyper's buffers: a head, or what is read of a body at once.
const MAX_BUFFER: usize = 512 << 10;

/// Maximum bytes of a head: more than any proxy forwards.
pub(super) const MAX_HEAD: usize = 64 << 10;

/// How long a closing connection reads and drops what it receives.
const LINGER_TIME: Duration = Duration::from_secs(5);

/// The same during a shutdown.
pub(super) const SHUTDOWN_LINGER_TIME: Duration = Duration::from_millis(500);

/// How long the response to a late head may take to be written; it fits into a socket buffer.
const WRITE_TIMEOUT: Duration = Duration::from_millis(500);

/// The response to a request whose head is late (RFC 9110 15.5.9): hyper knows of no request yet
/// and writes nothing. No other response is being sent then. The service responds to late bodies.
const HEAD_TIMEOUT_RESPONSE: &[u8] = b"HTTP/1.1 408 Request Timeout\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 47\r\n\
    connection: close\r\n\
    \r\n\
    the head of the request did not arrive in time\n";

/// The protocol that the TLS handshake has negotiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionProtocol {
    /// None, or HTTP/1.1: the first bytes decide.
    Detect,
    /// HTTP/2, by ALPN.
    Http2,
}

pub(crate) async fn drive<S: ServerTransport + 'static>(
    stream: S,
    protocol: ConnectionProtocol,
    connection: Arc<ConnectionState>,
    stop: CancellationToken,
) {
    // Declared before the driver's future, so that it is dropped after it.
    let end_guard = ConnectionEndGuard(Arc::clone(&connection));
    let io = CountedIo::new(stream, Arc::clone(&connection));
    let service = ConnectionService::new(Arc::clone(&connection));
    let driver = ServerConnectionDriver {
        connection: Arc::clone(&connection),
        stop,
    };
    let result = match protocol {
        ConnectionProtocol::Detect => driver.serve_http1(io, service).await,
        ConnectionProtocol::Http2 => Box::pin(driver.serve_http2(io, service)).await,
    };
    drop(end_guard);
    if let Err(early) = result {
        report(&connection, &early);
    }
}

/// Records the exchanges of a connection that ends: what was not flushed by then never will be.
struct ConnectionEndGuard(Arc<ConnectionState>);

impl Drop for ConnectionEndGuard {
    fn drop(&mut self) {
        self.0.record_unflushed(true);
    }
}

pub(super) enum EarlyClose {
    /// The client took too long.
    TimedOut(TimeoutKind),
    /// The connection failed, or the client did not speak HTTP.
    Failed(hyper::Error),
}

/// Counts and logs the early end of a connection.
fn report(connection: &ConnectionState, early: &EarlyClose) {
    let (peer, metrics) = (connection.peer, &connection.server.options.metrics);
    match early {
        EarlyClose::TimedOut(kind) => {
            metrics.count_fault(fault_for_timeout(*kind));
            tracing::debug!(?peer, timeout = %kind, "a connection timed out");
        }
        EarlyClose::Failed(error) => {
            metrics.count_fault(if error.is_parse() {
                ConnectionFault::Protocol
            } else {
                ConnectionFault::Io
            });
            let error = error as &dyn std::error::Error;
            tracing::debug!(?peer, error, "a connection ended early");
        }
    }
}

fn fault_for_timeout(kind: TimeoutKind) -> ConnectionFault {
    match kind {
        TimeoutKind::Handshake => ConnectionFault::TlsTimeout,
        TimeoutKind::RequestHead => ConnectionFault::HeadTimeout,
        TimeoutKind::Idle => ConnectionFault::IdleTimeout,
        TimeoutKind::SlowBody => ConnectionFault::BodyTimeout,
        TimeoutKind::SlowReader => ConnectionFault::SendTimeout,
    }
}

/// How polling ended.
pub(super) enum ConnectionPollOutcome {
    Done,
    /// The connection has been idle for a while.
    Idle,
}

/// What is being polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionPollMode {
    Http1,
    /// An HTTP/1.1 connection that hyper does not have.
    Parked,
    Http2,
}

/// How the wait of a parked connection ended.
enum ParkedConnectionOutcome {
    /// Something has been received: bytes, the end, or an error, which hyper will read.
    Readable,
    /// The server shuts down.
    Stopped,
    Failed(EarlyClose),
}

pub(super) struct ServerConnectionDriver {
    pub(super) connection: Arc<ConnectionState>,
    /// Cancelled when the connection must end after its current request.
    pub(super) stop: CancellationToken,
}

impl ServerConnectionDriver {
    /// Serves HTTP/1.1.
    ///
    /// hyper keeps two buffers of eight kilobytes for a connection, even if it is idle. So a
    /// connection that has been idle for a while is parked: taken from hyper, and returned when
    /// bytes are received.
    async fn serve_http1<S: ServerTransport + 'static>(
        &self,
        mut io: CountedIo<S>,
        mut service: ConnectionService,
    ) -> Result<(), EarlyClose> {
        loop {
            let mut http1 = http1::Builder::new()
                .max_buf_size(MAX_BUFFER)
                .max_header_size(MAX_HEAD)
                // A client that closes its sending half still wants the response.
                .half_close(true)
                .serve_connection(TokioIo::new(io), service);
            let outcome = self
                .run(ConnectionPollMode::Http1, |cx, must_stop| {
                    if must_stop {
                        Pin::new(&mut http1).graceful_shutdown();
                    }
                    http1.poll_without_shutdown(cx)
                })
                .await;
            let parts = http1.into_parts();
            (io, service) = (parts.io.into_inner(), parts.service);
            let Ok(ConnectionPollOutcome::Idle) = outcome else {
                return self.close_http1(io, service, outcome, parts.read_buf).await;
            };
            io.rewind(skip_empty_lines(parts.read_buf));
            io.end_pauses();
            self.connection.responses.shrink();
            self.connection.server.count_idle_release();
            let result = match Box::pin(self.park(&mut io)).await {
                ParkedConnectionOutcome::Readable => continue,
                ParkedConnectionOutcome::Stopped => Ok(()),
                ParkedConnectionOutcome::Failed(early) => Err(early),
            };
            let _ = Box::pin(self.close(io, false)).await;
            return result;
        }
    }

    /// Closes a connection that hyper is done with, or begins HTTP/2 on it.
    async fn close_http1<S: ServerTransport + 'static>(
        &self,
        mut io: CountedIo<S>,
        service: ConnectionService,
        outcome: Result<ConnectionPollOutcome, EarlyClose>,
        unread: Bytes,
    ) -> Result<(), EarlyClose> {
        let connection = &*self.connection;
        let log =
            |status| log_malformed_request(&connection.server.options, connection.peer, status);
        // Boxed, as most connections need none of this: it must not enlarge their future.
        match outcome {
            Err(EarlyClose::Failed(error))
                if error.is_parse()
                    && unread.starts_with(HTTP2_PREFACE)
                    && connection.requests.is_at_start() =>
            {
                io.rewind(unread);
                Box::pin(self.serve_http2(io, service)).await
            }
            // hyper has refused the request with a response.
            Err(EarlyClose::Failed(error)) if error.is_parse() => {
                log(if error.is_parse_too_large() {
                    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
                } else {
                    StatusCode::BAD_REQUEST
                });
                let _ = Box::pin(self.close(io, true)).await;
                Err(EarlyClose::Failed(error))
            }
            // A clean close: a client that kept the connection must not see an attack on TLS.
            Err(early @ EarlyClose::TimedOut(TimeoutKind::Idle)) => {
                let _ = Box::pin(self.close(io, false)).await;
                Err(early)
            }
            Err(early @ EarlyClose::TimedOut(TimeoutKind::RequestHead)) => {
                log(StatusCode::REQUEST_TIMEOUT);
                let _ = Box::pin(self.close_late_head(io)).await;
                Err(early)
            }
            Err(early) => Err(early),
            Ok(_) => {
                // The responses have been given, so a failure now changes nothing.
                let may_receive = connection.requests.is_body_pending() && !io.has_ended();
                let _ = Box::pin(self.close(io, may_receive)).await;
                Ok(())
            }
        }
    }

    /// Waits until something is received on an idle connection.
    async fn park<S: ServerTransport>(&self, io: &mut CountedIo<S>) -> ParkedConnectionOutcome {
        let mut stopped = pin!(self.stop.cancelled());
        let run = self.run(ConnectionPollMode::Parked, |cx, _| {
            if stopped.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            io.poll_readable(cx).map(|_| Ok(()))
        });
        match run.await {
            Ok(_) if self.stop.is_cancelled() => ParkedConnectionOutcome::Stopped,
            Ok(_) => ParkedConnectionOutcome::Readable,
            Err(early) => ParkedConnectionOutcome::Failed(early),
        }
    }

    /// Polls a protocol until it is done, has timed out or has been idle for a while.
    /// `poll_protocol` learns by its second argument, once, that it must end after the current
    /// requests.
    pub(super) async fn run(
        &self,
        mode: ConnectionPollMode,
        mut poll_protocol: impl FnMut(&mut Context<'_>, bool) -> Poll<hyper::Result<()>>,
    ) -> Result<ConnectionPollOutcome, EarlyClose> {
        let sleep = pin!(tokio::time::sleep(Duration::ZERO));
        let mut timer = ConnectionTimer::new(
            Arc::clone(&self.connection.timeouts),
            (mode == ConnectionPollMode::Http1).then_some(PARK_AFTER),
            mode == ConnectionPollMode::Http2,
            sleep,
        );
        let mut stopped = pin!(self.stop.cancelled());
        let mut is_stopping = false;
        std::future::poll_fn(move |cx| {
            let must_stop = !is_stopping && stopped.as_mut().poll(cx).is_ready();
            is_stopping |= must_stop;
            let mut polled = poll_protocol(cx, must_stop);
            while polled.is_pending() {
                match timer.poll(cx) {
                    ConnectionTimerAction::Wait => return Poll::Pending,
                    ConnectionTimerAction::Park => {
                        return Poll::Ready(Ok(ConnectionPollOutcome::Idle));
                    }
                    ConnectionTimerAction::CheckUnsent => {
                        self.connection.responses.request_unsent();
                    }
                    ConnectionTimerAction::Expire(kind) => {
                        if !self.can_respond_to(kind, mode) {
                            return Poll::Ready(Err(EarlyClose::TimedOut(kind)));
                        }
                        let metrics = &self.connection.server.options.metrics;
                        metrics.count_fault(fault_for_timeout(kind));
                    }
                }
                polled = poll_protocol(cx, false);
            }
            polled.map(|result| {
                result
                    .map(|()| ConnectionPollOutcome::Done)
                    .map_err(EarlyClose::Failed)
            })
        })
        .await
    }

    /// Notes that a timeout has expired. Returns whether the client can still get a response:
    /// reading a slow body then fails, and the service responds. Over HTTP/2 the whole connection
    /// is slow, and not a single body.
    fn can_respond_to(&self, kind: TimeoutKind, mode: ConnectionPollMode) -> bool {
        let is_first = self.connection.timeouts.expire();
        is_first && kind == TimeoutKind::SlowBody && mode == ConnectionPollMode::Http1
    }

    /// Responds to a late head, and closes the connection.
    async fn close_late_head<S: ServerTransport>(&self, mut io: CountedIo<S>) -> io::Result<()> {
        tokio::time::timeout(WRITE_TIMEOUT, io.write_all(HEAD_TIMEOUT_RESPONSE)).await??;
        self.close(io, false).await
    }

    /// Closes a connection so that its last response arrives. Lingers if the client may still be
    /// sending.
    pub(super) async fn close<S: ServerTransport>(
        &self,
        mut io: CountedIo<S>,
        may_receive: bool,
    ) -> io::Result<()> {
        // Received bytes are dropped from here on.
        self.connection.requests.stop();
        let deadline = tokio::time::Instant::now() + LINGER_TIME;
        // Closing a plain socket ends the stream by itself, without this call.
        if may_receive || S::HAS_CLOSE_MESSAGE {
            // The client may not read, and then there is no room for the close message.
            tokio::time::timeout_at(deadline, io.shutdown()).await??;
        }
        if !may_receive {
            return Ok(());
        }
        let mut buffer = vec![0; 16 << 10];
        let drained = async {
            while io.read(&mut buffer).await? > 0 {}
            Ok(())
        };
        let shutdown = async {
            self.stop.cancelled().await;
            tokio::time::sleep(SHUTDOWN_LINGER_TIME).await;
        };
        tokio::select! {
            drained = drained => drained,
            () = tokio::time::sleep_until(deadline) => Ok(()),
            () = shutdown => Ok(()),
        }
    }
}

/// Removes the empty lines before a request, which mean nothing (RFC 9112 2.2): they would wake the
/// connection in vain.
fn skip_empty_lines(mut bytes: Bytes) -> Bytes {
    let empty = bytes
        .iter()
        .take_while(|byte| b"\r\n".contains(byte))
        .count();
    bytes.split_off(empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_length_is_right() {
        let text = std::str::from_utf8(HEAD_TIMEOUT_RESPONSE).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())));
    }
}
