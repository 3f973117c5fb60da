use std::sync::Arc;

use http::header::{ACCESS_CONTROL_REQUEST_HEADERS, ORIGIN};

use super::super::rules::{AccessRight, AccessScope};
use super::*;

const PAGE: &str = "https://app.example";

fn cors(origins: &str, credentials: bool) -> CorsPolicy {
    let options = CorsOptions {
        origins: origins.parse().expect("origins"),
        allowed_methods: vec![Method::GET, Method::PUT],
        credentials,
        ..CorsOptions::default()
    };
    CorsPolicy::new(options).expect("sense")
}

fn request_from(origin: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static(origin))])
}

fn preflight_from(origin: &'static str) -> HeaderMap {
    let mut headers = request_from(origin);
    headers.insert(
        ACCESS_CONTROL_REQUEST_METHOD,
        HeaderValue::from_static("PUT"),
    );
    headers.insert(
        ACCESS_CONTROL_REQUEST_HEADERS,
        HeaderValue::from_static("x-evil"),
    );
    headers
}

fn response_headers(cors: &CorsPolicy, request: &HeaderMap) -> HeaderMap {
    let mut response = HeaderMap::new();
    response.insert(VARY, HeaderValue::from_static("Accept"));
    cors.add_headers(request, &mut response);
    response
}

fn permissions_from(source: PermissionSource) -> Permissions {
    let scopes: Arc<[AccessScope]> = Arc::from([AccessScope::everywhere(AccessRight::Write)]);
    Permissions::scoped(source, None, &scopes, &scopes)
}

#[test]
fn origins_are_read() {
    assert_eq!("*".parse(), Ok(AllowedOrigins::Any));
    let two = "https://a.example, http://b.example:8080".parse();
    assert!(matches!(two, Ok(AllowedOrigins::List(list)) if list.len() == 2));
    assert_eq!(
        "https://a.example,null".parse::<AllowedOrigins>(),
        Err(WebOriginError::Null)
    );
    assert_eq!("".parse::<AllowedOrigins>(), Err(WebOriginError::Malformed));
}

#[test]
fn cors_is_off_by_default() {
    let cors = CorsPolicy::new(CorsOptions::default()).expect("sense");
    assert!(cors.is_disabled());
    assert!(cors.preflight_headers(&preflight_from(PAGE)).is_none());
    assert_eq!(response_headers(&cors, &request_from(PAGE)).len(), 1);
    let outcome = cors.cross_site_write(
        &request_from(PAGE),
        &Method::PUT,
        &permissions_from(PermissionSource::Open),
    );
    assert_eq!(outcome, CrossSiteWrite::Denied);
}

#[test]
fn listed_pages_get_cors_fields() {
    let cors = cors("https://app.example,https://b.example", true);
    let headers = cors
        .preflight_headers(&preflight_from(PAGE))
        .expect("a preflight");
    assert_eq!(headers[ACCESS_CONTROL_ALLOW_ORIGIN], PAGE);
    assert_eq!(headers[ACCESS_CONTROL_ALLOW_CREDENTIALS], "true");
    assert_eq!(headers[ACCESS_CONTROL_ALLOW_METHODS], "GET, PUT");
    assert_eq!(headers[ACCESS_CONTROL_MAX_AGE], "3600");
    assert_eq!(headers[VARY], "Origin");
    // Every response passes `add_headers`, that of a preflight too.
    let mut both = headers.clone();
    cors.add_headers(&preflight_from(PAGE), &mut both);
    assert_eq!(both.get_all(VARY).iter().collect::<Vec<_>>(), ["Origin"]);
    let headers = headers[ACCESS_CONTROL_ALLOW_HEADERS]
        .to_str()
        .expect("text");
    assert!(
        headers.contains("authorization")
            && headers.contains("range")
            && !headers.contains("x-evil")
    );
    let headers = response_headers(&cors, &request_from(PAGE));
    assert_eq!(headers[ACCESS_CONTROL_ALLOW_ORIGIN], PAGE);
    let exposed = headers[ACCESS_CONTROL_EXPOSE_HEADERS]
        .to_str()
        .expect("text");
    assert!(
        ["etag", "content-range", "repr-digest"]
            .iter()
            .all(|name| exposed.contains(name))
    );
    let vary: Vec<_> = headers.get_all(VARY).iter().collect();
    assert_eq!(vary, ["Accept", "Origin"]);
}

#[test]
fn other_pages_get_no_cors_fields() {
    let cors = cors(PAGE, true);
    for other in [
        "https://evil.example",
        "null",
        "https://app.example.evil",
        "http://app.example",
        "HTTPS://APP.EXAMPLE",
    ] {
        let headers = cors
            .preflight_headers(&preflight_from(other))
            .expect("a preflight");
        assert_eq!(headers.len(), 1, "{other}: {headers:?}");
        let headers = response_headers(&cors, &request_from(other));
        assert!(
            !headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN)
                && headers.get_all(VARY).iter().count() == 2
        );
    }
    // A cache must know that the response varies even if no page asked.
    assert_eq!(
        response_headers(&cors, &HeaderMap::new())
            .get_all(VARY)
            .iter()
            .count(),
        2
    );
    let mut two = preflight_from(PAGE);
    two.append(ORIGIN, HeaderValue::from_static(PAGE));
    assert!(cors.preflight_headers(&two).is_none());
    assert!(
        cors.preflight_headers(&request_from(PAGE)).is_none(),
        "without a method it is no preflight"
    );
}

#[test]
fn every_page_is_allowed_without_stored_logins() {
    let cors = cors("*", false);
    let headers = response_headers(&cors, &request_from("null"));
    assert_eq!(headers[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
    assert!(!headers.contains_key(ACCESS_CONTROL_ALLOW_CREDENTIALS));
    assert_eq!(headers.get_all(VARY).iter().count(), 1);
    let both = CorsOptions {
        origins: AllowedOrigins::Any,
        credentials: true,
        ..CorsOptions::default()
    };
    assert_eq!(
        CorsPolicy::new(both).err(),
        Some(CorsError::AnyWithCredentials)
    );
}

#[test]
fn cross_site_writes_need_permission() {
    use CrossSiteWrite::{Allowed, Denied, NeedsCredentials};
    use PermissionSource::{Anonymous, Login, Open, Signature, Token};
    let (listed, trusted, any) = (cors(PAGE, false), cors(PAGE, true), cors("*", false));
    let (put, delete, evil) = (Method::PUT, Method::DELETE, "https://evil.example");
    for (cors, page, method, source, wanted) in [
        (&trusted, PAGE, &put, Login, Allowed),
        (&trusted, PAGE, &delete, Login, Denied),
        (&trusted, evil, &put, Login, Denied),
        // The browser would add a stored login to a form of that page, which the configuration does
        // not allow.
        (&listed, PAGE, &put, Login, NeedsCredentials),
        (&listed, PAGE, &put, Anonymous, Allowed),
        (&listed, evil, &put, Open, Denied),
        (&any, evil, &put, Open, Allowed),
        (&any, evil, &delete, Open, Denied),
        (&any, evil, &put, Login, NeedsCredentials),
        // No browser adds these by itself.
        (&listed, evil, &delete, Token, Allowed),
        (&listed, evil, &delete, Signature, Allowed),
    ] {
        assert_eq!(
            cors.cross_site_write(&request_from(page), method, &permissions_from(source)),
            wanted,
            "{page} {method} {source:?}"
        );
    }
}

#[test]
fn origins_are_read_as_browsers_write_them() {
    for (text, written) in [
        ("https://App.Example", "https://app.example"),
        ("https://app.example:443/", "https://app.example"),
        ("http://app.example:443", "http://app.example:443"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        (
            "https://b\u{fc}cher.example",
            "https://xn--bcher-kva.example",
        ),
    ] {
        assert_eq!(
            text.parse::<WebOrigin>().map(|origin| origin.0),
            Ok(written.to_owned())
        );
    }
}

#[test]
fn malformed_origins_are_refused() {
    assert_eq!("null".parse::<WebOrigin>(), Err(WebOriginError::Null));
    for text in [
        "",
        "app.example",
        "https://",
        "https:///app.example",
        "https://app.example/x",
        "https://me@app.example",
        "https://*.example",
        "https://app.example?x",
        "https://app.example#x",
        "https://a b",
        "https://app.example\\x",
        "file:///x",
        "*",
    ] {
        assert_eq!(
            text.parse::<WebOrigin>(),
            Err(WebOriginError::Malformed),
            "{text}"
        );
    }
}
