//! A request as HTTP/2 writes it.

use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderMap, HeaderName, TE, TRANSFER_ENCODING, UPGRADE};
use http::uri::{Authority, Scheme};
use http::{Request, Uri, Version};
use http_body_util::Empty;
use url::{Position, Url};

use crate::error::{Error, Kind};

/// Fields about a connection, of which there is none of one's own (RFC 9113 8.2.2).
const CONNECTION_HEADERS: [HeaderName; 6] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The same request over HTTP/2: what `Host` says, the user's own among that, goes where that belongs.
pub(crate) fn to_http2(request: Request<Empty<Bytes>>, url: &Url) -> Result<Request<()>, Error> {
    let wrong = |e: http::Error| Error::new(Kind::InvalidRequest, url).with_source(e);
    let (mut head, _) = request.into_parts();
    let host = head.headers.remove(HOST);
    let host = match &host {
        Some(host) => host.as_bytes(),
        None => url[Position::BeforeHost..Position::AfterPort].as_bytes(),
    };
    let mut parts = head.uri.into_parts();
    parts.scheme = Some(Scheme::HTTPS);
    parts.authority = Some(Authority::try_from(host).map_err(|e| wrong(e.into()))?);
    head.uri = Uri::from_parts(parts).map_err(|e| wrong(e.into()))?;
    head.version = Version::HTTP_2;
    remove_connection_headers(&mut head.headers);
    Ok(Request::from_parts(head, ()))
}

/// Leaves out what is about a connection, by its own word or by anybody's.
fn remove_connection_headers(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&CONNECTION_HEADERS) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(fields: &[(&str, &str)]) -> Result<Request<()>, Error> {
        let url = "https://me:s@h.test:81/a?b=c".parse().unwrap();
        let mut request = Request::get("/a?b=c");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        to_http2(request.body(Empty::new()).unwrap(), &url)
    }

    #[test]
    fn the_host_becomes_the_authority_whoever_says_it() {
        let ours = convert(&[("host", "h.test:81")]).unwrap();
        assert_eq!(ours.uri(), "https://h.test:81/a?b=c");
        assert!(ours.headers().is_empty());
        let users = convert(&[("host", "virtual.test")]).unwrap();
        assert_eq!(users.uri(), "https://virtual.test/a?b=c");
        let removed = convert(&[]).unwrap();
        assert_eq!(removed.uri(), "https://h.test:81/a?b=c");
        assert_eq!(
            *convert(&[("host", "a b")]).unwrap_err().kind(),
            Kind::InvalidRequest
        );
    }

    #[test]
    fn what_is_about_a_connection_stays_here() {
        let request = convert(&[
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("te", "gzip"),
            ("upgrade", "h2c"),
            ("keep-alive", "timeout=5"),
            ("accept", "*/*"),
        ]);
        let names = |request: &Request<()>| -> Vec<String> {
            request.headers().keys().map(ToString::to_string).collect()
        };
        assert_eq!(names(&request.unwrap()), ["accept"]);
    }
}
