//! Recognises writes that a page of another site makes a browser send.
//!
//! Any page can make a visitor's browser send a form to this store. The browser adds the login that
//! it has stored, or reaches a store that only its own network reaches. CORS keeps such a page from
//! reading the response, but not from sending the request. Browsers, however, say where a request
//! comes from: in Sec-Fetch-Site to origins they trust (TLS, or their own machine), and in Origin
//! for everything but a plain GET. Programs send neither field and are let through: no page
//! controls them.
//!
//! A page of this store that forbids referrers altogether (`Referrer-Policy: no-referrer`) sends
//! its forms from the origin `null`, which is refused; with `same-origin` they are accepted.
//!
//! DNS rebinding is not recognised here: if a page's owner points the page's host name at this
//! machine, the browser takes both for the same site. [`ServerNames`](haul_service::ServerNames)
//! guard against that.

use http::{HeaderMap, HeaderName};

use super::cors::{WebOrigin, request_origin};

/// The relation of the page to this server (W3C Fetch Metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a browser sends this request for a page that is not of this store. A request that
/// changes something is then refused with 403, unless
/// [`CorsPolicy::cross_site_write`](super::CorsPolicy::cross_site_write) allows it. Requests that
/// only read need no check.
///
/// `host` is the request's authority (`Host`, or `:authority`), as the client wrote it; `is_tls`
/// says whether the connection is encrypted here. If it is not, a proxy may have ended TLS, so an
/// https origin is as good as an http one. Another origin of the same site, such as a neighbouring
/// subdomain, counts as another site.
#[must_use]
pub fn is_cross_site(headers: &HeaderMap, host: &str, is_tls: bool) -> bool {
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter().peekable();
    if sites.peek().is_some() {
        // `none` means that a person typed the URL.
        return !sites.all(|site| matches!(site.as_bytes(), b"same-origin" | b"none"));
    }
    if !headers.contains_key(http::header::ORIGIN) {
        return false;
    }
    let Some(origin) = request_origin(headers) else {
        return true;
    };
    let own_origin = |scheme: &str| format!("{scheme}://{host}").parse::<WebOrigin>();
    let matches_own =
        |scheme| own_origin(scheme).is_ok_and(|own_origin| own_origin.matches(origin));
    !(matches_own("https") || !is_tls && matches_own("http"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn is_cross_site_write(
        fields: &[(&'static str, &'static str)],
        host: &str,
        is_tls: bool,
    ) -> bool {
        is_cross_site(&headers(fields), host, is_tls)
    }

    #[test]
    fn programs_are_let_through() {
        assert!(!is_cross_site_write(&[], "a.example", true));
        assert!(!is_cross_site_write(
            &[("referer", "https://evil.example/")],
            "a.example",
            false
        ));
    }

    #[test]
    fn sec_fetch_site_decides() {
        for (site, is_cross) in [
            ("same-origin", false),
            ("none", false),
            ("same-site", true),
            ("cross-site", true),
            ("x", true),
        ] {
            assert_eq!(
                is_cross_site_write(&[("sec-fetch-site", site)], "a.example", true),
                is_cross,
                "{site}"
            );
        }
        // Sec-Fetch-Site takes precedence over Origin, which a proxy that rewrites Host would make
        // wrong.
        let fields = [
            ("sec-fetch-site", "same-origin"),
            ("origin", "https://outside.example"),
        ];
        assert!(!is_cross_site_write(&fields, "inside:8080", false));
        let fields = [
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-site", "cross-site"),
        ];
        assert!(is_cross_site_write(&fields, "a.example", true));
    }

    #[test]
    fn the_origin_must_match_the_host() {
        for (origin, host, is_tls, is_cross) in [
            ("https://a.example", "a.example", true, false),
            ("https://a.example", "A.Example:443", true, false),
            ("https://a.example:8443", "a.example:8443", true, false),
            ("https://a.example", "a.example:8443", true, true),
            ("http://a.example", "a.example", true, true),
            ("http://a.example", "a.example:80", false, false),
            ("https://a.example", "a.example", false, false),
            ("http://[::1]:8080", "[::1]:8080", false, false),
            ("null", "a.example", true, true),
            ("null", "null", true, true),
            ("https://evil.example", "a.example", true, true),
            ("https://a.example.evil", "a.example", true, true),
            ("https://a.example", "", true, true),
            ("https://evil.example", "a.example@evil.example", true, true),
            ("https://evil.example", "evil.example/a.example", true, true),
        ] {
            assert_eq!(
                is_cross_site_write(&[("origin", origin)], host, is_tls),
                is_cross,
                "{origin} {host}"
            );
        }
        let two = [
            ("origin", "https://a.example"),
            ("origin", "https://a.example"),
        ];
        assert!(is_cross_site_write(&two, "a.example", true));
    }

    proptest! {
        #[test]
        fn no_field_panics(origin in prop::collection::vec(any::<u8>(), 0..40), host in "\\PC{0,20}", is_tls: bool) {
            if let Ok(value) = HeaderValue::from_bytes(&origin) {
                let headers = HeaderMap::from_iter([(http::header::ORIGIN, value)]);
                let _ = is_cross_site(&headers, &host, is_tls);
            }
        }
    }
}
