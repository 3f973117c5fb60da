//! CONNECT through an HTTP proxy (RFC 9110 9.3.6), not one byte after the answer lost.
//!
//! Written here rather than taken from hyper's client because the bytes that follow the proxy's 200 in the same packet
//! (an SSH banner, say) must come first in the stream, and because a 407 may be answered on the same connection or a new
//! one.

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use url::Url;

use super::{Stream, Target};
use crate::auth::{Challenges, Login};
use crate::error::{Error, Kind};
use crate::proxy::Proxy;

/// The longest head that a proxy may send, in bytes.
const HEAD: usize = 64 * 1024;

/// How many heads below 200 are skipped.
const INTERIM: usize = 16;

/// The head of a proxy's answer.
struct Head {
    status: StatusCode,
    challenges: Challenges,
    /// Whether the connection can carry another request: nothing is left of this answer.
    reusable: bool,
    /// What followed the head in the same read.
    early: Bytes,
}

/// Asks a proxy to connect to a target; answers one 407 with the proxy's login, on a new connection if need be.
pub(super) async fn tunnel<F>(
    mut stream: Stream,
    target: &Target,
    proxy: &Proxy,
    (url, again): (&Url, impl Fn() -> F),
) -> Result<Stream, Error>
where
    F: Future<Output = Result<Stream, Error>>,
{
    // Basic goes ahead, as with curl: most proxies want it, and it saves a round trip.
    let mut authorization = proxy.login.as_ref().map(Login::basic);
    let mut head = ask(&mut stream, target, authorization.as_deref(), url).await?;
    if head.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED
        && let Some(login) = &proxy.login
    {
        let answer = head
            .challenges
            .answer(login, "CONNECT", &target.to_string());
        if let Some(answer) = answer.filter(|answer| Some(answer) != authorization.as_ref()) {
            if !head.reusable {
                stream = again().await?;
            }
            authorization = Some(answer);
            head = ask(&mut stream, target, authorization.as_deref(), url).await?;
        }
    }
    match head.status {
        status if status.is_success() && head.early.is_empty() => Ok(stream),
        status if status.is_success() => Ok(Stream::Rewound(head.early, Box::new(stream))),
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            Err(Error::new(Kind::ProxyAuth(head.challenges.realm()), url))
        }
        status => Err(Error::new(Kind::ProxyRefused(Some(status)), url)),
    }
}

async fn ask(
    stream: &mut Stream,
    target: &Target,
    authorization: Option<&str>,
    url: &Url,
) -> Result<Head, Error> {
    let closed = |e: std::io::Error| Error::new(Kind::Closed, url).because(e);
    let credentials = authorization
        .map(|value| format!("Proxy-Authorization: {value}\r\n"))
        .unwrap_or_default();
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{credentials}\r\n");
    stream.write_all(request.as_bytes()).await.map_err(closed)?;
    stream.flush().await.map_err(closed)?;
    let mut buffer = BytesMut::with_capacity(4096);
    for _ in 0..INTERIM {
        let length = loop {
            if let Some(at) = end_of_head(&buffer) {
                break at;
            }
            if buffer.len() >= HEAD {
                return Err(Error::new(Kind::Protocol, url));
            }
            if stream.read_buf(&mut buffer).await.map_err(closed)? == 0 {
                return Err(Error::new(Kind::Closed, url));
            }
        };
        let head = buffer.split_to(length);
        let head = parse(&head).ok_or_else(|| Error::new(Kind::Protocol, url))?;
        if !head.status.is_informational() {
            return Ok(Head {
                early: buffer.freeze(),
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

fn parse(head: &[u8]) -> Option<Head> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.lines();
    let mut words = lines.next()?.split_ascii_whitespace();
    words
        .next()
        .filter(|version| version.starts_with("HTTP/1."))?;
    let status = StatusCode::from_bytes(words.next()?.as_bytes()).ok()?;
    let (mut challenges, mut length, mut close, mut chunked) =
        (Challenges::default(), None, false, false);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        match name.trim().to_ascii_lowercase().as_str() {
            "proxy-authenticate" => challenges.add(value),
            "content-length" => length = value.parse::<u64>().ok(),
            "transfer-encoding" => chunked = true,
            "connection" | "proxy-connection" => close |= value.eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
    Some(Head {
        status,
        challenges,
        reusable: !close && !chunked && length == Some(0),
        early: Bytes::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_odd_proxies_are_read() {
        let head = parse(b"HTTP/1.0 200\r\n\r\n").unwrap();
        assert_eq!(head.status, StatusCode::OK);
        assert_eq!(
            parse(b"HTTP/1.1 200 Connection very established\nVia: x\n\n")
                .unwrap()
                .status,
            StatusCode::OK
        );
        assert!(parse(b"SSH-2.0-x\r\n\r\n").is_none());
        assert!(parse(b"HTTP/1.1 2x0 y\r\n\r\n").is_none());
        assert_eq!(end_of_head(b"a\r\nb\r\n\r\nrest"), Some(8));
        assert_eq!(end_of_head(b"a\n\nrest"), Some(3));
        assert_eq!(end_of_head(b"a\r\nb\r\n"), None);
    }
}
