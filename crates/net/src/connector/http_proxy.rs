//! CONNECT through an HTTP proxy (RFC 9110 9.3.6), not one byte after the answer lost.
//!
//! Written here rather than taken from hyper's client because the bytes that follow the proxy's 200 in the same packet
//! (an SSH banner, say) must come first in the stream, and because a 407 may be answered on the same connection or a new
//! one.

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use url::Url;

use crate::auth::{AuthCache, AuthChallenges, Authorization, MAX_AUTH_ATTEMPTS};
use crate::error::{Error, Kind, TlsProblem};
use crate::proxy::Proxy;
use crate::target::Target;
use crate::transport::TransportStream;
use crate::transport::tls_error::is_certificate_refused;

/// The longest head that a proxy may send, in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// The longest of a proxy's words that are repeated, in characters.
const MAX_REASON: usize = 120;

/// How many heads below 200 are skipped.
const MAX_INTERIM: usize = 16;

/// The head of a proxy's answer.
struct ProxyResponseHead {
    status: StatusCode,
    challenges: AuthChallenges,
    /// Whether the connection can carry another request: nothing is left of this answer.
    is_reusable: bool,
    /// What followed the head in the same read.
    trailing: Bytes,
    /// What the proxy says besides the status.
    reason: Option<ProxyReason>,
}

/// The words of a proxy that refuses: those of its status line, if they are its own, or squid's name for the reason.
#[derive(Debug, thiserror::Error)]
#[error("it says {0:?}")]
struct ProxyReason(String);

/// What it asks for was not shown.
#[derive(Debug, thiserror::Error)]
#[error(
    "it asked when the request had been sent, which cannot be sent twice; the next one will show them"
)]
struct LateProxyChallenge;

/// Asks a proxy to connect to a target; answers a 407, and one that says that its nonce was used up, with the proxy's login, on a new
/// connection if need be. Nothing of the login is shown before the proxy has said how it wants to see it, so that one with Digest never
/// gets the password; `sessions` remembers that for later tunnels.
pub(super) async fn open_tunnel<F>(
    mut stream: TransportStream,
    (target, proxy, sessions): (&Target, &Proxy, &AuthCache),
    (url, again): (&Url, impl Fn() -> F),
) -> Result<TransportStream, Error>
where
    F: Future<Output = Result<TransportStream, Error>>,
{
    let shown = (proxy.login.as_ref()).and_then(|login| {
        let what = ("CONNECT", &*target.to_string());
        sessions.authorize(&proxy.auth_key(), login, what)
    });
    let head = send_connect(&mut stream, (target, proxy), shown.as_ref(), url).await?;
    if head.status != StatusCode::PROXY_AUTHENTICATION_REQUIRED || proxy.login.is_none() {
        return finish(stream, head, url);
    }
    // Apart: each tunnel would make room for what few of them need.
    Box::pin(authenticate(
        (stream, head, shown),
        (target, proxy, sessions),
        (url, again),
    ))
    .await
}

/// Shows a proxy that answered 407 what it asks for, as often as that is worth a try.
async fn authenticate<F>(
    (mut stream, mut head, mut shown): (TransportStream, ProxyResponseHead, Option<Authorization>),
    (target, proxy, sessions): (&Target, &Proxy, &AuthCache),
    (url, again): (&Url, impl Fn() -> F),
) -> Result<TransportStream, Error>
where
    F: Future<Output = Result<TransportStream, Error>>,
{
    let (peer, target_text) = (proxy.auth_key(), target.to_string());
    let what = ("CONNECT", &*target_text);
    for _ in 1..MAX_AUTH_ATTEMPTS {
        let is_asked = head.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED;
        let refused = (&head.challenges, shown.as_ref());
        let next = proxy.login.as_ref().filter(|_| is_asked);
        let next = next.and_then(|login| sessions.retry(&peer, refused, (login, what)));
        let Some(next) = next else {
            break;
        };
        let kept = match head.is_reusable {
            true => send_connect(&mut stream, (target, proxy), Some(&next), url).await,
            false => Err(Error::new(Kind::Closed, url)),
        };
        head = match kept {
            // It was closed after all: by the 407's own word, or without one.
            Err(error) if *error.kind() == Kind::Closed => {
                stream = again().await?;
                send_connect(&mut stream, (target, proxy), Some(&next), url).await?
            }
            answered => answered?,
        };
        shown = Some(next);
    }
    finish(stream, head, url)
}

/// What a proxy's last answer comes to.
fn finish(
    stream: TransportStream,
    head: ProxyResponseHead,
    url: &Url,
) -> Result<TransportStream, Error> {
    match head.status {
        status if status.is_success() && head.trailing.is_empty() => Ok(stream),
        status if status.is_success() => {
            Ok(TransportStream::Rewound(head.trailing, Box::new(stream)))
        }
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            Err(proxy_auth_error(&head.challenges, false, url))
        }
        status => {
            let error = Error::new(Kind::ProxyRefused(Some(status)), url);
            Err(match head.reason {
                Some(said) => error.with_source(said),
                None => error,
            })
        }
    }
}

/// The proxy wants to see credentials, or others; or has asked too late.
pub(super) fn proxy_auth_error(challenges: &AuthChallenges, is_late: bool, url: &Url) -> Error {
    let error = Error::new(Kind::ProxyAuth(challenges.realm()), url);
    match challenges.unsupported() {
        Some(ways) => error.with_source(ways),
        None if is_late => error.with_source(LateProxyChallenge),
        None => error,
    }
}

async fn send_connect(
    stream: &mut TransportStream,
    (target, proxy): (&Target, &Proxy),
    shown: Option<&Authorization>,
    url: &Url,
) -> Result<ProxyResponseHead, Error> {
    let closed = |e: std::io::Error| {
        // In TLS 1.3 that is said when the handshake is over on our side.
        let kind = match is_certificate_refused(&e) {
            true => Kind::Tls(TlsProblem::ClientCertificate),
            false => Kind::Closed,
        };
        Error::new(kind, url).with_source(e)
    };
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
    for (name, value) in &proxy.headers {
        request.extend_from_slice(name.as_str().as_bytes());
        request.extend_from_slice(b": ");
        request.extend_from_slice(value.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    if let Some(shown) = shown {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(shown.value.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    stream.write_all(&request).await.map_err(closed)?;
    stream.flush().await.map_err(closed)?;
    let mut buffer = BytesMut::with_capacity(4096);
    for _ in 0..MAX_INTERIM {
        let length = loop {
            if let Some(at) = end_of_head(&buffer) {
                break at;
            }
            if buffer.len() >= MAX_HEAD {
                return Err(Error::new(Kind::Protocol, url));
            }
            if stream.read_buf(&mut buffer).await.map_err(closed)? == 0 {
                return Err(Error::new(Kind::Closed, url));
            }
        };
        let head = buffer.split_to(length);
        let head = parse_head(&head).ok_or_else(|| Error::new(Kind::Protocol, url))?;
        if !head.status.is_informational() {
            return Ok(ProxyResponseHead {
                trailing: buffer.freeze(),
                ..head
            });
        }
    }
    Err(Error::new(Kind::Protocol, url))
}

/// Where a head ends: after its empty line. Bare line feeds are taken, as odd proxies write them.
fn end_of_head(buffer: &[u8]) -> Option<usize> {
    let crlf = buffer
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .map(|at| at + 4);
    let lf = buffer
        .windows(2)
        .position(|window| window == b"\n\n")
        .map(|at| at + 2);
    match (crlf, lf) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (found, None) | (None, found) => found,
    }
}

/// Bytes, not text: a realm may be in any charset.
fn parse_head(head: &[u8]) -> Option<ProxyResponseHead> {
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = String::from_utf8_lossy(lines.next()?);
    let mut words = first.split_ascii_whitespace();
    let version = words
        .next()
        .filter(|version| version.starts_with("HTTP/1."))?;
    let status = StatusCode::from_bytes(words.next()?.as_bytes()).ok()?;
    let reason = words.collect::<Vec<_>>().join(" ");
    let (mut challenges, mut length, mut close, mut chunked) =
        (AuthChallenges::default(), None, false, false);
    let mut said = Some(reason).filter(|reason| {
        !reason.is_empty()
            && !status
                .canonical_reason()
                .is_some_and(|usual| usual.eq_ignore_ascii_case(reason))
    });
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        match name.to_ascii_lowercase().as_slice() {
            b"proxy-authenticate" => challenges.add(value),
            b"content-length" => length = std::str::from_utf8(value).ok()?.parse::<u64>().ok(),
            b"transfer-encoding" => chunked = true,
            b"x-squid-error" => said = Some(String::from_utf8_lossy(value).into_owned()),
            b"connection" | b"proxy-connection" => close |= value.eq_ignore_ascii_case(b"close"),
            _ => {}
        }
    }
    Some(ProxyResponseHead {
        status,
        challenges,
        // What speaks 1.0 closes.
        is_reusable: !close && !chunked && length == Some(0) && version != "HTTP/1.0",
        trailing: Bytes::new(),
        reason: said.map(|said| ProxyReason(said.chars().take(MAX_REASON).collect())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_realm_in_any_charset_is_read() {
        for realm in ["Прокси".as_bytes(), b"caf\xe9", b"a\rb"] {
            let mut head = b"HTTP/1.1 407 x\r\nProxy-Authenticate: Digest realm=\"".to_vec();
            head.extend_from_slice(realm);
            head.extend_from_slice(b"\", qop=\"auth\", nonce=\"x\"\r\n\r\n");
            assert!(parse_head(&head).unwrap().challenges.realm().is_some());
        }
    }

    #[test]
    fn heads_of_odd_proxies_are_read() {
        let head = parse_head(b"HTTP/1.0 200\r\n\r\n").unwrap();
        assert_eq!(head.status, StatusCode::OK);
        assert_eq!(
            parse_head(b"HTTP/1.1 200 Connection very established\nVia: x\n\n")
                .unwrap()
                .status,
            StatusCode::OK
        );
        assert!(parse_head(b"SSH-2.0-x\r\n\r\n").is_none());
        assert!(parse_head(b"HTTP/1.1 2x0 y\r\n\r\n").is_none());
        assert_eq!(end_of_head(b"a\r\nb\r\n\r\nrest"), Some(8));
        assert_eq!(end_of_head(b"a\n\nrest"), Some(3));
        assert_eq!(end_of_head(b"a\r\nb\r\n"), None);
    }
}
