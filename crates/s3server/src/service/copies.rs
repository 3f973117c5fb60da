//! Copies objects within the server.

use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use haul_digest::{DigestSet, hex};
use haul_plan::serving::{ConditionOutcome, CurrentRepresentation, RequestConditions};
use haul_plan::{DigestAlgorithm, EntityTag};
use haul_serve::access::AccessRight;
use haul_serve::dialect::ServeResponse;
use haul_serve::store::{
    CommittedUpload, FileMetadata, FileStore, ObjectAttributes, ObjectChecksum, OpenObject,
    StoreError, VersionCheck,
};
use http::{HeaderMap, HeaderValue};

use super::object_headers::{
    attributes_of_request, conditions_of, object_etag, precondition_failed, write_checksum,
    write_conditions_hold,
};
use super::responses::document_response;
use super::uploads::{FOLDER_ETAG, MAX_UPLOAD};
use super::{S3Call, StoredKey};
use crate::xml::XmlDocument;
use crate::{
    S3ErrorCode, S3Failure, check_copy_to_itself, checksum_name, copied_algorithm, iso_time,
    parse_copy_source, replaces,
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
            replaces(&self.headers, "metadata")?,
            replaces(&self.headers, "tagging")?,
        );
        let is_to_itself = source_key.key == target.key && source_key.is_folder == target.is_folder;
        if is_to_itself && !new_fields && !new_tags {
            check_copy_to_itself(&self.headers)?;
        }
        let mut attributes = attributes_of_request(&self.headers)?;
        self.existing_bucket().await?;
        if source_key.is_folder || target.is_folder {
            return self.copy_folder(&source_key, target, &key).await;
        }
        let source = self.open_source(&source_key, &key).await?;
        let found = source.metadata();
        if found.len > MAX_UPLOAD {
            let message = "The specified copy source is larger than the maximum allowable size for a copy source: 5368709120";
            return Err(S3Failure::with_message(
                S3ErrorCode::InvalidRequest,
                message,
            ));
        }
        self.check_source(found)?;
        let of_source = found.attributes.as_deref();
        let algorithm = copied_algorithm(&self.headers, of_source)?;
        if !new_fields {
            attributes.headers = of_source.map_or_else(Vec::new, |found| found.headers.clone());
        }
        if !new_tags {
            attributes.tags = of_source.map_or_else(Vec::new, |found| found.tags.clone());
        }
        let (store, conditions) = (
            Arc::clone(self.server().store()),
            conditions_of(&self.headers),
        );
        let copied = self.server().disk().write(move || {
            let check =
                |metadata: Option<&FileMetadata>| write_conditions_hold(&conditions, metadata);
            let check = (!conditions.is_empty()).then_some(&check as VersionCheck<'_>);
            copy(&store, &source, &target, attributes, algorithm, check)
        });
        match copied.await {
            Ok(copied) => Ok(copied_response(&copied.metadata)),
            Err(error) => Err(self.write_failure(self.store_failure(&error)).await),
        }
    }

    /// Copies a folder as an object: it has no bytes, so nothing else can be one.
    async fn copy_folder(
        &self,
        source: &StoredKey,
        target: StoredKey,
        key: &str,
    ) -> Result<ServeResponse, S3Failure> {
        if !source.is_folder || !target.is_folder {
            if !source.is_folder {
                self.open_source(source, key).await?;
            }
            let message = "A key that ends in a slash is a folder here, and has no bytes: it can be copied to another \
                such key alone.";
            return Err(S3Failure::with_message(
                S3ErrorCode::InvalidRequest,
                message,
            ));
        }
        let (store, folder) = (Arc::clone(self.server().store()), source.key.clone());
        let copied = self.server().disk().write(move || {
            store
                .root()
                .open_folder(&folder)
                .map_err(|_| StoreError::NotFound)?;
            store.create_folder_object(&target.key)
        });
        match copied.await {
            Ok(()) => {
                let mut document = XmlDocument::new("CopyObjectResult");
                document.text("LastModified", &iso_time(SystemTime::now()));
                document.text("ETag", FOLDER_ETAG);
                Ok(document_response(document))
            }
            Err(StoreError::NotFound) => Err(self.no_such_source(source, key).await),
            Err(error) => Err(self.store_failure(&error)),
        }
    }

    /// The source of a copy, if it may be read; and its key as S3 has it.
    fn copy_source_key(&self) -> Result<(StoredKey, String), S3Failure> {
        let (bucket, key) = parse_copy_source(&self.headers)?;
        if self.permissions.allows(AccessRight::Read, &bucket) {
            Ok((StoredKey::new(&bucket, &key)?, key))
        } else {
            Err(S3ErrorCode::AccessDenied.into())
        }
    }

    /// Opens the source of a copy, if its conditions hold.
    pub(super) async fn open_copy_source(&self) -> Result<Arc<OpenObject>, S3Failure> {
        let (source_key, key) = self.copy_source_key()?;
        let source = self.open_source(&source_key, &key).await?;
        self.check_source(source.metadata())?;
        Ok(source)
    }

    async fn open_source(
        &self,
        source: &StoredKey,
        key: &str,
    ) -> Result<Arc<OpenObject>, S3Failure> {
        match self.open_stored(source).await {
            Ok(object) if !source.is_folder => Ok(object),
            Ok(_) | Err(StoreError::NotFound | StoreError::IsFolder | StoreError::Conflict) => {
                Err(self.no_such_source(source, key).await)
            }
            Err(error) => Err(self.store_failure(&error)),
        }
    }

    /// Why a source is not there: perhaps its bucket is not.
    async fn no_such_source(&self, source: &StoredKey, key: &str) -> S3Failure {
        let (store, bucket) = (Arc::clone(self.server().store()), source.bucket.clone());
        let found = self
            .server()
            .disk()
            .run(move || store.root().open_folder(&bucket).is_ok());
        if found.await {
            S3Failure::new(S3ErrorCode::NoSuchKey).element("Key", key)
        } else {
            S3Failure::new(S3ErrorCode::NoSuchBucket).element(
                "BucketName",
                source.bucket.to_string().trim_start_matches('/'),
            )
        }
    }

    /// Checks the conditions that the source must meet: those of a read.
    fn check_source(&self, metadata: &FileMetadata) -> Result<(), S3Failure> {
        let etag = EntityTag::new_strong(object_etag(metadata));
        let current = CurrentRepresentation {
            etag: Some(&etag),
            last_modified: Some(metadata.modified),
        };
        match self.source_conditions().evaluate_read(current) {
            ConditionOutcome::Proceed => Ok(()),
            _ => Err(precondition_failed(&self.headers, SOURCE_CONDITIONS)),
        }
    }

    /// The conditions that the source must meet.
    fn source_conditions(&self) -> RequestConditions {
        let conditions: HeaderMap<HeaderValue> = self
            .headers
            .iter()
            .filter_map(|(name, value)| {
                let name = name.as_str().strip_prefix(SOURCE_CONDITIONS)?;
                let name = http::HeaderName::try_from(name).ok()?;
                Some((name, value.clone()))
            })
            .collect();
        conditions_of(&conditions)
    }
}

fn copied_response(metadata: &FileMetadata) -> ServeResponse {
    let mut document = XmlDocument::new("CopyObjectResult");
    let modified = iso_time(metadata.modified);
    document.text("LastModified", &modified.replace('Z', ".000Z"));
    document.text("ETag", &format!("\"{}\"", object_etag(metadata)));
    if let Some(attributes) = &metadata.attributes {
        write_checksum(&mut document, attributes);
    }
    document_response(document)
}

/// Copies a version of a file and hashes it on the way. Blocks.
fn copy(
    store: &Arc<FileStore>,
    source: &OpenObject,
    target: &StoredKey,
    mut attributes: ObjectAttributes,
    algorithm: DigestAlgorithm,
    check: Option<VersionCheck<'_>>,
) -> Result<CommittedUpload, StoreError> {
    let mut upload = store.begin_upload(&target.key, Vec::new())?;
    let mut digests = DigestSet::new([DigestAlgorithm::Md5, algorithm]);
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
                    algorithm: checksum_name(algorithm).unwrap_or_default().to_owned(),
                    value: STANDARD.encode(&computed.digest),
                    is_composite: false,
                });
            }
        }
    }
    upload.set_attributes(attributes);
    upload.commit(check)
}
