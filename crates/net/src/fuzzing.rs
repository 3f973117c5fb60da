//! What fuzz targets need of this crate: parsers of the bytes of servers and proxies. Not an interface for anything else.

use bytes::BytesMut;
use futures_util::FutureExt as _;
use http::header::WWW_AUTHENTICATE;
use http::response::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use url::Url;

use crate::auth::{AuthChallenges, Authenticator};
use crate::connector::{handshake_succeeds, parse_connect_response};
use crate::http1::{end_of_head, take_response_head};
use crate::{Login, Proxy, Target, UserCredentials};

/// The head of the response that these bytes begin with, and its length in bytes.
#[must_use]
pub fn response_head(bytes: &[u8]) -> Option<(Parts, usize)> {
    let mut buffer = BytesMut::from(bytes);
    let head = take_response_head(&mut buffer).ok()??;
    Some((head, bytes.len() - buffer.len()))
}

/// A proxy's response to CONNECT that these bytes begin with: its status, whether the connection can carry another request, and why the
/// proxy refuses.
#[must_use]
pub fn connect_response(bytes: &[u8]) -> Option<(StatusCode, bool, Option<String>)> {
    parse_connect_response(&bytes[..end_of_head(bytes)?])
}

/// Whether a SOCKS5 proxy connects to a target. The stream must never be pending.
pub fn socks_handshake(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin + Send),
    target: &Target,
    proxy: &Proxy,
) -> bool {
    handshake_succeeds(stream, target, proxy)
        .now_or_never()
        .unwrap_or(false)
}

/// The realm of a 401 with these header fields, as messages show it, and the Authorization that answers its challenges.
#[must_use]
pub fn answer_challenges(
    headers: &HeaderMap,
    login: Login,
    url: &Url,
) -> (Option<String>, Option<HeaderValue>) {
    let authenticator = Authenticator::new(UserCredentials {
        login: Some(login),
        ..UserCredentials::default()
    });
    let challenges = AuthChallenges::parse(headers.get_all(WWW_AUTHENTICATE));
    authenticator.record_challenge(url, url, &challenges, None);
    let authorization = authenticator.authorize("GET", url, url);
    let value = authorization.map(|authorization| authorization.value().clone());
    (challenges.realm(), value)
}
