//! Conditional requests: whether a request proceeds, given the current representation (RFC 9110 13), rows D5
//! and D8.
//!
//! The order is that of 13.2.2. If-Match comes first and overrides If-Unmodified-Since; then If-None-Match,
//! which overrides If-Modified-Since; If-Range last, and only for a Range. The caller evaluates the
//! conditions after it knows that the request would succeed without them (13.2.1): a missing key is 404 to a
//! reader and to a DELETE, whatever its conditions.
//!
//! **Malformed conditions.** A condition guards a client against a mistake, so in doubt the mistake is not
//! made:
//!
//! - If-Match with a malformed member fails: the client wants the request refused for all other versions, and the
//!   version is unknown.
//! - If-None-Match with a malformed member fails a write for the same reason. A reader only loses a 304: the
//!   member is skipped.
//! - A malformed date, or a date in two lines, is ignored, as 13.1.3 and 13.1.4 require.
//! - A malformed If-Range matches nothing: the whole file is sent, which is right in any case.
//!
//! **Dates** have whole seconds in HTTP and fractions in a file system: a file's time is cut to its second
//! before it is compared, as it was when it was sent.

use std::time::SystemTime;

use http::header::{
    HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE,
};

use crate::unix_time::UnixTime;
use crate::validator::{EntityTag, MIN_STRONG_DATE_AGE};

#[derive(Debug, Clone, Default)]
pub struct RequestConditions {
    /// Proceed only if one of these exists: against lost updates.
    if_match: Option<EntityTagList>,
    /// Proceed only if none of these exists: for caches, and with `*` to create and never replace.
    if_none_match: Option<EntityTagList>,
    /// For caches without tags.
    if_modified_since: Option<SystemTime>,
    /// Against lost updates without tags.
    if_unmodified_since: Option<SystemTime>,
    /// The version to which the Range applies.
    if_range: Option<IfRange>,
}

/// The version to which a Range applies.
#[derive(Debug, Clone)]
enum IfRange {
    /// The version with this tag.
    Tag(EntityTag),
    /// The version of this date.
    Date(SystemTime),
    /// A value that is neither.
    Malformed,
}

/// The representation that exists now, by its validators.
#[derive(Debug, Clone, Copy, Default)]
pub struct CurrentRepresentation<'a> {
    pub etag: Option<&'a EntityTag>,
    /// Its Last-Modified; fractions of a second do not matter.
    pub last_modified: Option<SystemTime>,
}

/// The result of a request's conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionOutcome {
    /// Proceed as without conditions.
    Proceed,
    /// 304: the client has this version. Only for GET and HEAD.
    NotModified,
    /// 412.
    PreconditionFailed,
}

impl RequestConditions {
    /// Parses the conditions of a request. Without any this is one pass over the names, and allocates
    /// nothing.
    #[must_use]
    pub fn parse(headers: &HeaderMap) -> Self {
        if !headers.keys().any(|name| name.as_str().starts_with("if-")) {
            return Self::default();
        }
        Self {
            if_match: EntityTagList::parse(headers, IF_MATCH),
            if_none_match: EntityTagList::parse(headers, IF_NONE_MATCH),
            if_modified_since: single_date(headers, IF_MODIFIED_SINCE),
            if_unmodified_since: single_date(headers, IF_UNMODIFIED_SINCE),
            if_range: IfRange::parse(headers),
        }
    }

    /// The condition that the key does not exist: `If-None-Match: *`.
    #[must_use]
    pub fn if_absent() -> Self {
        Self {
            if_none_match: Some(EntityTagList::Any),
            ..Self::default()
        }
    }

    /// Whether there are no conditions, so that a writer need not look at the current representation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.if_match.is_none()
            && self.if_none_match.is_none()
            && self.if_modified_since.is_none()
            && self.if_unmodified_since.is_none()
            && self.if_range.is_none()
    }

    /// Evaluates the conditions of a GET or HEAD of a key that exists.
    #[must_use]
    pub fn evaluate_read(&self, current: CurrentRepresentation<'_>) -> ConditionOutcome {
        if !self.if_match_holds(Some(current)) {
            return ConditionOutcome::PreconditionFailed;
        }
        let is_known = match &self.if_none_match {
            Some(EntityTagList::Any) => true,
            Some(list) => {
                let same = |tag: &EntityTag| current.etag.is_some_and(|etag| tag.weak_eq(etag));
                list.find(same).matches
            }
            None => self.is_not_modified_since(current),
        };
        if is_known {
            ConditionOutcome::NotModified
        } else {
            ConditionOutcome::Proceed
        }
    }

    /// Evaluates the conditions of a PUT, whose key may not exist yet, or DELETE. Never
    /// [`ConditionOutcome::NotModified`].
    ///
    /// If-Unmodified-Since on a key that does not exist has no date to be compared with and is ignored
    /// (13.1.4); If-Match fails.
    #[must_use]
    pub fn evaluate_write(&self, current: Option<CurrentRepresentation<'_>>) -> ConditionOutcome {
        if !self.if_match_holds(current) {
            return ConditionOutcome::PreconditionFailed;
        }
        let etag = current.and_then(|current| current.etag);
        let matches = match &self.if_none_match {
            Some(EntityTagList::Any) => current.is_some(),
            Some(list) => {
                let found = list.find(|tag| etag.is_some_and(|etag| tag.weak_eq(etag)));
                found.matches || found.malformed
            }
            None => false,
        };
        if matches {
            ConditionOutcome::PreconditionFailed
        } else {
            ConditionOutcome::Proceed
        }
    }

    /// Whether to obey a Range; without If-Range, always. `now` is by the clock that dates files.
    ///
    /// A tag must be equal by strong comparison. A date must be equal, and the file unchanged for a minute:
    /// before that, another version may have the same second, or another server's clock (8.8.2.2). Even then
    /// a date proves less than a tag.
    #[must_use]
    pub fn range_applies(&self, current: CurrentRepresentation<'_>, now: SystemTime) -> bool {
        match &self.if_range {
            None => true,
            Some(IfRange::Tag(tag)) => current.etag.is_some_and(|etag| tag.strong_eq(etag)),
            Some(IfRange::Date(date)) => current.last_modified.is_some_and(|modified| {
                let age = now.duration_since(modified);
                UnixTime::from(*date).whole_seconds() == UnixTime::from(modified).whole_seconds()
                    && age.is_ok_and(|age| age >= MIN_STRONG_DATE_AGE)
            }),
            Some(IfRange::Malformed) => false,
        }
    }

    /// The first two steps: If-Match, or in its absence If-Unmodified-Since.
    fn if_match_holds(&self, current: Option<CurrentRepresentation<'_>>) -> bool {
        match &self.if_match {
            Some(EntityTagList::Any) => current.is_some(),
            Some(list) => {
                let etag = current.and_then(|current| current.etag);
                let found = list.find(|tag| etag.is_some_and(|etag| tag.strong_eq(etag)));
                found.matches && !found.malformed
            }
            None => {
                let modified = current.and_then(|current| current.last_modified);
                let (Some(date), Some(modified)) = (self.if_unmodified_since, modified) else {
                    return true;
                };
                UnixTime::from(modified).whole_seconds() <= UnixTime::from(date).whole_seconds()
            }
        }
    }

    fn is_not_modified_since(&self, current: CurrentRepresentation<'_>) -> bool {
        let (Some(date), Some(modified)) = (self.if_modified_since, current.last_modified) else {
            return false;
        };
        UnixTime::from(modified).whole_seconds() <= UnixTime::from(date).whole_seconds()
    }
}

impl IfRange {
    fn parse(headers: &HeaderMap) -> Option<Self> {
        let mut lines = headers.get_all(IF_RANGE).iter();
        let value = lines.next()?.as_bytes().trim_ascii();
        if lines.next().is_some() {
            return Some(Self::Malformed);
        }
        let read = if value.starts_with(b"\"") || value.starts_with(b"W/") {
            parse_tag(value).map(Self::Tag)
        } else {
            http_date(value).map(Self::Date)
        };
        Some(read.unwrap_or(Self::Malformed))
    }
}

/// The value of If-Match and If-None-Match: `*`, or a list of entity tags (RFC 9110 13.1.1, 13.1.2).
///
/// The list is kept as it arrived and parsed with each look-up: a peer may send thousands of tags, which then
/// cost time bounded by the header's length, and no memory. A header's value is shared with the request, not
/// copied.
#[derive(Debug, Clone)]
enum EntityTagList {
    /// `*`: every representation that exists.
    Any,
    /// A list, perhaps an empty one.
    Listed {
        /// The first line, most often the only one.
        first: HeaderValue,
        /// The other lines. They make one list with the first (5.3).
        more: Vec<HeaderValue>,
    },
}

/// The result of a look-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct EntityTagMatch {
    /// A well-formed member matches.
    matches: bool,
    /// A member is malformed: a tag without quotes, or a `*` among others.
    malformed: bool,
}

impl EntityTagList {
    /// The field's value; `None` without the field.
    fn parse(headers: &HeaderMap, name: HeaderName) -> Option<Self> {
        let mut lines = headers.get_all(name).iter();
        let first = lines.next()?.clone();
        let more: Vec<_> = lines.cloned().collect();
        if more.is_empty() && first.as_bytes().trim_ascii() == b"*" {
            return Some(Self::Any);
        }
        Some(Self::Listed { first, more })
    }

    /// Looks for a member for which `is_same` holds. `*` has no members: it matches what exists, with or
    /// without a tag.
    fn find(&self, is_same: impl Fn(&EntityTag) -> bool) -> EntityTagMatch {
        let mut found = EntityTagMatch::default();
        let Self::Listed { first, more } = self else {
            return found;
        };
        for member in std::iter::once(first).chain(more).flat_map(members) {
            match parse_tag(member) {
                Some(tag) => found.matches |= is_same(&tag),
                None => found.malformed = true,
            }
        }
        found
    }
}

/// Parses a tag in a header.
fn parse_tag(value: &[u8]) -> Option<EntityTag> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// The members of a list, without the empty ones (5.6.1.2). A comma between quotes is part of the tag; there
/// are no escapes.
fn members(line: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    line.as_bytes()
        .split(move |byte| {
            quoted ^= *byte == b'"';
            *byte == b',' && !quoted
        })
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}

/// The date in a field that has one line.
fn single_date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    let mut lines = headers.get_all(name).iter();
    let date = http_date(lines.next()?.as_bytes())?;
    lines.next().is_none().then_some(date)
}

fn http_date(value: &[u8]) -> Option<SystemTime> {
    let text = std::str::from_utf8(value).ok()?;
    httpdate::parse_http_date(text.trim_ascii()).ok()
}

#[cfg(test)]
mod tests;
