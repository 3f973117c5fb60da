//! The value of If-Match and If-None-Match: `*`, or a list of entity tags (RFC 9110 13.1.1, 13.1.2).
//!
//! The list is kept as it came and parsed with each look-up: a peer may send thousands of tags, which then
//! cost time bounded by the header's length, and no memory. A header's value is shared with the request, not
//! copied.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::validator::EntityTag;

/// The value of a field that lists entity tags.
#[derive(Debug, Clone)]
pub(super) enum EntityTagList {
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
pub(super) struct EntityTagMatch {
    /// A well-formed member matches.
    pub(super) matches: bool,
    /// A member is malformed: a tag without quotes, or a `*` among others.
    pub(super) malformed: bool,
}

impl EntityTagList {
    /// The field's value; `None` without the field.
    pub(super) fn parse(headers: &HeaderMap, name: HeaderName) -> Option<Self> {
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
    pub(super) fn find(&self, is_same: impl Fn(&EntityTag) -> bool) -> EntityTagMatch {
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
pub(super) fn parse_tag(value: &[u8]) -> Option<EntityTag> {
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
