//! "Did I get the file or an error page?": the user's expectations of a file, compared with the response.
//!
//! Many an origin answers 200 with a page that says "not found", or a login form. Status and length say
//! nothing then; the media type and the size often do. The checks take the fields of a head, and a number of
//! bytes. They are made before a file gets its name; digests are checked elsewhere.

use std::fmt;
use std::str::FromStr;

use http::header::{CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderValue};

use crate::listed_version::ListedVersion;

/// How much of a peer's Content-Type a message shows, in characters.
const MAX_SHOWN_CHARS: usize = 60;

/// A media range, as Accept has it (RFC 9110 12.5.1) but without parameters: `image/*`, `application/pdf`,
/// `*/*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaRange {
    /// In lower case; `None` for any.
    kind: Option<String>,
    /// In lower case; `None` for any.
    subtype: Option<String>,
}

/// Why a text is not a [`MediaRange`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MediaRangeError {
    /// Nothing between two commas.
    #[error("a media type is missing: write them as in image/*,application/pdf")]
    Empty,
    /// There is no slash, or more than one.
    #[error("{0:?} is not a media type, which has two parts like image/png")]
    NotTwoParts(String),
    /// A part has characters that no media type has, or none at all.
    #[error("{0:?} is not a media type: {1:?} cannot be a part of one")]
    InvalidToken(String, String),
    /// A star that does not stand for a whole part.
    #[error("{0:?} is not a media range: a star stands for a whole part, as in image/* or */*")]
    PartialWildcard(String),
    /// A semicolon, behind which parameters follow.
    #[error("{0:?} has parameters, which are not compared: leave out what follows the semicolon")]
    Parameters(String),
}

impl MediaRange {
    /// Whether a media type without parameters is in this range.
    fn contains(&self, media_type: &str) -> bool {
        let Some((kind, subtype)) = media_type.split_once('/') else {
            return false;
        };
        let is = |part: &Option<String>, has: &str| {
            part.as_ref()
                .is_none_or(|part| part.eq_ignore_ascii_case(has))
        };
        is(&self.kind, kind) && is(&self.subtype, subtype)
    }

    fn is_any(&self) -> bool {
        self.kind.is_none()
    }
}

impl fmt::Display for MediaRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |part: &Option<String>| part.clone().unwrap_or_else(|| "*".to_owned());
        write!(f, "{}/{}", part(&self.kind), part(&self.subtype))
    }
}

impl FromStr for MediaRange {
    type Err = MediaRangeError;

    fn from_str(text: &str) -> Result<Self, MediaRangeError> {
        let text = text.trim();
        let owned = || text.to_owned();
        if text.is_empty() {
            return Err(MediaRangeError::Empty);
        }
        if text.contains(';') {
            return Err(MediaRangeError::Parameters(owned()));
        }
        let parts = text.split_once('/').filter(|(_, rest)| !rest.contains('/'));
        let (kind, subtype) = parts.ok_or_else(|| MediaRangeError::NotTwoParts(owned()))?;
        let read = |part: &str| match part {
            "*" => Ok(None),
            _ if part.contains('*') => Err(MediaRangeError::PartialWildcard(owned())),
            _ if !part.is_empty() && part.bytes().all(is_token) => {
                Ok(Some(part.to_ascii_lowercase()))
            }
            _ => Err(MediaRangeError::InvalidToken(owned(), part.to_owned())),
        };
        let (kind, subtype) = (read(kind)?, read(subtype)?);
        if kind.is_none() && subtype.is_some() {
            return Err(MediaRangeError::PartialWildcard(owned()));
        }
        Ok(Self { kind, subtype })
    }
}

/// A character of a token (RFC 9110 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// What a file must be like. The default accepts everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContentExpectation {
    /// The file's media type is in one of these ranges; empty for any type.
    pub media_types: Vec<MediaRange>,
    /// The file has at least this many bytes.
    pub min_length: Option<u64>,
    /// The file has at most this many bytes.
    pub max_length: Option<u64>,
    /// The file has exactly this many bytes, as its entry in the list says.
    pub exact_length: Option<u64>,
    /// The version that a list of the origin names. Another version has another entity tag.
    pub listed: Option<ListedVersion>,
}

/// How a file differs from the expectation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnexpectedContent {
    /// Another media type.
    #[error("its media type is {actual}, not {expected}")]
    MediaType {
        /// The Content-Type.
        actual: String,
        /// The expected media ranges.
        expected: String,
    },
    /// No media type to compare.
    #[error("it has no media type, and {expected} is expected")]
    NoMediaType {
        /// The expected media ranges.
        expected: String,
    },
    /// Too few bytes.
    #[error("it has {actual} bytes, less than the {min} expected")]
    TooShort {
        /// The file's length.
        actual: u64,
        /// The least length.
        min: u64,
    },
    /// Too many bytes.
    #[error("it has {actual} bytes, more than the {max} expected")]
    TooLong {
        /// The file's length, or how much of it has come.
        actual: u64,
        /// The greatest length.
        max: u64,
    },
    /// Another length than the list says.
    #[error("it has {actual} bytes, and the list says {expected}")]
    WrongLength {
        /// The file's length.
        actual: u64,
        /// The length in the list.
        expected: u64,
    },
}

impl ContentExpectation {
    /// Checks a response's head: its media type, and the whole file's length if that is known.
    ///
    /// # Errors
    /// The first difference.
    pub fn check_head(
        &self,
        headers: &HeaderMap,
        length: Option<u64>,
    ) -> Result<(), UnexpectedContent> {
        self.check_type(headers.get(CONTENT_TYPE))?;
        let Some(length) = length else {
            return Ok(());
        };
        let entity_tag = headers.get(ETAG).and_then(|tag| tag.to_str().ok());
        match &self.listed {
            Some(listed) if listed.excludes(entity_tag, length) => {
                Err(UnexpectedContent::WrongLength {
                    actual: length,
                    expected: listed.size,
                })
            }
            _ => self.check_length(length),
        }
    }

    /// Checks the length of the whole file.
    ///
    /// # Errors
    /// The first difference.
    pub fn check_length(&self, bytes: u64) -> Result<(), UnexpectedContent> {
        let got = bytes;
        match (self.exact_length, self.min_length, self.max_length) {
            (Some(size), ..) if got != size => Err(UnexpectedContent::WrongLength {
                actual: got,
                expected: size,
            }),
            (_, Some(min), _) if got < min => Err(UnexpectedContent::TooShort { actual: got, min }),
            (.., Some(max)) if got > max => Err(UnexpectedContent::TooLong { actual: got, max }),
            _ => Ok(()),
        }
    }

    /// The most bytes that the file may have: nothing needs to be read beyond them.
    #[must_use]
    pub fn longest_allowed(&self) -> Option<u64> {
        self.exact_length.into_iter().chain(self.max_length).min()
    }

    /// Whether an HTML page may be the file.
    #[must_use]
    pub fn accepts_html(&self) -> bool {
        let html = HeaderValue::from_static("text/html");
        self.check_type(Some(&html)).is_ok()
    }

    fn check_type(&self, content_type: Option<&HeaderValue>) -> Result<(), UnexpectedContent> {
        if self.media_types.is_empty() || self.media_types.iter().any(MediaRange::is_any) {
            return Ok(());
        }
        let whole = content_type.map(|value| String::from_utf8_lossy(value.as_bytes()));
        let got = whole
            .as_deref()
            .unwrap_or_default()
            .split(';')
            .next()
            .unwrap_or_default()
            .trim();
        if self.media_types.iter().any(|range| range.contains(got)) {
            return Ok(());
        }
        let wanted = self
            .media_types
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" or ");
        if got.is_empty() {
            return Err(UnexpectedContent::NoMediaType { expected: wanted });
        }
        // A peer wrote it: escape whatever a terminal would take for more than text.
        let shown = got
            .chars()
            .take(MAX_SHOWN_CHARS)
            .flat_map(char::escape_debug);
        Err(UnexpectedContent::MediaType {
            actual: shown.collect(),
            expected: wanted,
        })
    }
}

/// Whether a file that begins with these bytes is an HTML page.
#[must_use]
pub(crate) fn begins_html(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = bytes.trim_ascii_start();
    [&b"<!doctype html"[..], b"<html", b"<head"]
        .iter()
        .any(|tag| {
            let beginning = text.get(..tag.len());
            beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(tag))
        })
}

#[cfg(test)]
mod tests;
