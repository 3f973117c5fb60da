//! Reads and deletes objects.

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use haul_plan::EntityTag;
use haul_plan::serving::{
    ConditionOutcome, CurrentRepresentation, RangeLimits, RangeSelection, select_ranges,
};
use haul_serve::RequestPath;
use haul_serve::dialect::{IncomingBody, ServeBody, ServeResponse, empty_response, media_type};
use haul_serve::store::{
    CachedLookup, FileMetadata, FileStore, OpenObject, StoreError, VersionCheck,
};
use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName,
    HeaderValue, LAST_MODIFIED, RANGE,
};
use http::{Method, StatusCode};

use super::object_headers::{
    conditions_of, field_of_response, object_etag, precondition_failed, write_conditions_hold,
};
use super::responses::{denied, document_response};
use super::uploads::{FOLDER_ETAG, insert_checksum};
use super::{S3Call, StoredKey};
use crate::xml::{MAX_DELETE_DOCUMENT, ObjectToDelete, XmlDocument, parse_delete};
use crate::{PayloadMode, S3ErrorCode, S3Failure, parse_part_number};

/// Parameters of a signed request that replace fields of the response.
const REPLACEABLE: [(&str, &str); 6] = [
    ("response-cache-control", "cache-control"),
    ("response-content-disposition", "content-disposition"),
    ("response-content-encoding", "content-encoding"),
    ("response-content-language", "content-language"),
    ("response-content-type", "content-type"),
    ("response-expires", "expires"),
];

impl S3Call {
    pub(super) async fn open_object(&self) -> Result<Arc<OpenObject>, S3Failure> {
        let target = self.stored_key()?;
        let failure = if target.is_folder {
            StoreError::NotFound
        } else {
            match self.open_stored(&target).await {
                Ok(object) => return Ok(object),
                Err(error) => error,
            }
        };
        self.missing(&failure).await
    }

    pub(super) async fn open_stored(
        &self,
        target: &StoredKey,
    ) -> Result<Arc<OpenObject>, StoreError> {
        let store = Arc::clone(self.server().store());
        match store.try_open_file(&target.key) {
            CachedLookup::Ready(found) => found,
            CachedLookup::WouldBlock => {
                let key = target.key.clone();
                self.server()
                    .disk()
                    .run(move || store.open_file(&key))
                    .await
            }
        }
    }

    /// Why an object is not there: perhaps its bucket is not.
    async fn missing<T>(&self, error: &StoreError) -> Result<T, S3Failure> {
        match error {
            StoreError::NotFound | StoreError::IsFolder | StoreError::Conflict => {
                self.existing_bucket().await?;
                Err(self.store_failure(&StoreError::NotFound))
            }
            other => Err(self.store_failure(other)),
        }
    }

    pub(super) async fn get_object(&self) -> Result<ServeResponse, S3Failure> {
        let target = self.stored_key()?;
        if target.is_folder {
            return self.get_folder(&target).await;
        }
        self.part_number_of_object()?;
        let object = self.open_object().await?;
        let metadata = object.metadata();
        let etag = EntityTag::new_strong(object_etag(metadata));
        let current = CurrentRepresentation {
            etag: Some(&etag),
            last_modified: Some(metadata.modified),
        };
        let conditions = conditions_of(&self.headers);
        match conditions.evaluate_read(current) {
            ConditionOutcome::Proceed => {}
            ConditionOutcome::NotModified => {
                let mut response = empty_response(StatusCode::NOT_MODIFIED);
                insert_version(response.headers_mut(), metadata, &etag);
                return Ok(response);
            }
            ConditionOutcome::PreconditionFailed => {
                return Err(precondition_failed(&self.headers, ""));
            }
        }
        let applies = conditions.range_applies(current, SystemTime::now());
        let range = self.requested_range(metadata, applies)?;
        let mut response = self.bytes_response(&object, range.clone());
        let headers = response.headers_mut();
        insert_version(headers, metadata, &etag);
        self.insert_object_headers(headers, &target, metadata)?;
        let wants_checksum = self.headers.get("x-amz-checksum-mode");
        if let (Some(attributes), Some(_), None) = (&metadata.attributes, wants_checksum, &range) {
            insert_checksum(headers, attributes);
        }
        Ok(response)
    }

    /// A folder as an object: it has no bytes.
    async fn get_folder(&self, target: &StoredKey) -> Result<ServeResponse, S3Failure> {
        let (store, key) = (Arc::clone(self.server().store()), target.key.clone());
        let found = self
            .server()
            .disk()
            .run(move || store.root().open_folder(&key).is_ok());
        if !found.await {
            return self.missing(&StoreError::NotFound).await;
        }
        self.range_of_field(0)?;
        let mut response = empty_response(StatusCode::OK);
        let headers = response.headers_mut();
        let content_type = HeaderValue::from_static("application/x-directory");
        headers.insert(CONTENT_TYPE, content_type);
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        headers.insert(ETAG, HeaderValue::from_static(FOLDER_ETAG));
        Ok(response)
    }

    /// The range that the request asks for, by its field or by a part's number; `None` is all.
    fn requested_range(
        &self,
        metadata: &FileMetadata,
        applies: bool,
    ) -> Result<Option<Range<u64>>, S3Failure> {
        if let Some(number) = self.part_number_of_object()? {
            return part_range(metadata, number).map(Some);
        }
        if applies {
            self.range_of_field(metadata.len)
        } else {
            Ok(None)
        }
    }

    /// The range that the field `Range` selects from an object of a length. In an empty object S3 refuses all but the last N bytes,
    /// while plain HTTP sends the file: AWS's clients request the first part of an object before they know its length, and know
    /// an empty one by the refusal.
    fn range_of_field(&self, len: u64) -> Result<Option<Range<u64>>, S3Failure> {
        let last_bytes = |value: &HeaderValue| value.as_bytes().starts_with(b"bytes=-");
        let length = if self.headers.get(RANGE).is_some_and(last_bytes) {
            len
        } else {
            len.max(1)
        };
        match select_ranges(&self.headers, length, &RangeLimits::default()) {
            RangeSelection::Single(range) if range.end <= len => Ok(Some(range)),
            RangeSelection::Single(_) | RangeSelection::Unsatisfiable => {
                Err(S3Failure::new(S3ErrorCode::InvalidRange)
                    .element("ActualObjectSize", len.to_string()))
            }
            // S3 sends no multipart bodies.
            RangeSelection::Whole | RangeSelection::Multiple(_) => Ok(None),
        }
    }

    /// The number of the part that the request asks for.
    fn part_number_of_object(&self) -> Result<Option<usize>, S3Failure> {
        let Some(text) = self.query.get("partNumber") else {
            return Ok(None);
        };
        if self.headers.contains_key(RANGE) {
            let message = "Cannot specify both Range header and partNumber query parameter";
            return Err(S3Failure::with_message(
                S3ErrorCode::InvalidRequest,
                message,
            ));
        }
        parse_part_number(text).map(|number| Some(usize::from(number)))
    }

    fn bytes_response(&self, object: &Arc<OpenObject>, range: Option<Range<u64>>) -> ServeResponse {
        let total = object.metadata().len;
        let sent = range.clone().unwrap_or(0..total);
        let length = sent.end - sent.start;
        let body = if self.method == Method::HEAD {
            ServeBody::empty()
        } else {
            self.context.file_body(object, sent.clone())
        };
        let mut response = ServeResponse::new(body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_LENGTH, length.into());
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if range.is_some() {
            let last = sent.end.saturating_sub(1);
            let text = format!("bytes {}-{last}/{total}", sent.start);
            if let Ok(value) = HeaderValue::try_from(text) {
                headers.insert(CONTENT_RANGE, value);
            }
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        response
    }

    /// Inserts the fields that are stored with the object, or that the request replaces.
    fn insert_object_headers(
        &self,
        headers: &mut HeaderMap,
        target: &StoredKey,
        metadata: &FileMetadata,
    ) -> Result<(), S3Failure> {
        headers.insert(CONTENT_TYPE, media_type(&target.key));
        if let Some(attributes) = &metadata.attributes {
            for (name, value) in &attributes.headers {
                insert_text(headers, name, &field_of_response(name, value));
            }
            let counts = [
                ("x-amz-tagging-count", attributes.tags.len()),
                ("x-amz-mp-parts-count", attributes.parts.len()),
            ];
            for (name, count) in counts {
                let is_shown = name != "x-amz-mp-parts-count" || self.query.contains("partNumber");
                if count > 0 && is_shown {
                    insert_text(headers, name, &count.to_string());
                }
            }
        }
        for (parameter, field) in REPLACEABLE {
            let Some(value) = self.query.get(parameter) else {
                continue;
            };
            if !self.is_signed {
                return Err(denied(
                    "Request specific response headers cannot be used for anonymous GET requests.",
                ));
            }
            insert_text(headers, field, value);
        }
        Ok(())
    }

    pub(super) async fn delete_object(&self) -> Result<ServeResponse, S3Failure> {
        let target = self.stored_key()?;
        self.existing_bucket().await?;
        let conditions = conditions_of(&self.headers);
        let store = Arc::clone(self.server().store());
        let deleted = self.server().disk().write(move || {
            let check =
                |metadata: Option<&FileMetadata>| write_conditions_hold(&conditions, metadata);
            let has_conditions = !conditions.is_empty();
            delete_stored(&store, &target, has_conditions.then_some(&check))
        });
        deleted.await.map_err(|error| self.store_failure(&error))?;
        Ok(empty_response(StatusCode::NO_CONTENT))
    }

    pub(super) async fn delete_objects(
        &self,
        payload: PayloadMode,
        body: IncomingBody,
    ) -> Result<ServeResponse, S3Failure> {
        let document = self
            .read_document(payload, body, MAX_DELETE_DOCUMENT)
            .await?;
        let request = parse_delete(&document)?;
        self.existing_bucket().await?;
        let (store, bucket) = (Arc::clone(self.server().store()), self.bucket().to_owned());
        let objects = request.objects;
        let results = self.server().disk().write(move || {
            let delete = |object: ObjectToDelete| {
                let result = delete_listed(&store, &bucket, &object);
                (object.key, result)
            };
            objects.into_iter().map(delete).collect::<Vec<_>>()
        });
        let mut document = XmlDocument::new("DeleteResult");
        for (key, result) in results.await {
            let failure = match result {
                Ok(()) if request.quiet => continue,
                Ok(()) => {
                    document.open("Deleted");
                    document.text("Key", &key);
                    document.close();
                    continue;
                }
                Err(ObjectDeleteError::Refused(failure)) => failure,
                Err(ObjectDeleteError::Store(error)) => self.store_failure(&error),
            };
            document.open("Error");
            document.text("Key", &key);
            document.text("Code", failure.code.as_str());
            document.text("Message", failure.message());
            document.close();
        }
        Ok(document_response(document))
    }
}

/// Why one of several objects was not deleted.
#[derive(Debug)]
enum ObjectDeleteError {
    Refused(S3Failure),
    Store(StoreError),
}

fn delete_listed(
    store: &FileStore,
    bucket: &str,
    object: &ObjectToDelete,
) -> Result<(), ObjectDeleteError> {
    let version = object.version_id.as_deref();
    if version.is_some_and(|version| !version.is_empty() && version != "null") {
        return Err(ObjectDeleteError::Refused(
            S3ErrorCode::NoSuchVersion.into(),
        ));
    }
    let target = StoredKey::new(bucket, &object.key).map_err(ObjectDeleteError::Refused)?;
    let etag = object.etag.as_deref();
    let check = |metadata: Option<&FileMetadata>| {
        etag.is_none_or(|etag| {
            metadata.is_some_and(|metadata| etag == "*" || object_etag(metadata) == etag)
        })
    };
    delete_stored(store, &target, etag.is_some().then_some(&check))
        .map_err(ObjectDeleteError::Store)
}

/// Deletes an object. One that is not there is deleted already.
fn delete_stored(
    store: &FileStore,
    target: &StoredKey,
    check: Option<VersionCheck<'_>>,
) -> Result<(), StoreError> {
    let deleted = if target.is_folder {
        store.delete_folder_object(&target.key)
    } else {
        let path = RequestPath {
            key: target.key.clone(),
            is_folder: false,
        };
        store.delete(&path, check)
    };
    match deleted {
        Ok(()) => {
            store.remove_empty_parents(&target.key, &target.bucket);
            Ok(())
        }
        Err(StoreError::NotFound | StoreError::IsFolder | StoreError::Conflict) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The range of a part. An object that was uploaded at once has one.
fn part_range(metadata: &FileMetadata, number: usize) -> Result<Range<u64>, S3Failure> {
    let parts = metadata
        .attributes
        .as_deref()
        .map_or(&[][..], |found| &found.parts);
    if parts.is_empty() && number == 1 {
        return Ok(0..metadata.len);
    }
    let part = parts
        .get(number - 1)
        .ok_or(S3ErrorCode::InvalidPartNumber)?;
    let start = parts[..number - 1].iter().map(|part| part.len).sum::<u64>();
    Ok(start..start + part.len)
}

fn insert_version(headers: &mut HeaderMap, metadata: &FileMetadata, etag: &EntityTag) {
    if let Ok(etag) = HeaderValue::try_from(etag.to_string()) {
        headers.insert(ETAG, etag);
    }
    insert_modified(headers, metadata);
}

pub(super) fn insert_modified(headers: &mut HeaderMap, metadata: &FileMetadata) {
    let modified = metadata.modified.min(SystemTime::now());
    if modified >= SystemTime::UNIX_EPOCH
        && let Ok(modified) = HeaderValue::try_from(httpdate::fmt_http_date(modified))
    {
        headers.insert(LAST_MODIFIED, modified);
    }
}

/// Inserts a field, unless its value cannot be one.
fn insert_text(headers: &mut HeaderMap, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (
        HeaderName::try_from(name),
        HeaderValue::from_bytes(value.as_bytes()),
    ) {
        headers.insert(name, value);
    }
}
