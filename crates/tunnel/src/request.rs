//! A request that is passed on: to its origin, or to a proxy that takes it as it is and may want a login first.
//!
//! With a login the proxy's first answer is looked at before the client sees it: what a 407 asks for is shown, over a new connection. A
//! request with a body cannot be sent twice, so where it is not known yet what the proxy wants to see, a request without one asks.

use bytes::{Bytes, BytesMut};
use haul_net::{Connector, Proxy};
use http::HeaderMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::local::ForwardRequest;
use crate::relay::End;
use crate::upstream::{Errand, Found, Unreached, Upstream};

/// Bytes of a proxy's head that are looked at.
const HEAD: usize = 64 << 10;

/// Fields of it.
const FIELDS: usize = 128;

/// Times that a request is sent: without a login, with one, and once more where that was answered to a nonce that is stale.
const TRIES: usize = 3;

/// An end on which a request was sent.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) end: End,
    /// What came of the answer already.
    pub(crate) early: Bytes,
    pub(crate) via: std::sync::Arc<str>,
}

/// Sends a request's head to wherever it is taken.
pub(crate) async fn send(upstream: &Upstream, request: &ForwardRequest) -> Result<Sent, Unreached> {
    let found = upstream.reach(request.target(), Errand::Request).await?;
    let Some(proxy) = found.forwarders.last().cloned() else {
        return Ok(sent(found, request.for_origin()).await);
    };
    let connector = upstream.connector();
    if proxy.login.is_none() {
        return Ok(sent(found, request.for_proxy(None)).await);
    }
    if request.body().is_over() {
        return exchange(upstream, found, (&proxy, request)).await;
    }
    if shown(connector, (&proxy, request)).is_none() {
        exchange(upstream, found, (&proxy, &request.probe())).await?;
        let found = upstream.reach(request.target(), Errand::Request).await?;
        return Ok(with_login(connector, found, (&proxy, request)).await);
    }
    Ok(with_login(connector, found, (&proxy, request)).await)
}

/// Sends a request without a body until the proxy is content with what it is shown, or not to be content.
async fn exchange(
    upstream: &Upstream,
    mut found: Found,
    (proxy, request): (&Proxy, &ForwardRequest),
) -> Result<Sent, Unreached> {
    let connector = upstream.connector();
    let mut tries = TRIES;
    loop {
        tries -= 1;
        let shown = shown(connector, (proxy, request));
        let head = request.for_proxy(shown.as_ref().map(haul_net::Authorization::value));
        let mut sent = sent(found, head).await;
        let Some(challenges) = challenged(&mut sent).await else {
            return Ok(sent);
        };
        // What the proxy has said is told to the client.
        if !connector.challenged(proxy, &challenges, shown.as_ref()) || tries == 0 {
            return Ok(sent);
        }
        found = upstream.reach(request.target(), Errand::Request).await?;
    }
}

async fn with_login(
    connector: &Connector,
    found: Found,
    (proxy, request): (&Proxy, &ForwardRequest),
) -> Sent {
    let shown = shown(connector, (proxy, request));
    let head = request.for_proxy(shown.as_ref().map(haul_net::Authorization::value));
    sent(found, head).await
}

/// What a proxy wants to see of a request, as far as it has said.
fn shown(
    connector: &Connector,
    (proxy, request): (&Proxy, &ForwardRequest),
) -> Option<haul_net::Authorization> {
    let (method, url) = request.line();
    connector.authorization(proxy, (method, &url))
}

/// Writes a head. That a peer does not take it is seen by whoever reads the answer.
async fn sent(found: Found, head: Vec<u8>) -> Sent {
    let (mut end, early) = End::of(found.stream);
    let _ = end.write_all(&head).await;
    let _ = end.flush().await;
    Sent {
        end,
        early,
        via: found.via,
    }
}

/// Reads the head of an answer, and keeps it; the fields of a 407.
async fn challenged(sent: &mut Sent) -> Option<HeaderMap> {
    let mut buffer = BytesMut::from(&sent.early[..]);
    let challenges = loop {
        if let Some(found) = fields_of_407(&buffer) {
            break found;
        }
        if buffer.len() >= HEAD || !matches!(sent.end.read_buf(&mut buffer).await, Ok(1..)) {
            break None;
        }
    };
    sent.early = buffer.freeze();
    challenges
}

/// What a head says, once it is whole: nothing unless it is a 407. What is no head is for the client to judge.
fn fields_of_407(bytes: &[u8]) -> Option<Option<HeaderMap>> {
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
            Some(Some(map))
        }
        _ => Some(None),
    }
}
