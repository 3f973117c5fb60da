//! What an upload's head asks for, and what can be checked before its body is received.

use std::sync::Arc;

use haul_plan::serving::RequestConditions;
use haul_plan::{Checksum, ExpectedDigest};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, EXPECT};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::{FIRST_READ, body_too_long_response, conditions_hold};
use crate::ObjectKey;
use crate::connection::ConnectionState;
use crate::http::FileServer;
use crate::http::error_response::{ErrorResponse, text_response};
use crate::http::request_digests::request_digests;
use crate::observe::BodyRefusal;
use crate::store::{CachedLookup, FileMetadata, ObjectAttributes, StoreError};

/// The server checks the free space beforehand for uploads of at least this many bytes: the check
/// costs little in comparison.
const SPACE_CHECK_MIN: u64 = 4 << 20;

/// What is checked before the body is asked for. A small body that has been sent is read rather
/// than refused, since refusing it would end the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UploadPrecheck {
    /// Nothing.
    Skip,
    /// What needs no disk: a task on a blocking thread is expensive for each upload, and few
    /// uploads name a folder.
    CachedOnly,
    /// Everything: there is a condition, there may be no space, or the client waits for 100
    /// Continue.
    Full,
}

#[derive(Debug)]
pub struct UploadRequest {
    /// The key to store it under.
    pub(crate) key: ObjectKey,
    pub(super) conditions: RequestConditions,
    /// The expected digests of the body.
    pub(super) digests: Vec<Checksum>,
    /// Maximum bytes of the body.
    pub max_bytes: u64,
    /// The body's length, if the head declares it.
    pub(super) length: Option<u64>,
    /// The body's length, if the free space must be checked: it is large, or larger than the
    /// quota's unused rest.
    check_space_for: Option<u64>,
    /// What is checked before the body is asked for.
    precheck: UploadPrecheck,
    /// Of an object of S3.
    pub(super) object: Option<ObjectUpload>,
}

/// What is different about an object of S3.
pub struct ObjectUpload {
    /// Makes the attributes, once the whole body was read.
    pub attributes: Box<dyn FnOnce() -> ObjectAttributes + Send + Sync>,
    /// Whether conditions hold for a version: S3 has entity tags of its own.
    pub conditions_hold: fn(&RequestConditions, Option<&FileMetadata>) -> bool,
}

impl std::fmt::Debug for ObjectUpload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectUpload").finish_non_exhaustive()
    }
}

impl UploadRequest {
    /// An upload without conditions or digests.
    pub(crate) fn unconditional(server: &FileServer, key: ObjectKey) -> Self {
        Self {
            key,
            conditions: RequestConditions::default(),
            digests: Vec::new(),
            max_bytes: server.options.max_body.unwrap_or(u64::MAX),
            length: None,
            check_space_for: None,
            precheck: UploadPrecheck::Skip,
            object: None,
        }
    }

    /// The upload of an object of S3, whose body has this length. The flag says whether its client
    /// waits for 100 Continue.
    #[must_use]
    pub fn for_object(
        server: &FileServer,
        key: ObjectKey,
        (conditions, expects_continue): (RequestConditions, bool),
        length: u64,
        object: ObjectUpload,
    ) -> Self {
        let (check_space_for, precheck) =
            Self::precheck_for(server, Some(length), &conditions, expects_continue);
        Self {
            conditions,
            length: Some(length),
            check_space_for,
            precheck,
            object: Some(object),
            ..Self::unconditional(server, key)
        }
    }

    /// What is checked before the body is asked for.
    fn precheck_for(
        server: &FileServer,
        length: Option<u64>,
        conditions: &RequestConditions,
        expects_continue: bool,
    ) -> (Option<u64>, UploadPrecheck) {
        let check_space_for =
            length.filter(|length| *length >= SPACE_CHECK_MIN || !server.store.fits_quota(*length));
        let is_large = length.is_none_or(|length| length > FIRST_READ as u64);
        let precheck = match (expects_continue || check_space_for.is_some(), is_large) {
            (true, _) => UploadPrecheck::Full,
            (false, true) if !conditions.is_empty() => UploadPrecheck::Full,
            (false, true) => UploadPrecheck::CachedOnly,
            (false, false) => UploadPrecheck::Skip,
        };
        (check_space_for, precheck)
    }

    /// The same upload, if the key has no file yet.
    pub(crate) fn if_new(self) -> Self {
        Self {
            conditions: RequestConditions::if_absent(),
            ..self
        }
    }

    /// Parses a request's header fields.
    ///
    /// # Errors
    /// The response to a request that cannot succeed, before any of its body is asked for.
    pub(crate) fn new(
        server: &FileServer,
        key: ObjectKey,
        headers: &HeaderMap,
    ) -> Result<Self, ErrorResponse> {
        if headers.contains_key(CONTENT_RANGE) {
            let text = "a part of a file cannot be uploaded: PUT does not support Content-Range";
            return Err(text_response(StatusCode::BAD_REQUEST, text).into());
        }
        if has_content_coding(headers) {
            let text = "files are stored as they are sent, without a record of their encoding: \
                send it without Content-Encoding";
            return Err(text_response(StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into());
        }
        let digests = request_digests(headers)
            .map_err(|error| text_response(StatusCode::BAD_REQUEST, error.to_string()))?;
        let max_bytes = server.options.max_body.unwrap_or(u64::MAX);
        let length = headers
            .get(CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > max_bytes) {
            server
                .options
                .metrics
                .count_refused_body(BodyRefusal::TooLarge);
            return Err(body_too_long_response(max_bytes).into());
        }
        let conditions = RequestConditions::parse(headers);
        let expects_continue = headers.contains_key(EXPECT);
        let (check_space_for, precheck) =
            Self::precheck_for(server, length, &conditions, expects_continue);
        Ok(Self {
            key,
            conditions,
            digests: digests.into_iter().map(to_checksum).collect(),
            max_bytes,
            length,
            check_space_for,
            precheck,
            object: None,
        })
    }

    /// How conditions are compared with a version.
    pub(super) fn condition_check(&self) -> fn(&RequestConditions, Option<&FileMetadata>) -> bool {
        let object = self.object.as_ref();
        object.map_or(conditions_hold, |object| object.conditions_hold)
    }

    /// Checks before the body is asked for whether the upload can succeed, so that no client sends
    /// a gigabyte in vain. The check at the commit is the one that counts.
    ///
    /// # Errors
    /// When the upload cannot succeed.
    pub(super) async fn run_precheck(
        &self,
        connection: &Arc<ConnectionState>,
    ) -> Result<(), StoreError> {
        let store = Arc::clone(&connection.server.store);
        match self.precheck {
            UploadPrecheck::Skip => return Ok(()),
            UploadPrecheck::CachedOnly => {
                return match store.try_open_file(&self.key) {
                    CachedLookup::Ready(result) => is_creatable(result.map(drop)),
                    CachedLookup::WouldBlock => Ok(()),
                };
            }
            UploadPrecheck::Full => {}
        }
        let conditions_hold = self.condition_check();
        let (key, conditions, check_space_for) = (
            self.key.clone(),
            self.conditions.clone(),
            self.check_space_for,
        );
        let _pause = connection.timeouts.pause();
        let check = move || {
            if conditions.is_empty() {
                is_creatable(store.open_file(&key).map(drop))?;
            } else {
                store.check(&key, &|meta: Option<&FileMetadata>| {
                    conditions_hold(&conditions, meta)
                })?;
            }
            check_space_for.map_or(Ok(()), |bytes| store.check_space(&key, bytes))
        };
        connection.server.disk.run(check).await
    }
}

/// Whether a file can be created where this was found.
fn is_creatable(result: Result<(), StoreError>) -> Result<(), StoreError> {
    match result {
        Err(error @ (StoreError::IsFolder | StoreError::Conflict)) => Err(error),
        // A file that cannot be read can be replaced nevertheless.
        _ => Ok(()),
    }
}

/// Whether the body has a content coding (RFC 9110 8.4).
fn has_content_coding(headers: &HeaderMap) -> bool {
    let plain = |value: &HeaderValue| {
        let text = value.to_str().unwrap_or("?");
        let mut codings = text.split(',').map(str::trim);
        codings.all(|coding| coding.is_empty() || coding.eq_ignore_ascii_case("identity"))
    };
    !headers.get_all(CONTENT_ENCODING).iter().all(plain)
}

/// Converts an expected digest to the store's type.
fn to_checksum(expected: ExpectedDigest) -> Checksum {
    Checksum {
        algorithm: expected.algorithm,
        digest: Some(expected.digest),
    }
}
