//! How a request in absolute-form is understood.
//!
//! How long it is must be beyond doubt, since what follows it may be another request for another host, which this one's is not to get.
//! Its path is not: it goes on as it was written (RFC 9110 section 7.7).

use haul_net::Target;
use url::{Position, Url};

use super::ForwardRequest;
use crate::local::hop::{HopByHopFields, values};
use crate::relay::BodyFraming;

/// What is said to those who want something else.
const FOR_PROXY: &str = "this is a proxy: it takes CONNECT, and requests for http:// URLs";

/// What is said where two might read two lengths.
const LENGTH: &str = "it is not clear how long the request's body is";

impl ForwardRequest {
    /// Takes over what goes on of a request.
    pub(in crate::local) fn of(request: &httparse::Request<'_, '_>) -> Result<Self, &'static str> {
        let method = request.method.unwrap_or_default();
        let (url, path) = split(request.path.unwrap_or_default()).ok_or(FOR_PROXY)?;
        let target = Target::from_url(&url).filter(|target| target.port > 0);
        let hop = HopByHopFields::of(request.headers);
        // Ours says the same as the URL.
        let stays = |name: &str| hop.is_ours(name) || name.eq_ignore_ascii_case("host");
        let fields = request.headers.iter().filter(|field| !stays(field.name));
        Ok(Self {
            target: target.ok_or(FOR_PROXY)?,
            minor: request.version.unwrap_or(1),
            fields: fields
                .map(|field| (field.name.to_owned(), field.value.to_vec()))
                .collect(),
            body: body(request).ok_or(LENGTH)?,
            host: url[Position::BeforeHost..Position::AfterPort].to_owned(),
            path: match (path, method) {
                // RFC 9112 section 3.2.4.
                ("", "OPTIONS") => "*".to_owned(),
                (path, _) if path.starts_with('/') => path.to_owned(),
                (query, _) => format!("/{query}"),
            },
            method: method.to_owned(),
        })
    }
}

/// A URL for its host and port, and as it was written what follows them. What a parser of URLs forgives is no request.
fn split(text: &str) -> Option<(Url, &str)> {
    let (scheme, rest) = text.split_at_checked("http://".len())?;
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if !scheme.eq_ignore_ascii_case("http://") || authority.is_empty() || path.starts_with('\\') {
        return None;
    }
    let url = Url::parse(&format!("http://{authority}/")).ok()?;
    let path = path.split('#').next().unwrap_or_default();
    Some((url, path))
}

/// How long a request's body is (RFC 9112 section 6.3); none where that could be read in two ways.
fn body(request: &httparse::Request<'_, '_>) -> Option<BodyFraming> {
    let mut lengths = values(request.headers, "content-length");
    let mut codings = values(request.headers, "transfer-encoding");
    match (lengths.next(), codings.next()) {
        (None, None) => Some(BodyFraming::bytes(0)),
        (Some(length), None) => {
            let is_number = !length.is_empty() && length.iter().all(u8::is_ascii_digit);
            let length = std::str::from_utf8(length).ok().filter(|_| is_number)?;
            lengths.next().is_none().then_some(())?;
            length.parse().ok().map(BodyFraming::bytes)
        }
        // One who speaks 1.0 knows of no chunks.
        (None, Some(coding)) if request.version == Some(1) => {
            let is_chunked = coding.eq_ignore_ascii_case(b"chunked") && codings.next().is_none();
            is_chunked.then_some(BodyFraming::chunks())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read, request};
    use super::*;

    #[test]
    fn bodies_and_old_clients_are_known() {
        let old = request("GET http://[::1]/ HTTP/1.0\r\n\r\n");
        assert!(old.body().is_over());
        assert!(
            old.for_origin()
                .starts_with(b"GET / HTTP/1.0\r\nHost: [::1]\r\n")
        );
        assert_eq!(old.target().to_string(), "[::1]:80");
        let none = request("GET http://a/ HTTP/1.1\r\nContent-Length: 00\r\n\r\n");
        assert!(none.body().is_over());
        let chunked = request("PUT http://a/ HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n");
        assert_eq!(chunked.body(), BodyFraming::chunks());
    }

    #[test]
    fn a_length_that_two_might_read_in_two_ways_is_refused() {
        for (version, fields) in [
            (1, "Content-Length: 3\r\nTransfer-Encoding: chunked"),
            (1, "Content-Length: 3\r\nContent-Length: 3"),
            (1, "Content-Length: 3, 3"),
            (1, "Content-Length: +3"),
            (1, "Content-Length: -3"),
            (1, "Content-Length:"),
            (1, "Content-Length: 0x3"),
            (1, "Content-Length: 99999999999999999999"),
            (1, "Transfer-Encoding: gzip, chunked"),
            (1, "Transfer-Encoding: identity"),
            (
                1,
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            ),
            (0, "Transfer-Encoding: chunked"),
        ] {
            let head = format!("POST http://a/ HTTP/1.{version}\r\n{fields}\r\n\r\n");
            assert_eq!(read(&head).unwrap_err(), LENGTH, "{fields}");
        }
    }

    #[test]
    fn what_says_how_long_a_body_is_goes_on_whatever_connection_says() {
        let head = "POST http://a/ HTTP/1.1\r\nConnection: content-length, x\r\nX: 1\r\nContent-Length: 3\r\n\r\n";
        let head = String::from_utf8(request(head).for_origin()).unwrap();
        assert!(
            head.contains("Content-Length: 3\r\n") && !head.contains("X: 1"),
            "{head}"
        );
    }

    #[test]
    fn what_only_looks_like_a_url_is_refused() {
        for url in [
            "http:/a/",
            "http:a",
            "http:///a/",
            "http://a\\b/",
            "http://a:0/",
            "http://a:x/",
            "https://a/",
            "/a",
        ] {
            assert_eq!(
                read(&format!("GET {url} HTTP/1.1\r\n\r\n")).unwrap_err(),
                FOR_PROXY,
                "{url}"
            );
        }
    }
}
