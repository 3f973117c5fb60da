//! Which version of a resource a response is of: entity tags, dates, lengths (RFC 9110 8.8).

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use http::header::{CONTENT_TYPE, DATE, ETAG, HeaderMap, HeaderName, LAST_MODIFIED};

use crate::original_file::OriginalFile;

/// The longest validator that is taken from a peer, in bytes. Real ones have some forty.
const MAX_VALIDATOR_BYTES: usize = 1024;

/// Longer media types are not compared.
const MAX_MEDIA_TYPE: usize = 100;

/// How much older than the response a date must be before it is a strong validator (RFC 9110 8.8.2.2).
pub(crate) const MIN_STRONG_DATE_AGE: Duration = Duration::from_secs(60);

/// An entity tag (RFC 9110 8.8.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityTag {
    /// Whether the tag promises only equal meaning, not equal bytes.
    weak: bool,
    /// The text between the quotes.
    opaque: String,
}

/// The text of a header is not an entity tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an entity tag")]
pub struct EntityTagError;

impl FromStr for EntityTag {
    type Err = EntityTagError;

    fn from_str(text: &str) -> Result<Self, EntityTagError> {
        let text = text.trim();
        let (weak, quoted) = text
            .strip_prefix("W/")
            .map_or((false, text), |rest| (true, rest));
        let opaque = quoted
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .ok_or(EntityTagError)?;
        let fits = |byte: u8| byte == 0x21 || (0x23..=0x7e).contains(&byte) || byte >= 0x80;
        if text.len() > MAX_VALIDATOR_BYTES || !opaque.bytes().all(fits) {
            return Err(EntityTagError);
        }
        Ok(Self {
            weak,
            opaque: opaque.to_owned(),
        })
    }
}

impl fmt::Display for EntityTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\"{}\"",
            if self.weak { "W/" } else { "" },
            self.opaque
        )
    }
}

impl EntityTag {
    /// A strong tag made here. Characters that are not allowed between quotes are left out.
    #[must_use]
    pub fn new_strong(opaque: impl Into<String>) -> Self {
        let mut opaque = opaque.into();
        opaque.retain(|c| c.is_ascii_graphic() && c != '"');
        Self {
            weak: false,
            opaque,
        }
    }

    /// Whether the tag promises equal bytes.
    #[must_use]
    pub fn is_strong(&self) -> bool {
        !self.weak
    }

    /// Strong comparison: equal, and both strong.
    #[must_use]
    pub fn strong_eq(&self, other: &Self) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Weak comparison: equal, whether strong or weak.
    #[must_use]
    pub fn weak_eq(&self, other: &Self) -> bool {
        self.opaque == other.opaque
    }
}

/// The media type of a response without parameters, in lower case. It has no control characters.
#[must_use]
pub fn media_type(headers: &HeaderMap) -> Option<Box<str>> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let essence = value.split(';').next()?.trim();
    let is_type = essence.contains('/') && !essence.contains('\t');
    let is_type = is_type && essence.len() <= MAX_MEDIA_TYPE;
    is_type.then(|| essence.to_ascii_lowercase().into())
}

/// What is known about a version of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceVersion {
    /// Bytes in the whole representation.
    pub length: Option<u64>,
    pub etag: Option<EntityTag>,
    /// The Last-Modified, letter for letter: comparing the texts needs no clock and no parser.
    pub last_modified: Option<String>,
    /// When the response was made, by the origin's clock: decides whether
    /// [`last_modified`](Self::last_modified) is a strong validator.
    pub date: Option<SystemTime>,
    /// The media type, in lower case and without parameters. Says nothing about whether versions are the same, only whether one may
    /// have become the other (row A35).
    pub media_type: Option<Box<str>>,
    /// The file that an object of a store was uploaded from. Says nothing about whether versions are the same.
    pub original: Option<Box<OriginalFile>>,
}

/// How two versions compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionMatch {
    /// Nothing differs, and the second version has every validator of the first.
    Same,
    /// Something differs.
    Different,
    /// Nothing differs, but the second version lacks the validator of the first.
    Unproven,
}

impl ResourceVersion {
    /// The version in a response head. `length` is that of the whole representation, which a 206 has in its
    /// Content-Range.
    #[must_use]
    pub fn from_headers(length: Option<u64>, headers: &HeaderMap) -> Self {
        let text = |name: HeaderName| Some(headers.get(name)?.to_str().ok()?.trim());
        Self {
            length,
            // Tags with bytes beyond ASCII are legal though rare; they are compared as UTF-8.
            etag: headers
                .get(ETAG)
                .and_then(|value| std::str::from_utf8(value.as_bytes()).ok()?.parse().ok()),
            last_modified: text(LAST_MODIFIED)
                .filter(|date| !date.is_empty() && date.len() <= MAX_VALIDATOR_BYTES)
                .map(str::to_owned),
            date: text(DATE).and_then(|date| httpdate::parse_http_date(date).ok()),
            media_type: media_type(headers),
            original: OriginalFile::from_headers(headers).map(Box::new),
        }
    }

    /// The entity tag as the origin wrote it.
    #[must_use]
    pub fn etag_text(&self) -> Option<String> {
        self.etag.as_ref().map(ToString::to_string)
    }

    /// Whether a response of `other` may be combined with bytes of this version (rows A5, A6, A7, A30).
    ///
    /// Lengths must agree where both are known. Entity tags decide where both have one: by weak comparison,
    /// since a weak tag is all that some origins have, and a change of strength alone is a proxy's doing.
    /// Only without tags does the date decide: servers behind one balancer often disagree about it.
    #[must_use]
    pub fn compare(&self, other: &Self) -> VersionMatch {
        if matches!((self.length, other.length), (Some(a), Some(b)) if a != b) {
            return VersionMatch::Different;
        }
        match (&self.etag, &other.etag) {
            (Some(a), Some(b)) if a.weak_eq(b) => return VersionMatch::Same,
            (Some(_), Some(_)) => return VersionMatch::Different,
            (Some(_), None) => return VersionMatch::Unproven,
            (None, _) => {}
        }
        match (&self.last_modified, &other.last_modified) {
            (Some(a), Some(b)) if a == b => VersionMatch::Same,
            (Some(_), Some(_)) => VersionMatch::Different,
            (Some(_), None) => VersionMatch::Unproven,
            (None, _) => VersionMatch::Same,
        }
    }

    /// Whether [`ResourceVersion::compare`] finds the versions the same.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.compare(other) == VersionMatch::Same
    }

    /// The validator for If-Range: a strong tag, or a date that is a strong validator (RFC 9110 13.1.5). A
    /// weak tag is never sent there, and a date is not sent if there is a tag.
    #[must_use]
    pub fn if_range(&self) -> Option<HeaderValue> {
        match &self.etag {
            Some(etag) if etag.is_strong() => HeaderValue::from_str(&etag.to_string()).ok(),
            Some(_) => None,
            None => {
                let modified = self.last_modified.as_deref()?;
                let then = httpdate::parse_http_date(modified).ok()?;
                let age = self.date?.duration_since(then).ok()?;
                (age >= MIN_STRONG_DATE_AGE).then(|| HeaderValue::from_str(modified).ok())?
            }
        }
    }

    /// Whether bytes of several responses may make one file: when each response says which version it is of,
    /// when a digest will be checked at the end (`is_verified`), or when the user requested several
    /// connections (`is_requested`).
    ///
    /// Without any of these, a file that changed between two requests without changing its length would be an
    /// undetected mix (row A7); a single response is of one version.
    #[must_use]
    pub fn may_combine_responses(&self, is_verified: bool, is_requested: bool) -> bool {
        self.has_validator() || is_verified || is_requested
    }

    /// Whether a download may go on with bytes of this version that an earlier run left; `found` is the
    /// version that the origin has now. Days may lie between two runs, so this requires more than
    /// [`ResourceVersion::may_combine_responses`]: the user's number of connections says nothing about
    /// versions.
    #[must_use]
    pub fn may_be_resumed(&self, found: &Self, is_verified: bool) -> bool {
        self.is_same(found) && self.is_resumable(is_verified)
    }

    /// Whether a later run can use bytes of this version at all.
    #[must_use]
    pub fn is_resumable(&self, is_verified: bool) -> bool {
        self.has_validator() || is_verified
    }

    /// The same version, of which only the length and the media type are known.
    #[must_use]
    pub fn without_validators(&self) -> Self {
        Self {
            length: self.length,
            media_type: self.media_type.clone(),
            ..Self::default()
        }
    }

    /// Whether the version has a validator other than its length.
    #[must_use]
    pub fn has_validator(&self) -> bool {
        self.etag.is_some() || self.last_modified.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v)))
            .collect()
    }

    fn version(pairs: &[(&'static str, &'static str)]) -> ResourceVersion {
        ResourceVersion::from_headers(Some(10), &headers(pairs))
    }

    #[test]
    fn tags_are_parsed_as_the_rfc_writes_them() {
        let strong: EntityTag = "\"xyzzy\"".parse().unwrap();
        let weak: EntityTag = "W/\"xyzzy\"".parse().unwrap();
        assert!(strong.strong_eq(&strong) && !strong.strong_eq(&weak) && !weak.strong_eq(&weak));
        assert!(strong.weak_eq(&weak));
        assert_eq!(weak.to_string(), "W/\"xyzzy\"");
        for junk in [
            "", "xyzzy", "\"", "w/\"a\"", "\"a\"b\"", "\"a b\"", "\"a\nb\"",
        ] {
            assert!(junk.parse::<EntityTag>().is_err(), "{junk:?}");
        }
    }

    #[test]
    fn a5_another_tag_is_another_version_even_with_the_same_date() {
        let date = ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert!(!version(&[("etag", "\"1\""), date]).is_same(&version(&[("etag", "\"2\""), date])));
        assert!(version(&[("etag", "\"1\""), date]).is_same(&version(&[("etag", "\"1\"")])));
    }

    #[test]
    fn a6_weak_tags_are_compared_and_never_sent_as_if_range() {
        let weak = version(&[("etag", "W/\"1\"")]);
        assert!(weak.is_same(&version(&[("etag", "W/\"1\"")])));
        assert!(!weak.is_same(&version(&[("etag", "W/\"2\"")])));
        assert_eq!(weak.if_range(), None);
        let dated = version(&[
            ("etag", "W/\"1\""),
            ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("date", "Sun, 06 Nov 1994 10:49:37 GMT"),
        ]);
        assert_eq!(dated.if_range(), None);
    }

    #[test]
    fn a6_without_tags_another_date_is_another_version() {
        let dated = |date| version(&[("last-modified", date)]);
        let (old, new) = (
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:38 GMT",
        );
        assert_eq!(dated(old).compare(&dated(old)), VersionMatch::Same);
        assert_eq!(dated(old).compare(&dated(new)), VersionMatch::Different);
    }

    #[test]
    fn a6_a_date_is_sent_as_if_range_only_when_it_is_a_strong_validator() {
        let modified = ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(version(&[modified]).if_range(), None);
        assert_eq!(
            version(&[modified, ("date", "Sun, 06 Nov 1994 08:50:36 GMT")]).if_range(),
            None
        );
        assert!(
            version(&[modified, ("date", "Sun, 06 Nov 1994 08:50:37 GMT")])
                .if_range()
                .is_some()
        );
    }

    #[test]
    fn a7_without_validators_the_length_decides() {
        assert!(!version(&[]).has_validator());
        assert!(!version(&[]).may_combine_responses(false, false));
        assert!(
            version(&[]).may_combine_responses(true, false)
                && version(&[]).may_combine_responses(false, true)
        );
        assert!(version(&[("etag", "W/\"1\"")]).may_combine_responses(false, false));
        // Bytes of an unknown version, and an origin that now has a validator.
        let tagged = version(&[("etag", "\"1\"")]);
        assert!(!version(&[]).may_be_resumed(&tagged, false));
        assert!(!version(&[]).may_be_resumed(&version(&[]), false));
        assert!(version(&[]).may_be_resumed(&tagged, true));
        assert!(tagged.may_be_resumed(&tagged, false));
        assert!(!tagged.may_be_resumed(&version(&[]), true));
        assert!(version(&[]).is_same(&version(&[("etag", "\"1\"")])));
        assert!(!version(&[]).is_same(&ResourceVersion {
            length: Some(11),
            ..ResourceVersion::default()
        }));
    }

    #[test]
    fn a_missing_validator_proves_nothing() {
        assert_eq!(
            version(&[("etag", "\"1\"")]).compare(&version(&[])),
            VersionMatch::Unproven
        );
        assert_eq!(
            version(&[("last-modified", "x")]).compare(&version(&[])),
            VersionMatch::Unproven
        );
    }

    #[test]
    fn media_types_are_compared_without_parameters_and_case() {
        let parse = |value: &'static str| {
            media_type(&HeaderMap::from_iter([(
                CONTENT_TYPE,
                HeaderValue::from_static(value),
            )]))
        };
        assert_eq!(
            parse("Text/HTML; charset=utf-8").as_deref(),
            Some("text/html")
        );
        assert_eq!((parse(""), parse("html"), parse(";")), (None, None, None));
        assert_eq!(parse("text/ht\tml"), None);
    }

    proptest! {
        #[test]
        fn no_tag_panics_and_each_is_printed_as_it_was_parsed(text: String) {
            if let Ok(tag) = text.parse::<EntityTag>() {
                prop_assert_eq!(tag.to_string(), text.trim());
            }
        }
    }
}
