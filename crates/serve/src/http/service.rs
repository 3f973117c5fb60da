//! The service that hyper calls for each request: parses the path, checks the host and authorizes
//! the request. `methods` does the rest.
//!
//! Most requests are for files in memory: they get their response within the call.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use http::header::{EXPECT, HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Method, Request, Response, StatusCode, Version, request};
use hyper::body::Incoming;

use super::error_response::{
    ErrorResponse, ServeResponse, access_refused_response, bad_path_response, empty_response,
    misdirected_response, text_response,
};
use super::login;
use super::request_body::IncomingBody;
use super::server::{
    BoxedResponse, Dialect, DialectClaim, DialectRequest, DialectResponse, FileServer,
    RequestContext,
};
use crate::access::{AccessDecision, AccessRequest, PendingLogin};
use crate::connection::{
    AmbiguousHead, ConnectionState, HttpExchange, RequestBodyFraming, TrackedBody, is_host,
};
use crate::{ObjectKey, RequestPath};

#[derive(Debug, Clone)]
pub(crate) struct ConnectionService {
    pub(super) connection: Arc<ConnectionState>,
}

/// A request's head with its parsed path.
#[derive(Debug)]
pub(super) struct ParsedRequest {
    pub(super) head: request::Parts,
    pub(super) path: RequestPath,
    pub(super) kind: RequestKind,
}

/// What a request is, apart from its method.
#[derive(Debug)]
pub(super) enum RequestKind {
    /// One of plain HTTP.
    Plain,
    /// The page's login button sent it. Its path is the folder of that page.
    Login,
    /// One of an upload in a dialect's parts, under the rules of plain HTTP.
    DialectUpload(Arc<dyn Dialect>),
}

impl ParsedRequest {
    fn new(head: request::Parts, path: RequestPath, dialect: Option<Arc<dyn Dialect>>) -> Self {
        let login_folder = login::requested_folder(&head, &path);
        let kind = match (dialect, &login_folder) {
            (Some(dialect), _) => RequestKind::DialectUpload(dialect),
            (None, Some(_)) => RequestKind::Login,
            (None, None) => RequestKind::Plain,
        };
        Self {
            head,
            kind,
            path: login_folder.unwrap_or(path),
        }
    }
}

impl hyper::service::Service<Request<Incoming>> for ConnectionService {
    type Response = Response<TrackedBody>;
    type Error = Infallible;
    type Future = ResponseFutureState;

    fn call(&self, request: Request<Incoming>) -> ResponseFutureState {
        let (head, body) = request.into_parts();
        let mut exchange = HttpExchange::begin(&self.connection, &head);
        let is_http2 = head.version >= Version::HTTP_2;
        let counter = exchange.received_counter();
        let body = IncomingBody::new(body, &self.connection, is_http2, counter);
        if !is_http2 && !body.is_end_stream() {
            self.connection.requests.expect_body();
        }
        // Every response gets CORS fields: a page that cannot read a refusal cannot tell its user
        // to log in.
        let origin = self.cors_origin(&head);
        let dialect = match self.dialect_of(&head) {
            Some((dialect, DialectClaim::Request { is_signed })) => {
                return self.respond_in(dialect, is_signed, head, body, exchange, origin);
            }
            Some((dialect, DialectClaim::HttpUpload)) => Some(dialect),
            None => None,
        };
        let path = match self.parse_path(&head, &body) {
            Ok(path) => path,
            Err(response) => {
                return ResponseFutureState::Now(Some(
                    exchange.respond(self.with_cors_headers(*response, origin)),
                ));
            }
        };
        let request = ParsedRequest::new(head, path, dialect);
        let permissions = match self.authorize(&request) {
            AccessDecision::Granted(permissions) => permissions,
            AccessDecision::Refused(refusal) => {
                let response = self.with_cors_headers(access_refused_response(&refusal), origin);
                return ResponseFutureState::Now(Some(exchange.respond(response)));
            }
            AccessDecision::NeedsHashing(pending) => {
                let service = self.clone();
                return ResponseFutureState::Later(Box::pin(async move {
                    let response = service
                        .authorize_by_hash(pending, request, body, &mut exchange)
                        .await;
                    exchange.respond(service.with_cors_headers(response, origin))
                }));
            }
        };
        exchange.set_user(permissions.user.as_ref());
        match self.respond(request, body, permissions) {
            ResponseFuture::Now(response) => ResponseFutureState::Now(Some(
                exchange.respond(self.with_cors_headers(response, origin)),
            )),
            ResponseFuture::Later(response) => {
                let service = self.clone();
                ResponseFutureState::Later(Box::pin(async move {
                    let response = response.await;
                    exchange.respond(service.with_cors_headers(response, origin))
                }))
            }
        }
    }
}

impl ConnectionService {
    pub(crate) fn new(connection: Arc<ConnectionState>) -> Self {
        Self { connection }
    }

    pub(super) fn server(&self) -> &FileServer {
        &self.connection.server
    }

    /// The dialect of a request, if it is not plain HTTP.
    fn dialect_of(&self, head: &request::Parts) -> Option<(Arc<dyn Dialect>, DialectClaim)> {
        let dialect = self.server().options.dialect.as_ref()?;
        let claim = dialect.claim(head)?;
        Some((Arc::clone(dialect), claim))
    }

    /// What a dialect gets of a request.
    pub(super) fn dialect_request(
        &self,
        head: request::Parts,
        body: IncomingBody,
        http_upload: Option<ObjectKey>,
    ) -> DialectRequest {
        DialectRequest {
            context: RequestContext::new(Arc::clone(&self.connection), head.version),
            head,
            body,
            http_upload,
        }
    }

    /// Responds to a request of a dialect. A signature covers the Host field, so with one any is accepted.
    fn respond_in(
        &self,
        dialect: Arc<dyn Dialect>,
        is_signed: bool,
        head: request::Parts,
        body: IncomingBody,
        mut exchange: HttpExchange,
        origin: Option<HeaderMap>,
    ) -> ResponseFutureState {
        let checked = self.check_well_formed(&head, &body).and_then(|()| {
            if is_signed || self.is_host_allowed(&head) {
                Ok(())
            } else {
                Err(misdirected_response().into())
            }
        });
        if let Err(response) = checked {
            let response = self.with_cors_headers(*response, origin);
            return ResponseFutureState::Now(Some(exchange.respond(response)));
        }
        // Without a body there is no 100 Continue. botocore, which aws is made of, then takes the status
        // of this response for that of the next one on the connection, too.
        if head.headers.contains_key(EXPECT) && body.is_end_stream() {
            self.connection.requests.close_after_response();
        }
        let response = dialect.respond(self.dialect_request(head, body, None));
        let service = self.clone();
        ResponseFutureState::Later(Box::pin(async move {
            let DialectResponse { response, user } = response.await;
            exchange.set_user(user.as_ref());
            exchange.respond(service.with_cors_headers(response, origin))
        }))
    }

    /// Parses the path of a request, if the request is well-formed and for this host.
    fn parse_path(
        &self,
        head: &request::Parts,
        body: &IncomingBody,
    ) -> Result<RequestPath, ErrorResponse> {
        self.check_well_formed(head, body)?;
        if !self.is_host_allowed(head) {
            return Err(misdirected_response().into());
        }
        match ObjectKey::parse(head.uri.path()) {
            Ok(path) => Ok(path),
            // `OPTIONS *` asks about the server.
            Err(_) if head.method == Method::OPTIONS && head.uri.path() == "*" => Ok(RequestPath {
                key: ObjectKey::root(),
                is_folder: true,
            }),
            Err(error) => Err(bad_path_response(error).into()),
        }
    }

    /// Refuses a request that others may read differently.
    fn check_well_formed(
        &self,
        head: &request::Parts,
        body: &IncomingBody,
    ) -> Result<(), ErrorResponse> {
        self.check_framing(head, body)?;
        if has_valid_authority(head) {
            return Ok(());
        }
        self.connection.requests.close_after_response();
        let text = AmbiguousHead::InvalidHost.to_string();
        Err(text_response(StatusCode::BAD_REQUEST, text).into())
    }

    /// Refuses a request whose framing others may read differently (RFC 9112 3.2, 6.3).
    fn check_framing(
        &self,
        head: &request::Parts,
        body: &IncomingBody,
    ) -> Result<(), ErrorResponse> {
        if head.version >= Version::HTTP_2 {
            return Ok(());
        }
        let framing = body
            .len()
            .map_or(RequestBodyFraming::Chunked, RequestBodyFraming::Length);
        if framing == RequestBodyFraming::Chunked {
            // After chunks the guard does not know where the next head begins.
            self.connection.requests.close_after_response();
        }
        self.connection.check_head(framing).map_err(|ambiguous| {
            self.connection.requests.close_after_response();
            text_response(StatusCode::BAD_REQUEST, ambiguous.to_string()).into()
        })
    }

    /// Whether the server accepts this Host. For Unix sockets and TLS connections the client has
    /// chosen the server already.
    fn is_host_allowed(&self, head: &request::Parts) -> bool {
        let hosts = self
            .server()
            .options
            .allowed_hosts
            .as_ref()
            .filter(|_| !self.connection.is_tls && self.connection.peer.is_some());
        hosts.is_none_or(|hosts| hosts.allows(&head.headers, &head.uri))
    }

    fn authorize(&self, request: &ParsedRequest) -> AccessDecision {
        self.server()
            .options
            .access
            .authorize(&self.access_request(request))
    }

    fn access_request<'a>(&self, request: &'a ParsedRequest) -> AccessRequest<'a> {
        let method = match &request.kind {
            // Each of its requests, the list of its parts among them, needs the right to write.
            RequestKind::DialectUpload(_) if request.head.method != Method::HEAD => &Method::PUT,
            _ => &request.head.method,
        };
        AccessRequest {
            method,
            path: &request.path,
            query: request.head.uri.query(),
            headers: &request.head.headers,
            now: SystemTime::now(),
            peer: self.connection.peer.map(|peer| peer.ip()),
        }
    }

    /// Responds once a login's password has been hashed.
    async fn authorize_by_hash(
        &self,
        pending: PendingLogin,
        request: ParsedRequest,
        body: IncomingBody,
        exchange: &mut HttpExchange,
    ) -> ServeResponse {
        let Ok(ready) = pending.acquire_permit().await else {
            // Cannot happen, as the queue lives as long as the server.
            return empty_response(StatusCode::INTERNAL_SERVER_ERROR);
        };
        let checked = self.server().disk.run(move || ready.verify()).await;
        let decision = self
            .server()
            .options
            .access
            .authorize_with_result(&self.access_request(&request), &checked);
        match decision {
            AccessDecision::Granted(permissions) => {
                exchange.set_user(permissions.user.as_ref());
                self.respond(request, body, permissions).resolve().await
            }
            AccessDecision::Refused(refusal) => access_refused_response(&refusal),
            // Cannot happen, as it has just been hashed.
            AccessDecision::NeedsHashing(_) => empty_response(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    /// The request's Origin field, if CORS is configured.
    fn cors_origin(&self, head: &request::Parts) -> Option<HeaderMap> {
        self.server().options.cors.as_ref()?;
        let origin = head.headers.get(ORIGIN).cloned();
        Some(origin.into_iter().map(|origin| (ORIGIN, origin)).collect())
    }

    /// Adds the CORS fields.
    fn with_cors_headers(
        &self,
        mut response: ServeResponse,
        request: Option<HeaderMap>,
    ) -> ServeResponse {
        if let (Some(cors), Some(request)) = (&self.server().options.cors, request) {
            cors.add_headers(&request, response.headers_mut());
        }
        response
    }
}

/// A response, now or later.
///
/// Responses that are ready at once, and those that wait for the disk, a body or a password hash.
///
/// The former need no future; the latter are boxed, so that an idle connection is small.
pub(super) enum ResponseFuture {
    Now(ServeResponse),
    /// The response needs something that may wait.
    Later(BoxedResponse<ServeResponse>),
}

impl ResponseFuture {
    /// A response that may wait.
    pub(super) fn later(response: impl Future<Output = ServeResponse> + Send + 'static) -> Self {
        Self::Later(Box::pin(response))
    }

    pub(super) async fn resolve(self) -> ServeResponse {
        match self {
            Self::Now(response) => response,
            Self::Later(response) => response.await,
        }
    }
}

/// The future that hyper polls.
#[expect(
    clippy::large_enum_variant,
    reason = "it is made in place, where a box would be an allocation for each small file"
)]
pub(crate) enum ResponseFutureState {
    /// The response, until it is taken.
    Now(Option<Response<TrackedBody>>),
    /// The response needs something that may wait.
    Later(BoxedResponse<Response<TrackedBody>>),
}

impl Future for ResponseFutureState {
    type Output = Result<Response<TrackedBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Now(response) => response
                .take()
                .map_or(Poll::Pending, |response| Poll::Ready(Ok(response))),
            Self::Later(response) => response.as_mut().poll(cx).map(Ok),
        }
    }
}

/// Whether the authority of an absolute target or of HTTP/2, and HTTP/2's Host, are hosts: the guard of the connection has checked the Host
/// of HTTP/1 alone.
fn has_valid_authority(head: &request::Parts) -> bool {
    let is_valid = |authority: &Authority| is_host(authority.as_str().as_bytes());
    let hosts = || head.headers.get_all(HOST).iter();
    head.uri.authority().is_none_or(is_valid)
        && (head.version < Version::HTTP_2 || hosts().all(|host| is_host(host.as_bytes())))
}
