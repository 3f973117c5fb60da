//! Content codings (RFC 9110 8.4) that an origin applies although the request wanted identity.

use std::fmt;

use haul_plan::printable;
use http::header::{CONTENT_ENCODING, HeaderMap};

/// Names longer than this are cut: they only go into a message.
const MAX_SHOWN: usize = 40;

/// More codings on one body are refused, as in curl: each costs a decoder, and no server needs them.
const MAX_CODINGS: usize = 5;

/// A Content-Encoding other than identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentCoding {
    /// gzip, RFC 1952.
    Gzip,
    /// deflate, which is RFC 1950 despite its name.
    Deflate,
    /// br, RFC 7932.
    Brotli,
    /// zstd, RFC 8878.
    Zstd,
    /// Several of these, in the order in which they were applied.
    Several(Vec<Self>),
    /// Any other coding, or too many in a row; for the message, cut to a sane length.
    Other(String),
}

impl ContentCoding {
    /// The coding of a body, if it is not identity.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut names: Vec<String> = Vec::new();
        for value in headers.get_all(CONTENT_ENCODING) {
            let list = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
            let coded = list
                .split(',')
                .map(|name| name.trim().trim_matches('"'))
                .filter(|name| !names_no_coding(name));
            names.extend(coded.map(str::to_owned));
        }
        let other = || Self::Other(printable(&names.join(", "), MAX_SHOWN));
        let known: Option<Vec<Self>> = names.iter().map(|name| Self::from_name(name)).collect();
        match known {
            Some(mut known) if known.len() < 2 => known.pop(),
            Some(known) if known.len() <= MAX_CODINGS => Some(Self::Several(known)),
            _ => Some(other()),
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "gzip" | "x-gzip" => Self::Gzip,
            "deflate" => Self::Deflate,
            "br" => Self::Brotli,
            "zstd" => Self::Zstd,
            _ => return None,
        })
    }

    /// The single codings, in the order in which they were applied.
    #[must_use]
    pub fn steps(&self) -> &[Self] {
        match self {
            Self::Several(steps) => steps,
            single => std::slice::from_ref(single),
        }
    }
}

impl fmt::Display for ContentCoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Several(steps) => {
                let names: Vec<String> = steps.iter().map(Self::to_string).collect();
                return f.write_str(&names.join(", "));
            }
            Self::Other(name) => name,
        })
    }
}

/// Whether a name in Content-Encoding says nothing about how the bytes are coded (row A49): it means identity, or it is not a
/// coding at all. Object stores keep whatever an uploader wrote there, such as its own framing (`aws-chunked`) or a
/// Content-Transfer-Encoding, and web servers are configured with charsets and media types. The bytes are the file as it is.
fn names_no_coding(name: &str) -> bool {
    let is_word = matches!(
        name,
        "" | "identity"
            | "none"
            | "null"
            | "undefined"
            | "raw"
            | "plain"
            | "binary"
            | "7bit"
            | "8bit"
            | "base64"
            | "quoted-printable"
            | "chunked"
            | "aws-chunked"
            | "amz-1.0"
            | "ascii"
            | "us-ascii"
            | "unicode"
            | "ansi"
            | "latin1"
    );
    let is_charset = ["utf", "iso-8859", "windows-", "koi8", "cp125"];
    is_word || name.contains('/') || is_charset.iter().any(|prefix| name.starts_with(prefix))
}
