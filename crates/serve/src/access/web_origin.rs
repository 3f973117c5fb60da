//! Origins of pages (RFC 6454): the scheme, host and port that a page came from.

use std::fmt;
use std::str::FromStr;

use http::header::ORIGIN;
use http::{HeaderMap, HeaderValue};
use url::Url;

/// An origin as browsers write it: `https://app.example`, with a port where it is not the scheme's own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WebOrigin(String);

/// A text that is no origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WebOriginError {
    /// What every page can make itself to be.
    #[error("`null` is what any page can call itself, and stands for no origin")]
    Null,
    /// Something else.
    #[error(
        "an origin is written https://host or http://host, with :port where it has one, and nothing behind it"
    )]
    Malformed,
}

impl WebOrigin {
    /// As it stands in a header.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is what a header says.
    pub(super) fn matches(&self, value: &HeaderValue) -> bool {
        // Browsers write it in one way.
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
        // What a parser of URLs would read as something beside the host.
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

/// The origin that a browser says a request is from; `None` when it says none, or several.
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
    fn what_is_no_origin_is_refused() {
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
