//! What requests mean, and what is answered: the service that hyper calls.
//!
//! Most requests are for files that lie in memory: those are answered within the call, without a future of their own. All that may wait
//! (a look at the disk, an upload, a listing) is a boxed future, so that a connection that has nothing to do is small.

mod answer;
mod get;
mod multipart;
mod put;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{ALLOW, CONNECTION, HeaderValue, LOCATION};
use http::{Method, Request, StatusCode, Version, request};
use hyper::body::{Body as _, Incoming};

use self::answer::{Answer, bare, no_key, not_allowed, of_store, plain};
use crate::conn::{Follows, Line};
use crate::store::{Disk, Now, Store, StoreError};
use crate::{Key, Named};

/// How requests are answered.
#[derive(Debug, Clone, Default)]
pub struct HttpOptions {
    /// Bytes that an upload may have; `None`: what the disk has.
    pub max_body: Option<u64>,
    /// What files are sent with.
    pub cache_control: Option<HeaderValue>,
}

/// What all connections share.
#[derive(Debug)]
pub struct Server {
    /// The files.
    pub(crate) store: Arc<Store>,
    /// Where waiting is allowed.
    pub(crate) disk: Disk,
    /// How requests are answered.
    pub(crate) options: HttpOptions,
}

impl Server {
    /// A server of a store.
    #[must_use]
    pub fn new(store: Arc<Store>, disk: Disk, options: HttpOptions) -> Self {
        Self { store, disk, options }
    }
}

/// The service of one connection.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    server: Arc<Server>,
    line: Arc<Line>,
}

/// An answer, now or later.
pub(crate) enum Answering {
    /// It is there.
    Now(Option<Answer>),
    /// It takes something that may wait.
    Later(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

impl Answering {
    fn now(answer: Answer) -> Self {
        Self::Now(Some(answer))
    }

    fn later(answer: impl Future<Output = Answer> + Send + 'static) -> Self {
        Self::Later(Box::pin(answer))
    }
}

impl Future for Answering {
    type Output = Result<Answer, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            // Asked for once.
            Self::Now(answer) => answer.take().map_or(Poll::Pending, |answer| Poll::Ready(Ok(answer))),
            Self::Later(answer) => answer.as_mut().poll(cx).map(Ok),
        }
    }
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Answer;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        let (head, body) = request.into_parts();
        if head.version < Version::HTTP_2 {
            let follows = body.size_hint().exact().map_or(Follows::Chunks, Follows::Length);
            if let Err(ambiguous) = self.line.watch().head(follows) {
                let mut answer = plain(StatusCode::BAD_REQUEST, ambiguous.to_string());
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                return Answering::now(answer);
            }
        }
        if !body.is_end_stream() {
            self.line.has_body();
        }
        self.answer(&head, body)
    }
}

impl Service {
    /// For one connection.
    pub(crate) fn new(server: Arc<Server>, line: Arc<Line>) -> Self {
        Self { server, line }
    }

    fn answer(&self, head: &request::Parts, body: Incoming) -> Answering {
        let named = match Key::parse(head.uri.path()) {
            Ok(named) => named,
            // `OPTIONS *` asks about the server.
            Err(_) if head.method == Method::OPTIONS && head.uri.path() == "*" => return Answering::now(self.options()),
            Err(error) => return Answering::now(no_key(error)),
        };
        let is_writable = self.server.store.options().writable;
        match head.method {
            Method::GET | Method::HEAD => self.get(head, named),
            Method::OPTIONS => Answering::now(self.options()),
            Method::PUT if is_writable => self.put(head, named, body),
            Method::DELETE if is_writable => self.delete(head, named),
            _ => Answering::now(not_allowed(&head.method, is_writable)),
        }
    }

    fn get(&self, head: &request::Parts, named: Named) -> Answering {
        if named.is_folder {
            return Answering::now(plain(StatusCode::NOT_IMPLEMENTED, "listings are not there yet"));
        }
        match self.server.store.read_now(&named.key) {
            Now::Done(found) => Answering::now(self.found(head, &named.key, found)),
            Now::Wait => {
                let (service, head) = (self.clone(), head.clone());
                Answering::later(async move {
                    let (store, key) = (Arc::clone(&service.server.store), named.key.clone());
                    let found = service.server.disk.run(move || store.read(&key)).await;
                    service.found(&head, &named.key, found)
                })
            }
        }
    }

    /// Answers with what a key led to.
    fn found(&self, head: &request::Parts, key: &Key, found: Result<Arc<crate::store::Object>, StoreError>) -> Answer {
        let asked = get::Asked {
            method: &head.method,
            key,
            headers: &head.headers,
        };
        match found {
            Ok(object) => get::answer(&self.server, &self.line, asked, &object),
            Err(StoreError::IsFolder) => to_folder(head, key),
            Err(error) => of_store(&error, key),
        }
    }

    fn put(&self, head: &request::Parts, named: Named, body: Incoming) -> Answering {
        if named.is_folder {
            let text = "a file's path does not end in a slash; folders are made with the files in them";
            return Answering::now(plain(StatusCode::BAD_REQUEST, text));
        }
        match put::Asked::new(&self.server, named.key, &head.headers) {
            Ok(asked) => Answering::later(put::answer(Arc::clone(&self.server), asked, body)),
            Err(answer) => Answering::now(answer),
        }
    }

    fn delete(&self, head: &request::Parts, named: Named) -> Answering {
        let conditions = haul_plan::serving::Conditions::parse(&head.headers);
        let server = Arc::clone(&self.server);
        Answering::later(async move {
            let (store, key) = (Arc::clone(&server.store), named.key.clone());
            let deleted = server.disk.run(move || {
                let check = |meta: Option<&crate::store::Meta>| put::holds(&conditions, meta);
                store.delete(&named, (!conditions.is_empty()).then_some(&check))
            });
            match deleted.await {
                Ok(()) => bare(StatusCode::NO_CONTENT),
                Err(error) => of_store(&error, &key),
            }
        })
    }

    fn options(&self) -> Answer {
        let mut answer = bare(StatusCode::NO_CONTENT);
        let allow = answer::allow(self.server.store.options().writable);
        answer.headers_mut().insert(ALLOW, allow);
        answer
    }
}

/// A folder's path ends in a slash: links in its page are relative to that.
fn to_folder(head: &request::Parts, key: &Key) -> Answer {
    let query = head.uri.query().map_or_else(String::new, |query| format!("?{query}"));
    let mut answer = bare(StatusCode::MOVED_PERMANENTLY);
    if let Ok(location) = HeaderValue::try_from(format!("{}/{query}", key.escaped())) {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}
