//! Decides from the head of a response whether its bytes may go into the file.
//!
//! [`classify_response`] runs before a byte of the body is read. It is strict where a mistake would splice two files into one,
//! and lenient where an origin is merely odd. It knows one request and one response; what a failure leads to over a job's whole
//! history is for the [`RecoveryPolicy`](crate::recovery::RecoveryPolicy) to say.

mod content_coding;
mod content_expectation;
mod content_range;
mod error_page;
mod link_header;
mod request_failure;
mod response_text;
mod robots_tag;

use std::ops::Range;
use std::time::SystemTime;

use haul_plan::{ResourceVersion, VersionMatch, content_length, printable, requested_wait};
use http::StatusCode;
use http::header::{CONTENT_RANGE, CONTENT_TYPE, HeaderMap, PROXY_AUTHENTICATE, WWW_AUTHENTICATE};

use error_page::is_error_page;

pub use content_coding::ContentCoding;
pub(crate) use content_expectation::begins_html;
pub use content_expectation::{ContentExpectation, MediaRange, MediaRangeError, UnexpectedContent};
pub(crate) use content_range::ContentRange;
pub(crate) use error_page::{
    DOCUMENT_BEGINNING, begins_other_document, is_page_for_name, may_be_page,
};
pub(crate) use link_header::{LinkHeader, parse_link_headers};
pub(crate) use request_failure::{RequestFailure, UnusableResponse};
pub(crate) use response_text::{MAX_RESPONSE_TEXT, first_line_of_text};
pub use robots_tag::RobotsTagPolicy;

/// A request, as far as its response is checked against it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestedContent<'a> {
    /// The Range that was sent; an end of `u64::MAX` is an open end. `None`: no Range was sent.
    pub range: Option<Range<u64>>,
    /// The bytes that are there already.
    pub on_disk: BytesOnDisk<'a>,
    /// Whether If-Range was sent.
    pub if_range_sent: bool,
    /// Whether If-None-Match or If-Modified-Since was sent.
    pub conditional: bool,
}

/// What becomes of the bytes on disk when the bytes of a response arrive.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum BytesOnDisk<'a> {
    /// There are none, or none that matter.
    #[default]
    None,
    /// They are of this version, and so must the response be.
    Joined(&'a ResourceVersion),
    /// They are of this version and will be replaced: the response may be of any version of the file.
    Replaced(&'a ResourceVersion),
}

impl<'a> BytesOnDisk<'a> {
    /// The version that a response must be of.
    #[must_use]
    pub(crate) fn joined(self) -> Option<&'a ResourceVersion> {
        match self {
            Self::Joined(version) => Some(version),
            Self::None | Self::Replaced(_) => None,
        }
    }
}

impl<'a> From<Option<&'a ResourceVersion>> for BytesOnDisk<'a> {
    fn from(joined: Option<&'a ResourceVersion>) -> Self {
        joined.map_or(Self::None, Self::Joined)
    }
}

/// What a usable response brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResponseContent {
    /// A part of the file, which shows that ranges work.
    Part {
        /// Begins where requested, ends there or sooner. The body may go on beyond it.
        range: Range<u64>,
        /// Bytes in the whole file.
        total: u64,
        /// The version that the part is of.
        version: ResourceVersion,
    },
    /// The whole file.
    Whole {
        /// Bytes in the body, where Content-Length says so.
        length: Option<u64>,
        /// The version of the file.
        version: ResourceVersion,
        /// A coding that was applied although the request wanted identity.
        coding: Option<ContentCoding>,
    },
    /// The file has no bytes.
    Empty {
        /// The version of the file.
        version: ResourceVersion,
    },
    /// The copy that the client has is the newest (304).
    NotModified,
}

impl ResponseContent {
    /// Whether the total is the end that the first request had chosen without knowing it: some origins say there how long the part is. Few
    /// files end just there, and these are fetched by another request.
    #[must_use]
    pub(crate) fn has_doubtful_total(&self, requested: &Range<u64>) -> bool {
        let end = requested.end;
        matches!(self, Self::Part { range, total, .. } if *range == (0..end) && *total == end)
    }

    /// Bytes in the whole file as it is stored, where the response says so. An encoded body says nothing about it.
    #[must_use]
    pub(crate) fn file_length(&self) -> Option<u64> {
        match self {
            Self::Part { total, .. } => Some(*total),
            Self::Whole {
                length,
                coding: None,
                ..
            } => *length,
            Self::Empty { .. } => Some(0),
            Self::Whole { .. } | Self::NotModified => None,
        }
    }
}

/// Whether a status says that the same request may succeed later.
#[must_use]
pub fn is_busy_status(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 425 | 429 | 500..=599)
}

/// Classifies the head of a response. `now` is the wall clock, for a moment that
/// the response names though it has no date.
///
/// # Errors
/// Every [`RequestFailure`] that a head can mean: its body must not be read into the file.
pub(crate) fn classify_response(
    request: &RequestedContent<'_>,
    status: StatusCode,
    headers: &HeaderMap,
    now: SystemTime,
) -> Result<ResponseContent, RequestFailure> {
    // Most responses grant their request.
    let retry_after = match status.as_u16() {
        200 | 206 => None,
        _ => requested_wait(status, headers, now),
    };
    match status.as_u16() {
        // A rate limit (row A42), or a file that is still being made. Without such a field these mean much else.
        202 | 403 if retry_after.is_some() => Err(RequestFailure::Busy {
            status,
            retry_after,
        }),
        206 => partial_content(request, headers),
        200 => whole_or_part(request, headers),
        304 if request.conditional => Ok(ResponseContent::NotModified),
        304 => Err(unusable(UnusableResponse::UnrequestedNotModified)),
        416 if request.range.is_some() => range_not_satisfiable(request, status, headers),
        400 | 403 | 406 | 501 if request.range.is_some() => {
            Err(RequestFailure::RangeRefused { status })
        }
        401 | 407 => Err(RequestFailure::Unauthorized {
            status,
            realm: realm(status, headers),
        }),
        _ if is_busy_status(status) => Err(RequestFailure::Busy {
            status,
            retry_after,
        }),
        _ => Err(RequestFailure::Denied { status }),
    }
}

fn unusable(reason: impl Into<UnusableResponse>) -> RequestFailure {
    RequestFailure::Unusable(reason.into())
}

/// 200. Some origins send a part under this status, and only Content-Range and the length say so (row A50).
fn whole_or_part(
    request: &RequestedContent<'_>,
    headers: &HeaderMap,
) -> Result<ResponseContent, RequestFailure> {
    let value = headers.get(CONTENT_RANGE);
    let content_range = value.and_then(|value| ContentRange::parse(value.as_bytes()).ok());
    let named = content_range.and_then(|named| Some((named.range?, named.total?)));
    let part = named.map(|(range, total)| (range.end - range.start, total));
    match (part, known_length(headers)) {
        (Some((part, total)), Some(length)) if part < total && length == part => {
            partial_content(request, headers)
        }
        // Nobody knows whether the body is the part or the file.
        (Some((part, total)), None) if part < total => Err(unusable(UnusableResponse::Unexpected)),
        _ => full_content(request, headers),
    }
}

/// 206, or 200 with a part.
fn partial_content(
    request: &RequestedContent<'_>,
    headers: &HeaderMap,
) -> Result<ResponseContent, RequestFailure> {
    let Some(requested) = &request.range else {
        return Err(unusable(UnusableResponse::UnrequestedPartial));
    };
    let value = headers
        .get(CONTENT_RANGE)
        .ok_or_else(|| without_content_range(headers))?;
    let content_range = ContentRange::parse(value.as_bytes()).map_err(unusable)?;
    let range = content_range
        .range
        .ok_or_else(|| unusable(UnusableResponse::WrongRange))?;
    let expected_length = || request.on_disk.joined().and_then(|version| version.length);
    let total = content_range
        .total
        .or_else(expected_length)
        .ok_or_else(|| unusable(UnusableResponse::MissingTotal))?;
    let version = ResourceVersion::from_headers(Some(total), headers);
    // The version first: another version may well have other ranges.
    check_version(request, &version)?;
    if range.start != requested.start || range.end > total {
        return Err(unusable(UnusableResponse::WrongRange));
    }
    if let Some(coding) = ContentCoding::from_headers(headers) {
        return Err(unusable(UnusableResponse::Encoded(coding)));
    }
    if known_length(headers).is_some_and(|length| length != range.end - range.start) {
        return Err(unusable(UnusableResponse::LengthMismatch));
    }
    Ok(ResponseContent::Part {
        // What follows the end that was asked for is not read (row A40).
        range: range.start..range.end.min(requested.end),
        total,
        version,
    })
}

fn check_version(
    request: &RequestedContent<'_>,
    version: &ResourceVersion,
) -> Result<(), RequestFailure> {
    let (on_disk, is_joined) = match request.on_disk {
        BytesOnDisk::None => return Ok(()),
        BytesOnDisk::Joined(on_disk) => (on_disk, true),
        BytesOnDisk::Replaced(on_disk) => (on_disk, false),
    };
    let matched = on_disk.compare(version);
    let is_proven = matched == VersionMatch::Same && on_disk.has_validator();
    if !is_proven && is_error_page(on_disk, version) {
        return Err(RequestFailure::ErrorPage);
    }
    match matched {
        _ if !is_joined => Ok(()),
        VersionMatch::Same => Ok(()),
        // An origin that names its versions names the next one, too.
        VersionMatch::Different if !on_disk.has_validator() || version.has_validator() => {
            Err(RequestFailure::Changed)
        }
        VersionMatch::Different | VersionMatch::Unproven => {
            Err(unusable(UnusableResponse::MissingValidator))
        }
    }
}

fn without_content_range(headers: &HeaderMap) -> RequestFailure {
    let multipart = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.as_bytes().get(..10))
        .is_some_and(|kind| kind.eq_ignore_ascii_case(b"multipart/"));
    unusable(if multipart {
        UnusableResponse::Multipart
    } else {
        UnusableResponse::MissingContentRange
    })
}

/// 200 with the whole file.
fn full_content(
    request: &RequestedContent<'_>,
    headers: &HeaderMap,
) -> Result<ResponseContent, RequestFailure> {
    let coding = ContentCoding::from_headers(headers);
    let length = known_length(headers);
    // The length of an encoded body is not the file's, so it says nothing about the version either.
    let file_length = length.filter(|_| coding.is_none());
    let version = ResourceVersion::from_headers(file_length, headers);
    check_version(request, &version)?;
    match &request.range {
        Some(_) if request.on_disk.joined().is_some() => Err(if request.if_range_sent {
            RequestFailure::IfRangeMisread
        } else {
            RequestFailure::RangeIgnored
        }),
        Some(range) if range.start > 0 => Err(RequestFailure::RangeIgnored),
        _ => Ok(ResponseContent::Whole {
            length,
            version,
            coding,
        }),
    }
}

/// 416.
fn range_not_satisfiable(
    request: &RequestedContent<'_>,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<ResponseContent, RequestFailure> {
    let total = headers
        .get(CONTENT_RANGE)
        .and_then(|value| ContentRange::parse(value.as_bytes()).ok())
        .and_then(|content_range| content_range.total);
    let asked_for_first_byte = request.on_disk.joined().is_none()
        && request.range.as_ref().is_some_and(|range| range.start == 0);
    match total {
        // Only an empty file has no first byte.
        Some(0) if asked_for_first_byte => Ok(ResponseContent::Empty {
            version: ResourceVersion::from_headers(Some(0), headers),
        }),
        None if asked_for_first_byte => Err(unusable(UnusableResponse::NoFirstByte)),
        _ => Err(match refused_range(request, total) {
            RangePlace::Inside => RequestFailure::RangeRefused { status },
            RangePlace::OtherLength => RequestFailure::Changed,
            RangePlace::Unknown => RequestFailure::PastEnd,
        }),
    }
}

/// Where a range is that a 416 refuses.
enum RangePlace {
    /// Inside the file, by its length on disk, or by the length that the response names.
    Inside,
    /// The response names another length than the file had.
    OtherLength,
    /// Perhaps past the end of the file.
    Unknown,
}

fn refused_range(request: &RequestedContent<'_>, total: Option<u64>) -> RangePlace {
    let start = request.range.as_ref().map_or(0, |range| range.start);
    let known = request.on_disk.joined().and_then(|version| version.length);
    match (known, total) {
        (Some(known), Some(total)) if known != total => RangePlace::OtherLength,
        (Some(known), _) if start < known => RangePlace::Inside,
        (None, Some(total)) if start < total => RangePlace::Inside,
        _ => RangePlace::Unknown,
    }
}

/// Content-Length, if it is one number.
fn known_length(headers: &HeaderMap) -> Option<u64> {
    content_length(headers).ok().flatten()
}

/// The realm of the first challenge that has one; it goes into a message.
fn realm(status: StatusCode, headers: &HeaderMap) -> Option<String> {
    /// Longer realms are cut.
    const MAX_SHOWN: usize = 120;
    let field = if status == StatusCode::UNAUTHORIZED {
        WWW_AUTHENTICATE
    } else {
        PROXY_AUTHENTICATE
    };
    headers.get_all(field).iter().find_map(|value| {
        let text = String::from_utf8_lossy(value.as_bytes());
        let at = text.to_ascii_lowercase().find("realm=\"")?;
        let quoted = text.get(at + 7..)?;
        let realm = quoted.split_once('"')?.0;
        Some(printable(realm, MAX_SHOWN))
    })
}

#[cfg(test)]
mod tests;
