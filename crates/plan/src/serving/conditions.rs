//! Conditional requests: whether a request goes on, by what is there now (RFC 9110 13), rows D5 and D8.
//!
//! The order is that of 13.2.2. If-Match comes first and puts If-Unmodified-Since out of force; then If-None-Match, which does the
//! same to If-Modified-Since; If-Range last, and only for a Range. The caller asks after it knows that the request would succeed
//! without conditions (13.2.1): what is missing is 404 to a reader and to a DELETE, whatever conditions it sends.
//!
//! **What cannot be read.** A condition stands between a client and a mistake, so in doubt the mistake is not made:
//!
//! - If-Match with a malformed member fails: the client means to be held back, and by what cannot be told.
//! - If-None-Match with a malformed member fails a write for the same reason. A reader only loses a 304: the member is passed over.
//! - A malformed date, or a date in two lines, is ignored, as 13.1.3 and 13.1.4 demand.
//! - A malformed If-Range matches nothing: the whole is sent, which is right in any case.
//!
//! **Dates** have whole seconds in HTTP and more in a file system: the time of a file is cut to its second before it is compared,
//! as it was when it was sent.

use std::time::{SystemTime, UNIX_EPOCH};

use http::header::{
    HeaderMap, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE,
};

use super::entity_tag_list::{self, EntityTagList};
use crate::validator::{EntityTag, MIN_STRONG_DATE_AGE};

/// The conditions of one request.
#[derive(Debug, Clone, Default)]
pub struct RequestConditions {
    /// Go on if one of these is there: against lost updates.
    if_match: Option<EntityTagList>,
    /// Go on if none of these is there: for caches, and with `*` to create and never replace.
    if_none_match: Option<EntityTagList>,
    /// For a cache without tags.
    if_modified_since: Option<SystemTime>,
    /// Against lost updates without tags.
    if_unmodified_since: Option<SystemTime>,
    /// For which version the Range is meant.
    if_range: Option<IfRange>,
}

/// For which version a Range is meant.
#[derive(Debug, Clone)]
enum IfRange {
    /// The one with this tag.
    Tag(EntityTag),
    /// The one of this date.
    Date(SystemTime),
    /// What cannot be read.
    Malformed,
}

/// What is there now, as answers say it.
#[derive(Debug, Clone, Copy, Default)]
pub struct CurrentRepresentation<'a> {
    /// Its ETag, if it has one.
    pub etag: Option<&'a EntityTag>,
    /// Its Last-Modified, if it has one; fractions of a second do not matter.
    pub last_modified: Option<SystemTime>,
}

/// What conditions come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionOutcome {
    /// Go on as if there were none.
    Proceed,
    /// 304: the client has it. Only for GET and HEAD.
    NotModified,
    /// 412.
    PreconditionFailed,
}

impl RequestConditions {
    /// The conditions of a request. Without any this is one pass over the names, and allocates nothing.
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

    /// The condition that nothing is there: `If-None-Match: *`.
    #[must_use]
    pub fn if_absent() -> Self {
        Self {
            if_none_match: Some(EntityTagList::Any),
            ..Self::default()
        }
    }

    /// Whether nothing is asked, so that a writer need not look at what is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.if_match.is_none()
            && self.if_none_match.is_none()
            && self.if_modified_since.is_none()
            && self.if_unmodified_since.is_none()
            && self.if_range.is_none()
    }

    /// For GET and HEAD of something that is there.
    #[must_use]
    pub fn evaluate_read(&self, current: CurrentRepresentation<'_>) -> ConditionOutcome {
        if !self.if_match_holds(Some(current)) {
            return ConditionOutcome::PreconditionFailed;
        }
        let known = match &self.if_none_match {
            Some(EntityTagList::Any) => true,
            Some(listed) => {
                let same = |tag: &EntityTag| current.etag.is_some_and(|etag| tag.weak_eq(etag));
                listed.find(same).matches
            }
            None => self.is_not_modified_since(current),
        };
        if known {
            ConditionOutcome::NotModified
        } else {
            ConditionOutcome::Proceed
        }
    }

    /// For what changes a key: PUT, where there may be nothing yet, and DELETE. Never [`ConditionOutcome::NotModified`].
    ///
    /// If-Unmodified-Since on a key that does not exist has no date to be compared with and is ignored (13.1.4); If-Match fails.
    #[must_use]
    pub fn evaluate_write(&self, current: Option<CurrentRepresentation<'_>>) -> ConditionOutcome {
        if !self.if_match_holds(current) {
            return ConditionOutcome::PreconditionFailed;
        }
        let etag = current.and_then(|current| current.etag);
        let stands_against = match &self.if_none_match {
            Some(EntityTagList::Any) => current.is_some(),
            Some(listed) => {
                let found = listed.find(|tag| etag.is_some_and(|etag| tag.weak_eq(etag)));
                found.matches || found.malformed
            }
            None => false,
        };
        if stands_against {
            ConditionOutcome::PreconditionFailed
        } else {
            ConditionOutcome::Proceed
        }
    }

    /// Whether a Range counts; without If-Range it does. `now` is by the clock that dates files.
    ///
    /// A tag must be equal by strong comparison. A date must be equal, and the file unchanged for a minute: sooner, another version
    /// may hide in the same second or behind another clock (8.8.2.2). Even then a date proves less than a tag.
    #[must_use]
    pub fn range_applies(&self, current: CurrentRepresentation<'_>, now: SystemTime) -> bool {
        match &self.if_range {
            None => true,
            Some(IfRange::Tag(tag)) => current.etag.is_some_and(|etag| tag.strong_eq(etag)),
            Some(IfRange::Date(date)) => current.last_modified.is_some_and(|modified| {
                let age = now.duration_since(modified);
                whole_seconds(*date) == whole_seconds(modified)
                    && age.is_ok_and(|age| age >= MIN_STRONG_DATE_AGE)
            }),
            Some(IfRange::Malformed) => false,
        }
    }

    /// The first two steps: If-Match, or in its absence If-Unmodified-Since.
    fn if_match_holds(&self, current: Option<CurrentRepresentation<'_>>) -> bool {
        match &self.if_match {
            Some(EntityTagList::Any) => current.is_some(),
            Some(listed) => {
                let etag = current.and_then(|current| current.etag);
                let found = listed.find(|tag| etag.is_some_and(|etag| tag.strong_eq(etag)));
                found.matches && !found.malformed
            }
            None => {
                let modified = current.and_then(|current| current.last_modified);
                let (Some(date), Some(modified)) = (self.if_unmodified_since, modified) else {
                    return true;
                };
                whole_seconds(modified) <= whole_seconds(date)
            }
        }
    }

    fn is_not_modified_since(&self, current: CurrentRepresentation<'_>) -> bool {
        let (Some(date), Some(modified)) = (self.if_modified_since, current.last_modified) else {
            return false;
        };
        whole_seconds(modified) <= whole_seconds(date)
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
            entity_tag_list::parse_tag(value).map(Self::Tag)
        } else {
            http_date(value).map(Self::Date)
        };
        Some(read.unwrap_or(Self::Malformed))
    }
}

/// The date in a field that stands once.
fn single_date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    let mut lines = headers.get_all(name).iter();
    let date = http_date(lines.next()?.as_bytes())?;
    lines.next().is_none().then_some(date)
}

fn http_date(value: &[u8]) -> Option<SystemTime> {
    let text = std::str::from_utf8(value).ok()?;
    httpdate::parse_http_date(text.trim_ascii()).ok()
}

/// The second that a time lies in, counted from 1970; files may be older.
fn whole_seconds(time: SystemTime) -> i128 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i128::from(since.as_secs()),
        Err(before) => {
            let before = before.duration();
            -i128::from(before.as_secs()) - i128::from(before.subsec_nanos() > 0)
        }
    }
}

#[cfg(test)]
#[path = "conditions_tests.rs"]
mod tests;
