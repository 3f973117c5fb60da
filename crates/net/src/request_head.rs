//! What one request says: its line and its header fields, by whom it goes to.
//!
//! A user's own fields are for the origin that the user named. A redirect leads elsewhere, and what was typed to be known
//! at the one place (`PRIVATE-TOKEN`, `Cookie`, `X-Amz-Security-Token`, names nobody has thought of yet) is not for the
//! other: only fields of a short list go along. curl keeps back `Authorization`, `Cookie` and `Host` alone.

use std::ops::Range;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CACHE_CONTROL,
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderValue, IF_RANGE, PRAGMA,
    PROXY_AUTHORIZATION, RANGE, REFERER, TE, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::{HeaderName, Request};
use http_body_util::Empty;
use url::Url;

use crate::auth::Authorization;
use crate::config::ClientConfig;
use crate::credential_scope::CredentialScope;
use crate::error::{Error, Kind};
use crate::request::FetchRequest;
use crate::request::Route;
use crate::request_target::{absolute_form, authority, origin_form};

/// The user's fields that go to any origin: they say what is wanted and by which program, and open nothing. Referer is
/// among them because it is looked at where the bytes lie.
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

/// How many fields a request usually has at most: room is made once.
const USUAL_HEADER_COUNT: usize = 8;

/// Fields that say how a request is framed or which bytes it asks for: a file is put together by them, so nobody else sets them.
const FRAMING_HEADERS: [HeaderName; 7] = [
    CONNECTION,
    CONTENT_LENGTH,
    IF_RANGE,
    RANGE,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Whether a field is the program's own to set, and no user's or list's.
#[must_use]
pub fn is_framing_header(name: &HeaderName) -> bool {
    FRAMING_HEADERS.contains(name)
}

/// The credentials of one request.
#[derive(Debug, Default)]
pub(crate) struct RequestAuthorizations {
    /// For the origin.
    pub(crate) origin: Option<Authorization>,
    /// For the proxy that sees the request in absolute-form.
    pub(crate) proxy: Option<Authorization>,
}

/// The request for a URL.
pub(crate) fn build_request(
    config: &ClientConfig,
    way: &Route<'_>,
    fetch: &FetchRequest<'_>,
    shown: &RequestAuthorizations,
) -> Result<Request<Empty<Bytes>>, Error> {
    let url = way.url;
    let target = if way.is_absolute_form {
        String::from(absolute_form(url))
    } else {
        origin_form(url).to_owned()
    };
    let mut request = Request::get(target)
        .body(Empty::new())
        .map_err(|e| Error::new(Kind::InvalidRequest, url).with_source(e))?;
    let headers = request.headers_mut();
    headers.reserve(USUAL_HEADER_COUNT);
    insert_default_headers(headers, url)?;
    if let Some(shown) = &shown.origin {
        headers.insert(AUTHORIZATION, shown.value.clone());
    }
    if let Some(shown) = &shown.proxy {
        headers.insert(PROXY_AUTHORIZATION, shown.value.clone());
    }
    for name in &config.removed_headers {
        headers.remove(name);
    }
    let goes = |name: &HeaderName| match *name {
        // Whoever the request is for, this is for the proxy, and only in absolute-form is there one to read it.
        PROXY_AUTHORIZATION => way.is_absolute_form,
        _ => way.scope == CredentialScope::UserOrigin || SENT_TO_ANY_ORIGIN.contains(name),
    };
    replace_headers(headers, &config.headers, goes);
    if let Some(own) = fetch.user_headers {
        replace_headers(headers, own, goes);
    }
    if !fetch.conditions.is_empty() {
        headers.extend(fetch.conditions.clone());
    }
    if let Some(range) = &fetch.range {
        headers.insert(RANGE, range_header(range, url)?);
    }
    Ok(request)
}

fn insert_default_headers(headers: &mut HeaderMap, url: &Url) -> Result<(), Error> {
    let host = HeaderValue::from_str(authority(url));
    headers.insert(
        HOST,
        host.map_err(|e| Error::new(Kind::InvalidRequest, url).with_source(e))?,
    );
    headers.insert(
        USER_AGENT,
        HeaderValue::from_static(concat!("haul/", env!("CARGO_PKG_VERSION"))),
    );
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok(())
}

/// Puts a user's fields in place of ours of the same name.
fn replace_headers(headers: &mut HeaderMap, users: &HeaderMap, goes: impl Fn(&HeaderName) -> bool) {
    for name in users.keys().filter(|name| goes(name)) {
        headers.remove(name);
        for value in users.get_all(name) {
            headers.append(name.clone(), value.clone());
        }
    }
}

/// Inclusive here and nowhere else: on the wire.
fn range_header(range: &Range<u64>, url: &Url) -> Result<HeaderValue, Error> {
    let text = if range.end == u64::MAX {
        format!("bytes={}-", range.start)
    } else {
        format!("bytes={}-{}", range.start, range.end.saturating_sub(1))
    };
    HeaderValue::from_str(&text).map_err(|e| Error::new(Kind::InvalidRequest, url).with_source(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a request for `url` carries of these fields.
    fn headers_for(url: &str, forward: bool, users: &[(&'static str, &'static str)]) -> HeaderMap {
        let (url, given): (Url, Url) = (url.parse().unwrap(), "http://a.test/x".parse().unwrap());
        let pair = |(name, value): &(&'static str, &'static str)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        };
        let config = ClientConfig {
            headers: users.iter().map(pair).collect(),
            ..ClientConfig::default()
        };
        let fetch = FetchRequest {
            user_headers: None,
            url: &given,
            user_url: &given,
            range: Some(3..9),
            conditions: HeaderMap::new(),
            may_multiplex: false,
        };
        let way = Route {
            is_absolute_form: forward,
            ..Route::new(&url, &given, &config).unwrap()
        };
        let request = build_request(&config, &way, &fetch, &RequestAuthorizations::default());
        request.unwrap().headers().clone()
    }

    const USERS: [(&str, &str); 10] = [
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

    #[test]
    fn the_origin_that_was_named_gets_all_of_the_users_fields_but_the_proxys() {
        let headers = headers_for("http://a.test/y", false, &USERS);
        for (name, value) in USERS {
            let known = headers.get_all(name).iter().any(|found| found == value);
            assert_eq!(known, name != "proxy-authorization", "{name}");
        }
        assert_eq!(headers.get_all(HOST).iter().count(), 1);
        assert_eq!(headers[RANGE], "bytes=3-8");
    }

    #[test]
    fn another_origin_gets_what_says_nothing_of_who_asks() {
        for other in [
            "http://b.test/",
            "https://a.test/",
            "http://a.test:81/",
            "http://x.a.test/",
        ] {
            let headers = headers_for(other, false, &USERS);
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
    fn the_host_is_named_with_its_port_unless_that_is_the_schemes_own() {
        for (url, host) in [
            ("http://me:s@h.test/", "h.test"),
            ("http://h.test:80/", "h.test"),
            ("http://H.test:443/", "h.test:443"),
            ("https://[::1]/", "[::1]"),
            ("https://[::1]:80/a@b:1", "[::1]:80"),
        ] {
            assert_eq!(headers_for(url, false, &[])[HOST], host, "{url}");
        }
    }

    #[test]
    fn what_is_for_the_proxy_goes_where_a_proxy_reads_it() {
        for url in ["http://a.test/", "http://b.test/"] {
            let headers = headers_for(url, true, &USERS);
            assert_eq!(headers[PROXY_AUTHORIZATION], "Basic x");
        }
    }
}
