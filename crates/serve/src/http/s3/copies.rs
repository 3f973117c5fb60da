//! Copies objects within the server.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use haul_digest::{DigestSet, hex};
use haul_plan::DigestAlgorithm;
use http::{HeaderMap, HeaderValue};

use super::object_headers::{
    attributes_of_request, conditions_of, object_etag, write_conditions_hold,
};
use super::responses::document_response;
use super::uploads::MAX_UPLOAD;
use super::{S3Call, StoredKey};
use crate::access::AccessRight;
use crate::http::error_response::ServeResponse;
use crate::s3::xml::XmlDocument;
use crate::s3::{S3ErrorCode, S3Failure, decode_path, iso_time};
use crate::store::{
    CommittedUpload, FileMetadata, FileStore, ObjectAttributes, ObjectChecksum, OpenObject,
    StoreError,
};

/// Bytes that are read and hashed at a time.
const COPY_SIZE: usize = 1 << 20;

/// Prefix of the conditions about the source.
const SOURCE_CONDITIONS: &str = "x-amz-copy-source-";

impl S3Call {
    pub(super) async fn copy_object(&self) -> Result<ServeResponse, S3Failure> {
        let target = self.stored_key()?;
        let (source_key, key) = self.copy_source_key()?;
        let (new_fields, new_tags) = (
            self.replaces("x-amz-metadata-directive"),
            self.replaces("x-amz-tagging-directive"),
        );
        if source_key.key == target.key && !new_fields && !new_tags {
            let message = "This copy request is illegal because it is trying to copy an object to itself \
                without changing the object's metadata, storage class, website redirect location or encryption attributes.";
            return Err(S3Failure::with_message(
                S3ErrorCode::InvalidRequest,
                message,
            ));
        }
        self.existing_bucket().await?;
        let source = self.open_source(&source_key, &key).await?;
        let found = source.metadata();
        if found.len > MAX_UPLOAD {
            let message = "The specified copy source is larger than the maximum allowable size for a copy source: 5368709120";
            return Err(S3Failure::with_message(
                S3ErrorCode::InvalidRequest,
                message,
            ));
        }
        if !write_conditions_hold(&self.source_conditions(), Some(found)) {
            return Err(S3ErrorCode::PreconditionFailed.into());
        }
        let mut attributes = attributes_of_request(&self.headers)?;
        let of_source = found.attributes.as_deref();
        if !new_fields {
            attributes.headers = of_source.map_or_else(Vec::new, |found| found.headers.clone());
        }
        if !new_tags {
            attributes.tags = of_source.map_or_else(Vec::new, |found| found.tags.clone());
        }
        let (store, conditions) = (
            Arc::clone(&self.server().store),
            conditions_of(&self.headers),
        );
        let copied = self.server().disk.write(move || {
            let check =
                |metadata: Option<&FileMetadata>| write_conditions_hold(&conditions, metadata);
            let check =
                (!conditions.is_empty()).then_some(&check as crate::store::VersionCheck<'_>);
            copy(&store, &source, &target, attributes, check)
        });
        let copied = copied.await.map_err(|error| self.store_failure(&error))?;
        let mut document = XmlDocument::new("CopyObjectResult");
        let modified = iso_time(copied.metadata.modified);
        document.text("LastModified", &modified.replace('Z', ".000Z"));
        document.text("ETag", &format!("\"{}\"", object_etag(&copied.metadata)));
        Ok(document_response(document))
    }

    /// The source of a copy, if it may be read; and its key as S3 has it.
    fn copy_source_key(&self) -> Result<(StoredKey, String), S3Failure> {
        let (bucket, key) = self.copy_source()?;
        match self.permissions.allows(AccessRight::Read, &bucket) {
            true => Ok((StoredKey::new(&bucket, &key)?, key)),
            false => Err(S3ErrorCode::AccessDenied.into()),
        }
    }

    /// Opens the source of a copy, if its conditions hold.
    pub(super) async fn open_copy_source(&self) -> Result<Arc<OpenObject>, S3Failure> {
        let (source_key, key) = self.copy_source_key()?;
        let source = self.open_source(&source_key, &key).await?;
        match write_conditions_hold(&self.source_conditions(), Some(source.metadata())) {
            true => Ok(source),
            false => Err(S3ErrorCode::PreconditionFailed.into()),
        }
    }

    /// Whether a directive says that what the source has is replaced.
    fn replaces(&self, field: &str) -> bool {
        let directive = self.headers.get(field);
        directive.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"REPLACE"))
    }

    async fn open_source(
        &self,
        source: &StoredKey,
        key: &str,
    ) -> Result<Arc<OpenObject>, S3Failure> {
        match self.open_stored(source).await {
            Ok(object) if !source.is_folder => Ok(object),
            Ok(_) | Err(StoreError::NotFound | StoreError::IsFolder | StoreError::Conflict) => {
                Err(S3Failure::new(S3ErrorCode::NoSuchKey).element("Key", key))
            }
            Err(error) => Err(self.store_failure(&error)),
        }
    }

    /// The bucket and the key that a copy is made of.
    fn copy_source(&self) -> Result<(String, String), S3Failure> {
        let value = self.headers.get("x-amz-copy-source");
        let value = value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let invalid = || {
            let message =
                "Copy Source must mention the source bucket and key: sourcebucket/sourcekey";
            S3Failure::invalid_argument("x-amz-copy-source", value, message)
        };
        let (path, version) = value.split_once('?').unwrap_or((value, ""));
        let version = version.strip_prefix("versionId=").unwrap_or(version);
        if !matches!(version, "" | "null") {
            return Err(S3ErrorCode::NoSuchVersion.into());
        }
        let path = decode_path(path)?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        let (bucket, key) = path.split_once('/').ok_or_else(invalid)?;
        match bucket.is_empty() || key.is_empty() {
            true => Err(invalid()),
            false => Ok((bucket.to_owned(), key.to_owned())),
        }
    }

    /// The conditions that the source must meet.
    fn source_conditions(&self) -> haul_plan::serving::RequestConditions {
        let conditions = self.headers.iter().filter_map(|(name, value)| {
            let name = name.as_str().strip_prefix(SOURCE_CONDITIONS)?;
            let name = http::HeaderName::try_from(name).ok()?;
            Some((name, value.clone()))
        });
        let conditions: HeaderMap<HeaderValue> = conditions.collect();
        conditions_of(&conditions)
    }
}

/// Copies a version of a file and hashes it on the way. Blocks.
fn copy(
    store: &Arc<FileStore>,
    source: &OpenObject,
    target: &StoredKey,
    mut attributes: ObjectAttributes,
    check: Option<crate::store::VersionCheck<'_>>,
) -> Result<CommittedUpload, StoreError> {
    let mut upload = store.begin_upload(&target.key, Vec::new())?;
    let mut digests = DigestSet::new([DigestAlgorithm::Md5, DigestAlgorithm::Crc64Nvme]);
    let mut offset = 0;
    loop {
        let mut buffer = vec![0; COPY_SIZE];
        let read = source.read(&mut buffer, offset)?;
        if read == 0 {
            break;
        }
        buffer.truncate(read);
        digests.update(&buffer);
        let mut chunks = [Bytes::from(buffer)];
        upload.accept(&chunks)?;
        upload.write(&mut chunks)?;
        offset += read as u64;
    }
    source.check_unchanged()?;
    for computed in digests.finish() {
        match computed.algorithm {
            DigestAlgorithm::Md5 => attributes.etag = hex(&computed.digest),
            _ => {
                attributes.checksum = Some(ObjectChecksum {
                    algorithm: "CRC64NVME".to_owned(),
                    value: STANDARD.encode(&computed.digest),
                    is_composite: false,
                });
            }
        }
    }
    upload.set_attributes(attributes);
    upload.commit(check)
}
