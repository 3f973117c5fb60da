//! Decides from the head of a response whether its bytes may go into the file.
//!
//! [`classify_response`] runs before a byte of the body is read. It is strict where a mistake would splice two files into one,
//! and lenient where an origin is merely odd. It knows one request and one response; what a failure leads to over a job's whole
//! history is for the [`RecoveryPolicy`](crate::RecoveryPolicy) to say.

use std::ops::Range;
use std::time::SystemTime;

use http::StatusCode;
use http::header::{
    CONTENT_RANGE, CONTENT_TYPE, HeaderMap, PROXY_AUTHENTICATE, RETRY_AFTER, WWW_AUTHENTICATE,
};

use crate::body_framing::content_length;
use crate::content_coding::{ContentCoding, printable};
use crate::content_range::ContentRange;
use crate::request_failure::{RequestFailure, UnusableResponse};
use crate::retry::parse_retry_after;
use crate::validator::{ResourceVersion, VersionMatch};

/// A request, as far as its response is checked against it.
#[derive(Debug, Clone, Default)]
pub struct RequestedContent<'a> {
    /// The Range that was sent; an end of `u64::MAX` is an open end. `None`: no Range was sent.
    pub range: Option<Range<u64>>,
    /// The version that the bytes on disk are of.
    pub expected_version: Option<&'a ResourceVersion>,
    /// Whether If-Range was sent.
    pub if_range_sent: bool,
    /// Whether If-None-Match or If-Modified-Since was sent.
    pub conditional: bool,
}

/// What a usable response brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseContent {
    /// A part of the file, which shows that ranges work.
    Part {
        /// Begins where requested, ends there or sooner.
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
    /// Bytes in the whole file as it is stored, where the response says so. An encoded body says nothing about it.
    #[must_use]
    pub fn file_length(&self) -> Option<u64> {
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

/// Classifies the head of a response. `now` is the wall clock, for a Retry-After that is a date.
///
/// # Errors
/// Every [`RequestFailure`] that a head can mean: its body must not be read into the file.
pub fn classify_response(
    request: &RequestedContent<'_>,
    status: StatusCode,
    headers: &HeaderMap,
    now: SystemTime,
) -> Result<ResponseContent, RequestFailure> {
    match status.as_u16() {
        206 => partial_content(request, headers),
        200 => full_content(request, headers),
        304 if request.conditional => Ok(ResponseContent::NotModified),
        304 => Err(unusable(UnusableResponse::UnrequestedNotModified)),
        416 if request.range.is_some() => range_not_satisfiable(request, headers),
        401 | 407 => Err(RequestFailure::Unauthorized {
            status,
            realm: realm(status, headers),
        }),
        _ if is_busy_status(status) => Err(RequestFailure::Busy {
            status,
            retry_after: headers
                .get(RETRY_AFTER)
                .and_then(|value| parse_retry_after(value, now)),
        }),
        _ => Err(RequestFailure::Denied { status }),
    }
}

fn unusable(reason: impl Into<UnusableResponse>) -> RequestFailure {
    RequestFailure::Unusable(reason.into())
}

/// 206.
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
    let total = content_range
        .total
        .ok_or_else(|| unusable(UnusableResponse::MissingTotal))?;
    let version = ResourceVersion::from_headers(Some(total), headers);
    // The version first: another version may well have other ranges.
    check_version(request, &version)?;
    if range.start != requested.start || range.end > requested.end {
        return Err(unusable(UnusableResponse::WrongRange));
    }
    if let Some(coding) = ContentCoding::from_headers(headers) {
        return Err(unusable(UnusableResponse::Encoded(coding)));
    }
    if known_length(headers).is_some_and(|length| length != range.end - range.start) {
        return Err(unusable(UnusableResponse::LengthMismatch));
    }
    Ok(ResponseContent::Part {
        range,
        total,
        version,
    })
}

fn check_version(
    request: &RequestedContent<'_>,
    version: &ResourceVersion,
) -> Result<(), RequestFailure> {
    let matched = request
        .expected_version
        .map(|expected| expected.compare(version));
    match matched {
        None | Some(VersionMatch::Same) => Ok(()),
        Some(VersionMatch::Different) => Err(RequestFailure::Changed),
        Some(VersionMatch::Unproven) => Err(unusable(UnusableResponse::MissingValidator)),
    }
}

fn without_content_range(headers: &HeaderMap) -> RequestFailure {
    let multipart = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.as_bytes().get(..10))
        .is_some_and(|kind| kind.eq_ignore_ascii_case(b"multipart/"));
    unusable(match multipart {
        true => UnusableResponse::Multipart,
        false => UnusableResponse::MissingContentRange,
    })
}

/// 200.
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
        Some(_) if request.expected_version.is_some() => Err(match request.if_range_sent {
            true => RequestFailure::IfRangeMisread,
            false => RequestFailure::RangeIgnored,
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
    headers: &HeaderMap,
) -> Result<ResponseContent, RequestFailure> {
    let total = headers
        .get(CONTENT_RANGE)
        .and_then(|value| ContentRange::parse(value.as_bytes()).ok())
        .and_then(|content_range| content_range.total);
    let asked_for_first_byte = request.expected_version.is_none()
        && request.range.as_ref().is_some_and(|range| range.start == 0);
    match total {
        // Only an empty file has no first byte.
        Some(0) if asked_for_first_byte => Ok(ResponseContent::Empty {
            version: ResourceVersion::from_headers(Some(0), headers),
        }),
        None if asked_for_first_byte => Err(unusable(UnusableResponse::NoFirstByte)),
        _ => Err(RequestFailure::PastEnd),
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
