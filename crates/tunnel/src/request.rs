//! A request that is passed on: to its origin, or to a proxy that takes it as it is and may want a login first.
//!
//! With a login the proxy's first answer is looked at before the client sees it: what a 407 asks for is shown, over a new connection. A
//! request with a body cannot be sent twice, so where it is not known for certain what the proxy wants to see, a request without one asks: a
//! password will do whenever it is shown, and a nonce that is remembered may have been used up by others.

use bytes::{Bytes, BytesMut};
use haul_net::{ASKS, Authorization, Proxy};
use http::HeaderMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

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

/// Sends a request's head to wherever it is taken.
pub(crate) async fn send(upstream: &Upstream, request: &ForwardRequest) -> Result<Sent, Unreached> {
    let mut found = upstream.reach(request.target(), Errand::Request).await?;
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
    let (method, url) = request.line();
    let line = (method, url.as_str());
    let known = connector.authorization(&proxy, line);
    let shown = match known.filter(Authorization::is_lasting) {
        Some(known) => Some(known),
        None => {
            let mut probed = sent(found, request.probe().for_proxy(None)).await;
            let challenges = challenged(&mut probed).await;
            found = upstream.reach(request.target(), Errand::Request).await?;
            challenges.and_then(|fields| connector.challenged((&proxy, &fields), None, line))
        }
    };
    Ok(sent(
        found,
        request.for_proxy(shown.as_ref().map(Authorization::value)),
    )
    .await)
}

/// Sends a request without a body until the proxy is content with what it is shown, or not to be content.
async fn exchange(
    upstream: &Upstream,
    mut found: Found,
    (proxy, request): (&Proxy, &ForwardRequest),
) -> Result<Sent, Unreached> {
    let connector = upstream.connector();
    let (method, url) = request.line();
    let line = (method, url.as_str());
    let mut shown = connector.authorization(proxy, line);
    for _ in 1..ASKS {
        let head = request.for_proxy(shown.as_ref().map(Authorization::value));
        let mut sent = sent(found, head).await;
        let Some(fields) = challenged(&mut sent).await else {
            return Ok(sent);
        };
        shown = connector.challenged((proxy, &fields), shown.as_ref(), line);
        if shown.is_none() {
            return Ok(sent);
        }
        found = upstream.reach(request.target(), Errand::Request).await?;
    }
    // Whatever it says now, the client hears it.
    Ok(sent(
        found,
        request.for_proxy(shown.as_ref().map(Authorization::value)),
    )
    .await)
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
