//! An HTTP proxy for local clients: CONNECT, and requests in absolute-form.
//!
//! hyper's server speaks with the client, and hyper's client with the origin or the next proxy, over streams of `net`'s connector. Both
//! connections are kept alive where the peers allow it. A client's connection, its requests and the connections to where they go are
//! polled by the one task of that client: nothing is spawned, and when the task is dropped all of it is closed.
//!
//! CONNECT, and a switch of protocols (101), end HTTP on the client's connection: hyper gives back both streams with what it has read
//! ahead, and the [relay](crate::relay) takes over.
//!
//! A login that a client shows is not passed on, since it is for this listener, which asks for none. A proxy that asks for a login gets
//! ours (`forward`). If it refuses that, the client gets an error of ours and not the 407, to which it could not respond.

mod error_response;
mod forward;
mod io;
mod request;
mod request_body;
mod response_body;
mod upstream_connection;

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use hyper::body::{Body, Incoming};
use hyper::ext::ReasonPhrase;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio_util::sync::CancellationToken;

use crate::active_connections::ActiveConnection;
use crate::connection_log::ConnectionLog;
use crate::log_record::TunnelOutcome;
use crate::relay::{
    EarlyBytes, IdleTimer, RelayOutcome, RelaySide, RelayStream, linger, relay,
    reset_when_delivered,
};
use crate::upstream::UpstreamConnectError;
use error_response::{bad_request, broken_body, unreached};
use forward::ForwardedResponse;
use io::ClientIo;
use request::ForwardRequest;
#[cfg(feature = "fuzzing")]
pub(crate) use request::forwarded_request;
use response_body::{ProxyResponseBody, UpstreamBody};
use upstream_connection::HttpUpstream;

/// The longest head of a request, in bytes.
const MAX_HEAD: usize = 64 << 10;

/// The most header fields of a request.
const MAX_FIELDS: usize = 128;

/// How long a client may take for the head of its first request, and be silent between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// One client's connection, shared by its hyper connection, the service, and the bodies of responses.
pub(super) struct HttpSession {
    connection: Arc<ActiveConnection>,
    log: Arc<ConnectionLog>,
    state: Mutex<HttpSessionState>,
}

struct HttpSessionState {
    progress: RequestProgress,
    /// The connection of the last response, which was read to its end. It may carry the next request.
    kept: Option<HttpUpstream>,
    /// What the client is joined to once the response to its CONNECT or Upgrade has been written.
    tunnel: Option<(RelayStream, Bytes)>,
}

/// How far the current request is.
enum RequestProgress {
    /// There has been none.
    BeforeFirst,
    /// The last one is over.
    Between,
    /// Its response has not begun.
    Waiting,
    /// Its response is being passed on.
    Responding,
    /// hyper has its response. When hyper has written it, the request is over with this outcome.
    Responded(TunnelOutcome),
    /// Its response broke off.
    Failed(TunnelOutcome),
}

/// How hyper's connection with a client ended.
enum HttpEnd {
    Over(Result<(), hyper::Error>),
    /// Nothing moved for as long as the idle timeout.
    Idle,
}

/// Why a request has no response from upstream.
pub(super) enum RequestError {
    /// This is not a request for a proxy, or is ambiguous.
    Refused(StatusCode, &'static str),
    /// The client's body broke off, or is malformed.
    Body(hyper::Error),
    Unreached(UpstreamConnectError),
}

impl From<UpstreamConnectError> for RequestError {
    fn from(error: UpstreamConnectError) -> Self {
        Self::Unreached(error)
    }
}

/// Serves a client to the end of its connection, and returns the outcome of a request that is not logged by then. When `draining` is
/// cancelled, the current request is finished and no other is accepted.
pub(crate) async fn serve(
    client: RelayStream,
    connection: &Arc<ActiveConnection>,
    log: &Arc<ConnectionLog>,
    draining: CancellationToken,
) -> TunnelOutcome {
    let session = Arc::new(HttpSession {
        connection: Arc::clone(connection),
        log: Arc::clone(log),
        state: Mutex::new(HttpSessionState {
            progress: RequestProgress::BeforeFirst,
            kept: None,
            tunnel: None,
        }),
    });
    let idle = connection.config.timeouts.idle;
    let (ended, client, from_client) = Box::pin(session.drive(client, idle, draining)).await;
    let tunnel = session.lock().tunnel.take();
    match (&ended, tunnel) {
        (HttpEnd::Over(Ok(())), Some((target, from_target))) => {
            drop(session);
            let early = EarlyBytes {
                from_client,
                from_target,
            };
            let relayed = relay(client, target, early, connection.bytes(), idle).await;
            relayed.into()
        }
        _ => Box::pin(session.close(ended, client)).await,
    }
}

impl HttpSession {
    /// Speaks HTTP with the client until that is over. Gives the stream back, with what was read of it behind the last request.
    async fn drive(
        self: &Arc<Self>,
        client: RelayStream,
        idle: Option<Duration>,
        draining: CancellationToken,
    ) -> (HttpEnd, RelayStream, Bytes) {
        let session = Arc::clone(self);
        let service = service_fn(move |request| {
            let session = Arc::clone(&session);
            let response: Pin<Box<dyn Future<Output = _> + Send>> =
                Box::pin(async move { Ok::<_, Infallible>(session.respond(request).await) });
            response
        });
        let io = ClientIo::new(client, Arc::clone(self));
        let mut http = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_headers(MAX_FIELDS)
            .max_header_size(MAX_HEAD)
            .preserve_header_case(true)
            .title_case_headers(true)
            .auto_date_header(false)
            .serve_connection(TokioIo::new(io), service);
        let mut draining = pin!(draining.cancelled_owned());
        let mut is_draining = false;
        let bytes = self.connection.bytes();
        let mut idle = idle.map(|limit| IdleTimer::new(limit, bytes));
        let ended = poll_fn(|cx| {
            if !is_draining && draining.as_mut().poll(cx).is_ready() {
                is_draining = true;
                Pin::new(&mut http).graceful_shutdown();
            }
            if let Poll::Ready(result) = http.poll_without_shutdown(cx) {
                return Poll::Ready(HttpEnd::Over(result));
            }
            let idle = idle.as_mut().map(|idle| idle.poll(cx, bytes));
            idle.map_or(Poll::Pending, |idle| idle.map(|()| HttpEnd::Idle))
        })
        .await;
        let parts = http.into_parts();
        (ended, parts.io.into_inner().into_stream(), parts.read_buf)
    }

    /// Leaves the client when HTTP is over.
    async fn close(&self, ended: HttpEnd, mut client: RelayStream) -> TunnelOutcome {
        let progress = self.set_progress(RequestProgress::Between);
        match (ended, progress) {
            (_, RequestProgress::Failed(outcome)) => {
                // Where the body has no length the client knows by the reset alone that it is not whole.
                reset_when_delivered(&mut client).await;
                outcome
            }
            (HttpEnd::Idle, RequestProgress::Between) => RelayOutcome::IdleTimeout.into(),
            (HttpEnd::Idle, _) => {
                client.reset_on_drop();
                RelayOutcome::IdleTimeout.into()
            }
            (HttpEnd::Over(Err(error)), RequestProgress::BeforeFirst) if error.is_timeout() => {
                TunnelOutcome::Silent
            }
            // hyper has answered it.
            (HttpEnd::Over(Err(error)), before) if error.is_parse() => {
                self.begin_record(before);
                linger(&mut client).await;
                TunnelOutcome::BadRequest(error.to_string())
            }
            (HttpEnd::Over(Ok(())), RequestProgress::BeforeFirst) => {
                TunnelOutcome::BadRequest("the client left before it named a target".to_owned())
            }
            (HttpEnd::Over(Ok(())), RequestProgress::Between) => {
                linger(&mut client).await;
                RelayOutcome::Closed.into()
            }
            (HttpEnd::Over(_), RequestProgress::BeforeFirst | RequestProgress::Waiting) => {
                TunnelOutcome::ClientLeft
            }
            (HttpEnd::Over(_), RequestProgress::Responded(outcome))
                if !matches!(outcome, TunnelOutcome::Relayed(_)) =>
            {
                outcome
            }
            (HttpEnd::Over(_), _) => RelayOutcome::Reset(RelaySide::Client).into(),
        }
    }

    async fn respond(self: Arc<Self>, request: Request<Incoming>) -> Response<ProxyResponseBody> {
        let before = self.set_progress(RequestProgress::Waiting);
        self.begin_record(before);
        let is_connect = *request.method() == Method::CONNECT;
        let responded = if is_connect {
            self.connect(&request).await
        } else {
            self.forward_to_target(request).await
        };
        let (mut response, outcome) = match responded {
            Ok(response) => return response,
            Err(RequestError::Refused(status, reason)) => bad_request(status, reason),
            Err(RequestError::Body(error)) => broken_body(&error),
            Err(RequestError::Unreached(error)) => unreached(error),
        };
        if is_connect {
            // What the client may have sent for the target already is not to be taken for another request.
            error_response::close(&mut response);
        }
        self.set_progress(RequestProgress::Responded(outcome));
        response
    }

    /// Connects to the target of a CONNECT. The client is joined to it when the response has been written.
    async fn connect(
        &self,
        request: &Request<Incoming>,
    ) -> Result<Response<ProxyResponseBody>, RequestError> {
        let target = request.uri().to_string().parse().map_err(|_| {
            RequestError::Refused(StatusCode::BAD_REQUEST, "CONNECT needs a host and a port")
        })?;
        self.connection.set_target(&target);
        let reached = self.connection.config.connect(&target).await?;
        self.connection.set_via(&reached.via);
        let mut state = self.lock();
        state.kept = None;
        state.tunnel = Some((reached.stream, reached.early));
        drop(state);
        let mut response = Response::new(ProxyResponseBody::Empty);
        let reason = ReasonPhrase::from_static(b"Connection established");
        response.extensions_mut().insert(reason);
        Ok(response)
    }

    /// Passes a request on, and its response back.
    async fn forward_to_target(
        self: &Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<ProxyResponseBody>, RequestError> {
        let (head, body) = request.into_parts();
        let request = ForwardRequest::new(head)
            .map_err(|(status, reason)| RequestError::Refused(status, reason))?;
        self.connection.set_target(request.target());
        let ForwardedResponse { response, upstream } = self.forward(&request, body).await?;
        let (mut head, body) = response.into_parts();
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            let tunnel = upstream.into_tunnel(&request).await?;
            self.lock().tunnel = Some(tunnel);
            request::clean_response(&mut head, true);
            return Ok(Response::from_parts(head, ProxyResponseBody::Empty));
        }
        request::check_response(&head).map_err(|error| upstream.protocol_error(error))?;
        request::clean_response(&mut head, false);
        self.set_progress(RequestProgress::Responding);
        let body = if body.is_end_stream() {
            self.response_complete(upstream);
            ProxyResponseBody::Empty
        } else {
            UpstreamBody::new(body, upstream, Arc::clone(self)).into()
        };
        Ok(Response::from_parts(head, body))
    }

    /// All of a response has come, and hyper has it. Its connection is kept for the next request, if it can carry one.
    fn response_complete(&self, mut upstream: HttpUpstream) {
        let is_reusable = upstream.is_reusable();
        let mut state = self.lock();
        state.progress = RequestProgress::Responded(RelayOutcome::Closed.into());
        state.kept = is_reusable.then_some(upstream);
    }

    /// A response has broken off.
    fn response_failed(&self, outcome: RelayOutcome) {
        self.set_progress(RequestProgress::Failed(outcome.into()));
    }

    /// hyper has written all that it had for the client.
    fn flushed(&self) {
        let mut state = self.lock();
        if !matches!(state.progress, RequestProgress::Responded(_)) {
            return;
        }
        let progress = std::mem::replace(&mut state.progress, RequestProgress::Between);
        drop(state);
        if let RequestProgress::Responded(outcome) = progress {
            self.log.record(&self.connection, &outcome);
        }
    }

    /// Begins the record of a request. The response before may not be written wholly, where a client does not wait for it: its request is
    /// over nevertheless.
    fn begin_record(&self, before: RequestProgress) {
        if let RequestProgress::Responded(outcome) = before {
            self.log.record(&self.connection, &outcome);
        }
        self.connection.begin_request();
    }

    fn set_progress(&self, progress: RequestProgress) -> RequestProgress {
        std::mem::replace(&mut self.lock().progress, progress)
    }

    fn lock(&self) -> MutexGuard<'_, HttpSessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
