//! URLs, S3 addresses, and patterns of them.

use std::fmt;
use std::str::FromStr;

use haul_net::{UrlError, redacted_text};
use haul_s3::{DownloadUrlError, S3Address, S3AddressError};
use url::Url;

use super::{ValueError, quoted};

/// An http or https URL with a host.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct HttpUrl(pub(crate) Url);

impl fmt::Debug for HttpUrl {
    /// A URL may contain a password or a signature.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpUrl({})", haul_net::redacted_url(&self.0))
    }
}

impl FromStr for HttpUrl {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let text = text.trim();
        let shown = redacted_text(text);
        if haul_s3::lacks_scheme(text) {
            return Err(ValueError::new(format!("{} has no scheme", quoted(text)))
                .with_hint(format!("did you mean https://{shown} ?")));
        }
        match haul_net::parse_url(text) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(Self(url)),
            Ok(url) => Err(ValueError::new(format!(
                "{} has the unsupported scheme {}",
                quoted(text),
                url.scheme()
            ))
            .with_hint("haul takes http:// and https:// URLs, and s3://BUCKET/KEY for downloads")),
            Err(UrlError::Malformed(url::ParseError::RelativeUrlWithoutBase)) => {
                Err(ValueError::new(format!("{} is not a URL", quoted(text)))
                    .with_hint("a URL begins with https:// or http://"))
            }
            Err(error) => Err(ValueError::new(format!(
                "{} is not a URL: {error}",
                quoted(text)
            ))),
        }
    }
}

/// An http or https URL, or an S3 address.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct DownloadUrl(pub(crate) Url);

impl fmt::Debug for DownloadUrl {
    /// A URL may contain a password or a signature.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DownloadUrl({})", haul_net::redacted_url(&self.0))
    }
}

impl FromStr for DownloadUrl {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        match haul_s3::parse_download_url(text.trim()) {
            Err(DownloadUrlError::Address(error)) => Err(ValueError::new(error.to_string())
                .with_hint("an object's address is s3://BUCKET/KEY")),
            Ok(url) if url.scheme() == "s3" => Ok(Self(url)),
            _ => text.parse::<HttpUrl>().map(|url| Self(url.0)),
        }
    }
}

/// Parses an S3 address.
pub(crate) fn s3_address(text: &str) -> Result<S3Address, ValueError> {
    text.parse().map_err(|error: S3AddressError| {
        ValueError::new(error.to_string()).with_hint("an address is s3://BUCKET/KEY")
    })
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum UrlArg {
    Url(DownloadUrl),
    /// A text with brackets or braces.
    Glob(String),
}

impl fmt::Debug for UrlArg {
    /// The text may contain a password or a signature.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => url.fmt(f),
            Self::Glob(text) => write!(f, "Glob({})", redacted_text(text)),
        }
    }
}

impl FromStr for UrlArg {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text.contains(['[', ']', '{', '}']) {
            return Ok(Self::Glob(text.trim().to_owned()));
        }
        text.parse().map(Self::Url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> (String, String) {
        let error = text.parse::<HttpUrl>().unwrap_err();
        (
            error.to_string(),
            error.hint().unwrap_or_default().to_owned(),
        )
    }

    #[test]
    fn wrong_urls_have_a_hint() {
        assert!(
            " http://h.test/x ".parse::<HttpUrl>().is_ok()
                && "HTTPS://h.test".parse::<HttpUrl>().is_ok()
        );
        assert_eq!(
            error("example.com/f.iso").1,
            "did you mean https://example.com/f.iso ?"
        );
        assert_eq!(
            error("localhost:8080/x").1,
            "did you mean https://localhost:8080/x ?"
        );
        assert_eq!(
            error("127.0.0.1:8080").1,
            "did you mean https://127.0.0.1:8080 ?"
        );
        assert_eq!(
            error("ftp://h.test/x"),
            (
                "\"ftp://h.test/x\" has the unsupported scheme ftp".into(),
                "haul takes http:// and https:// URLs, and s3://BUCKET/KEY for downloads".into()
            )
        );
        assert_eq!(error("file").1, "a URL begins with https:// or http://");
        assert_eq!(error("").1, "a URL begins with https:// or http://");
        assert_eq!(error("http://").0, "\"http://\" is not a URL: empty host");
        assert_eq!(
            error("http://h:99999/").0,
            "\"http://h:99999/\" is not a URL: invalid port number"
        );
    }

    #[test]
    fn passwords_in_urls_are_never_shown() {
        for text in [
            "me:s3cret@h.test/x",
            "ftp://me:s3cret@h.test/x",
            "http://me:s3cret@h:99999/",
            "http://me:s3cret@h/",
            "http://me:s3cret/pw@host/x",
            "http//me:s3cret@host/x",
            "me:s3cret@host",
            "http://h/?token=s3cret",
            "ftp://h/?X-Amz-Signature=s3cret",
        ] {
            let shown = format!("{:?}", text.parse::<HttpUrl>());
            assert!(!shown.contains("s3cret"), "{shown}");
        }
    }
}
