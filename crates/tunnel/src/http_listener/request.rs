//! Requests in absolute-form (RFC 9112 section 3.2.2), and which fields of a message stay with its connection.
//!
//! How long a message is need not be read from its fields here: hyper has read it, and frames the message anew when it goes on. So what
//! two programs could read as two lengths ends at this proxy. The path goes on as the client wrote it (RFC 9110 section 7.7).

use haul_net::{Authorization, Target};
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, Version};
use http::{request, response};
use url::{Position, Url};

/// The response to requests that are not for a proxy.
const NOT_FOR_A_PROXY: &str = "this is a proxy: it takes CONNECT, and requests for http:// URLs";

/// The response to a body in a coding that hyper does not decode.
const UNKNOWN_CODING: &str = "the request's Transfer-Encoding is not supported: only chunked is";

/// Fields that concern one connection, in addition to those that Connection names (RFC 9110 section 7.6.1). A login for a proxy is among
/// them: the client's login is for this listener, which asks for none. hyper sets Transfer-Encoding.
const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// A request to pass on.
pub(super) struct ForwardRequest {
    target: Target,
    /// The request target for a proxy.
    absolute: Uri,
    /// The request target for the origin.
    path: PathAndQuery,
    /// Its fields as they go on.
    head: request::Parts,
}

impl ForwardRequest {
    /// Reads the head of a client's request.
    ///
    /// # Errors
    /// The status and the reason with which it is refused.
    pub(super) fn new(mut head: request::Parts) -> Result<Self, (StatusCode, &'static str)> {
        let (target, host) = host(&head.uri).ok_or((StatusCode::BAD_REQUEST, NOT_FOR_A_PROXY))?;
        if !is_chunked_or_absent(&head.headers) {
            return Err((StatusCode::NOT_IMPLEMENTED, UNKNOWN_CODING));
        }
        let path = head
            .uri
            .path_and_query()
            .cloned()
            .unwrap_or_else(|| PathAndQuery::from_static("/"));
        let absolute = Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(host.as_str())
            .path_and_query(path.clone())
            .build();
        let (Ok(absolute), Ok(host)) = (absolute, HeaderValue::from_str(&host)) else {
            return Err((StatusCode::BAD_REQUEST, NOT_FOR_A_PROXY));
        };
        let upgrade = upgrade(&head.headers).filter(|protocol| !is_h2c(protocol));
        let takes_trailers = has_token(&head.headers, &TE, "trailers");
        remove_hop_by_hop(&mut head.headers);
        // The URL says where the request goes, whatever the client's field says.
        head.headers.insert(HOST, host);
        if let Some(protocol) = upgrade {
            head.headers.insert(UPGRADE, protocol);
            head.headers
                .append(CONNECTION, HeaderValue::from_static("upgrade"));
        }
        if takes_trailers {
            head.headers
                .insert(TE, HeaderValue::from_static("trailers"));
            head.headers
                .append(CONNECTION, HeaderValue::from_static("TE"));
        }
        head.version = Version::HTTP_11;
        Ok(Self {
            target,
            absolute,
            path,
            head,
        })
    }

    /// The host and port of its URL.
    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Its method and URL, which a proxy's login may depend on.
    pub(super) fn method_and_url(&self) -> (&str, String) {
        (self.head.method.as_str(), self.absolute.to_string())
    }

    /// Whether it may be sent a second time without harm (RFC 9110 section 9.2.2).
    pub(super) fn is_idempotent(&self) -> bool {
        self.head.method.is_idempotent()
    }

    /// Whether the client waits for a word before it sends the body.
    pub(super) fn expects_continue(&self) -> bool {
        has_token(&self.head.headers, &EXPECT, "100-continue")
    }

    pub(super) fn has_upgrade(&self) -> bool {
        self.head.headers.contains_key(UPGRADE)
    }

    /// A request for the same URL without a body and without effect, to learn what a proxy wants to see.
    pub(super) fn probe(&self) -> Self {
        let mut head = self.head.clone();
        head.method = Method::HEAD;
        head.headers = HeaderMap::new();
        head.headers
            .extend(self.head.headers.get(HOST).map(|host| (HOST, host.clone())));
        Self {
            target: self.target.clone(),
            absolute: self.absolute.clone(),
            path: self.path.clone(),
            head,
        }
    }

    /// The request as the origin gets it.
    pub(super) fn for_origin<B>(&self, body: B) -> Request<B> {
        self.with_uri(self.path.clone().into(), body)
    }

    /// The request as a proxy gets it, with our login if it is to see one.
    pub(super) fn for_proxy<B>(
        &self,
        authorization: Option<&Authorization>,
        body: B,
    ) -> Request<B> {
        let mut request = self.with_uri(self.absolute.clone(), body);
        if let Some(authorization) = authorization {
            let value = authorization.value().clone();
            request.headers_mut().insert(PROXY_AUTHORIZATION, value);
        }
        request
    }

    fn with_uri<B>(&self, uri: Uri, body: B) -> Request<B> {
        let mut head = self.head.clone();
        head.uri = uri;
        Request::from_parts(head, body)
    }
}

/// For fuzz targets: where a client's request goes, and its head as the origin and as a proxy get it.
#[cfg(feature = "fuzzing")]
pub(crate) fn forwarded_request(
    head: request::Parts,
) -> Result<(Target, Request<()>, Request<()>), StatusCode> {
    let request = ForwardRequest::new(head).map_err(|(status, _)| status)?;
    let target = request.target().clone();
    Ok((target, request.for_origin(()), request.for_proxy(None, ())))
}

/// The target of an `http` URL, and its host and port as the Host field has them.
fn host(uri: &Uri) -> Option<(Target, String)> {
    let authority = uri
        .authority()
        .filter(|_| uri.scheme() == Some(&Scheme::HTTP))?;
    let url = Url::parse(&format!("http://{authority}/")).ok()?;
    let target = Target::from_url(&url).filter(|target| target.port > 0)?;
    // Without the user and password that may stand before it.
    let host = url[Position::BeforeHost..Position::AfterPort].to_owned();
    Some((target, host))
}

/// A response cannot be passed on, since its body is in a coding that hyper does not decode.
#[derive(Debug, thiserror::Error)]
#[error("its Transfer-Encoding is not supported: only chunked is")]
pub(super) struct UnknownCoding;

/// Checks that what hyper decodes of a response's body is the body.
pub(super) fn check_response(head: &response::Parts) -> Result<(), UnknownCoding> {
    if is_chunked_or_absent(&head.headers) {
        Ok(())
    } else {
        Err(UnknownCoding)
    }
}

/// Leaves the fields of a response that are for the client.
pub(super) fn clean_response(head: &mut response::Parts, is_upgrade: bool) {
    let upgrade = head.headers.get(UPGRADE).cloned().filter(|_| is_upgrade);
    // Chunks say how long it is, whatever else does (RFC 9112 section 6.3).
    if head.headers.contains_key(TRANSFER_ENCODING) {
        head.headers.remove(CONTENT_LENGTH);
    }
    remove_hop_by_hop(&mut head.headers);
    if let Some(protocol) = upgrade {
        head.headers.insert(UPGRADE, protocol);
        head.headers
            .insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
    head.version = Version::HTTP_11;
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = tokens(headers, &CONNECTION)
        .filter_map(|name| HeaderName::from_bytes(name).ok())
        // How long a body is concerns everybody, whatever Connection says.
        .filter(|name| *name != CONTENT_LENGTH)
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// The protocol that a client asks to switch to.
fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let is_asked = has_token(headers, &CONNECTION, "upgrade");
    headers.get(UPGRADE).filter(|_| is_asked).cloned()
}

/// An upgrade to HTTP/2 is not passed on. The server responds by HTTP/1.1 then.
fn is_h2c(protocol: &HeaderValue) -> bool {
    protocol.as_bytes().eq_ignore_ascii_case(b"h2c")
}

/// Whether a body is chunked and not coded otherwise. The field is not passed on, so the receiver would not know of another coding.
fn is_chunked_or_absent(headers: &HeaderMap) -> bool {
    let mut codings = tokens(headers, &TRANSFER_ENCODING);
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(coding), None) => coding.eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    tokens(headers, name).any(|found| found.eq_ignore_ascii_case(token.as_bytes()))
}

/// The members of a field that is a list.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    let values = headers.get_all(name).into_iter();
    let members = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    members
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request with these fields.
    fn head(method: &str, url: &str, fields: &[(&str, &str)]) -> request::Parts {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn parse(url: &str, fields: &[(&str, &str)]) -> ForwardRequest {
        let parsed = ForwardRequest::new(head("GET", url, fields));
        parsed.unwrap_or_else(|(_, reason)| panic!("{url}: {reason}"))
    }

    fn fields<B>(request: &Request<B>) -> Vec<(&str, &str)> {
        let fields = request.headers().iter();
        fields
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect()
    }

    #[test]
    fn fields_of_the_connection_stay_and_all_others_go_on() {
        let request = parse(
            "http://a.test:81/p?q",
            &[
                ("host", "other.test"),
                ("x-one", "1"),
                ("connection", "x-two, keep-alive, content-length"),
                ("connection", "X-Three"),
                ("x-two", "2"),
                ("x-three", "3"),
                ("keep-alive", "timeout=5"),
                ("proxy-connection", "keep-alive"),
                ("proxy-authorization", "Basic x"),
                ("te", "gzip"),
                ("upgrade", "websocket"),
                ("content-length", "3"),
            ],
        )
        .for_origin(());
        let mut found = fields(&request);
        found.sort_unstable();
        let expected = [
            ("content-length", "3"),
            ("host", "a.test:81"),
            ("x-one", "1"),
        ];
        assert_eq!(found, expected);
        assert_eq!(request.uri(), "/p?q");
    }

    #[test]
    fn a_switch_of_protocols_and_trailers_go_on() {
        let request = parse(
            "http://a.test/",
            &[
                ("connection", "Upgrade"),
                ("upgrade", "websocket"),
                ("te", "trailers, deflate"),
            ],
        );
        assert!(request.has_upgrade());
        let request = request.for_origin(());
        let connection: Vec<_> = request.headers().get_all(CONNECTION).iter().collect();
        assert_eq!(connection, ["upgrade", "TE"]);
        assert_eq!(request.headers()[UPGRADE], "websocket");
        assert_eq!(request.headers()[TE], "trailers");
        let h2c = [
            ("connection", "Upgrade, HTTP2-Settings"),
            ("upgrade", "h2c"),
            ("http2-settings", "x"),
        ];
        let request = parse("http://a.test/", &h2c).for_origin(());
        assert_eq!(fields(&request), [("host", "a.test")]);
    }

    #[test]
    fn a_proxy_gets_the_whole_url_without_its_password_and_a_probe_gets_no_fields() {
        let request = parse("http://me:secret@A.test:80/p?q#f", &[("cookie", "secret")]);
        let for_proxy = request.for_proxy(None, ());
        assert_eq!(for_proxy.uri(), "http://a.test/p?q");
        assert_eq!(for_proxy.headers()["cookie"], "secret");
        assert_eq!(
            request.method_and_url(),
            ("GET", "http://a.test/p?q".to_owned())
        );
        let probe = request.probe().for_proxy(None, ());
        assert_eq!(probe.method(), Method::HEAD);
        assert_eq!(probe.uri(), "http://a.test/p?q");
        assert_eq!(fields(&probe), [("host", "a.test")]);
    }

    #[test]
    fn a_path_goes_on_as_it_was_written() {
        for (url, path) in [
            (
                "http://a.test/b/../c//%2e%2E/{d}|?q='e'&f",
                "/b/../c//%2e%2E/{d}|?q='e'&f",
            ),
            ("HTTP://A.test", "/"),
            ("http://a.test?q", "/?q"),
            ("http://[::1]:81/x", "/x"),
        ] {
            assert_eq!(parse(url, &[]).for_origin(()).uri(), path, "{url}");
        }
        assert_eq!(
            parse("http://[::1]:81/x", &[]).target().to_string(),
            "[::1]:81"
        );
    }

    #[test]
    fn what_is_not_for_a_proxy_is_refused() {
        for url in [
            "/a",
            "*",
            "a.test:80",
            "https://a/",
            "ftp://a/",
            "http://a:0/",
        ] {
            let refused = ForwardRequest::new(head("GET", url, &[]));
            let (status, reason) = refused.err().unwrap();
            assert_eq!((status.as_u16(), reason), (400, NOT_FOR_A_PROXY), "{url}");
        }
    }

    #[test]
    fn a_coding_that_only_the_next_server_could_read_is_refused() {
        for (coding, is_taken) in [
            ("chunked", true),
            ("Chunked", true),
            ("gzip, chunked", false),
            ("chunked, chunked", false),
        ] {
            let head = head("POST", "http://a/", &[("transfer-encoding", coding)]);
            let refused = ForwardRequest::new(head).err();
            assert_eq!(refused.is_none(), is_taken, "{coding}");
        }
    }

    #[test]
    fn a_response_says_what_is_true_of_the_clients_connection() {
        let response = http::Response::builder()
            .version(Version::HTTP_10)
            .header("content-length", "3")
            .header("transfer-encoding", "chunked")
            .header("connection", "close, x-mine")
            .header("keep-alive", "timeout=5")
            .header("x-mine", "1")
            .header("trailer", "x")
            .header("set-cookie", "a")
            .header("set-cookie", "b");
        let (mut head, ()) = response.body(()).unwrap().into_parts();
        assert!(check_response(&head).is_ok());
        clean_response(&mut head, false);
        assert_eq!(head.version, Version::HTTP_11);
        let names: Vec<_> = head.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(head.headers.get_all("set-cookie").iter().count(), 2);
        assert!(head.headers.contains_key("trailer"));
    }
}
