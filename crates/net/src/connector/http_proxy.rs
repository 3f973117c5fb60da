//! CONNECT through an HTTP proxy (RFC 9110 9.3.6).
//!
//! This is not the client of `http1`: bytes that follow the proxy's 200 in the same packet (an SSH banner, say) must come first in
//! the stream, and a 407 is answered on the same connection where the proxy keeps it open, else on a new one.

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use url::Url;

use crate::auth::{AuthChallenges, Authorization, MAX_AUTH_ATTEMPTS, NO_CHALLENGES};
use crate::error::{Error, Kind, TlsProblem};
use crate::http1::end_of_head;
use crate::proxy::{Proxy, ProxyAuthenticator};
use crate::target::Target;
use crate::transport::TransportStream;
use crate::transport::tls_error::is_certificate_refused;

/// The longest response head of a proxy, in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// The longest reason of a proxy that an error repeats, in characters.
const MAX_REASON: usize = 120;

/// How many 1xx heads are skipped.
const MAX_INTERIM: usize = 16;

const METHOD: &str = "CONNECT";

/// A tunnel through a proxy to a target, which may be the next proxy.
pub(super) struct HttpTunnel<'a> {
    pub(super) target: &'a Target,
    pub(super) proxy: &'a Proxy,
    pub(super) proxy_auth: &'a ProxyAuthenticator,
    /// The URL that errors name.
    pub(super) url: &'a Url,
}

struct ProxyResponseHead {
    status: StatusCode,
    challenges: AuthChallenges,
    /// Whether the connection can carry another request: this response has no body.
    is_reusable: bool,
    /// Bytes that followed the head in the same read.
    trailing: Bytes,
    reason: Option<ProxyReason>,
}

/// Why a proxy refuses, in its own words: the reason of its status line if it is not the standard one, or squid's error name.
#[derive(Debug, thiserror::Error)]
#[error("it says {0:?}")]
struct ProxyReason(String);

impl HttpTunnel<'_> {
    /// Opens the tunnel over a stream to the proxy; `reconnect` makes another one. A refusal that may be for want of a login is answered
    /// with the proxy's login, also a 407 that says that a nonce is stale ([`ProxyAuthenticator`]).
    pub(super) async fn open<F>(
        &self,
        mut stream: TransportStream,
        reconnect: impl Fn() -> F,
    ) -> Result<TransportStream, Error>
    where
        F: Future<Output = Result<TransportStream, Error>>,
    {
        let target = self.target.authority();
        let authorization = self.proxy_auth.authorize(self.proxy, METHOD, &target);
        let response = self.send_connect(&mut stream, authorization.as_ref()).await;
        if self.proxy.login.is_none() || refusal_challenges(&response).is_none() {
            return self.finish(stream, response);
        }
        // Boxed: few tunnels need it, and each would have room for it.
        Box::pin(self.authenticate(stream, response, authorization, reconnect)).await
    }

    /// Answers a refusal, as often as that makes sense. `authorization` is what the refused request carried.
    async fn authenticate<F>(
        &self,
        mut stream: TransportStream,
        mut response: Result<ProxyResponseHead, Error>,
        mut authorization: Option<Authorization>,
        reconnect: impl Fn() -> F,
    ) -> Result<TransportStream, Error>
    where
        F: Future<Output = Result<TransportStream, Error>>,
    {
        let target = self.target.authority();
        for _ in 1..MAX_AUTH_ATTEMPTS {
            let next = refusal_challenges(&response).and_then(|challenges| {
                let refused = authorization.as_ref();
                self.proxy_auth
                    .retry(self.proxy, challenges, refused, METHOD, &target)
            });
            let Some(next) = next else {
                break;
            };
            let is_reusable = response.is_ok_and(|head| head.is_reusable);
            response = if is_reusable {
                self.send_connect(&mut stream, Some(&next)).await
            } else {
                Err(Error::new(Kind::Closed, self.url))
            };
            // Also where the proxy closed the connection without saying so in its refusal.
            if is_closed(&response) {
                stream = reconnect().await?;
                response = self.send_connect(&mut stream, Some(&next)).await;
            }
            authorization = Some(next);
        }
        let is_refused = refusal_challenges(&response).is_some();
        let finished = self.finish(stream, response);
        let is_unasked = is_refused && self.proxy_auth.is_unasked(self.proxy);
        finished.map_err(|error| {
            if is_unasked {
                error.with_unasked_login()
            } else {
                error
            }
        })
    }

    /// The tunnel, or the error, of a final response.
    fn finish(
        &self,
        stream: TransportStream,
        response: Result<ProxyResponseHead, Error>,
    ) -> Result<TransportStream, Error> {
        let head = response?;
        match head.status {
            status if status.is_success() && head.trailing.is_empty() => Ok(stream),
            status if status.is_success() => {
                Ok(TransportStream::Rewound(head.trailing, Box::new(stream)))
            }
            // No origin is involved yet: 401 is another way to say 407.
            StatusCode::PROXY_AUTHENTICATION_REQUIRED | StatusCode::UNAUTHORIZED => {
                let challenges = &head.challenges;
                Err(self
                    .proxy_auth
                    .error(self.proxy, challenges, false, self.url))
            }
            status => {
                let error = Error::new(Kind::ProxyRefused(Some(status)), self.url);
                Err(match head.reason {
                    Some(ProxyReason(reason)) => {
                        let reason = self.proxy.request_secrets(self.url).redact(&reason);
                        let shown = reason.chars().take(MAX_REASON).collect();
                        error.with_source(ProxyReason(shown))
                    }
                    None => error,
                })
            }
        }
    }

    async fn send_connect(
        &self,
        stream: &mut TransportStream,
        authorization: Option<&Authorization>,
    ) -> Result<ProxyResponseHead, Error> {
        let io_error = |e: std::io::Error| {
            // With TLS 1.3 a peer refuses the client certificate when the handshake is over on our side.
            let kind = if is_certificate_refused(&e) {
                Kind::Tls(TlsProblem::ClientCertificate)
            } else {
                Kind::Closed
            };
            Error::new(kind, self.url).with_source(e)
        };
        let request = self.request(authorization);
        stream.write_all(&request).await.map_err(io_error)?;
        stream.flush().await.map_err(io_error)?;
        let mut buffer = BytesMut::with_capacity(4096);
        for _ in 0..MAX_INTERIM {
            let length = loop {
                if let Some(length) = end_of_head(&buffer) {
                    break length;
                }
                if buffer.len() >= MAX_HEAD {
                    return Err(Error::new(Kind::Protocol, self.url));
                }
                if stream.read_buf(&mut buffer).await.map_err(io_error)? == 0 {
                    return Err(Error::new(Kind::Closed, self.url));
                }
            };
            let head = parse_head(&buffer.split_to(length))
                .ok_or_else(|| Error::new(Kind::Protocol, self.url))?;
            if !head.status.is_informational() {
                return Ok(ProxyResponseHead {
                    trailing: buffer.freeze(),
                    ..head
                });
            }
        }
        Err(Error::new(Kind::Protocol, self.url))
    }

    fn request(&self, authorization: Option<&Authorization>) -> Vec<u8> {
        let target = self.target.authority();
        let mut request = format!("{METHOD} {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
        let mut push_header = |name: &[u8], value: &[u8]| {
            request.extend_from_slice(name);
            request.extend_from_slice(b": ");
            request.extend_from_slice(value);
            request.extend_from_slice(b"\r\n");
        };
        for (name, value) in &self.proxy.headers {
            push_header(name.as_str().as_bytes(), value.as_bytes());
        }
        if let Some(authorization) = authorization {
            push_header(b"Proxy-Authorization", authorization.value.as_bytes());
        }
        request.extend_from_slice(b"\r\n");
        request
    }
}

/// The challenges of a response that may be the proxy's way to say that it wants a login: it may also have none, or be no response but a
/// closed connection. `None` for any other response.
fn refusal_challenges(response: &Result<ProxyResponseHead, Error>) -> Option<&AuthChallenges> {
    match response {
        Ok(head) => Some(&head.challenges).filter(|_| is_refusal(head.status)),
        Err(_) => is_closed(response).then_some(&NO_CHALLENGES),
    }
}

fn is_closed(response: &Result<ProxyResponseHead, Error>) -> bool {
    let error = response.as_ref().err();
    error.is_some_and(|error| *error.kind() == Kind::Closed)
}

/// Whether a status is a refusal of the proxy's own, for whatever reason. Others are for later, or about the target.
fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() && !matches!(status.as_u16(), 408 | 425 | 429)
}

/// For fuzz targets: the status of a response to CONNECT, whether the connection can carry another request, and the reason.
#[cfg(feature = "fuzzing")]
pub(crate) fn parse_connect_response(head: &[u8]) -> Option<(StatusCode, bool, Option<String>)> {
    let head = parse_head(head)?;
    let reason = head.reason.map(|ProxyReason(reason)| reason);
    Some((head.status, head.is_reusable, reason))
}

/// Reads bytes, not text: a realm may be in any charset.
fn parse_head(head: &[u8]) -> Option<ProxyResponseHead> {
    let mut lines = head.split(|byte| *byte == b'\n');
    let status_line = String::from_utf8_lossy(lines.next()?);
    let mut words = status_line.split_ascii_whitespace();
    let version = words
        .next()
        .filter(|version| version.starts_with("HTTP/1."))?;
    let status = StatusCode::from_bytes(words.next()?.as_bytes()).ok()?;
    let reason = words.collect::<Vec<_>>().join(" ");
    let is_standard = |reason: &str| {
        let standard = status.canonical_reason();
        standard.is_some_and(|standard| standard.eq_ignore_ascii_case(reason))
    };
    let mut reason = Some(reason).filter(|reason| !reason.is_empty() && !is_standard(reason));
    let mut challenges = AuthChallenges::default();
    let (mut length, mut is_closed, mut is_chunked) = (None, false, false);
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        match name.to_ascii_lowercase().as_slice() {
            b"proxy-authenticate" => challenges.add(value),
            b"www-authenticate" if status == StatusCode::UNAUTHORIZED => challenges.add(value),
            b"content-length" => length = std::str::from_utf8(value).ok()?.parse::<u64>().ok(),
            b"transfer-encoding" => is_chunked = true,
            b"x-squid-error" => reason = Some(String::from_utf8_lossy(value).into_owned()),
            b"connection" | b"proxy-connection" => {
                is_closed |= value.eq_ignore_ascii_case(b"close");
            }
            _ => {}
        }
    }
    Some(ProxyResponseHead {
        status,
        challenges,
        // A proxy that speaks HTTP/1.0 closes.
        is_reusable: !is_closed && !is_chunked && length == Some(0) && version != "HTTP/1.0",
        trailing: Bytes::new(),
        reason: reason.map(ProxyReason),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_realm_may_be_in_any_charset() {
        for realm in ["Прокси".as_bytes(), b"caf\xe9", b"a\rb"] {
            let mut head = b"HTTP/1.1 407 x\r\nProxy-Authenticate: Digest realm=\"".to_vec();
            head.extend_from_slice(realm);
            head.extend_from_slice(b"\", qop=\"auth\", nonce=\"x\"\r\n\r\n");
            assert!(parse_head(&head).unwrap().challenges.realm().is_some());
        }
    }

    #[test]
    fn unusual_heads_are_read_and_others_refused() {
        let head = parse_head(b"HTTP/1.0 200\r\n\r\n").unwrap();
        assert_eq!(head.status, StatusCode::OK);
        let head = parse_head(b"HTTP/1.1 200 Connection very established\nVia: x\n\n").unwrap();
        assert_eq!(head.status, StatusCode::OK);
        assert!(parse_head(b"SSH-2.0-x\r\n\r\n").is_none());
        assert!(parse_head(b"HTTP/1.1 2x0 y\r\n\r\n").is_none());
    }
}
