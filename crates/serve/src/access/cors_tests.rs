//! What pages are told.

use std::sync::Arc;

use http::header::{ACCESS_CONTROL_REQUEST_HEADERS, ORIGIN};

use super::super::scope::{AccessRight, AccessScope};
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

fn from(origin: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static(origin))])
}

fn preflight_from(origin: &'static str) -> HeaderMap {
    let mut headers = from(origin);
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

fn answer(cors: &CorsPolicy, request: &HeaderMap) -> HeaderMap {
    let mut answer = HeaderMap::new();
    answer.insert(VARY, HeaderValue::from_static("Accept"));
    cors.add_headers(request, &mut answer);
    answer
}

fn by(how: PermissionSource) -> Permissions {
    let scopes: Arc<[AccessScope]> = Arc::from([AccessScope::everywhere(AccessRight::Write)]);
    Permissions::scoped((how, None), &scopes, &scopes)
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
fn by_default_there_is_none() {
    let cors = CorsPolicy::new(CorsOptions::default()).expect("sense");
    assert!(cors.is_disabled());
    assert!(cors.preflight_headers(&preflight_from(PAGE)).is_none());
    assert_eq!(answer(&cors, &from(PAGE)).len(), 1);
    let admitted = cors.cross_site_write(&from(PAGE), &Method::PUT, &by(PermissionSource::Open));
    assert_eq!(admitted, CrossSiteWrite::Denied);
}

#[test]
fn pages_on_the_list_are_let() {
    let cors = cors("https://app.example,https://b.example", true);
    let told = cors
        .preflight_headers(&preflight_from(PAGE))
        .expect("a preflight");
    assert_eq!(told[ACCESS_CONTROL_ALLOW_ORIGIN], PAGE);
    assert_eq!(told[ACCESS_CONTROL_ALLOW_CREDENTIALS], "true");
    assert_eq!(told[ACCESS_CONTROL_ALLOW_METHODS], "GET, PUT");
    assert_eq!(told[ACCESS_CONTROL_MAX_AGE], "3600");
    assert_eq!(told[VARY], "Origin");
    // What any answer is told is told to this one, too.
    let mut both = told.clone();
    cors.add_headers(&preflight_from(PAGE), &mut both);
    assert_eq!(both.get_all(VARY).iter().collect::<Vec<_>>(), ["Origin"]);
    let headers = told[ACCESS_CONTROL_ALLOW_HEADERS].to_str().expect("text");
    assert!(
        headers.contains("authorization")
            && headers.contains("range")
            && !headers.contains("x-evil")
    );
    let told = answer(&cors, &from(PAGE));
    assert_eq!(told[ACCESS_CONTROL_ALLOW_ORIGIN], PAGE);
    let exposed = told[ACCESS_CONTROL_EXPOSE_HEADERS].to_str().expect("text");
    assert!(
        ["etag", "content-range", "repr-digest"]
            .iter()
            .all(|name| exposed.contains(name))
    );
    let vary: Vec<_> = told.get_all(VARY).iter().collect();
    assert_eq!(vary, ["Accept", "Origin"]);
}

#[test]
fn others_are_told_nothing() {
    let cors = cors(PAGE, true);
    for other in [
        "https://evil.example",
        "null",
        "https://app.example.evil",
        "http://app.example",
        "HTTPS://APP.EXAMPLE",
    ] {
        let told = cors
            .preflight_headers(&preflight_from(other))
            .expect("a preflight");
        assert_eq!(told.len(), 1, "{other}: {told:?}");
        let told = answer(&cors, &from(other));
        assert!(
            !told.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN)
                && told.get_all(VARY).iter().count() == 2
        );
    }
    // A cache must know that it matters even when nobody asked.
    assert_eq!(
        answer(&cors, &HeaderMap::new())
            .get_all(VARY)
            .iter()
            .count(),
        2
    );
    let mut two = preflight_from(PAGE);
    two.append(ORIGIN, HeaderValue::from_static(PAGE));
    assert!(cors.preflight_headers(&two).is_none());
    assert!(
        cors.preflight_headers(&from(PAGE)).is_none(),
        "without a method it is no preflight"
    );
}

#[test]
fn every_page_is_let_without_logins() {
    let cors = cors("*", false);
    let told = answer(&cors, &from("null"));
    assert_eq!(told[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
    assert!(!told.contains_key(ACCESS_CONTROL_ALLOW_CREDENTIALS));
    assert_eq!(told.get_all(VARY).iter().count(), 1);
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
fn writes_of_other_pages_need_leave() {
    use CrossSiteWrite::{Allowed, Denied, NeedsCredentials};
    use PermissionSource::{Anonymous, Login, Open, Signature, Token};
    let (listed, trusted, any) = (cors(PAGE, false), cors(PAGE, true), cors("*", false));
    let (put, delete, evil) = (Method::PUT, Method::DELETE, "https://evil.example");
    for (cors, page, method, how, wanted) in [
        (&trusted, PAGE, &put, Login, Allowed),
        (&trusted, PAGE, &delete, Login, Denied),
        (&trusted, evil, &put, Login, Denied),
        // The browser would add a stored login to a form of that page, which was not allowed.
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
            cors.cross_site_write(&from(page), method, &by(how)),
            wanted,
            "{page} {method} {how:?}"
        );
    }
}
