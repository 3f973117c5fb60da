//! Responses for files: conditions, ranges and header fields (RFC 9110 13 to 15.3.7). `file_body`
//! decides how the bytes are sent.

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use haul_plan::serving::{
    ConditionOutcome, CurrentRepresentation, RangeLimits, RangeSelection, RequestConditions,
    select_ranges,
};
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap,
    HeaderName, HeaderValue, LAST_MODIFIED, RANGE,
};
use http::{Method, Response, StatusCode};

use super::FileServer;
use super::browser_protection::{forbid_sniffing, sandbox_active_content};
use super::cache_control::private_cache_control;
use super::error_response::{ServeResponse, empty_response, text_response};
use super::file_body::{FileBody, MultipartRanges};
use super::request_digests::digest_field_value;
use crate::ObjectKey;
use crate::body::ServeBody;
use crate::sendfile::MappingRegistry;
use crate::store::{FileMetadata, OpenObject};

/// RFC 9530.
const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// The parts of a request that matter for a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileRequest<'a> {
    /// GET or HEAD.
    pub(crate) method: &'a Method,
    pub(crate) key: &'a ObjectKey,
    pub(crate) headers: &'a HeaderMap,
    /// Whether the response depends on the client's credentials.
    pub(crate) is_personal: bool,
}

pub(crate) fn respond(
    server: &FileServer,
    mappings: Option<&MappingRegistry>,
    request: FileRequest<'_>,
    object: &Arc<OpenObject>,
) -> ServeResponse {
    let meta = object.metadata();
    let current = current_representation(meta);
    let conditions = RequestConditions::parse(request.headers);
    match conditions.evaluate_read(current) {
        ConditionOutcome::Proceed => {}
        ConditionOutcome::NotModified => {
            let mut response = empty_response(StatusCode::NOT_MODIFIED);
            insert_headers(server, request, meta, response.headers_mut());
            // RFC 9110 15.4.5: no fields about a body that is not sent.
            response.headers_mut().remove(CONTENT_TYPE);
            return response;
        }
        ConditionOutcome::PreconditionFailed => {
            return text_response(StatusCode::PRECONDITION_FAILED, "a condition does not hold");
        }
    }
    let is_range = request.method == Method::GET
        && request.headers.contains_key(RANGE)
        && conditions.range_applies(current, SystemTime::now());
    let selection = if is_range {
        select_ranges(request.headers, meta.len, &RangeLimits::default())
    } else {
        RangeSelection::Whole
    };
    let mut response = match selection {
        RangeSelection::Unsatisfiable => return unsatisfiable_response(meta.len),
        RangeSelection::Whole if request.method == Method::HEAD => {
            let mut response = Response::new(ServeBody::empty());
            response
                .headers_mut()
                .insert(CONTENT_LENGTH, meta.len.into());
            response
        }
        RangeSelection::Whole => Response::new(
            FileBody::new(&server.disk, mappings, object, meta.len).single(0..meta.len),
        ),
        RangeSelection::Single(range) => {
            let total = range.end - range.start;
            let field = content_range(&range, meta.len);
            let mut response =
                Response::new(FileBody::new(&server.disk, mappings, object, total).single(range));
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            response.headers_mut().insert(CONTENT_RANGE, field);
            response
        }
        RangeSelection::Multiple(ranges) => {
            let total = ranges.iter().map(|range| range.end - range.start).sum();
            let mut file_body = FileBody::new(&server.disk, mappings, object, total);
            let parts = MultipartRanges::new(media_type(request.key), meta.len);
            let content_type = parts.media_type();
            let body = parts.body(&ranges, |range| file_body.chunk(range));
            let mut response = Response::new(body);
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            insert_headers(server, request, meta, response.headers_mut());
            response.headers_mut().insert(CONTENT_TYPE, content_type);
            return response;
        }
    };
    insert_headers(server, request, meta, response.headers_mut());
    response
}

/// The validators that conditions are compared with.
pub(crate) fn current_representation(meta: &FileMetadata) -> CurrentRepresentation<'_> {
    CurrentRepresentation {
        etag: Some(&meta.etag),
        last_modified: Some(meta.modified),
    }
}

/// Inserts the fields that describe the file and its version.
fn insert_headers(
    server: &FileServer,
    request: FileRequest<'_>,
    meta: &FileMetadata,
    headers: &mut HeaderMap,
) {
    headers.insert(CONTENT_TYPE, media_type(request.key));
    forbid_sniffing(headers);
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    insert_version_headers(meta, headers);
    // The files of a server that takes none are its owner's own pages.
    if server.store.options().writable {
        sandbox_active_content(headers);
    }
    let configured = server.options.cache_control.as_ref();
    let value = if request.is_personal {
        Some(private_cache_control(configured))
    } else {
        configured.cloned()
    };
    if let Some(value) = value {
        headers.insert(CACHE_CONTROL, value);
    }
}

/// Inserts the validators and the digest.
pub(crate) fn insert_version_headers(meta: &FileMetadata, headers: &mut HeaderMap) {
    if let Ok(tag) = HeaderValue::try_from(meta.etag.to_string()) {
        headers.insert(ETAG, tag);
    }
    // Last-Modified must not be in the future, and a date before 1970 cannot be written.
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

/// The media type by the file name's extension. Text is declared as UTF-8, as nearly all text is.
#[must_use]
pub fn media_type(key: &ObjectKey) -> HeaderValue {
    let name = key.split_parent_ref().map_or(&[][..], |(_, name)| name);
    let extension = name
        .rsplit(|byte| *byte == b'.')
        .next()
        .filter(|extension| extension.len() < name.len());
    let result = extension
        .and_then(|extension| std::str::from_utf8(extension).ok())
        .and_then(|extension| mime_guess::from_ext(extension).first_raw());
    HeaderValue::from_static(match result {
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

fn unsatisfiable_response(len: u64) -> ServeResponse {
    let mut response = text_response(
        StatusCode::RANGE_NOT_SATISFIABLE,
        format!("the file has {len} bytes"),
    );
    if let Ok(field) = HeaderValue::try_from(format!("bytes */{len}")) {
        response.headers_mut().insert(CONTENT_RANGE, field);
    }
    response
}

fn content_range(range: &Range<u64>, len: u64) -> HeaderValue {
    let text = format!("bytes {}-{}/{len}", range.start, range.end - 1);
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("bytes */*"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_follow_the_extension() {
        let content_type = |path: &str| media_type(&ObjectKey::parse(path).expect("a key").key);
        assert_eq!(content_type("/a/b.TXT"), "text/plain; charset=utf-8");
        assert_eq!(content_type("/a.b/c"), "application/octet-stream");
        assert_eq!(content_type("/png"), "application/octet-stream");
        assert_eq!(content_type("/x.png"), "image/png");
    }
}
