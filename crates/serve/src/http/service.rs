//! The service that hyper calls: who asks, may they, and which piece answers.
//!
//! Most requests are for files that lie in memory: those are answered within the call, without a future of their own. All that may wait
//! (a look at the disk, an upload, a listing, a login's hash) is a boxed future, so that a connection that has nothing to do is small.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use haul_plan::serving::{Conditions, Follows};
use http::header::{
    ALLOW, CONTENT_TYPE, HOST, HeaderValue, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{Method, Request, Response, StatusCode, Version, request};
use hyper::body::Incoming;

use super::answer::{self, Answer, Instead, bare, no_key, not_allowed, of_store, plain};
use super::inbound::Inbound;
use super::{Server, folder, form, get, put};
use crate::access::{Ask, Grant, Judged, PendingLogin, Refusal, Right, is_cross_site};
use crate::conn::{Exchange, Line, Watched};
use crate::page::ListQuery;
use crate::store::{Meta, Now, Object, StoreError};
use crate::{Key, Named};

/// The service of one connection.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    line: Arc<Line>,
}

/// A request's head with what its path names.
#[derive(Debug)]
struct Asked {
    head: request::Parts,
    named: Named,
}

/// An answer, now or later.
enum Reply {
    /// It is there.
    Now(Answer),
    /// It takes something that may wait.
    Later(Later<Answer>),
}

/// Something that may wait.
type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Reply {
    fn later(answer: impl Future<Output = Answer> + Send + 'static) -> Self {
        Self::Later(Box::pin(answer))
    }

    async fn get(self) -> Answer {
        match self {
            Self::Now(answer) => answer,
            Self::Later(answer) => answer.await,
        }
    }
}

/// What hyper waits for.
#[expect(
    clippy::large_enum_variant,
    reason = "it is made in place, where a box would be an allocation for each small file"
)]
pub(crate) enum Answering {
    /// It is there; taken once.
    Now(Option<Response<Watched>>),
    /// It takes something that may wait.
    Later(Later<Response<Watched>>),
}

impl Future for Answering {
    type Output = Result<Response<Watched>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Now(answer) => answer
                .take()
                .map_or(Poll::Pending, |answer| Poll::Ready(Ok(answer))),
            Self::Later(answer) => answer.as_mut().poll(cx).map(Ok),
        }
    }
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<Watched>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        let (head, body) = request.into_parts();
        let mut exchange = Exchange::begin(&self.line, &head);
        let body = Inbound::new(body, &self.line, exchange.received());
        if head.version < Version::HTTP_2 && !body.is_end() {
            self.line.lacks_body();
        }
        if let Err(answer) = self.is_plain(&head, &body) {
            return Answering::Now(Some(exchange.answered(*answer)));
        }
        if !self.is_for_us(&head) {
            return Answering::Now(Some(exchange.answered(misdirected())));
        }
        let named = match Key::parse(head.uri.path()) {
            Ok(named) => named,
            // `OPTIONS *` asks about the server.
            Err(_) if head.method == Method::OPTIONS && head.uri.path() == "*" => Named {
                key: Key::root(),
                is_folder: true,
            },
            Err(error) => return Answering::Now(Some(exchange.answered(no_key(error)))),
        };
        let asked = Asked { head, named };
        let grant = match self.judge(&asked) {
            Judged::Granted(grant) => grant,
            Judged::Refused(refusal) => {
                return Answering::Now(Some(exchange.answered(refused(&refusal))));
            }
            Judged::NeedsHashing(pending) => {
                return Answering::Later(Box::pin(
                    self.clone().hash(pending, asked, body, exchange),
                ));
            }
        };
        exchange.is_from(grant.user.as_ref());
        let origin = self.origin(&asked);
        match self.answer(asked, body, grant) {
            Reply::Now(answer) => {
                Answering::Now(Some(exchange.answered(self.shared(answer, origin))))
            }
            Reply::Later(answer) => {
                let service = self.clone();
                Answering::Later(Box::pin(async move {
                    let answer = answer.await;
                    exchange.answered(service.shared(answer, origin))
                }))
            }
        }
    }
}

impl Service {
    /// For one connection.
    pub(crate) fn new(line: Arc<Line>) -> Self {
        Self { line }
    }

    fn server(&self) -> &Server {
        &self.line.server
    }

    /// Whether a request is one that everybody reads the same way (RFC 9112 3.2, 6.3).
    fn is_plain(&self, head: &request::Parts, body: &Inbound) -> Result<(), Instead> {
        if head.version >= Version::HTTP_2 {
            return Ok(());
        }
        let follows = body.len().map_or(Follows::Chunks, Follows::Length);
        if follows == Follows::Chunks {
            // Where the next head would begin, the watch does not know.
            self.line.ends_with_answer();
        }
        // No guard of the watch is held when the answer is made.
        let watched = self.line.watch().head(follows);
        watched.map_err(|ambiguous| {
            self.line.ends_with_answer();
            plain(StatusCode::BAD_REQUEST, ambiguous.to_string()).into()
        })
    }

    /// Whether it may be asked for by this name. Of a unix socket, and behind TLS, that is known already.
    fn is_for_us(&self, head: &request::Parts) -> bool {
        let hosts = self.server().options.hosts.as_ref();
        let hosts = hosts.filter(|_| !self.line.is_tls && self.line.peer.is_some());
        hosts.is_none_or(|hosts| hosts.admit(&head.headers, &head.uri))
    }

    fn judge(&self, asked: &Asked) -> Judged {
        self.server().options.access.judge(&self.ask(asked))
    }

    fn ask<'a>(&self, asked: &'a Asked) -> Ask<'a> {
        Ask {
            method: &asked.head.method,
            named: &asked.named,
            query: asked.head.uri.query(),
            headers: &asked.head.headers,
            now: SystemTime::now(),
            peer: self.line.peer.map(|peer| peer.ip()),
        }
    }

    /// Answers when a login's hash has been computed.
    async fn hash(
        self,
        pending: PendingLogin,
        asked: Asked,
        body: Inbound,
        mut exchange: Exchange,
    ) -> Response<Watched> {
        let ready = match pending.turn().await {
            Ok(ready) => ready,
            Err(refusal) => return exchange.answered(refused(&refusal)),
        };
        let checked = self.server().disk.run(move || ready.run()).await;
        let judged = self
            .server()
            .options
            .access
            .judge_again(&self.ask(&asked), &checked);
        let answer = match judged {
            Judged::Granted(grant) => {
                exchange.is_from(grant.user.as_ref());
                let origin = self.origin(&asked);
                let answer = self.answer(asked, body, grant).get().await;
                self.shared(answer, origin)
            }
            Judged::Refused(refusal) => refused(&refusal),
            // It has just been done.
            Judged::NeedsHashing(_) => bare(StatusCode::INTERNAL_SERVER_ERROR),
        };
        exchange.answered(answer)
    }

    /// What other sites' pages need to be told, if any may read this.
    fn origin(&self, asked: &Asked) -> Option<http::HeaderMap> {
        self.server().options.cors.as_ref()?;
        let origin = asked.head.headers.get(http::header::ORIGIN).cloned();
        Some(
            origin
                .into_iter()
                .map(|origin| (http::header::ORIGIN, origin))
                .collect(),
        )
    }

    /// Adds what other sites' pages need.
    fn shared(&self, mut answer: Answer, request: Option<http::HeaderMap>) -> Answer {
        if let (Some(cors), Some(request)) = (&self.server().options.cors, request) {
            cors.answer(&request, answer.headers_mut());
        }
        answer
    }

    fn answer(&self, asked: Asked, body: Inbound, grant: Grant) -> Reply {
        let is_writable = self.server().store.options().writable;
        let method = &asked.head.method;
        match *method {
            Method::GET | Method::HEAD => self.get(asked, &grant),
            Method::OPTIONS => Reply::Now(self.options(&asked)),
            Method::PUT | Method::DELETE | Method::POST if is_writable => {
                match self.is_ours(&asked, &grant) {
                    Ok(()) => self.change(asked, body, grant),
                    Err(answer) => Reply::Now(*answer),
                }
            }
            _ => Reply::Now(not_allowed(method, is_writable)),
        }
    }

    /// Whether a change was asked for by our own page, or by no page, or by one that may.
    fn is_ours(&self, asked: &Asked, grant: &Grant) -> Result<(), Instead> {
        let head = &asked.head;
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = host
            .or_else(|| head.uri.authority().map(http::uri::Authority::as_str))
            .unwrap_or_default();
        let cors = self.server().options.cors.as_ref();
        let is_let = || cors.is_some_and(|cors| cors.admits(&head.headers, &head.method, grant));
        if is_cross_site(&head.headers, host, self.line.is_tls) && !is_let() {
            return Err(plain(
                StatusCode::FORBIDDEN,
                "pages of other sites may change nothing here",
            )
            .into());
        }
        Ok(())
    }

    fn change(&self, asked: Asked, body: Inbound, grant: Grant) -> Reply {
        let Asked { head, named } = asked;
        match head.method {
            Method::PUT => self.put(&head, named, body),
            Method::DELETE => self.delete(&head, named),
            _ => self.post(&head, named, body, grant),
        }
    }

    fn get(&self, asked: Asked, grant: &Grant) -> Reply {
        if asked.named.is_folder {
            return self.list(&asked, grant);
        }
        let (store, is_personal) = (&self.server().store, grant.is_personal());
        match store.read_now(&asked.named.key) {
            Now::Done(found) => Reply::Now(self.found(&asked, is_personal, found)),
            Now::Wait => {
                let (service, store) = (self.clone(), Arc::clone(store));
                Reply::later(async move {
                    let key = asked.named.key.clone();
                    let found = service.server().disk.run(move || store.read(&key)).await;
                    service.found(&asked, is_personal, found)
                })
            }
        }
    }

    /// Answers with what a key led to.
    fn found(
        &self,
        asked: &Asked,
        is_personal: bool,
        found: Result<Arc<Object>, StoreError>,
    ) -> Answer {
        let key = &asked.named.key;
        let file = get::Asked {
            method: &asked.head.method,
            key,
            headers: &asked.head.headers,
            is_personal,
        };
        match found {
            Ok(object) => get::answer(&self.line, file, &object),
            Err(StoreError::IsFolder) => to_folder(&asked.head, key),
            // A file where a folder should be on the way: nothing is there.
            Err(StoreError::Conflict) => of_store(&StoreError::NotFound, key),
            Err(error) => of_store(&error, key),
        }
    }

    fn list(&self, asked: &Asked, grant: &Grant) -> Reply {
        let (head, key) = (&asked.head, &asked.named.key);
        if !grant.may_list(key) {
            return Reply::Now(plain(
                StatusCode::FORBIDDEN,
                "that folder may not be listed",
            ));
        }
        let query = crate::access::without_signature(head.uri.query().unwrap_or_default());
        let query = match ListQuery::parse(&query) {
            Ok(query) => query,
            Err(error) => return Reply::Now(plain(StatusCode::BAD_REQUEST, error.to_string())),
        };
        let is_writable = self.server().store.options().writable;
        Reply::later(folder::answer(
            Arc::clone(&self.line),
            folder::Asked {
                method: head.method.clone(),
                key: key.clone(),
                format: folder::format(&query, &head.headers),
                query,
                may_write: is_writable && grant.may(Right::Write, key),
                user: grant.user.as_deref().map(str::to_owned),
            },
        ))
    }

    fn put(&self, head: &request::Parts, named: Named, body: Inbound) -> Reply {
        if named.is_folder {
            let text =
                "a file's path does not end in a slash; folders are made with the files in them";
            return Reply::Now(plain(StatusCode::BAD_REQUEST, text));
        }
        match put::Asked::new(&self.line, named.key, &head.headers) {
            Ok(asked) => Reply::later(put::answer(Arc::clone(&self.line), asked, body)),
            Err(answer) => Reply::Now(*answer),
        }
    }

    fn post(&self, head: &request::Parts, named: Named, body: Inbound, grant: Grant) -> Reply {
        if !named.is_folder {
            let text =
                "a form is sent to a folder, whose path ends in a slash; a file is sent by PUT";
            return Reply::Now(plain(StatusCode::METHOD_NOT_ALLOWED, text));
        }
        let kind = head
            .headers
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_owned();
        Reply::later(form::answer(
            Arc::clone(&self.line),
            named.key,
            kind,
            body,
            grant,
        ))
    }

    fn delete(&self, head: &request::Parts, named: Named) -> Reply {
        let conditions = Conditions::parse(&head.headers);
        let line = Arc::clone(&self.line);
        if conditions.is_empty()
            && let Now::Done(deleted) = line.server.store.delete_now(&named)
        {
            return Reply::Now(gone(deleted, &named.key));
        }
        Reply::later(async move {
            let (store, key) = (Arc::clone(&line.server.store), named.key.clone());
            let deleted = line.server.disk.run(move || {
                let check = |meta: Option<&Meta>| put::holds(&conditions, meta);
                store.delete(&named, (!conditions.is_empty()).then_some(&check))
            });
            gone(deleted.await, &key)
        })
    }

    fn options(&self, asked: &Asked) -> Answer {
        let mut answer = bare(StatusCode::NO_CONTENT);
        let allow = answer::allow(self.server().store.options().writable);
        answer.headers_mut().insert(ALLOW, allow);
        let cors = self.server().options.cors.as_ref();
        if let Some(fields) = cors.and_then(|cors| cors.preflight(&asked.head.headers)) {
            answer.headers_mut().extend(fields);
        }
        answer
    }
}

/// What is said of a deletion.
fn gone(deleted: Result<(), StoreError>, key: &Key) -> Answer {
    match deleted {
        Ok(()) => bare(StatusCode::NO_CONTENT),
        Err(error) => of_store(&error, key),
    }
}

/// A name that is not ours (RFC 9110 15.5.20).
fn misdirected() -> Answer {
    let text = "this server is for its own machine, has no logins, and does not go by the name in Host: \
        a page of a stranger may have been led here. If the name is right, start haul serve with --allow-host NAME, \
        or have the proxy in front send Host: localhost";
    plain(StatusCode::MISDIRECTED_REQUEST, text)
}

/// A login that is missing, wrong or not enough.
fn refused(refusal: &Refusal) -> Answer {
    let mut answer = plain(refusal.status(), refusal.to_string());
    for challenge in refusal.challenges.iter() {
        answer
            .headers_mut()
            .append(WWW_AUTHENTICATE, challenge.clone());
    }
    if let Some(after) = refusal.retry_after() {
        answer
            .headers_mut()
            .insert(RETRY_AFTER, after.as_secs().into());
    }
    answer
}

/// A folder's path ends in a slash: links in its page are relative to that.
fn to_folder(head: &request::Parts, key: &Key) -> Answer {
    let query = head
        .uri
        .query()
        .map_or_else(String::new, |query| format!("?{query}"));
    let mut answer = bare(StatusCode::MOVED_PERMANENTLY);
    if let Ok(location) = HeaderValue::try_from(format!("{}/{query}", key.escaped())) {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}
