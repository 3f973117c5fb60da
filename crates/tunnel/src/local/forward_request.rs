//! A request in absolute-form (RFC 9112 section 3.2.2), as it is passed on: to the origin itself, or to the next proxy.
//!
//! What concerns the client and us alone stays here (RFC 9110 section 7.6.1), and `Connection: close` is said in its place: one
//! connection is one request, so that what follows the request's body is never another request for another host.

use haul_net::Target;
use http::HeaderValue;
use url::{Position, Url};

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
#[derive(Debug, Clone)]
pub(crate) struct ForwardRequest {
    method: String,
    url: Url,
    target: Target,
    /// Of HTTP/1; one who speaks 1.0 cannot read what 1.1 may answer.
    minor: u8,
    /// What goes on, in its order.
    fields: Vec<(String, Vec<u8>)>,
    /// Whether more than the head belongs to it.
    has_body: bool,
}

impl ForwardRequest {
    /// Takes over what goes on of a request.
    pub(super) fn of(request: &httparse::Request<'_, '_>) -> Result<Self, &'static str> {
        let for_proxy = "this is a proxy: it takes CONNECT, and requests for http:// URLs";
        let url = Url::parse(request.path.unwrap_or_default()).map_err(|_| for_proxy)?;
        if url.scheme() != "http" {
            return Err(for_proxy);
        }
        let target = Target::of(&url).ok_or(for_proxy)?;
        let named =
            |field: &httparse::Header<'_>, name: &str| field.name.eq_ignore_ascii_case(name);
        // Fields that Connection names are about one connection as well.
        let connection = request
            .headers
            .iter()
            .filter(|field| named(field, "connection"));
        let connection: Vec<String> = connection
            .flat_map(|field| field.value.split(|byte| *byte == b','))
            .map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase())
            .collect();
        let stays = |field: &httparse::Header<'_>| {
            let name = field.name.to_ascii_lowercase();
            HOP.contains(&name.as_str()) || connection.contains(&name)
        };
        let has = |name: &str| request.headers.iter().find(|field| named(field, name));
        let has_body = has("transfer-encoding").is_some()
            || has("content-length").is_some_and(|length| length.value != b"0");
        let fields = request.headers.iter().filter(|field| !stays(field));
        Ok(Self {
            method: request.method.unwrap_or_default().to_owned(),
            target,
            minor: request.version.unwrap_or(1),
            fields: fields
                .map(|field| (field.name.to_owned(), field.value.to_vec()))
                .collect(),
            has_body,
            url,
        })
    }

    /// The host and port of its URL.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Its method, and its URL as a proxy is asked for it.
    pub(crate) fn line(&self) -> (&str, &str) {
        (&self.method, self.absolute())
    }

    /// Whether more than the head belongs to it.
    pub(crate) fn has_body(&self) -> bool {
        self.has_body
    }

    /// The same without a body and with no effect, to learn what a proxy wants to see.
    pub(crate) fn probe(&self) -> Self {
        Self {
            method: "HEAD".to_owned(),
            fields: Vec::new(),
            has_body: false,
            ..self.clone()
        }
    }

    /// Its head for the origin.
    pub(crate) fn for_origin(&self) -> Vec<u8> {
        self.head(&self.url[Position::BeforePath..Position::AfterQuery], None)
    }

    /// Its head for a proxy, with what that wants to see.
    pub(crate) fn for_proxy(&self, authorization: Option<&HeaderValue>) -> Vec<u8> {
        self.head(self.absolute(), authorization)
    }

    /// Without credentials, which are no part of what is asked for, and without a fragment.
    fn absolute(&self) -> &str {
        &self.url[..Position::AfterQuery]
    }

    fn head(&self, target: &str, authorization: Option<&HeaderValue>) -> Vec<u8> {
        let host = &self.url[Position::BeforeHost..Position::AfterPort];
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

#[cfg(test)]
mod tests {
    use super::*;

    fn request(head: &str) -> ForwardRequest {
        let mut fields = [httparse::EMPTY_HEADER; 16];
        let mut request = httparse::Request::new(&mut fields);
        request.parse(head.as_bytes()).unwrap();
        ForwardRequest::of(&request).unwrap()
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
        assert!(request.has_body());
        let probe = String::from_utf8(request.probe().for_proxy(None)).unwrap();
        assert_eq!(
            probe,
            "HEAD http://a.test:81/p?q HTTP/1.1\r\nHost: a.test:81\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn bodies_and_old_clients_are_known() {
        let old = request("GET http://[::1]/ HTTP/1.0\r\n\r\n");
        assert!(!old.has_body());
        assert!(
            old.for_origin()
                .starts_with(b"GET / HTTP/1.0\r\nHost: [::1]\r\n")
        );
        assert_eq!(old.target().to_string(), "[::1]:80");
        assert!(!request("GET http://a/ HTTP/1.1\r\nContent-Length: 0\r\n\r\n").has_body());
        assert!(request("PUT http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").has_body());
    }
}
