//! What names one URL or many: a URL that is one, or a text with brackets or braces, of which only the other flags say what it is.

use std::fmt;
use std::str::FromStr;

use super::{HttpUrl, ValueError};

/// A URL, or a text that may stand for many.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum UrlArg {
    /// A URL.
    Url(HttpUrl),
    /// What has brackets or braces in it.
    Glob(String),
}

impl fmt::Debug for UrlArg {
    /// It may hold a password, or a signature.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => url.fmt(f),
            Self::Glob(text) => write!(f, "Glob({})", haul_net::redacted_text(text)),
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
