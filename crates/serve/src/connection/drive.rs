//! One connection from its first byte to its last.
//!
//! A plain connection begins as HTTP/1.1; if its first bytes are HTTP/2's preface, hyper says so and it begins anew as that (`second`). Whoever drives it waits
//! for three things at once: the protocol, the moment at which the peer has been waited for long enough, and the server's end, at
//! which the request that is under way is still answered.
//! How a connection ends is in `ending`, what of all that is HTTP/2's in `second`.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use haul_plan::serving::TimeoutKind;
use http::StatusCode;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::exchange::log_unreadable;
use super::line::ConnectionState;
use super::minder::{ConnectionTimer, ConnectionTimerAction};
use super::transport::ServerTransport;
use super::wire::CountedIo;
use crate::http::ConnectionService;
use crate::observe::ConnectionFault;

/// What an HTTP/2 connection begins with (RFC 9113 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long a connection is idle before it is taken from hyper: rarely that of one whose peer is at work, as giving it back costs
/// some microseconds.
const IDLE: Duration = Duration::from_millis(100);

/// Bytes of hyper's buffers for one connection: a head, or what is gathered of a body between two looks at it.
const BUFFER: usize = 512 << 10;

/// Bytes of the longest head: more than any proxy passes on.
pub(super) const HEAD: usize = 64 << 10;

/// Which protocol was agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionProtocol {
    /// None: it shows.
    Open,
    /// HTTP/2, by ALPN.
    Http2,
}

/// Serves one connection. Its [`ConnectionState`] says by which server.
pub(crate) async fn drive<S: ServerTransport + 'static>(
    stream: S,
    protocol: ConnectionProtocol,
    line: Arc<ConnectionState>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    let wire = CountedIo::new(stream, Arc::clone(&line), line.server.disk.clone());
    let service = ConnectionService::new(Arc::clone(&line));
    // Before what is polled, so that it is dropped behind it.
    let over = line.over_at_end();
    let driver = ServerConnection {
        line: Arc::clone(&line),
        tasks,
        stop,
    };
    let ended = match protocol {
        ConnectionProtocol::Open => driver.first(wire, service).await,
        ConnectionProtocol::Http2 => Box::pin(driver.second(wire, service)).await,
    };
    drop(over);
    let (peer, metrics) = (line.peer, &line.server.options.metrics);
    match ended {
        Ok(()) => {}
        Err(EarlyClose::Tired(tired)) => {
            metrics.count_fault(fault_of(tired));
            tracing::debug!(?peer, %tired, "a connection timed out");
        }
        Err(EarlyClose::Broken(error)) => {
            let fault = if error.is_parse() {
                ConnectionFault::Protocol
            } else {
                ConnectionFault::Io
            };
            metrics.count_fault(fault);
            tracing::debug!(
                ?peer,
                error = &error as &dyn std::error::Error,
                "a connection ended early"
            );
        }
    }
}

/// Why a connection ended before its time.
pub(super) enum EarlyClose {
    /// Its peer took too long.
    Tired(TimeoutKind),
    /// It broke, or spoke no HTTP.
    Broken(hyper::Error),
}

impl From<hyper::Error> for EarlyClose {
    fn from(error: hyper::Error) -> Self {
        Self::Broken(error)
    }
}

fn fault_of(tired: TimeoutKind) -> ConnectionFault {
    match tired {
        TimeoutKind::Handshake => ConnectionFault::TlsTimeout,
        TimeoutKind::RequestHead => ConnectionFault::HeadTimeout,
        TimeoutKind::Idle => ConnectionFault::IdleTimeout,
        TimeoutKind::SlowBody => ConnectionFault::BodyTimeout,
        TimeoutKind::SlowReader => ConnectionFault::SendTimeout,
    }
}

/// How polling ended.
pub(super) enum DriveOutcome {
    /// The protocol has.
    Over,
    /// Nothing has happened for a while.
    Idle,
}

/// What drives one connection.
pub(super) struct ServerConnection {
    pub(super) line: Arc<ConnectionState>,
    /// Where its streams run.
    pub(super) tasks: TaskTracker,
    /// When it is to end with the request that is under way.
    pub(super) stop: CancellationToken,
}

impl ServerConnection {
    /// HTTP/1.1.
    ///
    /// hyper keeps two buffers of eight kilobytes for a connection, whether anything happens on it or not. So a connection that has
    /// been idle for a while is taken from it, and given to it anew when something comes.
    async fn first<S: ServerTransport + 'static>(
        &self,
        mut wire: CountedIo<S>,
        mut service: ConnectionService,
    ) -> Result<(), EarlyClose> {
        loop {
            let mut connection = http1::Builder::new()
                .max_buf_size(BUFFER)
                .max_header_size(HEAD)
                // Whoever sends a request and says that nothing more will come still wants the answer.
                .half_close(true)
                .serve_connection(TokioIo::new(wire), service);
            let ended = self
                .turns(Some(IDLE), |cx, is_ending| {
                    if is_ending {
                        Pin::new(&mut connection).graceful_shutdown();
                    }
                    connection.poll_without_shutdown(cx)
                })
                .await;
            let parts = connection.into_parts();
            (wire, service) = (parts.io.into_inner(), parts.service);
            let Ok(DriveOutcome::Idle) = ended else {
                return self.end_first(wire, service, ended, parts.read_buf).await;
            };
            wire.rewind(without_empty_lines(parts.read_buf));
            wire.rest();
            self.line.server.count_idle_release();
            if let Err(ended) = Box::pin(self.idle(&mut wire)).await {
                let _ = Box::pin(self.leave(wire, false)).await;
                return ended;
            }
        }
    }

    /// What follows when hyper is done with a connection.
    async fn end_first<S: ServerTransport + 'static>(
        &self,
        mut wire: CountedIo<S>,
        service: ConnectionService,
        ended: Result<DriveOutcome, EarlyClose>,
        unread: Bytes,
    ) -> Result<(), EarlyClose> {
        // In boxes, as most connections come to none of this: what is not needed takes no room.
        match ended {
            Err(EarlyClose::Broken(error))
                if error.is_parse()
                    && unread.starts_with(PREFACE)
                    && self.line.is_at_beginning() =>
            {
                wire.rewind(unread);
                Box::pin(self.second(wire, service)).await
            }
            // hyper has refused it with an answer, which is lost if more comes for which nobody waits.
            Err(EarlyClose::Broken(error)) if error.is_parse() => {
                let status = match error.is_parse_too_large() {
                    true => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                    false => StatusCode::BAD_REQUEST,
                };
                log_unreadable(&self.line, status);
                let _ = Box::pin(self.leave(wire, true)).await;
                Err(error.into())
            }
            // In good order: who kept a connection for later is not to take its end for an attack.
            Err(error @ EarlyClose::Tired(TimeoutKind::Idle)) => {
                let _ = Box::pin(self.leave(wire, false)).await;
                Err(error)
            }
            Err(error @ EarlyClose::Tired(TimeoutKind::RequestHead)) => {
                log_unreadable(&self.line, StatusCode::REQUEST_TIMEOUT);
                let _ = Box::pin(self.leave_late(wire)).await;
                Err(error)
            }
            Err(error) => Err(error),
            Ok(_) => {
                // Whatever is the matter now, the answers were given.
                let _ = Box::pin(self.leave(wire, self.line.has_unread_body())).await;
                Ok(())
            }
        }
    }

    /// Waits until something comes on a connection that is idle.
    ///
    /// # Errors
    /// How the connection ends instead.
    async fn idle<S: ServerTransport>(
        &self,
        wire: &mut CountedIo<S>,
    ) -> Result<(), Result<(), EarlyClose>> {
        let mut stopped = pin!(self.stop.cancelled());
        let turned = self.turns(None, |cx, _| {
            if stopped.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            // Whatever it is, an end or an error, hyper will read it.
            wire.poll_readable(cx).map(|_| Ok(()))
        });
        match turned.await {
            Ok(_) if self.stop.is_cancelled() => Err(Ok(())),
            Ok(_) => Ok(()),
            Err(early) => Err(Err(early)),
        }
    }

    /// Polls a protocol until it ends, or is to be ended, or has been idle for so long. `turn` is told, once, that it is to end in
    /// good order.
    pub(super) async fn turns(
        &self,
        idle: Option<Duration>,
        mut turn: impl FnMut(&mut Context<'_>, bool) -> Poll<hyper::Result<()>>,
    ) -> Result<DriveOutcome, EarlyClose> {
        let sleep = pin!(tokio::time::sleep(Duration::ZERO));
        let mut minder = ConnectionTimer::new(Arc::clone(&self.line), idle, sleep);
        let mut stopped = pin!(self.stop.cancelled());
        let mut is_ending = false;
        std::future::poll_fn(move |cx| {
            let is_told = !is_ending && stopped.as_mut().poll(cx).is_ready();
            is_ending |= is_told;
            let mut polled = turn(cx, is_told);
            while polled.is_pending() {
                match minder.poll(cx) {
                    ConnectionTimerAction::Nothing => return Poll::Pending,
                    ConnectionTimerAction::Look => polled = turn(cx, false),
                    ConnectionTimerAction::Rest => return Poll::Ready(Ok(DriveOutcome::Idle)),
                    ConnectionTimerAction::End(tired) if self.line.tires(tired) => {
                        self.line
                            .server
                            .options
                            .metrics
                            .count_fault(fault_of(tired));
                        polled = turn(cx, false);
                    }
                    ConnectionTimerAction::End(tired) => {
                        return Poll::Ready(Err(EarlyClose::Tired(tired)));
                    }
                }
            }
            polled.map(|ended| {
                ended
                    .map(|()| DriveOutcome::Over)
                    .map_err(EarlyClose::Broken)
            })
        })
        .await
    }
}

/// What is read again. Empty lines before a request are nothing (RFC 9112 2.2), and would wake the connection for it.
fn without_empty_lines(mut bytes: Bytes) -> Bytes {
    let lines = bytes.iter().take_while(|byte| b"\r\n".contains(byte));
    let lines = lines.count();
    bytes.split_off(lines)
}
