//! Responses of S3, and errors of the store as S3's.

use haul_net::is_descriptor_limit;
use haul_serve::dialect::{
    ServeBody, ServeResponse, UploadError, empty_response, forbid_sniffing, sandbox_active_content,
};
use haul_serve::observe::{BodyRefusal, ConnectionFault};
use haul_serve::store::StoreError;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Method, StatusCode, request};

use super::S3Call;
use super::body_source::body_failure;
use super::object_headers::precondition_failed;
use crate::xml::XmlDocument;
use crate::{S3ErrorCode, S3Failure, S3ResponseIds};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
const HOST_ID: HeaderName = HeaderName::from_static("x-amz-id-2");

/// What a response needs of its request.
#[derive(Debug)]
pub(super) struct ResponseContext {
    method: Method,
    resource: String,
    request_id: String,
}

impl ResponseContext {
    pub(super) fn new(head: &request::Parts) -> Self {
        Self {
            method: head.method.clone(),
            resource: head.uri.path().to_owned(),
            request_id: format!("{:016X}", rand::random::<u64>()),
        }
    }

    /// The response of a result, with the identifiers that every response has.
    pub(super) fn complete(&self, result: Result<ServeResponse, S3Failure>) -> ServeResponse {
        let ids = S3ResponseIds {
            request_id: &self.request_id,
            host_id: "haul",
        };
        let mut response = match result {
            Ok(response) => response,
            Err(failure) => self.failed(&failure, ids),
        };
        if let Ok(id) = HeaderValue::try_from(ids.request_id) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        let host_id = HeaderValue::from_static("haul");
        response.headers_mut().insert(HOST_ID, host_id);
        // Whoever could store an object has chosen its type, or the one who signed the URL has.
        forbid_sniffing(response.headers_mut());
        sandbox_active_content(response.headers_mut());
        response
    }

    /// The response of a failure; the one to HEAD has no body (RFC 9110 9.3.2).
    fn failed(&self, failure: &S3Failure, ids: S3ResponseIds<'_>) -> ServeResponse {
        let status = failure.code.status();
        if self.method == Method::HEAD {
            return empty_response(status);
        }
        xml_response(status, failure.document(&self.resource, ids))
    }
}

pub(super) fn xml_response(status: StatusCode, document: String) -> ServeResponse {
    let mut response = ServeResponse::new(ServeBody::text(document));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("application/xml");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// 200 with a document.
pub(super) fn document_response(document: XmlDocument) -> ServeResponse {
    xml_response(StatusCode::OK, document.finish())
}

/// `AccessDenied` with its reason.
pub(super) fn denied(message: &'static str) -> S3Failure {
    S3Failure::with_message(S3ErrorCode::AccessDenied, message)
}

impl S3Call {
    pub(super) fn store_failure(&self, error: &StoreError) -> S3Failure {
        let with = |code, message: String| S3Failure::with_message(code, message);
        match error {
            StoreError::NotFound => {
                S3Failure::new(S3ErrorCode::NoSuchKey).element("Key", self.key())
            }
            StoreError::IsFolder | StoreError::Conflict | StoreError::NotEmpty => with(
                S3ErrorCode::InvalidBucketState,
                "Objects are files here: a key cannot be both an object and the folder of others, and one of \
                 this path is the other kind."
                    .to_owned(),
            ),
            StoreError::SpecialFile | StoreError::PermissionDenied => {
                S3ErrorCode::AccessDenied.into()
            }
            StoreError::ReadOnly => denied("This server is read-only."),
            StoreError::TooLong => S3ErrorCode::KeyTooLongError.into(),
            // A client that repeats the request would only fill the network.
            StoreError::NoSpace | StoreError::OverQuota { .. } => {
                with(S3ErrorCode::EntityTooLarge, format!("{error}"))
            }
            StoreError::Busy(_) => with(S3ErrorCode::ServiceUnavailable, format!("{error}.")),
            StoreError::TooManyUploads(_) => with(S3ErrorCode::InvalidRequest, format!("{error}.")),
            StoreError::Io(io) if is_descriptor_limit(io) => {
                let metrics = &self.server().options().metrics;
                metrics.count_fault(ConnectionFault::Descriptors);
                tracing::warn!(bucket = self.bucket(), key = self.key(), %error, "no descriptors left");
                S3ErrorCode::ServiceUnavailable.into()
            }
            StoreError::ConditionFailed => precondition_failed(&self.headers, ""),
            StoreError::DigestMismatch(_) => S3ErrorCode::BadDigest.into(),
            StoreError::RootRemoved | StoreError::UploadRemoved | StoreError::Io(_) => {
                let metrics = &self.server().options().metrics;
                metrics.count_fault(ConnectionFault::Disk);
                tracing::error!(bucket = self.bucket(), key = self.key(), %error, "the disk failed");
                S3ErrorCode::InternalError.into()
            }
        }
    }

    /// An error of an upload, as S3 has it. Counts it, too.
    pub(super) fn upload_failure(&self, error: &UploadError) -> S3Failure {
        let metrics = &self.server().options().metrics;
        match error {
            UploadError::Store(error) => {
                match error {
                    StoreError::OverQuota { .. } => metrics.count_refused_body(BodyRefusal::Quota),
                    StoreError::NoSpace => metrics.count_refused_body(BodyRefusal::DiskFull),
                    _ => {}
                }
                self.store_failure(error)
            }
            UploadError::TooLong => {
                metrics.count_refused_body(BodyRefusal::TooLarge);
                body_failure(error)
            }
            UploadError::Broken(_) => {
                let failure = body_failure(error);
                metrics.count_refused_body(match failure.code {
                    S3ErrorCode::IncompleteBody | S3ErrorCode::RequestTimeout => BodyRefusal::Short,
                    _ => BodyRefusal::Digest,
                });
                failure
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::body::Body as _;

    use super::*;

    fn complete(method: Method, code: S3ErrorCode) -> ServeResponse {
        let context = ResponseContext {
            method,
            resource: "/b/k".to_owned(),
            request_id: "0".to_owned(),
        };
        context.complete(Err(code.into()))
    }

    #[test]
    fn g15_head_has_no_body_and_every_response_has_an_identifier() {
        let head = complete(Method::HEAD, S3ErrorCode::NoSuchKey);
        assert_eq!(head.status(), StatusCode::NOT_FOUND);
        assert_eq!(head.body().size_hint().exact(), Some(0));
        assert!(!head.headers().contains_key(CONTENT_TYPE));
        assert_eq!(head.headers()[REQUEST_ID], "0");
        let get = complete(Method::GET, S3ErrorCode::NoSuchKey);
        assert_eq!(get.headers()[CONTENT_TYPE], "application/xml");
        assert!(get.body().size_hint().exact() > Some(0));
    }
}
