//! Completes uploads in parts.

use std::sync::Arc;

use haul_serve::dialect::{IncomingBody, ServeResponse};
use haul_serve::store::{FileMetadata, StoreError, VersionCheck};

use super::S3Call;
use super::body_source::S3BodySource;
use super::object_headers::{conditions_of, object_etag, write_checksum, write_conditions_hold};
use super::responses::document_response;
use crate::xml::{MAX_COMPLETE_DOCUMENT, XmlDocument, parse_complete_upload};
use crate::{
    BodyExpectations, PayloadMode, S3ErrorCode, S3Failure, check_object, checksum_of_object,
    chosen_parts, completed_attributes, without_checksums,
};

/// Why an upload was not completed.
#[derive(Debug)]
enum CompleteError {
    Refused(S3Failure),
    Store(StoreError),
}

impl S3Call {
    pub(super) async fn complete_multipart_upload(
        &self,
        payload: PayloadMode,
        body: IncomingBody,
    ) -> Result<ServeResponse, S3Failure> {
        let target = self.stored_key()?;
        // Fields are wrong before parts are.
        checksum_of_object(&self.headers)?;
        let expectations = BodyExpectations::parse(&without_checksums(&self.headers), payload)?;
        let (source, _) = S3BodySource::new(body, expectations, []);
        let document = source.read_document(MAX_COMPLETE_DOCUMENT).await?;
        let listed = parse_complete_upload(&document)?;
        let upload = match self.stored_upload().await {
            Ok(upload) => upload,
            Err(failure) if failure.code == S3ErrorCode::NoSuchUpload => {
                return self.completed_before(failure).await;
            }
            Err(failure) => return Err(failure),
        };
        let conditions = conditions_of(&self.headers);
        let (store, headers) = (Arc::clone(self.server().store()), self.headers.clone());
        let max_body = self.server().options().max_body.unwrap_or(u64::MAX);
        let pause = self.context.pause_timeouts();
        let completed = self
            .server()
            .disk()
            .write(move || {
                let stored = upload.parts().map_err(CompleteError::Store)?;
                let parts = chosen_parts(&listed, upload.info(), &stored)
                    .map_err(CompleteError::Refused)?;
                if parts.iter().map(|part| part.len).sum::<u64>() > max_body {
                    return Err(CompleteError::Refused(S3ErrorCode::EntityTooLarge.into()));
                }
                let attributes = completed_attributes(upload.id(), upload.info(), &parts);
                check_object(&headers, upload.info(), &attributes)
                    .map_err(CompleteError::Refused)?;
                let check =
                    |metadata: Option<&FileMetadata>| write_conditions_hold(&conditions, metadata);
                let check = (!conditions.is_empty()).then_some(&check as VersionCheck<'_>);
                let committed =
                    store.complete_parts(&upload, &target.key, &parts, attributes, check);
                committed.map_err(CompleteError::Store)
            })
            .await;
        drop(pause);
        match completed {
            Ok(committed) => Ok(self.completed_response(&committed.metadata)),
            Err(CompleteError::Refused(failure)) => Err(failure),
            // Another request has completed it meanwhile.
            Err(CompleteError::Store(StoreError::NotFound)) => {
                self.completed_before(S3ErrorCode::NoSuchUpload.into())
                    .await
            }
            Err(CompleteError::Store(error)) => {
                Err(self.write_failure(self.store_failure(&error)).await)
            }
        }
    }

    /// The response to a request that is repeated, since its first response was lost.
    async fn completed_before(&self, failure: S3Failure) -> Result<ServeResponse, S3Failure> {
        let Ok(object) = self.open_object().await else {
            return Err(failure);
        };
        let attributes = object.metadata().attributes.as_deref();
        let id = attributes.and_then(|found| found.upload_id.as_deref());
        if id.is_some() && id == self.query.get("uploadId") {
            Ok(self.completed_response(object.metadata()))
        } else {
            Err(failure)
        }
    }

    fn completed_response(&self, metadata: &FileMetadata) -> ServeResponse {
        let mut document = XmlDocument::new("CompleteMultipartUploadResult");
        document.text("Location", &format!("/{}/{}", self.bucket(), self.key()));
        document.text("Bucket", self.bucket());
        document.text("Key", self.key());
        document.text("ETag", &format!("\"{}\"", object_etag(metadata)));
        if let Some(attributes) = &metadata.attributes {
            write_checksum(&mut document, attributes);
        }
        document_response(document)
    }
}
