//! An argument that names one URL, or many with brackets or braces. Other flags decide whether these expand.

use std::fmt;
use std::str::FromStr;

use super::{HttpUrl, ValueError};

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum UrlArg {
    Url(HttpUrl),
    /// A text with brackets or braces.
    Glob(String),
}

impl fmt::Debug for UrlArg {
    /// The text may contain a password or a signature.
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
