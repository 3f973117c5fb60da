//! The head of a request: its line and its header fields, for HTTP/1.1 and for HTTP/2.
//!
//! A user's header fields are for the origin that the user named. A redirect may lead to another origin, and a field that
//! proves who the user is (`PRIVATE-TOKEN`, `Cookie`, `X-Amz-Security-Token`, names that nobody has thought of yet) is not for
//! that origin. So it gets only the fields of a short list. curl is less strict: it keeps back `Authorization`, `Cookie` and
//! `Host` alone.

use std::ops::Range;

use http::header::{
    ACCEPT, ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CACHE_CONTROL,
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderValue, IF_RANGE, PRAGMA,
    PROXY_AUTHORIZATION, RANGE, REFERER, TE, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::uri::{Authority, Scheme};
use http::{HeaderName, Method, Request, Uri, Version};
use url::Url;

use crate::auth::Authorization;
use crate::config::ClientConfig;
use crate::credential_scope::CredentialScope;
use crate::error::{Error, Kind};
use crate::redacted_url::is_secret_name;
use crate::request::{FetchRequest, RoutedRequest};
use crate::request_body::OutgoingBody;
use crate::request_target::{absolute_form, authority, origin_form};

/// The user's fields that go to any origin: they say which content is wanted and by which program, and give access to nothing.
/// Referer is among them because the server that holds the bytes checks it.
const SENT_TO_ANY_ORIGIN: [HeaderName; 8] = [
    ACCEPT,
    ACCEPT_CHARSET,
    ACCEPT_ENCODING,
    ACCEPT_LANGUAGE,
    CACHE_CONTROL,
    PRAGMA,
    REFERER,
    USER_AGENT,
];

/// How many fields a request usually has at most; the map is allocated once.
const USUAL_HEADER_COUNT: usize = 8;

/// Fields that say how a message is framed, or which bytes it asks for. A file is assembled by them, so only haul sets them.
const FRAMING_HEADERS: [HeaderName; 7] = [
    CONNECTION,
    CONTENT_LENGTH,
    IF_RANGE,
    RANGE,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Fields about an HTTP/1.1 connection, which HTTP/2 forbids (RFC 9113 8.2.2).
const CONNECTION_HEADERS: [HeaderName; 6] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Whether only haul sets this field, and neither a user nor a list.
#[must_use]
pub fn is_framing_header(name: &HeaderName) -> bool {
    FRAMING_HEADERS.contains(name)
}

/// The values of a request's fields that may give access to something: those that no other origin gets, except fields about the message.
pub(crate) fn secret_fields(headers: &HeaderMap) -> Vec<HeaderValue> {
    let fields = headers.iter().filter(|(name, _)| is_secret_field(name));
    fields.map(|(_, value)| value.clone()).collect()
}

fn is_secret_field(name: &HeaderName) -> bool {
    if SENT_TO_ANY_ORIGIN.contains(name) || is_framing_header(name) {
        return false;
    }
    let text = name.as_str();
    match text {
        "host" | "expect" | "origin" | "date" => false,
        // All requests to a store have these, so no list is searched for them.
        "x-amz-date" | "x-amz-content-sha256" | "x-amz-checksum-mode" => false,
        _ if text.starts_with("x-amz-") => is_secret_name(text) || text.ends_with("customer-key"),
        _ => !text.starts_with("content-") && !text.starts_with("if-"),
    }
}

/// The credentials of one request.
#[derive(Debug, Default)]
pub(crate) struct RequestAuthorizations {
    pub(crate) origin: Option<Authorization>,
    /// For the proxy that takes the request in absolute-form.
    pub(crate) proxy: Option<Authorization>,
}

/// The head of a request over HTTP/1.1.
///
/// # Errors
/// [`Kind::InvalidRequest`]: a part of the URL that no header field can carry.
pub(crate) fn build_request(
    config: &ClientConfig,
    request: &RoutedRequest<'_>,
    range: Option<&Range<u64>>,
    authorizations: &RequestAuthorizations,
) -> Result<Request<OutgoingBody>, Error> {
    let url = request.url;
    let is_absolute_form = request.absolute_form_proxy().is_some();
    let target = if is_absolute_form {
        String::from(absolute_form(url))
    } else {
        origin_form(url).to_owned()
    };
    let body = request
        .fetch
        .body
        .open()
        .map_err(|e| Error::new(Kind::RequestBody, url).with_source(e))?;
    let mut head = Request::builder()
        .method(request.fetch.method.clone())
        .uri(target)
        .body(body)
        .map_err(|e| invalid(url, e))?;
    let headers = head.headers_mut();
    headers.reserve(USUAL_HEADER_COUNT);
    insert_default_headers(headers, url)?;
    if let Some(authorization) = &authorizations.origin {
        headers.insert(AUTHORIZATION, authorization.value.clone());
    }
    if let Some(authorization) = &authorizations.proxy {
        headers.insert(PROXY_AUTHORIZATION, authorization.value.clone());
    }
    for name in &config.removed_headers {
        headers.remove(name);
    }
    let is_sent = |name: &HeaderName| match *name {
        // This is for the proxy, whatever the origin. Only in absolute-form is there a proxy that reads it.
        PROXY_AUTHORIZATION => is_absolute_form,
        _ => request.scope == CredentialScope::UserOrigin || SENT_TO_ANY_ORIGIN.contains(name),
    };
    replace_headers(headers, &config.headers, is_sent);
    if let Some(user_headers) = request.fetch.user_headers {
        replace_headers(headers, user_headers, is_sent);
    }
    // Extending by a map keeps the order of values and replaces the fields that were there.
    if !request.fetch.headers.is_empty() {
        headers.extend(request.fetch.headers.clone());
        // `Expect` is for speed alone, and some users know a server that cannot stand it.
        if config.removed_headers.contains(&EXPECT) {
            headers.remove(EXPECT);
        }
    }
    if let Some(range) = range {
        headers.insert(RANGE, range_header(range, url)?);
    }
    if says_that_body_is_empty(request.fetch) {
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    Ok(head)
}

/// Whether a request without a body says so (RFC 9110 8.6). S3 refuses a PUT that does not.
fn says_that_body_is_empty(fetch: &FetchRequest<'_>) -> bool {
    matches!(fetch.method, Method::PUT | Method::POST) && fetch.body.length() == Some(0)
}

/// The same request over HTTP/2. The value of Host, also the user's own, becomes `:authority`.
pub(crate) fn to_http2(request: Request<OutgoingBody>, url: &Url) -> Result<Request<()>, Error> {
    let (mut head, _) = request.into_parts();
    let host = head.headers.remove(HOST);
    let own = authority(url);
    let host = host.as_ref().map_or(own.as_bytes(), HeaderValue::as_bytes);
    let mut parts = head.uri.into_parts();
    parts.scheme = Some(Scheme::HTTPS);
    parts.authority = Some(Authority::try_from(host).map_err(|e| invalid(url, e.into()))?);
    head.uri = Uri::from_parts(parts).map_err(|e| invalid(url, e.into()))?;
    head.version = Version::HTTP_2;
    remove_connection_headers(&mut head.headers);
    Ok(Request::from_parts(head, ()))
}

fn insert_default_headers(headers: &mut HeaderMap, url: &Url) -> Result<(), Error> {
    let host = HeaderValue::from_str(&authority(url));
    headers.insert(HOST, host.map_err(|e| invalid(url, e.into()))?);
    headers.insert(
        USER_AGENT,
        HeaderValue::from_static(concat!("haul/", env!("CARGO_PKG_VERSION"))),
    );
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok(())
}

/// Puts a user's fields in place of the default ones of the same name.
fn replace_headers(
    headers: &mut HeaderMap,
    user_headers: &HeaderMap,
    is_sent: impl Fn(&HeaderName) -> bool,
) {
    for name in user_headers.keys().filter(|name| is_sent(name)) {
        headers.remove(name);
        for value in user_headers.get_all(name) {
            headers.append(name.clone(), value.clone());
        }
    }
}

/// The value of Range, whose end is inclusive on the wire.
fn range_header(range: &Range<u64>, url: &Url) -> Result<HeaderValue, Error> {
    // Without a formatter, which would take as long as all other fields together.
    let mut number = itoa::Buffer::new();
    let mut text = String::with_capacity(48);
    text.push_str("bytes=");
    text.push_str(number.format(range.start));
    text.push('-');
    if range.end != u64::MAX {
        text.push_str(number.format(range.end.saturating_sub(1)));
    }
    HeaderValue::from_str(&text).map_err(|e| invalid(url, e.into()))
}

/// Removes the fields about a connection: those that HTTP names, and those that Connection itself names.
fn remove_connection_headers(headers: &mut HeaderMap) {
    let listed: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in listed.iter().chain(&CONNECTION_HEADERS) {
        headers.remove(name);
    }
}

fn invalid(url: &Url, source: http::Error) -> Error {
    Error::new(Kind::InvalidRequest, url).with_source(source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::ProxyRules;

    const USER_HEADERS: [(&str, &str); 10] = [
        ("user-agent", "mine"),
        ("accept", "text/html"),
        ("accept-language", "eo"),
        ("referer", "http://a.test/"),
        ("host", "virtual.test"),
        ("cookie", "a=1"),
        ("cookie", "b=2"),
        ("authorization", "Bearer t"),
        ("private-token", "t"),
        ("proxy-authorization", "Basic x"),
    ];

    /// The header fields of a request for `url`, where the user gave `http://a.test/x` and these fields.
    fn headers_for(
        url: &str,
        proxy: Option<&str>,
        user_headers: &[(&'static str, &'static str)],
    ) -> HeaderMap {
        let url: Url = url.parse().unwrap();
        let user_url: Url = "http://a.test/x".parse().unwrap();
        let pair = |(name, value): &(&'static str, &'static str)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        };
        let config = ClientConfig {
            headers: user_headers.iter().map(pair).collect(),
            proxy: proxy.map_or_else(ProxyRules::default, |proxy| {
                ProxyRules::all(proxy.parse().unwrap())
            }),
            ..ClientConfig::default()
        };
        let fetch = FetchRequest::get(&user_url);
        let routed = RoutedRequest::new(&fetch, &url, &config).unwrap();
        let authorizations = RequestAuthorizations::default();
        let request = build_request(&config, &routed, Some(&(3..9)), &authorizations);
        request.unwrap().headers().clone()
    }

    #[test]
    fn the_users_origin_gets_all_user_headers_but_the_proxys() {
        let headers = headers_for("http://a.test/y", None, &USER_HEADERS);
        for (name, value) in USER_HEADERS {
            let is_sent = headers.get_all(name).iter().any(|found| found == value);
            assert_eq!(is_sent, name != "proxy-authorization", "{name}");
        }
        assert_eq!(headers.get_all(HOST).iter().count(), 1);
        assert_eq!(headers[RANGE], "bytes=3-8");
    }

    #[test]
    fn another_origin_gets_no_header_that_identifies_the_user() {
        for other in [
            "http://b.test/",
            "https://a.test/",
            "http://a.test:81/",
            "http://x.a.test/",
        ] {
            let headers = headers_for(other, None, &USER_HEADERS);
            let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
            names.sort_unstable();
            assert_eq!(
                names,
                [
                    "accept",
                    "accept-encoding",
                    "accept-language",
                    "host",
                    "range",
                    "referer",
                    "user-agent"
                ]
            );
            assert_eq!(headers[USER_AGENT], "mine");
            assert_ne!(headers[HOST], "virtual.test");
        }
    }

    #[test]
    fn host_has_the_port_unless_it_is_the_default_of_the_scheme() {
        for (url, host) in [
            ("http://me:s@h.test/", "h.test"),
            ("http://h.test:80/", "h.test"),
            ("http://H.test:443/", "h.test:443"),
            ("https://[::1]/", "[::1]"),
            ("https://[::1]:80/a@b:1", "[::1]:80"),
            // A zone, as haul keeps it in the address.
            ("http://[fe80:0:1::1]:8080/", "[fe80::1]:8080"),
        ] {
            assert_eq!(headers_for(url, None, &[])[HOST], host, "{url}");
        }
    }

    #[test]
    fn the_users_proxy_authorization_goes_to_absolute_form_proxies() {
        for url in ["http://a.test/", "http://b.test/"] {
            let headers = headers_for(url, Some("http://p.test:3128"), &USER_HEADERS);
            assert_eq!(headers[PROXY_AUTHORIZATION], "Basic x");
        }
        let headers = headers_for("http://a.test/", Some("socks5h://p.test"), &USER_HEADERS);
        assert!(!headers.contains_key(PROXY_AUTHORIZATION));
    }

    fn convert_to_http2(headers: &[(&str, &str)]) -> Result<Request<()>, Error> {
        let url = "https://me:s@h.test:81/a?b=c".parse().unwrap();
        let mut request = Request::get("/a?b=c");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        to_http2(request.body(OutgoingBody::Empty).unwrap(), &url)
    }

    #[test]
    fn http2_has_the_host_as_its_authority() {
        let default = convert_to_http2(&[("host", "h.test:81")]).unwrap();
        assert_eq!(default.uri(), "https://h.test:81/a?b=c");
        assert!(default.headers().is_empty());
        let users = convert_to_http2(&[("host", "virtual.test")]).unwrap();
        assert_eq!(users.uri(), "https://virtual.test/a?b=c");
        let removed = convert_to_http2(&[]).unwrap();
        assert_eq!(removed.uri(), "https://h.test:81/a?b=c");
        let invalid = convert_to_http2(&[("host", "a b")]).unwrap_err();
        assert_eq!(*invalid.kind(), Kind::InvalidRequest);
    }

    #[test]
    fn http2_has_no_headers_about_a_connection() {
        let request = convert_to_http2(&[
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("te", "gzip"),
            ("upgrade", "h2c"),
            ("keep-alive", "timeout=5"),
            ("accept", "*/*"),
        ]);
        let names: Vec<String> = request
            .unwrap()
            .headers()
            .keys()
            .map(ToString::to_string)
            .collect();
        assert_eq!(names, ["accept"]);
    }
}
