//! Where a redirect leads, and whether to follow it (RFC 9110 15.4, 10.2.2).

use std::borrow::Cow;

use haul_plan::join_from_peer;
use http::header::{HeaderMap, HeaderValue, LOCATION};
use percent_encoding::{CONTROLS, percent_encode};
use url::Url;

/// The longest Location that is followed, in bytes: signed URLs have up to two thousand.
const MAX_LOCATION_BYTES: usize = 16 * 1024;

/// Limits on redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedirectOptions {
    /// Redirects in a row that are followed.
    pub max_redirects: usize,
    /// Whether a redirect from https to http is followed.
    pub allow_downgrade: bool,
}

impl Default for RedirectOptions {
    fn default() -> Self {
        // As many as browsers follow.
        Self {
            max_redirects: 20,
            allow_downgrade: false,
        }
    }
}

impl RedirectOptions {
    /// Whether going from one URL to another would give up encryption unasked: by a redirect, or because a
    /// response or a document that arrived encrypted names the other URL. Anybody between could put other bytes
    /// in place of those of the second URL.
    #[must_use]
    pub fn is_refused_downgrade(&self, from: &Url, to: &Url) -> bool {
        from.scheme() == "https" && to.scheme() == "http" && !self.allow_downgrade
    }
}

/// Why a redirect is not followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RedirectError {
    /// More in a row than allowed.
    #[error("more than {0} redirects in a row")]
    TooMany(usize),
    /// There is no Location.
    #[error("a redirect without a Location")]
    MissingLocation,
    /// Several Location fields that differ: each reader would take another one.
    #[error("several Location fields that differ")]
    AmbiguousLocation,
    /// The Location is longer than any URL in use.
    #[error(
        "a redirect to a URL of {0} bytes, more than the {MAX_LOCATION_BYTES} that are followed"
    )]
    LocationTooLong(usize),
    /// The Location is not a URL.
    #[error("a redirect whose Location is not a URL")]
    InvalidLocation,
    /// Neither http nor https.
    #[error("a redirect to {0}:, which is neither http nor https")]
    UnsupportedScheme(String),
    /// From https to http.
    #[error("a redirect from https to http")]
    Downgrade,
}

/// The URL of a redirect, without credentials. `headers` are the fields of the response, `hops` is how many redirects were followed before this one.
///
/// # Errors
/// The redirect must not be followed.
pub(crate) fn follow_redirect(
    from: &Url,
    headers: &HeaderMap,
    hops: usize,
    options: RedirectOptions,
) -> Result<Url, RedirectError> {
    if hops >= options.max_redirects {
        return Err(RedirectError::TooMany(options.max_redirects));
    }
    let location = checked_location(headers)?.ok_or(RedirectError::MissingLocation)?;
    if location.len() > MAX_LOCATION_BYTES {
        return Err(RedirectError::LocationTooLong(location.len()));
    }
    // Old servers send names in Latin-1: other clients request the same bytes.
    let text = std::str::from_utf8(location.as_bytes()).map_or_else(
        |_| percent_encode(location.as_bytes(), CONTROLS).into(),
        Cow::Borrowed,
    );
    let mut url = join_from_peer(from, &text).map_err(|_| RedirectError::InvalidLocation)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(RedirectError::UnsupportedScheme(
            url.scheme().chars().take(20).collect(),
        ));
    }
    if options.is_refused_downgrade(from, &url) {
        return Err(RedirectError::Downgrade);
    }
    // An origin must not choose which credentials are sent, to itself or to others. These calls fail only for
    // URLs that cannot have any.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    if url.fragment().is_none() {
        url.set_fragment(from.fragment());
    }
    Ok(url)
}

/// The Location of a response with any status. Fields that differ are refused even where none is followed: such a response was put
/// together by somebody who did not check what they put in.
///
/// # Errors
/// [`RedirectError::AmbiguousLocation`].
pub(crate) fn checked_location(headers: &HeaderMap) -> Result<Option<&HeaderValue>, RedirectError> {
    let mut locations = headers.get_all(LOCATION).iter();
    let location = locations.next();
    if locations.any(|other| Some(other) != location) {
        return Err(RedirectError::AmbiguousLocation);
    }
    Ok(location)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn location(value: HeaderValue) -> HeaderMap {
        HeaderMap::from_iter([(LOCATION, value)])
    }

    fn hop(from: &str, to: &'static str) -> Result<Url, RedirectError> {
        follow_redirect(
            &Url::parse(from).unwrap(),
            &location(HeaderValue::from_static(to)),
            0,
            RedirectOptions::default(),
        )
    }

    #[test]
    fn a16_relative_and_absolute_locations_are_followed() {
        assert_eq!(
            hop("http://a.test/x/y", "../z").unwrap().as_str(),
            "http://a.test/z"
        );
        assert_eq!(
            hop("http://a.test/x", "//b.test/y").unwrap().as_str(),
            "http://b.test/y"
        );
    }

    #[test]
    fn a16_https_to_http_is_refused_unless_allowed() {
        assert_eq!(
            hop("https://a.test/", "http://a.test/"),
            Err(RedirectError::Downgrade)
        );
        let from = Url::parse("https://a.test/").unwrap();
        let to = location(HeaderValue::from_static("http://a.test/"));
        let options = RedirectOptions {
            allow_downgrade: true,
            ..RedirectOptions::default()
        };
        assert!(follow_redirect(&from, &to, 0, options).is_ok());
    }

    #[test]
    fn a16_only_from_https_to_http_gives_up_encryption() {
        let url = |scheme: &str| Url::parse(&format!("{scheme}://a.test/")).unwrap();
        let refused = RedirectOptions::default();
        let allowed = RedirectOptions {
            allow_downgrade: true,
            ..refused
        };
        for (from, to) in [
            ("http", "http"),
            ("http", "https"),
            ("https", "https"),
            ("https", "http"),
        ] {
            let (down, from, to) = ((from, to) == ("https", "http"), url(from), url(to));
            assert_eq!(refused.is_refused_downgrade(&from, &to), down);
            assert!(!allowed.is_refused_downgrade(&from, &to));
        }
    }

    #[test]
    fn a16_the_limit_counts_and_bad_locations_are_refused() {
        let from = Url::parse("http://a.test/").unwrap();
        let to = location(HeaderValue::from_static("/b"));
        let options = RedirectOptions {
            max_redirects: 2,
            ..RedirectOptions::default()
        };
        assert!(follow_redirect(&from, &to, 1, options).is_ok());
        assert_eq!(
            follow_redirect(&from, &to, 2, options),
            Err(RedirectError::TooMany(2))
        );
        assert_eq!(
            follow_redirect(&from, &HeaderMap::new(), 0, options),
            Err(RedirectError::MissingLocation)
        );
        let long = "x".repeat(MAX_LOCATION_BYTES + 1);
        let long = location(HeaderValue::from_str(&long).unwrap());
        assert_eq!(
            follow_redirect(&from, &long, 0, options),
            Err(RedirectError::LocationTooLong(MAX_LOCATION_BYTES + 1))
        );
        let latin1 = location(HeaderValue::from_bytes(b"/n/\xfcbung.bin").unwrap());
        assert_eq!(
            follow_redirect(&from, &latin1, 0, options).map(|url| url.path().to_owned()),
            Ok("/n/%FCbung.bin".to_owned())
        );
        assert_eq!(
            hop("http://a.test/", "file:///etc/passwd"),
            Err(RedirectError::UnsupportedScheme("file".into()))
        );
        assert_eq!(
            hop("http://a.test/", "http://["),
            Err(RedirectError::InvalidLocation)
        );
    }

    #[test]
    fn a32_several_locations_are_followed_only_if_they_are_equal() {
        let from = Url::parse("http://a.test/").unwrap();
        let follow = |locations: &[&'static str]| {
            let fields = locations.iter().map(|to| HeaderValue::from_static(to));
            let headers = HeaderMap::from_iter(fields.map(|to| (LOCATION, to)));
            follow_redirect(&from, &headers, 0, RedirectOptions::default())
        };
        let followed = follow(&["/b", "/b", "/b"]).unwrap();
        assert_eq!(followed.as_str(), "http://a.test/b");
        for differing in [&["/b", "/c"][..], &["/b", "/b", "/c"], &["/b", ""]] {
            let refused = follow(differing);
            assert_eq!(
                refused,
                Err(RedirectError::AmbiguousLocation),
                "{differing:?}"
            );
        }
    }

    #[test]
    fn a16_credentials_in_a_location_are_dropped() {
        let hop = hop("http://a.test/", "http://user:secret@a.test/b").unwrap();
        assert_eq!(hop.as_str(), "http://a.test/b");
    }

    proptest! {
        #[test]
        fn whatever_a_location_says_only_http_is_reached(bytes: Vec<u8>) {
            let from = Url::parse("https://a.test/").unwrap();
            if let Ok(value) = HeaderValue::from_bytes(&bytes)
                && let Ok(hop) = follow_redirect(&from, &location(value), 0, RedirectOptions::default())
            {
                prop_assert_eq!(hop.scheme(), "https");
                prop_assert!(hop.username().is_empty());
            }
        }
    }
}
