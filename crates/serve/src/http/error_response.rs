//! Answers that are no file: refusals, and what went wrong, with a text for people that says what to do.

use haul_net::is_descriptor_limit;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Method, Response, StatusCode};

use super::FileServer;
use crate::access::AccessRefusal;
use crate::body::ServeBody;
use crate::observe::ConnectionFault;
use crate::store::StoreError;
use crate::{ObjectKey, ObjectKeyError};

/// What the service gives.
pub(crate) type ServeResponse = Response<ServeBody>;

/// An answer in place of what was asked for.
pub(crate) type ErrorResponse = Box<ServeResponse>;

/// A status with a line of text.
pub(crate) fn plain(status: StatusCode, text: impl Into<String>) -> ServeResponse {
    let mut text = text.into();
    text.push('\n');
    let mut answer = Response::new(ServeBody::text(text));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

/// A status alone.
pub(crate) fn bare(status: StatusCode) -> ServeResponse {
    let mut answer = Response::new(ServeBody::Empty);
    *answer.status_mut() = status;
    answer
}

/// 405 with what is allowed.
pub(crate) fn not_allowed(method: &Method, is_writable: bool) -> ServeResponse {
    let why = match (method, is_writable) {
        (&Method::PUT | &Method::DELETE | &Method::POST, false) => {
            "this server is read-only: it was started without --writable"
        }
        _ => "this method is not known here",
    };
    only(why, allow(is_writable))
}

/// 405: what is allowed instead (RFC 9110 15.5.6).
pub(crate) fn only(why: &str, allow: HeaderValue) -> ServeResponse {
    let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, why);
    answer.headers_mut().insert(ALLOW, allow);
    answer
}

/// What may be asked for of a file, where one may write.
pub(crate) const FILE: HeaderValue = HeaderValue::from_static("GET, HEAD, PUT, DELETE, OPTIONS");

/// What may be asked for.
pub(crate) fn allow(is_writable: bool) -> HeaderValue {
    HeaderValue::from_static(match is_writable {
        true => "GET, HEAD, PUT, POST, DELETE, OPTIONS",
        false => "GET, HEAD, OPTIONS",
    })
}

/// A path that is no key.
pub(crate) fn no_key(error: ObjectKeyError) -> ServeResponse {
    let status = match error {
        ObjectKeyError::TooLong => StatusCode::URI_TOO_LONG,
        // As if it were not there: what the store keeps for itself is nobody's affair.
        ObjectKeyError::Reserved => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_REQUEST,
    };
    plain(status, error.to_string())
}

/// What the store said of a key. What is the matter with the server and not with the request is counted.
pub(crate) fn of_store(server: &FileServer, error: &StoreError, key: &ObjectKey) -> ServeResponse {
    let status = match error {
        StoreError::NotFound => StatusCode::NOT_FOUND,
        StoreError::TooLong => StatusCode::URI_TOO_LONG,
        StoreError::IsFolder | StoreError::Conflict | StoreError::NotEmpty => StatusCode::CONFLICT,
        StoreError::SpecialFile | StoreError::PermissionDenied => StatusCode::FORBIDDEN,
        StoreError::NoSpace | StoreError::OverQuota { .. } => StatusCode::INSUFFICIENT_STORAGE,
        StoreError::ConditionFailed => StatusCode::PRECONDITION_FAILED,
        StoreError::ReadOnly => StatusCode::METHOD_NOT_ALLOWED,
        StoreError::DigestMismatch(_) => StatusCode::BAD_REQUEST,
        StoreError::RootRemoved | StoreError::UploadRemoved | StoreError::Io(_) => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    if let StoreError::Io(error) = error {
        if is_descriptor_limit(error) {
            server
                .options
                .metrics
                .count_fault(ConnectionFault::Descriptors);
            tracing::warn!(%key, %error, "a file cannot be opened just now");
            return short_of_descriptors();
        }
        server.options.metrics.count_fault(ConnectionFault::Disk);
        tracing::error!(%key, %error, "the disk failed");
        // What the system says may name what a client need not know.
        return plain(status, "the server's disk failed: its log says how");
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        return not_allowed(&Method::PUT, false);
    }
    plain(status, error.to_string())
}

/// The disk is well, and others have to end first.
pub(crate) fn short_of_descriptors() -> ServeResponse {
    let text = "the server has as many files and connections open as its system lets it (ulimit -n): try again in a moment";
    let mut answer = plain(StatusCode::SERVICE_UNAVAILABLE, text);
    answer
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// A name that is not ours (RFC 9110 15.5.20).
pub(crate) fn misdirected() -> ServeResponse {
    let text = "this server is for its own machine, has no logins, and does not go by the name in Host: \
        a page of a stranger may have been led here. If the name is right, start haul serve with --allow-host NAME, \
        or have the proxy in front send Host: localhost";
    plain(StatusCode::MISDIRECTED_REQUEST, text)
}

/// A login that is missing, wrong or not enough.
pub(crate) fn refused(refusal: &AccessRefusal) -> ServeResponse {
    let mut answer = plain(refusal.status(), refusal.to_string());
    for challenge in refusal.challenges.iter() {
        answer
            .headers_mut()
            .append(WWW_AUTHENTICATE, challenge.clone());
    }
    if let Some(after) = refusal.retry_after() {
        answer
            .headers_mut()
            .insert(RETRY_AFTER, after.as_secs().into());
    }
    answer
}
