//! Uploads of whole objects.

use std::sync::Arc;

use bytes::Bytes;
use haul_plan::DigestAlgorithm;
use haul_serve::ObjectKey;
use haul_serve::dialect::{
    IncomingBody, ObjectUpload, ServeResponse, UploadRequest, empty_response,
};
use haul_serve::store::{FileMetadata, ObjectAttributes};
use http::StatusCode;
use http::header::{CONTENT_LENGTH, ETAG, HeaderName, HeaderValue};

use super::S3Call;
use super::body_source::S3BodySource;
use super::object_headers::{
    add_digests, attributes_of_request, conditions_of, object_etag, write_conditions_hold,
};
use crate::{
    BodyExpectations, PayloadMode, S3ErrorCode, S3Failure, checksum_algorithm_of_name,
    checksum_field, checksum_type,
};

/// Maximum bytes of one upload.
pub(super) const MAX_UPLOAD: u64 = 5 << 30;

/// The entity tag of a folder: the MD5 of nothing.
pub(super) const FOLDER_ETAG: &str = "\"d41d8cd98f00b204e9800998ecf8427e\"";

impl S3Call {
    pub(super) async fn put_object(
        &self,
        payload: PayloadMode,
        body: IncomingBody,
    ) -> Result<ServeResponse, S3Failure> {
        let target = self.stored_key()?;
        let expectations = BodyExpectations::parse(&self.headers, payload)?;
        let length = expectations
            .length
            .ok_or(S3ErrorCode::MissingContentLength)?;
        if length > MAX_UPLOAD {
            return Err(too_large(length));
        }
        let attributes = attributes_of_request(&self.headers)?;
        self.existing_bucket().await?;
        if target.is_folder {
            if length > 0 {
                let message = "A key that ends in a slash is a folder here, and has no bytes.";
                return Err(S3Failure::with_message(
                    S3ErrorCode::InvalidRequest,
                    message,
                ));
            }
            return self.put_folder(target.key).await;
        }
        let default_checksum = match expectations.checksum {
            Some(_) => None,
            None => Some(DigestAlgorithm::Crc64Nvme),
        };
        let also = [DigestAlgorithm::Md5].into_iter().chain(default_checksum);
        let (source, outcome) = S3BodySource::new(body, expectations, also);
        let object = ObjectUpload {
            attributes: Box::new(move || {
                let mut attributes = attributes;
                if let Some(digests) = outcome.digests() {
                    add_digests(&mut attributes, digests);
                }
                attributes
            }),
            conditions_hold: write_conditions_hold,
        };
        let conditions = conditions_of(&self.headers);
        let expects_continue = self.headers.contains_key(http::header::EXPECT);
        let mut request = UploadRequest::for_object(
            self.server(),
            target.key,
            (conditions, expects_continue),
            length,
            object,
        );
        request.max_bytes = request.max_bytes.min(MAX_UPLOAD);
        if length > request.max_bytes {
            return Err(too_large(length));
        }
        let stored = Box::pin(self.context.store_upload(request, source)).await;
        match stored {
            Ok(stored) => Ok(uploaded_response(&stored.metadata)),
            Err(error) => Err(self.write_failure(self.upload_failure(&error)).await),
        }
    }

    /// The failure of a write. One whose If-Match names a version of an object that is not there is about that.
    pub(super) async fn write_failure(&self, failure: S3Failure) -> S3Failure {
        let is_about_version = failure.code == S3ErrorCode::PreconditionFailed
            && self.headers.contains_key(http::header::IF_MATCH);
        if !is_about_version {
            return failure;
        }
        match self.open_object().await {
            Err(missing) if missing.code == S3ErrorCode::NoSuchKey => missing,
            _ => failure,
        }
    }

    async fn put_folder(&self, key: ObjectKey) -> Result<ServeResponse, S3Failure> {
        let store = Arc::clone(self.server().store());
        let made = self
            .server()
            .disk()
            .write(move || store.create_folder_object(&key));
        made.await.map_err(|error| self.store_failure(&error))?;
        let mut response = empty_response(StatusCode::OK);
        let etag = HeaderValue::from_static(FOLDER_ETAG);
        response.headers_mut().insert(ETAG, etag);
        Ok(response)
    }

    /// The document in the body of a request.
    pub(super) async fn read_document(
        &self,
        payload: PayloadMode,
        body: IncomingBody,
        max_bytes: usize,
    ) -> Result<Bytes, S3Failure> {
        let expectations = BodyExpectations::parse(&self.headers, payload)?;
        let (source, _) = S3BodySource::new(body, expectations, []);
        source.read_document(max_bytes).await
    }
}

fn too_large(length: u64) -> S3Failure {
    S3Failure::new(S3ErrorCode::EntityTooLarge)
        .element("ProposedSize", length.to_string())
        .element("MaxSizeAllowed", MAX_UPLOAD.to_string())
}

fn uploaded_response(metadata: &FileMetadata) -> ServeResponse {
    let mut response = empty_response(StatusCode::OK);
    let etag = format!("\"{}\"", object_etag(metadata));
    let headers = response.headers_mut();
    if let Ok(etag) = HeaderValue::try_from(etag) {
        headers.insert(ETAG, etag);
    }
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    if let Some(attributes) = &metadata.attributes {
        insert_checksum(headers, attributes);
    }
    response
}

pub(super) fn insert_checksum(headers: &mut http::HeaderMap, attributes: &ObjectAttributes) {
    let Some(checksum) = &attributes.checksum else {
        return;
    };
    let field = checksum_algorithm_of_name(&checksum.algorithm).and_then(checksum_field);
    if let (Some(field), Ok(value)) = (field, HeaderValue::try_from(&checksum.value)) {
        headers.insert(HeaderName::from_static(field), value);
        let kind = HeaderValue::from_static(checksum_type(checksum.is_composite));
        headers.insert(HeaderName::from_static("x-amz-checksum-type"), kind);
    }
}
