//! Uploads in parts.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use haul_digest::{Crc32, Crc32c, Crc64Nvme, DigestSet, hex};
use haul_plan::DigestAlgorithm;
use http::header::{ETAG, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};

use super::S3Call;
use super::body_source::S3BodySource;
use super::buckets::write_owner;
use super::object_headers::{
    attributes_of_request, conditions_of, object_etag, write_conditions_hold,
};
use super::responses::document_response;
use super::uploads::MAX_UPLOAD;
use crate::http::error_response::{ServeResponse, empty_response};
use crate::http::put::{UploadError, UploadSource};
use crate::http::request_body::IncomingBody;
use crate::s3::xml::{CompletedPart, MAX_COMPLETE_DOCUMENT, XmlDocument, parse_complete_upload};
use crate::s3::{
    BodyExpectations, PayloadMode, S3ErrorCode, S3Failure, checksum_algorithm_of_name,
    checksum_element, checksum_field, checksum_name, iso_time,
};
use crate::store::{
    FileMetadata, ObjectAttributes, ObjectChecksum, ObjectPart, PartWriter, StoreError, StoredPart,
    StoredUpload, StoredUploadInfo,
};

/// Minimum bytes of all parts but the last.
const MIN_PART: u64 = 5 << 20;

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
        let (algorithm, is_composite) = self.wanted_checksum()?;
        let info = StoredUploadInfo {
            bucket: self.bucket().to_owned(),
            key: self.key().to_owned(),
            initiated: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs(),
            attributes: attributes_of_request(&self.headers)?,
            algorithm: checksum_name(algorithm).unwrap_or_default().to_owned(),
            is_composite,
        };
        self.existing_bucket().await?;
        let store = Arc::clone(&self.server().store);
        let begun = self.server().disk.write(move || store.begin_parts(&info));
        let id = begun.await.map_err(|error| self.store_failure(&error))?;
        let mut document = XmlDocument::new("InitiateMultipartUploadResult");
        document.text("Bucket", self.bucket());
        document.text("Key", self.key());
        document.text("UploadId", &id);
        let mut response = document_response(document);
        let kind = if is_composite {
            "COMPOSITE"
        } else {
            "FULL_OBJECT"
        };
        for (name, value) in [
            (
                "x-amz-checksum-algorithm",
                checksum_name(algorithm).unwrap_or_default(),
            ),
            ("x-amz-checksum-type", kind),
        ] {
            let value = HeaderValue::from_static(value);
            response
                .headers_mut()
                .insert(HeaderName::from_static(name), value);
        }
        Ok(response)
    }

    /// The checksum that the object will have, and whether it is that of the parts' checksums.
    fn wanted_checksum(&self) -> Result<(DigestAlgorithm, bool), S3Failure> {
        let text = |name: &str| self.headers.get(name).and_then(|value| value.to_str().ok());
        let invalid = |name, value: &str| {
            S3Failure::invalid_argument(name, value, "It is no checksum that an object can have.")
        };
        let name = "x-amz-checksum-algorithm";
        let algorithm = match text(name) {
            None => DigestAlgorithm::Crc64Nvme,
            Some(value) => checksum_algorithm_of_name(value).ok_or_else(|| invalid(name, value))?,
        };
        let can_combine = !matches!(algorithm, DigestAlgorithm::Sha1 | DigestAlgorithm::Sha256);
        let name = "x-amz-checksum-type";
        let is_composite = match text(name) {
            None => algorithm != DigestAlgorithm::Crc64Nvme,
            Some("FULL_OBJECT") if can_combine => false,
            Some("COMPOSITE") if algorithm != DigestAlgorithm::Crc64Nvme => true,
            Some(other) => return Err(invalid(name, other)),
        };
        Ok((algorithm, is_composite))
    }

    /// The upload of the request.
    async fn stored_upload(&self) -> Result<Arc<StoredUpload>, S3Failure> {
        let id = self.query.get("uploadId").unwrap_or_default().to_owned();
        let store = Arc::clone(&self.server().store);
        let found = self
            .server()
            .disk
            .run(move || store.stored_upload(&id))
            .await;
        let upload = found.map_err(|error| self.part_failure(&error))?;
        let info = upload.info();
        match info.bucket == self.bucket() && info.key == self.key() {
            true => Ok(upload),
            false => Err(S3ErrorCode::NoSuchUpload.into()),
        }
    }

    /// An error of the store about an upload in parts.
    fn part_failure(&self, error: &StoreError) -> S3Failure {
        match error {
            StoreError::NotFound => S3ErrorCode::NoSuchUpload.into(),
            other => self.store_failure(other),
        }
    }

    fn part_number(&self) -> Result<u16, S3Failure> {
        let text = self.query.get("partNumber").unwrap_or_default();
        let number = text
            .parse::<u16>()
            .ok()
            .filter(|number| (1..=10_000).contains(number));
        number.ok_or_else(|| {
            let message = "Part number must be an integer between 1 and 10000, inclusive";
            S3Failure::invalid_argument("partNumber", text, message)
        })
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
        if length > MAX_UPLOAD {
            return Err(S3ErrorCode::EntityTooLarge.into());
        }
        let upload = self.stored_upload().await?;
        let algorithm = upload_algorithm(&upload);
        let announced = expectations
            .checksum
            .as_ref()
            .map(crate::s3::AnnouncedChecksum::algorithm);
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

    async fn begin_part(
        &self,
        upload: &Arc<StoredUpload>,
        number: u16,
        length: u64,
    ) -> Result<PartWriter, S3Failure> {
        let (store, upload) = (Arc::clone(&self.server().store), Arc::clone(upload));
        let begun = self.server().disk.write(move || {
            let target = crate::ObjectKey::root()
                .child(b"part")
                .map_err(|_| StoreError::TooLong)?;
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
        let _pause = self.connection.timeouts.pause();
        let finished = self
            .server()
            .disk
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
            let writing = self.server().disk.write(move || {
                for chunk in &chunks {
                    writer.write(chunk)?;
                }
                Ok::<_, StoreError>(writer)
            });
            let next = read_chunks(&mut source, &mut left).await;
            let _pause = self.connection.timeouts.pause();
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
        if length > MAX_UPLOAD {
            return Err(S3ErrorCode::EntityTooLarge.into());
        }
        let mut writer = self.begin_part(&upload, number, length).await?;
        let algorithm = upload_algorithm(&upload);
        let copied = self.server().disk.write(move || {
            let mut digests = DigestSet::new([DigestAlgorithm::Md5, algorithm]);
            let mut buffer = vec![0; 1 << 20];
            let mut at = range.start;
            while at < range.end {
                let step = usize::try_from(range.end - at).unwrap_or(usize::MAX);
                let step = step.min(buffer.len());
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
        Ok(document_response(document))
    }

    pub(super) async fn abort_multipart_upload(&self) -> Result<ServeResponse, S3Failure> {
        let upload = self.stored_upload().await?;
        let store = Arc::clone(&self.server().store);
        let aborted = self.server().disk.write(move || store.abort_parts(&upload));
        aborted.await.map_err(|error| self.part_failure(&error))?;
        Ok(empty_response(StatusCode::NO_CONTENT))
    }

    pub(super) async fn complete_multipart_upload(
        &self,
        payload: PayloadMode,
        body: IncomingBody,
    ) -> Result<ServeResponse, S3Failure> {
        let target = self.stored_key()?;
        // Here they are about the object, and not about the document.
        let (of_object, of_document) = split_checksums(&self.headers);
        let expectations = BodyExpectations::parse(&of_document, payload)?;
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
        let store = Arc::clone(&self.server().store);
        let pause = self.connection.timeouts.pause();
        let completed = self.server().disk.write(move || {
            let stored = upload.parts().map_err(CompleteError::Store)?;
            let parts = chosen_parts(&listed, &stored).map_err(CompleteError::Refused)?;
            let attributes = completed_attributes(&upload, &parts);
            check_object(&of_object, &attributes).map_err(CompleteError::Refused)?;
            let check =
                |metadata: Option<&FileMetadata>| write_conditions_hold(&conditions, metadata);
            let check =
                (!conditions.is_empty()).then_some(&check as crate::store::VersionCheck<'_>);
            let committed = store.complete_parts(&upload, &target.key, &parts, attributes, check);
            committed.map_err(CompleteError::Store)
        });
        let completed = completed.await;
        drop(pause);
        match completed {
            Ok(committed) => Ok(self.completed_response(&committed.metadata)),
            Err(CompleteError::Refused(failure)) => Err(failure),
            // Another request has completed it meanwhile.
            Err(CompleteError::Store(StoreError::NotFound)) => {
                self.completed_before(S3ErrorCode::NoSuchUpload.into())
                    .await
            }
            Err(CompleteError::Store(error)) => Err(self.store_failure(&error)),
        }
    }

    /// The response to a request that is repeated, since its first response was lost.
    async fn completed_before(&self, failure: S3Failure) -> Result<ServeResponse, S3Failure> {
        let Ok(object) = self.open_object().await else {
            return Err(failure);
        };
        let attributes = object.metadata().attributes.as_deref();
        let id = attributes.and_then(|found| found.upload_id.as_deref());
        match id.is_some() && id == self.query.get("uploadId") {
            true => Ok(self.completed_response(object.metadata())),
            false => Err(failure),
        }
    }

    fn completed_response(&self, metadata: &FileMetadata) -> ServeResponse {
        let mut document = XmlDocument::new("CompleteMultipartUploadResult");
        document.text("Location", &format!("/{}/{}", self.bucket(), self.key()));
        document.text("Bucket", self.bucket());
        document.text("Key", self.key());
        document.text("ETag", &format!("\"{}\"", object_etag(metadata)));
        let attributes = metadata.attributes.as_deref();
        if let Some(checksum) = attributes.and_then(|found| found.checksum.as_ref())
            && let Some(algorithm) = checksum_algorithm_of_name(&checksum.algorithm)
            && let Some(element) = checksum_element(algorithm)
        {
            document.text(element, &checksum.value);
            let kinds = ["FULL_OBJECT", "COMPOSITE"];
            document.text("ChecksumType", kinds[usize::from(checksum.is_composite)]);
        }
        document_response(document)
    }

    pub(super) async fn list_parts(&self) -> Result<ServeResponse, S3Failure> {
        let upload = self.stored_upload().await?;
        let of_upload = Arc::clone(&upload);
        let parts = self.server().disk.run(move || of_upload.parts()).await;
        let parts = parts.map_err(|error| self.part_failure(&error))?;
        let number = |name: &str| {
            self.query
                .get(name)
                .and_then(|text| text.parse::<usize>().ok())
        };
        let (after, max) = (
            number("part-number-marker").unwrap_or(0),
            number("max-parts").unwrap_or(1000).min(1000),
        );
        let mut rest = parts
            .values()
            .filter(|part| usize::from(part.number) > after);
        let page: Vec<_> = rest.by_ref().take(max).collect();
        let is_truncated = max > 0 && rest.next().is_some();
        let mut document = XmlDocument::new("ListPartsResult");
        document.text("Bucket", self.bucket());
        document.text("Key", self.key());
        document.text("UploadId", upload.id());
        write_owner(&mut document, "Initiator");
        write_owner(&mut document, "Owner");
        document.text("StorageClass", "STANDARD");
        document.value("PartNumberMarker", after);
        if let Some(last) = page.last().filter(|_| is_truncated) {
            document.value("NextPartNumberMarker", last.number);
        }
        document.value("MaxParts", max);
        document.value("IsTruncated", is_truncated);
        document.text("ChecksumAlgorithm", &upload.info().algorithm);
        for part in page {
            document.open("Part");
            document.value("PartNumber", part.number);
            document.text("LastModified", &iso_time(time(part.modified)));
            document.text("ETag", &format!("\"{}\"", part.etag));
            document.value("Size", part.len);
            let algorithm = checksum_algorithm_of_name(&upload.info().algorithm);
            if let Some(element) = algorithm.and_then(checksum_element) {
                document.text(element, &part.checksum);
            }
            document.close();
        }
        Ok(document_response(document))
    }

    pub(super) async fn list_multipart_uploads(&self) -> Result<ServeResponse, S3Failure> {
        self.existing_bucket().await?;
        let store = Arc::clone(&self.server().store);
        let found = self.server().disk.run(move || store.stored_uploads()).await;
        let mut uploads = found.map_err(|error| self.part_failure(&error))?;
        let prefix = self.query.get("prefix").unwrap_or_default();
        let marker = (
            self.query.get("key-marker").unwrap_or_default(),
            self.query.get("upload-id-marker").unwrap_or_default(),
        );
        let position = |upload: &StoredUpload| (upload.info().key.clone(), upload.id().to_owned());
        uploads.retain(|upload| {
            let (info, id) = (upload.info(), upload.id());
            let is_after = match marker.1 {
                "" => info.key.as_str() > marker.0 || marker.0.is_empty(),
                _ => (info.key.as_str(), id) > marker,
            };
            info.bucket == self.bucket() && info.key.starts_with(prefix) && is_after
        });
        uploads.sort_by_key(|upload| position(upload));
        let max = self
            .query
            .get("max-uploads")
            .and_then(|text| text.parse().ok());
        let max = max.unwrap_or(1000_usize).min(1000);
        let is_truncated = uploads.len() > max;
        uploads.truncate(max);
        let mut document = XmlDocument::new("ListMultipartUploadsResult");
        document.text("Bucket", self.bucket());
        document.text("KeyMarker", marker.0);
        document.text("UploadIdMarker", marker.1);
        if let Some(last) = uploads.last().filter(|_| is_truncated) {
            document.text("NextKeyMarker", &last.info().key);
            document.text("NextUploadIdMarker", last.id());
        }
        document.text("Prefix", prefix);
        document.value("MaxUploads", max);
        document.value("IsTruncated", is_truncated);
        for upload in &uploads {
            document.open("Upload");
            document.text("Key", &upload.info().key);
            document.text("UploadId", upload.id());
            write_owner(&mut document, "Initiator");
            write_owner(&mut document, "Owner");
            document.text("StorageClass", "STANDARD");
            document.text("Initiated", &iso_time(time(upload.info().initiated)));
            document.close();
        }
        Ok(document_response(document))
    }
}

/// Why an upload was not completed.
#[derive(Debug)]
enum CompleteError {
    Refused(S3Failure),
    Store(StoreError),
}

/// Header fields with checksums, and the others.
fn split_checksums(headers: &HeaderMap) -> (HeaderMap, HeaderMap) {
    let fields = headers
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()));
    fields.partition(|(name, _)| {
        let name = name.as_str();
        name.starts_with("x-amz-checksum-") || name == "x-amz-sdk-checksum-algorithm"
    })
}

/// Compares the checksum that a client expects of the object with that of its parts.
fn check_object(expected: &HeaderMap, found: &ObjectAttributes) -> Result<(), S3Failure> {
    let Some(checksum) = &found.checksum else {
        return Ok(());
    };
    let field = checksum_algorithm_of_name(&checksum.algorithm).and_then(checksum_field);
    let value = field.and_then(|field| expected.get(field)?.to_str().ok());
    // Some clients write a composite one without the number of parts.
    let bare = checksum.value.split('-').next().unwrap_or_default();
    match value {
        Some(value) if value != checksum.value && value != bare => {
            let message = "The checksum you specified did not match that of the parts.";
            Err(S3Failure::with_message(S3ErrorCode::BadDigest, message))
        }
        _ => Ok(()),
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

/// The parts that a client lists, as they are stored.
fn chosen_parts(
    listed: &[CompletedPart],
    stored: &std::collections::BTreeMap<u16, StoredPart>,
) -> Result<Vec<StoredPart>, S3Failure> {
    if !listed.is_sorted_by(|one, next| one.number < next.number) {
        return Err(S3ErrorCode::InvalidPartOrder.into());
    }
    let mut parts = Vec::with_capacity(listed.len());
    for (at, wanted) in listed.iter().enumerate() {
        let invalid = || {
            S3Failure::new(S3ErrorCode::InvalidPart)
                .element("PartNumber", wanted.number.to_string())
                .element("ETag", &wanted.etag)
        };
        let part = stored.get(&wanted.number).ok_or_else(invalid)?;
        let is_same_length = |text: &str| text.len() == part.checksum.len();
        let has_other_checksum = wanted.checksums.iter().any(|checksum| {
            let text = STANDARD.encode(checksum.digest.as_deref().unwrap_or_default());
            is_same_length(&text) && text != part.checksum
        });
        if part.etag != wanted.etag || has_other_checksum {
            return Err(invalid());
        }
        if at + 1 < listed.len() && part.len < MIN_PART {
            return Err(S3Failure::new(S3ErrorCode::EntityTooSmall)
                .element("PartNumber", wanted.number.to_string())
                .element("ProposedSize", part.len.to_string())
                .element("MinSizeAllowed", MIN_PART.to_string()));
        }
        parts.push(part.clone());
    }
    Ok(parts)
}

/// The attributes of a complete object: its entity tag and checksum are made of those of its parts.
fn completed_attributes(upload: &StoredUpload, parts: &[StoredPart]) -> ObjectAttributes {
    let md5 = parts
        .iter()
        .flat_map(|part| from_hex(&part.etag))
        .collect::<Vec<u8>>();
    let etag = digest_of(DigestAlgorithm::Md5, &md5);
    let info = upload.info();
    let part = |part: &StoredPart| ObjectPart {
        number: part.number,
        len: part.len,
        checksum: Some(part.checksum.clone()),
    };
    ObjectAttributes {
        etag: format!("{}-{}", hex(&etag), parts.len()),
        checksum: object_checksum(info, parts),
        parts: parts.iter().map(part).collect(),
        upload_id: Some(upload.id().to_owned()),
        ..info.attributes.clone()
    }
}

fn object_checksum(info: &StoredUploadInfo, parts: &[StoredPart]) -> Option<ObjectChecksum> {
    let algorithm = checksum_algorithm_of_name(&info.algorithm)?;
    let digests: Vec<(Vec<u8>, u64)> = parts
        .iter()
        .map(|part| Some((STANDARD.decode(&part.checksum).ok()?, part.len)))
        .collect::<Option<_>>()?;
    let value = match info.is_composite {
        true => {
            let all = digests
                .into_iter()
                .flat_map(|(digest, _)| digest)
                .collect::<Vec<u8>>();
            format!(
                "{}-{}",
                STANDARD.encode(digest_of(algorithm, &all)),
                parts.len()
            )
        }
        false => {
            let mut digests = digests.into_iter();
            let (first, _) = digests.next()?;
            let whole = digests.try_fold(first, |sum, (next, len)| {
                combine(algorithm, &sum, &next, len)
            });
            STANDARD.encode(whole?)
        }
    };
    Some(ObjectChecksum {
        algorithm: info.algorithm.clone(),
        value,
        is_composite: info.is_composite,
    })
}

/// The CRC of two runs of bytes, from theirs; the second one has `len` bytes.
fn combine(algorithm: DigestAlgorithm, first: &[u8], second: &[u8], len: u64) -> Option<Vec<u8>> {
    let small = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.try_into().ok()?));
    let large = |bytes: &[u8]| Some(u64::from_be_bytes(bytes.try_into().ok()?));
    Some(match algorithm {
        DigestAlgorithm::Crc32 => Crc32::combine(small(first)?, small(second)?, len)
            .to_be_bytes()
            .to_vec(),
        DigestAlgorithm::Crc32c => Crc32c::combine(small(first)?, small(second)?, len)
            .to_be_bytes()
            .to_vec(),
        DigestAlgorithm::Crc64Nvme => Crc64Nvme::combine(large(first)?, large(second)?, len)
            .to_be_bytes()
            .to_vec(),
        _ => return None,
    })
}

fn digest_of(algorithm: DigestAlgorithm, bytes: &[u8]) -> Vec<u8> {
    let mut digests = DigestSet::new([algorithm]);
    digests.update(bytes);
    digests
        .finish()
        .pop()
        .map(|computed| computed.digest.to_vec())
        .unwrap_or_default()
}

fn from_hex(text: &str) -> Vec<u8> {
    let checksum = format!("md5:{text}").parse::<haul_plan::Checksum>().ok();
    checksum
        .and_then(|checksum| checksum.digest)
        .unwrap_or_default()
}

/// The range of a source: `bytes=FIRST-LAST`, both within it.
fn copied_range(text: &str, len: u64) -> Result<std::ops::Range<u64>, S3Failure> {
    let range = text
        .strip_prefix("bytes=")
        .and_then(|range| range.split_once('-'));
    let range = range
        .and_then(|(first, last)| Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()?)));
    match range {
        Some((first, last)) if first <= last && last < len => Ok(first..last + 1),
        _ => {
            let message = format!("Range specified is not valid for source object of size: {len}");
            Err(S3Failure::invalid_argument(
                "x-amz-copy-source-range",
                text,
                message,
            ))
        }
    }
}

fn upload_algorithm(upload: &StoredUpload) -> DigestAlgorithm {
    let algorithm = checksum_algorithm_of_name(&upload.info().algorithm);
    algorithm.unwrap_or(DigestAlgorithm::Crc64Nvme)
}

fn time(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}
