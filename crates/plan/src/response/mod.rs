//! What the head of an answer means: may its bytes go into the file?
//!
//! [`classify_response`] is asked before a byte of the body is read. It is strict where a mistake would splice two files into one, and
//! lenient where an origin is merely odd. It knows one request and one answer; what follows from a verdict over a job's whole
//! history is the [`FailurePolicy`](crate::FailurePolicy)'s to say.

mod verdict;

use std::time::SystemTime;

use http::StatusCode;
use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, PROXY_AUTHENTICATE,
    RETRY_AFTER, WWW_AUTHENTICATE,
};

use crate::content_range::ContentRange;
use crate::retry::parse_retry_after;
use crate::validator::{ResourceVersion, VersionMatch};
pub use verdict::{ContentCoding, RequestedContent, ResponseVerdict, UnusableResponse};

/// Judges the head of an answer. `now` is the wall clock, for a Retry-After that is a date.
#[must_use]
pub fn classify_response(
    asked: &RequestedContent<'_>,
    status: StatusCode,
    headers: &HeaderMap,
    now: SystemTime,
) -> ResponseVerdict {
    match status.as_u16() {
        206 => {
            partial_content(asked, headers).unwrap_or_else(|why| ResponseVerdict::Refuse { why })
        }
        200 => full_content(asked, headers),
        304 if asked.conditional => ResponseVerdict::NotModified,
        304 => ResponseVerdict::Refuse {
            why: UnusableResponse::UnrequestedNotModified,
        },
        416 if asked.range.is_some() => range_not_satisfiable(asked, headers),
        401 | 407 => ResponseVerdict::Unauthorized {
            status,
            realm: realm(status, headers),
        },
        408 | 425 | 429 | 500..=599 => {
            let retry_after = headers
                .get(RETRY_AFTER)
                .and_then(|value| parse_retry_after(value, now));
            ResponseVerdict::Busy {
                status,
                retry_after,
            }
        }
        _ => ResponseVerdict::Denied { status },
    }
}

fn partial_content(
    asked: &RequestedContent<'_>,
    headers: &HeaderMap,
) -> Result<ResponseVerdict, UnusableResponse> {
    let wanted = asked
        .range
        .clone()
        .ok_or(UnusableResponse::UnrequestedPartial)?;
    let value = headers
        .get(CONTENT_RANGE)
        .ok_or_else(|| no_content_range(headers))?;
    let said = ContentRange::parse(value.as_bytes())?;
    let range = said.range.ok_or(UnusableResponse::WrongRange)?;
    let total = said.total.ok_or(UnusableResponse::MissingTotal)?;
    let version = ResourceVersion::from_headers(Some(total), headers);
    // Another version first: its ranges may well be other ranges.
    if let Some(pinned) = asked.expected_version {
        match pinned.compare(&version) {
            VersionMatch::Same => {}
            VersionMatch::Different => return Ok(ResponseVerdict::Changed { found: version }),
            VersionMatch::Unproven => return Err(UnusableResponse::MissingValidator),
        }
    }
    if range.start != wanted.start || range.end > wanted.end {
        return Err(UnusableResponse::WrongRange);
    }
    if let Some(coding) = coding(headers) {
        return Err(UnusableResponse::Encoded(coding));
    }
    if content_length(headers).is_some_and(|length| length != range.end - range.start) {
        return Err(UnusableResponse::LengthMismatch);
    }
    Ok(ResponseVerdict::Part {
        range,
        total,
        version,
    })
}

fn no_content_range(headers: &HeaderMap) -> UnusableResponse {
    let multipart = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.as_bytes().get(..10))
        .is_some_and(|kind| kind.eq_ignore_ascii_case(b"multipart/"));
    if multipart {
        UnusableResponse::Multipart
    } else {
        UnusableResponse::MissingContentRange
    }
}

fn full_content(asked: &RequestedContent<'_>, headers: &HeaderMap) -> ResponseVerdict {
    let encoding = coding(headers);
    // The length of an encoded body is not the file's; it says nothing about the version either.
    let said = content_length(headers);
    let length = if encoding.is_some() { None } else { said };
    let version = ResourceVersion::from_headers(length, headers);
    if let Some(pinned) = asked.expected_version {
        match pinned.compare(&version) {
            VersionMatch::Different => return ResponseVerdict::Changed { found: version },
            VersionMatch::Unproven => {
                return ResponseVerdict::Refuse {
                    why: UnusableResponse::MissingValidator,
                };
            }
            VersionMatch::Same => {}
        }
        if asked.range.is_some() {
            return if asked.if_range_sent {
                ResponseVerdict::DropIfRange
            } else {
                ResponseVerdict::RangeIgnored
            };
        }
    }
    if asked.range.as_ref().is_some_and(|range| range.start > 0) {
        return ResponseVerdict::RangeIgnored;
    }
    ResponseVerdict::Whole {
        length: said,
        version,
        encoding,
    }
}

fn range_not_satisfiable(asked: &RequestedContent<'_>, headers: &HeaderMap) -> ResponseVerdict {
    let total = headers
        .get(CONTENT_RANGE)
        .and_then(|value| ContentRange::parse(value.as_bytes()).ok())
        .and_then(|said| said.total);
    let first = asked.expected_version.is_none()
        && asked.range.as_ref().is_some_and(|range| range.start == 0);
    match total {
        // Only an empty resource has no first byte.
        Some(0) if first => ResponseVerdict::Empty {
            version: ResourceVersion::from_headers(Some(0), headers),
        },
        None if first => ResponseVerdict::Refuse {
            why: UnusableResponse::MissingContentRange,
        },
        _ => ResponseVerdict::PastEnd { total },
    }
}

/// Content-Length, if it is one number.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers
        .get(CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// A coding other than identity.
fn coding(headers: &HeaderMap) -> Option<ContentCoding> {
    /// Names longer than this are cut: they only go into a message.
    const SHOWN: usize = 40;
    let names: Vec<String> = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .flat_map(|value| {
            String::from_utf8_lossy(value.as_bytes())
                .split(',')
                .map(tidy)
                .collect::<Vec<_>>()
        })
        .filter(|name| !name.is_empty() && name != "identity")
        .collect();
    match names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => None,
        ["gzip" | "x-gzip"] => Some(ContentCoding::Gzip),
        ["deflate"] => Some(ContentCoding::Deflate),
        _ => Some(ContentCoding::Other(
            names
                .join(", ")
                .chars()
                .filter(|c| !c.is_control())
                .take(SHOWN)
                .collect(),
        )),
    }
}

fn tidy(name: &str) -> String {
    name.trim().to_ascii_lowercase()
}

/// The realm of the first challenge that has one, without control characters: it is printed.
fn realm(status: StatusCode, headers: &HeaderMap) -> Option<String> {
    /// Longer realms are cut.
    const SHOWN: usize = 120;
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
        Some(
            realm
                .chars()
                .filter(|c| !c.is_control())
                .take(SHOWN)
                .collect(),
        )
    })
}

#[cfg(test)]
mod tests;
