//! Writes that another page makes a browser send.
//!
//! A page anywhere can make a visitor's browser send a form to this store, and the browser adds the login that it has stored, or
//! reaches a store that only its own network reaches. CORS hinders such a page from reading the answer, not from having asked. What
//! helps is that browsers say where a request comes from: in Sec-Fetch-Site to origins they trust (TLS, or the own machine), and in
//! Origin for all that is no plain GET. Programs say neither and are let through: nobody makes them ask.
//!
//! A page of this store that forbids referrers altogether (`Referrer-Policy: no-referrer`) has its forms come from `null`, and
//! would be refused; `same-origin` does as well and is not.
//!
//! A host by another name is not found out here: a page at a name that its owner points at this machine is, to a browser, of the
//! same site. That is what [`ServerNames`](haul_service::ServerNames) are for.

use http::{HeaderMap, HeaderName};

use super::web_origin::{WebOrigin, request_origin};

/// Which site made a browser ask (W3C Fetch Metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a browser sends this for a page that is not of this store. Requests that change something are then refused with 403,
/// unless [`CorsPolicy::admits`](super::CorsPolicy::admits) them. Requests that only read need not be asked about.
///
/// `host` is the request's authority (`Host`, or `:authority`), as the client wrote it; `tls` whether the connection is encrypted
/// here. Without that a proxy may have done it, so https is then as good as http. Another origin of the same site, a neighbouring
/// subdomain say, is another site here.
#[must_use]
pub fn is_cross_site(headers: &HeaderMap, host: &str, tls: bool) -> bool {
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter().peekable();
    if sites.peek().is_some() {
        // `none` is a person who typed it.
        return !sites.all(|site| matches!(site.as_bytes(), b"same-origin" | b"none"));
    }
    if !headers.contains_key(http::header::ORIGIN) {
        return false;
    }
    let Some(origin) = request_origin(headers) else {
        return true;
    };
    let own = |scheme: &str| format!("{scheme}://{host}").parse::<WebOrigin>();
    let is_own = |scheme| own(scheme).is_ok_and(|own| own.matches(origin));
    !(is_own("https") || !tls && is_own("http"))
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

    fn crosses(fields: &[(&'static str, &'static str)], host: &str, tls: bool) -> bool {
        is_cross_site(&headers(fields), host, tls)
    }

    #[test]
    fn programs_are_let_through() {
        assert!(!crosses(&[], "a.example", true));
        assert!(!crosses(
            &[("referer", "https://evil.example/")],
            "a.example",
            false
        ));
    }

    #[test]
    fn browsers_say_where_it_comes_from() {
        for (site, is_cross) in [
            ("same-origin", false),
            ("none", false),
            ("same-site", true),
            ("cross-site", true),
            ("x", true),
        ] {
            assert_eq!(
                crosses(&[("sec-fetch-site", site)], "a.example", true),
                is_cross,
                "{site}"
            );
        }
        // It goes before Origin, which a proxy that rewrites Host would make wrong.
        let fields = [
            ("sec-fetch-site", "same-origin"),
            ("origin", "https://outside.example"),
        ];
        assert!(!crosses(&fields, "inside:8080", false));
        let fields = [
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-site", "cross-site"),
        ];
        assert!(crosses(&fields, "a.example", true));
    }

    #[test]
    fn the_origin_is_the_host() {
        for (origin, host, tls, is_cross) in [
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
                crosses(&[("origin", origin)], host, tls),
                is_cross,
                "{origin} {host}"
            );
        }
        let two = [
            ("origin", "https://a.example"),
            ("origin", "https://a.example"),
        ];
        assert!(crosses(&two, "a.example", true));
    }

    proptest! {
        #[test]
        fn no_field_is_a_panic(origin in prop::collection::vec(any::<u8>(), 0..40), host in "\\PC{0,20}", tls: bool) {
            if let Ok(value) = HeaderValue::from_bytes(&origin) {
                let headers = HeaderMap::from_iter([(http::header::ORIGIN, value)]);
                let _ = is_cross_site(&headers, &host, tls);
            }
        }
    }
}
