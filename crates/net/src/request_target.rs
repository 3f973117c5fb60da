//! How a request names its URL: request targets and the Host field (RFC 9112 3.2, RFC 9110 7.2). None of them has the URL's
//! credentials.

use std::borrow::Cow;

use haul_plan::zone_of_url;
use url::{Position, Url};

use crate::zone::url_text;

/// Path and query, as the request line of a request to an origin has them.
pub(crate) fn origin_form(url: &Url) -> &str {
    &url[Position::BeforePath..Position::AfterQuery]
}

/// The whole URL without credentials and fragment, as the request line of a request to a proxy has it.
pub(crate) fn absolute_form(url: &Url) -> Url {
    let mut url = without_credentials(url);
    url.set_fragment(None);
    if let Some((address, _)) = zone_of_url(&url) {
        // It fails only for URLs that have no host.
        let _ = url.set_ip_host(address.into());
    }
    url
}

/// Host and port, as the Host field has them. The port is left out when it is the default of the scheme.
#[must_use]
pub fn authority(url: &Url) -> Cow<'_, str> {
    match zone_of_url(url) {
        None => Cow::Borrowed(&url[Position::BeforeHost..Position::AfterPort]),
        Some((address, _)) => {
            let port = &url[Position::AfterHost..Position::AfterPort];
            Cow::Owned(format!("[{address}]{port}"))
        }
    }
}

/// Scheme, host and port of a URL, in one text for each origin. Of an `s3://` URL it is the bucket.
#[must_use]
pub fn origin_text(url: &Url) -> Cow<'_, str> {
    if zone_of_url(url).is_some() {
        let mut origin = without_credentials(url);
        origin.set_path("");
        origin.set_query(None);
        origin.set_fragment(None);
        return Cow::Owned(url_text(&origin).trim_end_matches('/').to_owned());
    }
    let has_login = !url.username().is_empty() || url.password().is_some();
    if url.has_authority() && !has_login || url.scheme() == "s3" {
        // What a batch has for each of its files.
        Cow::Borrowed(&url[..Position::BeforePath])
    } else {
        Cow::Owned(url.origin().ascii_serialization())
    }
}

/// A URL without user name and password. To show a URL to people, see [`redacted_url`](crate::redacted_url()).
#[must_use]
pub fn without_credentials(url: &Url) -> Url {
    let mut url = url.clone();
    if url.username().is_empty() && url.password().is_none() {
        return url;
    }
    // These fail only for URLs that cannot have credentials, which is the wanted state.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_one_text_however_its_urls_are_written() {
        let same = [
            ("http://H.test:80/a?b#c", "http://h.test"),
            ("http://me:pw@h.test/a", "http://h.test"),
            ("http://me@h.test:8080", "http://h.test:8080"),
            ("https://:pw@[::1]:443/a", "https://[::1]"),
            ("s3://bucket/a/b", "s3://bucket"),
        ];
        for (url, expected) in same {
            assert_eq!(origin_text(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn no_request_has_a_zone_and_every_text_for_people_does() {
        let url = crate::parse_url("http://me:pw@[fe80::1%lo]:8080/a?b#c").unwrap();
        assert_eq!(authority(&url), "[fe80::1]:8080");
        assert_eq!(absolute_form(&url).as_str(), "http://[fe80::1]:8080/a?b");
        assert_eq!(origin_text(&url), "http://[fe80::1%25lo]:8080");
        assert_eq!(
            crate::redacted_url(&url),
            "http://[fe80::1%25lo]:8080/a?b#c"
        );
    }
}
