//! Content codings (RFC 9110 8.4) that an origin applies although the request asked for identity.

use std::fmt;

use http::header::{CONTENT_ENCODING, HeaderMap};

/// Names longer than this are cut: they only go into a message.
const MAX_SHOWN: usize = 40;

/// A Content-Encoding other than identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentCoding {
    /// gzip, RFC 1952.
    Gzip,
    /// deflate, which is RFC 1950 despite its name.
    Deflate,
    /// Any other coding, or several in a row; for the message, cut to a sane length.
    Other(String),
}

impl ContentCoding {
    /// The coding of a body, if it is not identity.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut names: Vec<String> = Vec::new();
        for value in headers.get_all(CONTENT_ENCODING) {
            let list = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
            let is_coded = |name: &&str| !name.is_empty() && *name != "identity";
            let coded = list.split(',').map(str::trim).filter(is_coded);
            names.extend(coded.map(str::to_owned));
        }
        match names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => None,
            ["gzip" | "x-gzip"] => Some(Self::Gzip),
            ["deflate"] => Some(Self::Deflate),
            _ => Some(Self::Other(printable(&names.join(", "), MAX_SHOWN))),
        }
    }
}

impl fmt::Display for ContentCoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Other(name) => name,
        })
    }
}

/// A peer's text without control characters, cut to a length.
pub(crate) fn printable(text: &str, most: usize) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .take(most)
        .collect()
}
