//! Web origins (RFC 6454): the scheme, host and port of a page.

use std::fmt;
use std::str::FromStr;

use http::header::ORIGIN;
use http::{HeaderMap, HeaderValue};
use url::Url;

/// An origin as browsers write it: `https://app.example`, with a port unless it is the scheme's
/// default.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WebOrigin(String);

/// Why a text is not an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WebOriginError {
    /// Any page can make its origin `null`.
    #[error("any page can send the origin `null`, so it cannot be allowed")]
    Null,
    /// Any other text.
    #[error(
        "an origin is written https://host or http://host, with :port if needed, and nothing after it"
    )]
    Malformed,
}

impl WebOrigin {
    /// The origin as a header holds it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a header value is this origin.
    pub(super) fn matches(&self, value: &HeaderValue) -> bool {
        // Browsers write an origin in one way only.
        value.as_bytes() == self.0.as_bytes()
    }
}

impl FromStr for WebOrigin {
    type Err = WebOriginError;

    fn from_str(text: &str) -> Result<Self, WebOriginError> {
        if text == "null" {
            return Err(WebOriginError::Null);
        }
        let rest = text
            .strip_prefix("https://")
            .or_else(|| text.strip_prefix("http://"));
        let rest = rest.ok_or(WebOriginError::Malformed)?;
        let host = rest.strip_suffix('/').unwrap_or(rest);
        // A URL parser would take these for the end of the host.
        if host.contains(['/', '\\', '@', '?', '#', '*'])
            || host.chars().any(|sign| sign.is_control() || sign == ' ')
        {
            return Err(WebOriginError::Malformed);
        }
        let url = Url::parse(text).map_err(|_| WebOriginError::Malformed)?;
        Ok(Self(url.origin().ascii_serialization()))
    }
}

impl fmt::Display for WebOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The value of the Origin field; `None` if there is none, or more than one.
pub(super) fn request_origin(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut all = headers.get_all(ORIGIN).iter();
    let first = all.next()?;
    all.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
