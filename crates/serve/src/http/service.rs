//! The service that hyper calls: whether it is a request for us, who asks, and may they. What is then done is in `methods`.
//!
//! Most requests are for files that lie in memory: those are answered within the call.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::SystemTime;

use haul_plan::serving::RequestBodyFraming;
use http::header::ORIGIN;
use http::{HeaderMap, Method, Request, Response, StatusCode, Version, request};
use hyper::body::Incoming;

use super::FileServer;
use super::error_response::{
    ErrorResponse, ServeResponse, bare, misdirected, no_key, plain, refused,
};
use super::request_body::RequestBody;
use super::response_future::{ResponseFuture, ResponseFutureState};
use crate::access::{AccessDecision, AccessRequest, PendingLogin};
use crate::connection::{ConnectionState, HttpExchange, TrackedBody};
use crate::{ObjectKey, RequestPath};

/// The service of one connection.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionService {
    /// What the connection's parts know together.
    pub(super) line: Arc<ConnectionState>,
}

/// A request's head with what its path names.
#[derive(Debug)]
pub(super) struct ParsedRequest {
    /// Its head.
    pub(super) head: request::Parts,
    /// What its path names.
    pub(super) named: RequestPath,
}

impl hyper::service::Service<Request<Incoming>> for ConnectionService {
    type Response = Response<TrackedBody>;
    type Error = Infallible;
    type Future = ResponseFutureState;

    fn call(&self, request: Request<Incoming>) -> ResponseFutureState {
        let (head, body) = request.into_parts();
        let mut exchange = HttpExchange::begin(&self.line, &head);
        let body = RequestBody::new(body, &self.line, exchange.received());
        if head.version < Version::HTTP_2 && !body.is_end() {
            self.line.awaits_body();
        }
        // A page that may not read a refusal cannot tell its user to log in: whatever is answered is shared.
        let origin = self.origin(&head);
        let named = match self.named(&head, &body) {
            Ok(named) => named,
            Err(answer) => {
                return ResponseFutureState::Now(Some(
                    exchange.answered(self.shared(*answer, origin)),
                ));
            }
        };
        let asked = ParsedRequest { head, named };
        let grant = match self.judge(&asked) {
            AccessDecision::Granted(grant) => grant,
            AccessDecision::Refused(refusal) => {
                let answer = self.shared(refused(&refusal), origin);
                return ResponseFutureState::Now(Some(exchange.answered(answer)));
            }
            AccessDecision::NeedsHashing(pending) => {
                let service = self.clone();
                return ResponseFutureState::Later(Box::pin(async move {
                    let answer = service.hash(pending, asked, body, &mut exchange).await;
                    exchange.answered(service.shared(answer, origin))
                }));
            }
        };
        exchange.comes_from(grant.user.as_ref());
        match self.answer(asked, body, grant) {
            ResponseFuture::Now(answer) => {
                ResponseFutureState::Now(Some(exchange.answered(self.shared(answer, origin))))
            }
            ResponseFuture::Later(answer) => {
                let service = self.clone();
                ResponseFutureState::Later(Box::pin(async move {
                    let answer = answer.await;
                    exchange.answered(service.shared(answer, origin))
                }))
            }
        }
    }
}

impl ConnectionService {
    /// For one connection.
    pub(crate) fn new(line: Arc<ConnectionState>) -> Self {
        Self { line }
    }

    /// What all connections share.
    pub(super) fn server(&self) -> &FileServer {
        &self.line.server
    }

    /// What a request is for, if it is one for us.
    fn named(
        &self,
        head: &request::Parts,
        body: &RequestBody,
    ) -> Result<RequestPath, ErrorResponse> {
        self.is_plain(head, body)?;
        if !self.is_for_us(head) {
            return Err(misdirected().into());
        }
        match ObjectKey::parse(head.uri.path()) {
            Ok(named) => Ok(named),
            // `OPTIONS *` asks about the server.
            Err(_) if head.method == Method::OPTIONS && head.uri.path() == "*" => Ok(RequestPath {
                key: ObjectKey::root(),
                is_folder: true,
            }),
            Err(error) => Err(no_key(error).into()),
        }
    }

    /// Whether a request is one that everybody reads the same way (RFC 9112 3.2, 6.3).
    fn is_plain(&self, head: &request::Parts, body: &RequestBody) -> Result<(), ErrorResponse> {
        if head.version >= Version::HTTP_2 {
            return Ok(());
        }
        let follows = body
            .len()
            .map_or(RequestBodyFraming::Chunked, RequestBodyFraming::Length);
        if follows == RequestBodyFraming::Chunked {
            // Where the next head would begin, the watch does not know.
            self.line.ends_with_answer();
        }
        self.line.head_came(follows).map_err(|ambiguous| {
            self.line.ends_with_answer();
            plain(StatusCode::BAD_REQUEST, ambiguous.to_string()).into()
        })
    }

    /// Whether it may be asked for by this name. Of a unix socket, and behind TLS, that is known already.
    fn is_for_us(&self, head: &request::Parts) -> bool {
        let hosts = self.server().options.allowed_hosts.as_ref();
        let hosts = hosts.filter(|_| !self.line.is_tls && self.line.peer.is_some());
        hosts.is_none_or(|hosts| hosts.admit(&head.headers, &head.uri))
    }

    fn judge(&self, asked: &ParsedRequest) -> AccessDecision {
        self.server().options.access.authorize(&self.ask(asked))
    }

    fn ask<'a>(&self, asked: &'a ParsedRequest) -> AccessRequest<'a> {
        AccessRequest {
            method: &asked.head.method,
            path: &asked.named,
            query: asked.head.uri.query(),
            headers: &asked.head.headers,
            now: SystemTime::now(),
            peer: self.line.peer.map(|peer| peer.ip()),
        }
    }

    /// Answers when a login's hash has been computed.
    async fn hash(
        &self,
        pending: PendingLogin,
        asked: ParsedRequest,
        body: RequestBody,
        exchange: &mut HttpExchange,
    ) -> ServeResponse {
        let ready = match pending.acquire_permit().await {
            Ok(ready) => ready,
            Err(refusal) => return refused(&refusal),
        };
        let checked = self.server().disk.run(move || ready.verify()).await;
        let judged = self
            .server()
            .options
            .access
            .authorize_with_result(&self.ask(&asked), &checked);
        match judged {
            AccessDecision::Granted(grant) => {
                exchange.comes_from(grant.user.as_ref());
                self.answer(asked, body, grant).get().await
            }
            AccessDecision::Refused(refusal) => refused(&refusal),
            // It has just been done.
            AccessDecision::NeedsHashing(_) => bare(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    /// What other sites' pages need to be told, if any may read this.
    fn origin(&self, head: &request::Parts) -> Option<HeaderMap> {
        self.server().options.cors.as_ref()?;
        let origin = head.headers.get(ORIGIN).cloned();
        Some(origin.into_iter().map(|origin| (ORIGIN, origin)).collect())
    }

    /// Adds what other sites' pages need.
    fn shared(&self, mut answer: ServeResponse, request: Option<HeaderMap>) -> ServeResponse {
        if let (Some(cors), Some(request)) = (&self.server().options.cors, request) {
            cors.add_headers(&request, answer.headers_mut());
        }
        answer
    }
}
