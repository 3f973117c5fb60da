//! A request in absolute-form (RFC 9112 section 3.2.2), as it is passed on: to the origin itself, or to the next proxy.
//!
//! What concerns the client and us alone stays here (RFC 9110 section 7.6.1), and `Connection: close` is said in its place: one
//! connection is one request. How long that is must be beyond doubt, since what follows it may be another request for another host,
//! which this one's is not to get. The path goes on as it was written (section 7.7).

use std::fmt;

use haul_net::Target;
use http::HeaderValue;
use url::{Position, Url};

use crate::relay::Extent;

/// What is said to those who want something else.
const FOR_PROXY: &str = "this is a proxy: it takes CONNECT, and requests for http:// URLs";

/// What is said where two might read two lengths.
const LENGTH: &str = "it is not clear how long the request's body is";

/// Fields that say how long a body is: those are no affair of one connection, whoever says so.
const FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];

/// Fields that are about one connection.
const HOP: [&str; 8] = [
    "connection",
    "proxy-connection",
    "keep-alive",
    "proxy-authorization",
    "proxy-authenticate",
    "te",
    "upgrade",
    "host",
];

/// A request to pass on.
#[derive(Clone)]
pub(crate) struct ForwardRequest {
    method: String,
    /// The host and port of its URL, as a field has them.
    host: String,
    /// The rest of it, as it was written.
    path: String,
    target: Target,
    /// Of HTTP/1; one who speaks 1.0 cannot read what 1.1 may answer.
    minor: u8,
    /// What goes on, in its order.
    fields: Vec<(String, Vec<u8>)>,
    /// How much belongs to it behind its head.
    body: Extent,
}

impl fmt::Debug for ForwardRequest {
    /// Without its path and fields, which are the client's secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForwardRequest")
            .field("target", &self.target)
            .field("body", &self.body)
            .finish_non_exhaustive()
    }
}

impl ForwardRequest {
    /// Takes over what goes on of a request.
    pub(super) fn of(request: &httparse::Request<'_, '_>) -> Result<Self, &'static str> {
        let method = request.method.unwrap_or_default();
        let (url, path) = split(request.path.unwrap_or_default()).ok_or(FOR_PROXY)?;
        let target = Target::of(&url).filter(|target| target.port > 0);
        // Fields that Connection names are about one connection as well.
        let connection = values(request, "connection")
            .flat_map(|value| value.split(|byte| *byte == b','))
            .map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase())
            .filter(|name| !FRAMING.contains(&name.as_str()));
        let connection: Vec<String> = connection.collect();
        let stays = |field: &httparse::Header<'_>| {
            let name = field.name.to_ascii_lowercase();
            HOP.contains(&name.as_str()) || connection.contains(&name)
        };
        let fields = request.headers.iter().filter(|field| !stays(field));
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

    /// The host and port of its URL.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Its method, and its URL as a proxy is asked for it.
    pub(crate) fn line(&self) -> (&str, String) {
        (&self.method, self.absolute())
    }

    /// How much belongs to it behind its head.
    pub(crate) fn body(&self) -> Extent {
        self.body
    }

    /// The same without a body and with no effect, to learn what a proxy wants to see.
    pub(crate) fn probe(&self) -> Self {
        Self {
            method: "HEAD".to_owned(),
            fields: Vec::new(),
            body: Extent::bytes(0),
            ..self.clone()
        }
    }

    /// Its head for the origin.
    pub(crate) fn for_origin(&self) -> Vec<u8> {
        self.head(&self.path, None)
    }

    /// Its head for a proxy, with what that wants to see.
    pub(crate) fn for_proxy(&self, authorization: Option<&HeaderValue>) -> Vec<u8> {
        self.head(&self.absolute(), authorization)
    }

    /// Without credentials, which are no part of what is asked for, and without a fragment.
    fn absolute(&self) -> String {
        match self.path.as_str() {
            "*" => format!("http://{}", self.host),
            path => format!("http://{}{path}", self.host),
        }
    }

    fn head(&self, target: &str, authorization: Option<&HeaderValue>) -> Vec<u8> {
        let host = &self.host;
        let minor = self.minor;
        let mut head = format!(
            "{} {target} HTTP/1.{minor}\r\nHost: {host}\r\n",
            self.method
        )
        .into_bytes();
        let own = authorization.map(|value| ("Proxy-Authorization", value.as_bytes()));
        let fields = self
            .fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_slice()));
        for (name, value) in fields.chain(own).chain([("Connection", &b"close"[..])]) {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        head
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

/// The values of all fields of a name.
fn values<'a>(
    request: &'a httparse::Request<'_, '_>,
    name: &'a str,
) -> impl Iterator<Item = &'a [u8]> {
    let fields = request.headers.iter();
    let named = fields.filter(move |field| field.name.eq_ignore_ascii_case(name));
    named.map(|field| field.value.trim_ascii())
}

/// How long a request's body is (RFC 9112 section 6.3); none where that could be read in two ways.
fn body(request: &httparse::Request<'_, '_>) -> Option<Extent> {
    let mut lengths = values(request, "content-length");
    let mut codings = values(request, "transfer-encoding");
    match (lengths.next(), codings.next()) {
        (None, None) => Some(Extent::bytes(0)),
        (Some(length), None) => {
            let is_number = !length.is_empty() && length.iter().all(u8::is_ascii_digit);
            let length = std::str::from_utf8(length).ok().filter(|_| is_number)?;
            lengths.next().is_none().then_some(())?;
            length.parse().ok().map(Extent::bytes)
        }
        // One who speaks 1.0 knows of no chunks.
        (None, Some(coding)) if request.version == Some(1) => {
            let is_chunked = coding.eq_ignore_ascii_case(b"chunked") && codings.next().is_none();
            is_chunked.then_some(Extent::chunks())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(head: &str) -> Result<ForwardRequest, &'static str> {
        let mut fields = [httparse::EMPTY_HEADER; 16];
        let mut request = httparse::Request::new(&mut fields);
        request.parse(head.as_bytes()).unwrap();
        ForwardRequest::of(&request)
    }

    fn request(head: &str) -> ForwardRequest {
        read(head).unwrap()
    }

    const POST: &str = "POST http://a.test:81/p?q#f HTTP/1.1\r\nHost: other.test\r\nX-One: 1\r\nConnection: x-two, keep-alive\r\nX-Two: 2\r\n\
        Proxy-Authorization: Basic x\r\nContent-Length: 3\r\nTE: trailers\r\n\r\n";

    #[test]
    fn the_origin_gets_what_is_for_it() {
        let head = String::from_utf8(request(POST).for_origin()).unwrap();
        let expected = "POST /p?q HTTP/1.1\r\nHost: a.test:81\r\nX-One: 1\r\nContent-Length: 3\r\nConnection: close\r\n\r\n";
        assert_eq!(head, expected);
    }

    #[test]
    fn a_proxy_gets_the_whole_url_and_its_login() {
        let authorization = HeaderValue::from_static("Basic y");
        let request = request(POST);
        let head = String::from_utf8(request.for_proxy(Some(&authorization))).unwrap();
        assert!(
            head.starts_with("POST http://a.test:81/p?q HTTP/1.1\r\nHost: a.test:81\r\n"),
            "{head}"
        );
        assert!(
            head.contains("\r\nProxy-Authorization: Basic y\r\n") && !head.contains("Basic x"),
            "{head}"
        );
        assert_eq!(request.body(), Extent::bytes(3));
        let probe = String::from_utf8(request.probe().for_proxy(None)).unwrap();
        assert_eq!(
            probe,
            "HEAD http://a.test:81/p?q HTTP/1.1\r\nHost: a.test:81\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn what_a_client_says_is_no_part_of_a_message() {
        let request = request("GET http://a.test/secret HTTP/1.1\r\nCookie: secret\r\n\r\n");
        let text = format!("{request:?}");
        assert!(
            text.contains("a.test") && !text.contains("secret"),
            "{text}"
        );
        let asked = super::super::Asked {
            target: request.target().clone(),
            answer: super::super::Answer::Request,
            early: bytes::Bytes::from_static(b"secret"),
            request: Some(request),
        };
        let early = crate::relay::Early {
            up: asked.early.clone(),
            down: asked.early.clone(),
            ..Default::default()
        };
        let text = format!("{asked:?} {early:?}");
        assert!(
            text.contains("a.test") && !text.contains("secret"),
            "{text}"
        );
    }

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
        assert_eq!(chunked.body(), Extent::chunks());
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
    fn a_path_goes_on_as_it_was_written() {
        for (url, path, absolute) in [
            (
                "http://a.test/b/../c//%2e%2E/{d}|?q='e'&f",
                "/b/../c//%2e%2E/{d}|?q='e'&f",
                "http://a.test/b/../c//%2e%2E/{d}|?q='e'&f",
            ),
            ("HTTP://A.test", "/", "http://a.test/"),
            ("http://a.test?q", "/?q", "http://a.test/?q"),
            ("http://a.test/x#y", "/x", "http://a.test/x"),
            ("http://me:secret@a.test:81/x", "/x", "http://a.test:81/x"),
        ] {
            let request = request(&format!("GET {url} HTTP/1.1\r\n\r\n"));
            let head = String::from_utf8(request.for_origin()).unwrap();
            assert!(
                head.starts_with(&format!("GET {path} HTTP/1.1\r\n")),
                "{head}"
            );
            assert_eq!(request.line(), ("GET", absolute.to_owned()));
        }
        let options = request("OPTIONS http://a.test HTTP/1.1\r\n\r\n");
        assert!(options.for_origin().starts_with(b"OPTIONS * HTTP/1.1\r\n"));
        assert!(
            options
                .for_proxy(None)
                .starts_with(b"OPTIONS http://a.test HTTP/1.1\r\n")
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
