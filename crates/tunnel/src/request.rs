//! A request that is passed on: to its origin, or to a proxy that takes it as it is and may want a login first.
//!
//! With a login the proxy's first answer is looked at before anything of it is for the client: what a 407 asks for is shown, over a new
//! connection. A request with a body cannot be sent twice, so where it is not known for certain what the proxy wants to see, a request
//! without one asks: a password will do whenever it is shown, and a nonce that is remembered may have been used up by others.
//!
//! A 407 that is left is never the client's to answer: what it would say to its proxy it says to us, and we pass none of it on. So it is
//! our error, as when a CONNECT is refused.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use haul_net::{Authorization, Connector, MAX_AUTH_ATTEMPTS, Proxy};
use http::HeaderMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use url::Url;

use crate::local::{ForwardRequest, ParsedResponseHead};
use crate::relay::{RelayStream, ResponseAction, ResponseObserver};
use crate::upstream::{StreamPurpose, Upstream, UpstreamConnectError, UpstreamConnection};

/// Bytes of a proxy's head that are looked at.
const HEAD: usize = 64 << 10;

/// An end on which a request was sent.
#[derive(Debug)]
pub(crate) struct SentRequest {
    pub(crate) end: RelayStream,
    /// What came of the answer already.
    pub(crate) early: Bytes,
    pub(crate) via: Arc<str>,
    /// Bytes of the head that was sent.
    pub(crate) head: usize,
    /// Who hears the answer before the client does.
    pub(crate) listener: ResponseObserver,
}

/// Whose answer it will be.
#[derive(Clone)]
struct RequestSender {
    upstream: Arc<Upstream>,
    request: ForwardRequest,
    /// The proxy that takes the request as it is; an origin has no questions.
    proxy: Option<Proxy>,
    /// What errors speak of.
    url: Url,
}

/// Why a request was not sent, or has no answer.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// There is no way to where it is taken.
    Unreached(UpstreamConnectError),
    /// Nothing was heard for too long.
    Idle,
}

impl From<UpstreamConnectError> for RequestError {
    fn from(why: UpstreamConnectError) -> Self {
        Self::Unreached(why)
    }
}

/// What a proxy answers first.
enum FirstProxyResponse {
    /// 407, with these fields.
    Challenge(HeaderMap),
    /// Anything else: it is content with what it was shown.
    Content,
    /// Nothing that could be understood.
    Nothing,
}

/// Sends a request's head to wherever it is taken. Whoever has to be heard before the client is waited for `idle` at most.
pub(crate) async fn send(
    upstream: &Arc<Upstream>,
    request: &ForwardRequest,
    idle: Option<Duration>,
) -> Result<SentRequest, RequestError> {
    let found = upstream
        .connect(request.target(), StreamPurpose::HttpRequest)
        .await?;
    let asker = RequestSender {
        upstream: Arc::clone(upstream),
        request: request.clone(),
        proxy: found.http_proxy.clone(),
        url: found.url.clone(),
    };
    let Some(proxy) = asker.proxy.clone() else {
        return asker.sent(found, None, idle).await;
    };
    if proxy.login.is_none() {
        return asker.sent(found, None, idle).await;
    }
    if request.body().is_over() {
        return exchange(&asker, found, (&proxy, idle)).await;
    }
    let (method, url) = request.line();
    let known = upstream
        .connector()
        .proxy_authorization(&proxy, (method, &url))
        .filter(Authorization::is_reusable);
    let (found, shown) = match known {
        Some(known) => (found, Some(known)),
        None if upstream.unasked().is_known(&proxy, request.target()) => (found, None),
        None => {
            let shown = probe(&asker, found, &proxy).await?;
            let found = upstream
                .connect(request.target(), StreamPurpose::HttpRequest)
                .await?;
            (found, shown)
        }
    };
    asker.sent(found, shown.as_ref(), idle).await
}

/// Asks what a proxy wants to see with a request, by another that has no body. One that does not say so in time is shown nothing.
async fn probe(
    asker: &RequestSender,
    found: UpstreamConnection,
    proxy: &Proxy,
) -> Result<Option<Authorization>, UpstreamConnectError> {
    let (upstream, request) = (&asker.upstream, &asker.request);
    let probe = RequestSender {
        request: request.probe(),
        ..asker.clone()
    };
    let limit = Some(upstream.limit());
    let Ok(mut probed) = probe.sent(found, None, limit).await else {
        return Ok(None);
    };
    let Ok(first) = within(limit, first(&mut probed)).await else {
        return Ok(None);
    };
    learn(upstream, (proxy, request), &first);
    let FirstProxyResponse::Challenge(fields) = first else {
        return Ok(None);
    };
    let (method, url) = request.line();
    let connector = upstream.connector();
    match connector.retry_proxy_auth((proxy, &fields), None, (method, &url)) {
        Some(shown) => Ok(Some(shown)),
        // It would not take the body either.
        None => Err(Connector::proxy_auth_error((proxy, &fields), true, &asker.url).into()),
    }
}

/// Sends a request without a body until the proxy is content with what it is shown, or not to be content.
async fn exchange(
    asker: &RequestSender,
    mut found: UpstreamConnection,
    (proxy, idle): (&Proxy, Option<Duration>),
) -> Result<SentRequest, RequestError> {
    let (upstream, request) = (&asker.upstream, &asker.request);
    let connector = upstream.connector();
    let (method, url) = request.line();
    let line = (method, url.as_str());
    let mut shown = connector.proxy_authorization(proxy, line);
    for _ in 1..MAX_AUTH_ATTEMPTS {
        let mut sent = asker.sent(found, shown.as_ref(), idle).await?;
        let first = within(idle, first(&mut sent)).await?;
        if shown.is_none() {
            learn(upstream, (proxy, request), &first);
        }
        let FirstProxyResponse::Challenge(fields) = first else {
            return Ok(sent);
        };
        shown = connector.retry_proxy_auth((proxy, &fields), shown.as_ref(), line);
        if shown.is_none() {
            let error = Connector::proxy_auth_error((proxy, &fields), true, &asker.url);
            return Err(UpstreamConnectError::from(error).into());
        }
        found = upstream
            .connect(request.target(), StreamPurpose::HttpRequest)
            .await?;
    }
    // Whatever it says now is its last word.
    asker.sent(found, shown.as_ref(), idle).await
}

impl RequestSender {
    /// Writes the head, with what it shows. That a peer does not take it is seen by whoever reads the answer; one that takes its time is
    /// given up.
    async fn sent(
        &self,
        found: UpstreamConnection,
        shown: Option<&Authorization>,
        limit: Option<Duration>,
    ) -> Result<SentRequest, RequestError> {
        let head = match self.proxy {
            Some(_) => self.request.for_proxy(shown.map(Authorization::value)),
            None => self.request.for_origin(),
        };
        let (mut end, early) = RelayStream::from_transport(found.stream);
        let writing = async {
            let _ = end.write_all(&head).await;
            let _ = end.flush().await;
        };
        within(limit, writing).await?;
        Ok(SentRequest {
            end,
            early,
            via: found.via,
            head: head.len(),
            listener: self.listener(shown.is_some()),
        })
    }

    /// Who makes out whether an answer is the client's.
    fn listener(&self, is_shown: bool) -> ResponseObserver {
        let (method, url) = self.request.line();
        let (method, target) = (method.to_owned(), self.request.target().clone());
        let (upstream, speaks_of) = (Arc::clone(&self.upstream), self.url.clone());
        let proxy = self.proxy.clone();
        let silence = Connector::no_response_error(self.proxy.as_ref(), &self.url);
        let listener =
            ResponseObserver::new(move |said| match (ParsedResponseHead::of(said), &proxy) {
                (ParsedResponseHead::Part, _) => ResponseAction::Part,
                (ParsedResponseHead::Interim(length), _) => ResponseAction::Before(length),
                (ParsedResponseHead::Answer(length, words), _) => {
                    ResponseAction::Words(length, words)
                }
                (ParsedResponseHead::Challenge(fields), Some(proxy)) => {
                    if !is_shown {
                        // Remembered for the next.
                        let connector = upstream.connector();
                        let _ = connector.retry_proxy_auth((proxy, &fields), None, (&method, &url));
                        upstream.unasked().learn((proxy, &target), true);
                    }
                    let error = Connector::proxy_auth_error((proxy, &fields), is_shown, &speaks_of);
                    ResponseAction::Refused(Box::new(error))
                }
                // An origin that says 407 is odd, and no proxy of ours.
                (ParsedResponseHead::Challenge(_) | ParsedResponseHead::Nothing, _) => {
                    ResponseAction::Whatever
                }
            });
        listener.unless_silent(silence)
    }
}

/// Remembers what a proxy made of a request that showed it nothing.
fn learn(
    upstream: &Upstream,
    (proxy, request): (&Proxy, &ForwardRequest),
    first: &FirstProxyResponse,
) {
    let has_asked = match first {
        FirstProxyResponse::Challenge(_) => true,
        FirstProxyResponse::Content => false,
        FirstProxyResponse::Nothing => return,
    };
    upstream
        .unasked()
        .learn((proxy, request.target()), has_asked);
}

/// Waits for something as long as that is allowed.
async fn within<T>(
    limit: Option<Duration>,
    task: impl Future<Output = T>,
) -> Result<T, RequestError> {
    match limit {
        Some(limit) => timeout(limit, task).await.map_err(|_| RequestError::Idle),
        None => Ok(task.await),
    }
}

/// Reads the head of an answer, and keeps it.
async fn first(sent: &mut SentRequest) -> FirstProxyResponse {
    let mut buffer = BytesMut::from(&sent.early[..]);
    let first = loop {
        if let Some(found) = judged(&buffer) {
            break found;
        }
        if buffer.len() >= HEAD || !matches!(sent.end.read_buf(&mut buffer).await, Ok(1..)) {
            break FirstProxyResponse::Nothing;
        }
    };
    sent.early = buffer.freeze();
    first
}

/// What a head says, once it is whole. What is no head is for the client to judge.
fn judged(bytes: &[u8]) -> Option<FirstProxyResponse> {
    match ParsedResponseHead::of(bytes) {
        ParsedResponseHead::Part => None,
        ParsedResponseHead::Challenge(fields) => Some(FirstProxyResponse::Challenge(fields)),
        ParsedResponseHead::Interim(_) | ParsedResponseHead::Answer(..) => {
            Some(FirstProxyResponse::Content)
        }
        ParsedResponseHead::Nothing => Some(FirstProxyResponse::Nothing),
    }
}
