//! A file as an answer: conditions, ranges, and the fields that describe it (RFC 9110 13 to 15.3.7). How its bytes get there is in `roads`.

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use haul_plan::serving::{
    ConditionOutcome, CurrentRepresentation, RangeLimits, RangeSelection, RequestConditions,
    digest_field_value, private_cache_control, select_ranges,
};
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED, RANGE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Response, StatusCode};

use super::FileServer;
use super::error_response::{ServeResponse, bare, plain};
use super::file_body::RangeResponses;
use super::multipart;
use crate::ObjectKey;
use crate::body::ServeBody;
use crate::connection::ConnectionState;
use crate::store::{FileMetadata, OpenObject};

/// RFC 9530.
const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// What of a request matters to a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileRequest<'a> {
    /// GET or HEAD.
    pub(crate) method: &'a Method,
    /// The file's key.
    pub(crate) key: &'a ObjectKey,
    /// All fields.
    pub(crate) headers: &'a HeaderMap,
    /// Whether not everybody would get it.
    pub(crate) is_personal: bool,
}

/// Answers with a file.
pub(crate) fn answer(
    line: &ConnectionState,
    asked: FileRequest<'_>,
    object: &Arc<OpenObject>,
) -> ServeResponse {
    let (server, meta) = (&*line.server, object.metadata());
    let current = current(meta);
    let conditions = RequestConditions::parse(asked.headers);
    match conditions.evaluate_read(current) {
        ConditionOutcome::Proceed => {}
        ConditionOutcome::NotModified => {
            let mut answer = bare(StatusCode::NOT_MODIFIED);
            describe(server, asked, meta, answer.headers_mut());
            // RFC 9110 15.4.5: nothing about a body that is not there.
            answer.headers_mut().remove(CONTENT_TYPE);
            return answer;
        }
        ConditionOutcome::PreconditionFailed => {
            return plain(StatusCode::PRECONDITION_FAILED, "a condition does not hold");
        }
    }
    let is_range = asked.method == Method::GET
        && asked.headers.contains_key(RANGE)
        && conditions.range_applies(current, SystemTime::now());
    let selection = match is_range {
        true => select_ranges(asked.headers, meta.len, &RangeLimits::default()),
        false => RangeSelection::Whole,
    };
    let mut answer = match selection {
        RangeSelection::Unsatisfiable => return unsatisfiable(meta.len),
        RangeSelection::Whole if asked.method == Method::HEAD => {
            let mut answer = Response::new(ServeBody::Empty);
            answer.headers_mut().insert(CONTENT_LENGTH, meta.len.into());
            answer
        }
        RangeSelection::Whole => {
            Response::new(RangeResponses::new(line, object, meta.len).whole(0..meta.len))
        }
        RangeSelection::Single(range) => {
            let total = range.end - range.start;
            let field = content_range(&range, meta.len);
            let mut answer = Response::new(RangeResponses::new(line, object, total).whole(range));
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
            answer.headers_mut().insert(CONTENT_RANGE, field);
            answer
        }
        RangeSelection::Multiple(ranges) => {
            let total = ranges.iter().map(|range| range.end - range.start).sum();
            let mut roads = RangeResponses::new(line, object, total);
            let parts = multipart::MultipartRanges::new(media_type(asked.key), meta.len);
            let kind = parts.media_type();
            let body = parts.body(&ranges, |range| roads.piece(range));
            let mut answer = Response::new(body);
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
            describe(server, asked, meta, answer.headers_mut());
            answer.headers_mut().insert(CONTENT_TYPE, kind);
            return answer;
        }
    };
    describe(server, asked, meta, answer.headers_mut());
    answer
}

/// What conditions are held against.
pub(crate) fn current(meta: &FileMetadata) -> CurrentRepresentation<'_> {
    CurrentRepresentation {
        etag: Some(&meta.etag),
        last_modified: Some(meta.modified),
    }
}

/// The fields that say which version of what it is.
fn describe(
    server: &FileServer,
    asked: FileRequest<'_>,
    meta: &FileMetadata,
    headers: &mut HeaderMap,
) {
    headers.insert(CONTENT_TYPE, media_type(asked.key));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    version(meta, headers);
    if server.store.options().writable && is_active(&headers[CONTENT_TYPE]) {
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    }
    let said = server.options.cache_control.as_ref();
    let value = match asked.is_personal {
        true => Some(private_cache_control(said)),
        false => said.cloned(),
    };
    if let Some(value) = value {
        headers.insert(CACHE_CONTROL, value);
    }
}

/// Whether a browser would run what is in it. Where others may write, that is not to be done with the rights of the page and of whoever
/// looks at it.
fn is_active(kind: &HeaderValue) -> bool {
    let kind = kind.to_str().unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default();
    essence == "text/html"
        || essence == "text/xml"
        || essence.ends_with("/xml")
        || essence.ends_with("+xml")
}

/// The fields that tell versions apart.
pub(crate) fn version(meta: &FileMetadata, headers: &mut HeaderMap) {
    if let Ok(tag) = HeaderValue::try_from(meta.etag.to_string()) {
        headers.insert(ETAG, tag);
    }
    // A date in the future is none, and one before 1970 cannot be written.
    let modified = meta.modified.min(SystemTime::now());
    if modified >= SystemTime::UNIX_EPOCH
        && let Ok(modified) = HeaderValue::try_from(httpdate::fmt_http_date(modified))
    {
        headers.insert(LAST_MODIFIED, modified);
    }
    if let Some(digest) = meta.digest.as_ref().and_then(digest_field_value) {
        headers.insert(REPR_DIGEST, digest);
    }
}

/// By the name's ending. Text is taken for UTF-8, as nearly all is.
pub(crate) fn media_type(key: &ObjectKey) -> HeaderValue {
    let name = key.split_parent_ref().map_or(&[][..], |(_, name)| name);
    let ending = name
        .rsplit(|byte| *byte == b'.')
        .next()
        .filter(|ending| ending.len() < name.len());
    let found = ending
        .and_then(|ending| std::str::from_utf8(ending).ok())
        .and_then(|ending| mime_guess::from_ext(ending).first_raw());
    HeaderValue::from_static(match found {
        Some("text/plain") => "text/plain; charset=utf-8",
        Some("text/html") => "text/html; charset=utf-8",
        Some("text/css") => "text/css; charset=utf-8",
        Some("text/javascript") => "text/javascript; charset=utf-8",
        Some("text/markdown") => "text/markdown; charset=utf-8",
        Some("text/csv") => "text/csv; charset=utf-8",
        Some(other) => other,
        None => "application/octet-stream",
    })
}

fn unsatisfiable(len: u64) -> ServeResponse {
    let mut answer = plain(
        StatusCode::RANGE_NOT_SATISFIABLE,
        format!("the file has {len} bytes"),
    );
    if let Ok(field) = HeaderValue::try_from(format!("bytes */{len}")) {
        answer.headers_mut().insert(CONTENT_RANGE, field);
    }
    answer
}

fn content_range(range: &Range<u64>, len: u64) -> HeaderValue {
    let text = format!("bytes {}-{}/{len}", range.start, range.end - 1);
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("bytes */*"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_in_browsers_is_known() {
        let active =
            |name: &str| is_active(&media_type(&ObjectKey::parse(name).expect("a key").key));
        assert!(active("/x.html") && active("/x.svg") && active("/x.xml") && active("/x.xhtml"));
        assert!(!active("/x.png") && !active("/x.txt") && !active("/x.pdf") && !active("/x"));
    }

    #[test]
    fn types_go_by_the_ends_of_names() {
        let kind = |path: &str| media_type(&ObjectKey::parse(path).expect("a key").key);
        assert_eq!(kind("/a/b.TXT"), "text/plain; charset=utf-8");
        assert_eq!(kind("/a.b/c"), "application/octet-stream");
        assert_eq!(kind("/png"), "application/octet-stream");
        assert_eq!(kind("/x.png"), "image/png");
    }
}
