//! Error responses: refusals and failures, each with a line of text for the client's user, who may not be the operator.

use haul_net::is_descriptor_limit;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Method, Response, StatusCode};

use super::FileServer;
use crate::access::AccessRefusal;
use crate::body::ServeBody;
use crate::observe::ConnectionFault;
use crate::store::StoreError;
use crate::{ObjectKey, ObjectKeyError};

pub type ServeResponse = Response<ServeBody>;

/// An error response, boxed since errors are rare and responses large.
pub(crate) type ErrorResponse = Box<ServeResponse>;

/// A response with a status and a line of text.
pub(crate) fn text_response(status: StatusCode, text: impl Into<String>) -> ServeResponse {
    let mut text = text.into();
    text.push('\n');
    let mut response = Response::new(ServeBody::text(text));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// A response with a status and no body.
#[must_use]
pub fn empty_response(status: StatusCode) -> ServeResponse {
    let mut response = Response::new(ServeBody::empty());
    *response.status_mut() = status;
    response
}

/// 405 for a method that this server does not support, with the methods that it does.
pub(crate) fn unsupported_method_response(method: &Method, is_writable: bool) -> ServeResponse {
    let why = match (method, is_writable) {
        (&Method::PUT | &Method::DELETE | &Method::POST, false) => "this server is read-only",
        _ => "this server does not support this method",
    };
    method_not_allowed_response(why, allowed_methods(is_writable))
}

/// 405 with a reason and the allowed methods (RFC 9110 15.5.6).
pub(crate) fn method_not_allowed_response(why: &str, allow: HeaderValue) -> ServeResponse {
    let mut response = text_response(StatusCode::METHOD_NOT_ALLOWED, why);
    response.headers_mut().insert(ALLOW, allow);
    response
}

/// Methods of a file on a writable server.
pub(crate) const FILE_METHODS: HeaderValue =
    HeaderValue::from_static("GET, HEAD, PUT, DELETE, OPTIONS");

/// The methods that the server supports.
pub(crate) fn allowed_methods(is_writable: bool) -> HeaderValue {
    HeaderValue::from_static(if is_writable {
        "GET, HEAD, PUT, POST, DELETE, OPTIONS"
    } else {
        "GET, HEAD, OPTIONS"
    })
}

/// The response to a path that is not a valid key.
pub(crate) fn bad_path_response(error: ObjectKeyError) -> ServeResponse {
    let status = match error {
        ObjectKeyError::TooLong => StatusCode::URI_TOO_LONG,
        // As if it did not exist: the store's own files concern no client.
        ObjectKeyError::Reserved => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_REQUEST,
    };
    text_response(status, error.to_string())
}

/// The response to an error of the store. Errors of the server, as opposed to the request, are
/// counted.
pub(crate) fn store_error_response(
    server: &FileServer,
    error: &StoreError,
    key: &ObjectKey,
) -> ServeResponse {
    let status = match error {
        StoreError::NotFound => StatusCode::NOT_FOUND,
        StoreError::TooLong => StatusCode::URI_TOO_LONG,
        StoreError::IsFolder | StoreError::Conflict | StoreError::NotEmpty => StatusCode::CONFLICT,
        StoreError::SpecialFile | StoreError::PermissionDenied => StatusCode::FORBIDDEN,
        StoreError::NoSpace | StoreError::OverQuota { .. } => StatusCode::INSUFFICIENT_STORAGE,
        StoreError::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
        StoreError::TooManyUploads(_) => StatusCode::BAD_REQUEST,
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
            tracing::warn!(%key, %error, "a file cannot be opened: no descriptors left");
            return descriptors_exhausted_response();
        }
        server.options.metrics.count_fault(ConnectionFault::Disk);
        tracing::error!(%key, %error, "the disk failed");
        // The system's message may name things that a client should not learn.
        return text_response(status, "the server's disk failed: see its log");
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        return unsupported_method_response(&Method::PUT, false);
    }
    text_response(status, error.to_string())
}

/// 503 for a shortage of descriptors: the disk is fine, but another connection has to end first.
pub(crate) fn descriptors_exhausted_response() -> ServeResponse {
    let text =
        "the server has reached its limit of open files and connections: try again in a moment";
    let mut response = text_response(StatusCode::SERVICE_UNAVAILABLE, text);
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// 421 for a Host that is not one of the server's names (RFC 9110 15.5.20).
pub(crate) fn misdirected_response() -> ServeResponse {
    let text = "this server is private, has no logins, and does not accept the name in Host: \
        a page of another site may have been pointed at it (DNS rebinding). If the name is right, the server's operator can allow it, \
        or have the proxy in front send Host: localhost";
    text_response(StatusCode::MISDIRECTED_REQUEST, text)
}

/// The response to missing, wrong or insufficient credentials.
pub(crate) fn access_refused_response(refusal: &AccessRefusal) -> ServeResponse {
    let mut response = text_response(refusal.status(), refusal.to_string());
    for challenge in refusal.challenges.iter() {
        response
            .headers_mut()
            .append(WWW_AUTHENTICATE, challenge.clone());
    }
    if let Some(after) = refusal.retry_after() {
        response
            .headers_mut()
            .insert(RETRY_AFTER, after.as_secs().into());
    }
    response
}
