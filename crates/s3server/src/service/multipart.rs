//! Uploads in parts.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use haul_digest::{DigestSet, hex};
use haul_plan::DigestAlgorithm;
use haul_serve::dialect::{IncomingBody, ServeResponse, UploadError, UploadSource, empty_response};
use haul_serve::store::{PartWriter, StoreError, StoredPart, StoredUpload, StoredUploadInfo};
use http::StatusCode;
use http::header::{ETAG, HeaderName, HeaderValue};

use super::S3Call;
use super::body_source::S3BodySource;
use super::object_headers::attributes_of_request;
use super::responses::document_response;
use super::uploads::MAX_UPLOAD;
use crate::xml::XmlDocument;
use crate::{
    BodyExpectations, PayloadMode, S3ErrorCode, S3Failure, check_part_algorithm,
    checksum_algorithm_of_name, checksum_element, checksum_field, checksum_name, checksum_type,
    copied_range, iso_time, parse_part_number, upload_checksum,
};

/// Bytes that are read for one write.
const WRITE_SIZE: usize = 512 << 10;

impl S3Call {
    pub(super) async fn create_multipart_upload(&self) -> Result<ServeResponse, S3Failure> {
        let target = self.stored_key()?;
        if target.is_folder {
            let message = "A key that ends in a slash is a folder here, and has no bytes.";
            return Err(S3Failure::with_message(
                S3ErrorCode::InvalidRequest,
                message,
            ));
        }
        let checksum = upload_checksum(&self.headers)?;
        let algorithm = checksum_name(checksum.algorithm).unwrap_or_default();
        let info = StoredUploadInfo {
            bucket: self.bucket().to_owned(),
            key: self.key().to_owned(),
            initiated: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs(),
            attributes: attributes_of_request(&self.headers)?,
            algorithm: algorithm.to_owned(),
            is_composite: checksum.is_composite,
            has_default_checksum: checksum.is_default,
        };
        self.existing_bucket().await?;
        let store = Arc::clone(self.server().store());
        let begun = self.server().disk().write(move || store.begin_parts(&info));
        let id = begun.await.map_err(|error| self.store_failure(&error))?;
        let mut document = XmlDocument::new("InitiateMultipartUploadResult");
        document.text("Bucket", self.bucket());
        document.text("Key", self.key());
        document.text("UploadId", &id);
        let mut response = document_response(document);
        if !checksum.is_default {
            let fields = [
                ("x-amz-checksum-algorithm", algorithm),
                ("x-amz-checksum-type", checksum_type(checksum.is_composite)),
            ];
            for (name, value) in fields {
                let (name, value) = (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                );
                response.headers_mut().insert(name, value);
            }
        }
        Ok(response)
    }

    pub(super) async fn stored_upload(&self) -> Result<Arc<StoredUpload>, S3Failure> {
        let id = self.query.get("uploadId").unwrap_or_default().to_owned();
        let store = Arc::clone(self.server().store());
        let found = self
            .server()
            .disk()
            .run(move || store.stored_upload(&id))
            .await;
        let is_of_key = |upload: &StoredUpload| {
            upload.info().bucket == self.bucket() && upload.info().key == self.key()
        };
        match found {
            Ok(upload) if is_of_key(&upload) => Ok(upload),
            Ok(_) | Err(StoreError::NotFound) => {
                self.existing_bucket().await?;
                Err(S3ErrorCode::NoSuchUpload.into())
            }
            Err(error) => Err(self.store_failure(&error)),
        }
    }

    /// An error of the store about an upload in parts.
    pub(super) fn part_failure(&self, error: &StoreError) -> S3Failure {
        match error {
            StoreError::NotFound => S3ErrorCode::NoSuchUpload.into(),
            other => self.store_failure(other),
        }
    }

    fn part_number(&self) -> Result<u16, S3Failure> {
        parse_part_number(self.query.get("partNumber").unwrap_or_default())
    }

    pub(super) async fn upload_part(
        &self,
        payload: PayloadMode,
        body: IncomingBody,
    ) -> Result<ServeResponse, S3Failure> {
        let number = self.part_number()?;
        let expectations = BodyExpectations::parse(&self.headers, payload)?;
        let length = expectations
            .length
            .ok_or(S3ErrorCode::MissingContentLength)?;
        self.check_part_length(length)?;
        let upload = self.stored_upload().await?;
        let algorithm = upload_algorithm(&upload);
        let announced = expectations
            .checksum
            .as_ref()
            .map(crate::AnnouncedChecksum::algorithm);
        check_part_algorithm(announced, upload.info())?;
        let also = [DigestAlgorithm::Md5, algorithm];
        let (source, outcome) = S3BodySource::new(body, expectations, also);
        let writer = self.begin_part(&upload, number, length).await?;
        let written = Box::pin(self.write_part(writer, source, length)).await;
        let writer = written.map_err(|error| match error {
            UploadError::Store(error) => self.part_failure(&error),
            other => self.upload_failure(&other),
        })?;
        let digests = outcome.digests().ok_or(S3ErrorCode::IncompleteBody)?;
        let digest = |algorithm| digests.get(algorithm).unwrap_or_default();
        let etag = hex(digest(DigestAlgorithm::Md5));
        let checksum = STANDARD.encode(digest(algorithm));
        let part = self.finish_part(writer, etag, checksum).await?;
        let mut response = empty_response(StatusCode::OK);
        if let Ok(etag) = HeaderValue::try_from(format!("\"{}\"", part.etag)) {
            response.headers_mut().insert(ETAG, etag);
        }
        let shown = announced.unwrap_or(algorithm);
        if let (Some(field), Ok(value)) = (
            checksum_field(shown),
            HeaderValue::try_from(STANDARD.encode(digest(shown))),
        ) {
            response
                .headers_mut()
                .insert(HeaderName::from_static(field), value);
        }
        Ok(response)
    }

    /// Refuses what is more than a part, or more than the server takes at all.
    fn check_part_length(&self, length: u64) -> Result<(), S3Failure> {
        let max_body = self.server().options().max_body.unwrap_or(u64::MAX);
        if length <= MAX_UPLOAD.min(max_body) {
            Ok(())
        } else {
            Err(S3ErrorCode::EntityTooLarge.into())
        }
    }

    async fn begin_part(
        &self,
        upload: &Arc<StoredUpload>,
        number: u16,
        length: u64,
    ) -> Result<PartWriter, S3Failure> {
        let target = self.stored_key()?.key;
        let (store, upload) = (Arc::clone(self.server().store()), Arc::clone(upload));
        let begun = self.server().disk().write(move || {
            store.check_space(&target, length)?;
            upload.begin_part(number, length)
        });
        begun.await.map_err(|error| self.part_failure(&error))
    }

    async fn finish_part(
        &self,
        writer: PartWriter,
        etag: String,
        checksum: String,
    ) -> Result<StoredPart, S3Failure> {
        let _pause = self.context.pause_timeouts();
        let finished = self
            .server()
            .disk()
            .write(move || writer.finish(etag, checksum));
        finished.await.map_err(|error| self.part_failure(&error))
    }

    /// Writes the body of a part. The next bytes are read while some are written.
    async fn write_part(
        &self,
        mut writer: PartWriter,
        mut source: impl UploadSource,
        length: u64,
    ) -> Result<PartWriter, UploadError> {
        let mut left = length;
        let mut chunks = read_chunks(&mut source, &mut left).await?;
        while !chunks.is_empty() {
            let writing = self.server().disk().write(move || {
                for chunk in &chunks {
                    writer.write(chunk)?;
                }
                Ok::<_, StoreError>(writer)
            });
            let next = read_chunks(&mut source, &mut left).await;
            let _pause = self.context.pause_timeouts();
            writer = writing.await?;
            chunks = next?;
        }
        Ok(writer)
    }

    pub(super) async fn upload_part_copy(&self) -> Result<ServeResponse, S3Failure> {
        let number = self.part_number()?;
        let upload = self.stored_upload().await?;
        let source = self.open_copy_source().await?;
        let len = source.metadata().len;
        let range = match self.headers.get("x-amz-copy-source-range") {
            None => 0..len,
            Some(value) => copied_range(value.to_str().unwrap_or_default(), len)?,
        };
        let length = range.end - range.start;
        self.check_part_length(length)?;
        let mut writer = self.begin_part(&upload, number, length).await?;
        let algorithm = upload_algorithm(&upload);
        let has_default_checksum = upload.info().has_default_checksum;
        let copied = self.server().disk().write(move || {
            let mut digests = DigestSet::new([DigestAlgorithm::Md5, algorithm]);
            let mut buffer = vec![0; 1 << 20];
            let mut at = range.start;
            while at < range.end {
                let step = usize::try_from(range.end - at)
                    .unwrap_or(usize::MAX)
                    .min(buffer.len());
                let read = source.read(&mut buffer[..step], at)?;
                if read == 0 {
                    return Err(StoreError::Conflict);
                }
                digests.update(&buffer[..read]);
                writer.write(&buffer[..read])?;
                at += read as u64;
            }
            source.check_unchanged()?;
            let (mut etag, mut checksum) = (String::new(), String::new());
            for computed in digests.finish() {
                match computed.algorithm {
                    DigestAlgorithm::Md5 => etag = hex(&computed.digest),
                    _ => checksum = STANDARD.encode(&computed.digest),
                }
            }
            writer.finish(etag, checksum)
        });
        let part = copied.await.map_err(|error| self.part_failure(&error))?;
        let mut document = XmlDocument::new("CopyPartResult");
        document.text("LastModified", &iso_time(time(part.modified)));
        document.text("ETag", &format!("\"{}\"", part.etag));
        let element = checksum_element(algorithm).filter(|_| !has_default_checksum);
        if let Some(element) = element {
            document.text(element, &part.checksum);
        }
        Ok(document_response(document))
    }

    pub(super) async fn abort_multipart_upload(&self) -> Result<ServeResponse, S3Failure> {
        let upload = self.stored_upload().await?;
        let store = Arc::clone(self.server().store());
        let aborted = self
            .server()
            .disk()
            .write(move || store.abort_parts(&upload));
        aborted.await.map_err(|error| self.part_failure(&error))?;
        Ok(empty_response(StatusCode::NO_CONTENT))
    }
}

/// The next chunks of a body; none at its end.
async fn read_chunks(
    source: &mut impl UploadSource,
    left: &mut u64,
) -> Result<Vec<Bytes>, UploadError> {
    let (mut chunks, mut bytes) = (Vec::new(), 0);
    while bytes < WRITE_SIZE {
        let Some(chunk) = source.next_chunk().await? else {
            break;
        };
        // A part must stay in its slot.
        *left = left
            .checked_sub(chunk.len() as u64)
            .ok_or(UploadError::TooLong)?;
        bytes += chunk.len();
        chunks.push(chunk);
    }
    Ok(chunks)
}

fn upload_algorithm(upload: &StoredUpload) -> DigestAlgorithm {
    let algorithm = checksum_algorithm_of_name(&upload.info().algorithm);
    algorithm.unwrap_or(DigestAlgorithm::Crc64Nvme)
}

/// A moment, by its seconds since 1970.
pub(super) fn time(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}
