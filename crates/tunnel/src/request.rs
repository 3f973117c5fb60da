//! A request that is passed on: to its origin, or to a proxy that takes it as it is and may want a login first.
//!
//! With a login the proxy's first answer is looked at before the client sees it: what a 407 asks for is shown, over a new connection. A
//! request with a body cannot be sent twice, so where it is not known for certain what the proxy wants to see, a request without one asks: a
//! password will do whenever it is shown, and a nonce that is remembered may have been used up by others.

use std::future::Future;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use haul_net::{ASKS, Authorization, Proxy};
use http::HeaderMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::local::ForwardRequest;
use crate::relay::End;
use crate::upstream::{Errand, Found, Unreached, Upstream};

/// Bytes of a proxy's head that are looked at.
const HEAD: usize = 64 << 10;

/// Fields of it.
const FIELDS: usize = 128;

/// An end on which a request was sent.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) end: End,
    /// What came of the answer already.
    pub(crate) early: Bytes,
    pub(crate) via: std::sync::Arc<str>,
}

/// Why a request was not sent, or has no answer.
#[derive(Debug)]
pub(crate) enum Unsent {
    /// There is no way to where it is taken.
    Unreached(Unreached),
    /// Nothing was heard for too long.
    Idle,
}

impl From<Unreached> for Unsent {
    fn from(why: Unreached) -> Self {
        Self::Unreached(why)
    }
}

/// What a proxy answers first.
enum First {
    /// 407, with these fields.
    Challenge(HeaderMap),
    /// Anything else: it is content with what it was shown.
    Content,
    /// Nothing that could be understood.
    Nothing,
}

/// Sends a request's head to wherever it is taken. Whoever has to be heard before the client is waited for `idle` at most.
pub(crate) async fn send(
    upstream: &Upstream,
    request: &ForwardRequest,
    idle: Option<Duration>,
) -> Result<Sent, Unsent> {
    let found = upstream.reach(request.target(), Errand::Request).await?;
    let Some(proxy) = found.forwarders.last().cloned() else {
        return sent(found, request.for_origin(), idle).await;
    };
    if proxy.login.is_none() {
        return sent(found, request.for_proxy(None), idle).await;
    }
    if request.body().is_over() {
        return exchange(upstream, found, (&proxy, request, idle)).await;
    }
    let (method, url) = request.line();
    let known = upstream
        .connector()
        .authorization(&proxy, (method, &url))
        .filter(Authorization::is_lasting);
    let (found, shown) = match known {
        Some(known) => (found, Some(known)),
        None if upstream.unasked().is_known(&proxy, request.target()) => (found, None),
        None => {
            let shown = probe(upstream, found, (&proxy, request)).await;
            let found = upstream.reach(request.target(), Errand::Request).await?;
            (found, shown)
        }
    };
    let shown = shown.as_ref().map(Authorization::value);
    sent(found, request.for_proxy(shown), idle).await
}

/// Asks what a proxy wants to see with a request, by another that has no body. One that does not say so in time is shown nothing.
async fn probe(
    upstream: &Upstream,
    found: Found,
    (proxy, request): (&Proxy, &ForwardRequest),
) -> Option<Authorization> {
    let probe = request.probe().for_proxy(None);
    let limit = Some(upstream.limit());
    let mut probed = sent(found, probe, limit).await.ok()?;
    let first = within(limit, first(&mut probed)).await.ok()?;
    learn(upstream, (proxy, request), &first);
    let First::Challenge(fields) = first else {
        return None;
    };
    let (method, url) = request.line();
    let connector = upstream.connector();
    connector.challenged((proxy, &fields), None, (method, &url))
}

/// Sends a request without a body until the proxy is content with what it is shown, or not to be content.
async fn exchange(
    upstream: &Upstream,
    mut found: Found,
    (proxy, request, idle): (&Proxy, &ForwardRequest, Option<Duration>),
) -> Result<Sent, Unsent> {
    let connector = upstream.connector();
    let (method, url) = request.line();
    let line = (method, url.as_str());
    let mut shown = connector.authorization(proxy, line);
    for _ in 1..ASKS {
        let head = request.for_proxy(shown.as_ref().map(Authorization::value));
        let mut sent = sent(found, head, idle).await?;
        let first = within(idle, first(&mut sent)).await?;
        if shown.is_none() {
            learn(upstream, (proxy, request), &first);
        }
        let First::Challenge(fields) = first else {
            return Ok(sent);
        };
        shown = connector.challenged((proxy, &fields), shown.as_ref(), line);
        if shown.is_none() {
            return Ok(sent);
        }
        found = upstream.reach(request.target(), Errand::Request).await?;
    }
    // Whatever it says now, the client hears it.
    let shown = shown.as_ref().map(Authorization::value);
    sent(found, request.for_proxy(shown), idle).await
}

/// Remembers what a proxy made of a request that showed it nothing.
fn learn(upstream: &Upstream, (proxy, request): (&Proxy, &ForwardRequest), first: &First) {
    let has_asked = match first {
        First::Challenge(_) => true,
        First::Content => false,
        First::Nothing => return,
    };
    upstream
        .unasked()
        .learn((proxy, request.target()), has_asked);
}

/// Writes a head. That a peer does not take it is seen by whoever reads the answer; one that takes its time is given up.
async fn sent(found: Found, head: Vec<u8>, limit: Option<Duration>) -> Result<Sent, Unsent> {
    let (mut end, early) = End::of(found.stream);
    let writing = async {
        let _ = end.write_all(&head).await;
        let _ = end.flush().await;
    };
    within(limit, writing).await?;
    Ok(Sent {
        end,
        early,
        via: found.via,
    })
}

/// Waits for something as long as that is allowed.
async fn within<T>(limit: Option<Duration>, task: impl Future<Output = T>) -> Result<T, Unsent> {
    match limit {
        Some(limit) => timeout(limit, task).await.map_err(|_| Unsent::Idle),
        None => Ok(task.await),
    }
}

/// Reads the head of an answer, and keeps it.
async fn first(sent: &mut Sent) -> First {
    let mut buffer = BytesMut::from(&sent.early[..]);
    let first = loop {
        if let Some(found) = judged(&buffer) {
            break found;
        }
        if buffer.len() >= HEAD || !matches!(sent.end.read_buf(&mut buffer).await, Ok(1..)) {
            break First::Nothing;
        }
    };
    sent.early = buffer.freeze();
    first
}

/// What a head says, once it is whole. What is no head is for the client to judge.
fn judged(bytes: &[u8]) -> Option<First> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    match response.parse(bytes) {
        Ok(httparse::Status::Partial) => None,
        Ok(httparse::Status::Complete(_)) if response.code == Some(407) => {
            let fields = response.headers.iter().filter_map(|field| {
                let name = http::HeaderName::from_bytes(field.name.as_bytes()).ok()?;
                Some((name, http::HeaderValue::from_bytes(field.value).ok()?))
            });
            // Several of a name are several challenges.
            let mut map = HeaderMap::new();
            for (name, value) in fields {
                map.append(name, value);
            }
            Some(First::Challenge(map))
        }
        Ok(httparse::Status::Complete(_)) => Some(First::Content),
        Err(_) => Some(First::Nothing),
    }
}
