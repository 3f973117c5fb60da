//! What an upload's head asks for, and what can be said to it before its body comes.

use std::sync::Arc;

use haul_plan::serving::{RequestConditions, request_digests};
use haul_plan::{Checksum, ExpectedDigest};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, EXPECT};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::{SMALL, holds, too_long};
use crate::ObjectKey;
use crate::connection::ConnectionState;
use crate::http::FileServer;
use crate::http::error_response::{ErrorResponse, plain};
use crate::observe::BodyRefusal;
use crate::store::{CachedLookup, FileMetadata, StoreError};

/// Bytes of an upload for which it is looked whether the disk has room, before they come: so many that the look costs nothing beside them.
const MANY: u64 = 4 << 20;

/// What is found out before a body is asked for. Little that is on its way is sooner read than refused: that would end the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UploadPrecheck {
    /// Nothing.
    Nothing,
    /// What needs no disk: a visit to a thread that may wait is dear for each upload, and few are for a folder's name.
    WhatIsKnown,
    /// Everything: a condition is to be kept, there may be no room, or whoever sends it waits for a word (100-continue).
    Everything,
}

/// What is asked for.
#[derive(Debug)]
pub(crate) struct UploadRequest {
    /// Where it goes.
    pub(crate) key: ObjectKey,
    /// What must hold.
    pub(super) conditions: RequestConditions,
    /// What the bytes must hash to.
    pub(super) digests: Vec<Checksum>,
    /// Bytes that may come.
    pub(crate) most: u64,
    /// Bytes that will come, if its head says how many.
    pub(super) length: Option<u64>,
    /// Bytes that will come and for which it is to be seen whether there is room: they are many, or more than the quota has beside what is
    /// there.
    many: Option<u64>,
    /// What is found out before the body is asked for.
    first: UploadPrecheck,
}

impl UploadRequest {
    /// A key and nothing else.
    pub(crate) fn plainly(server: &FileServer, key: ObjectKey) -> Self {
        Self {
            key,
            conditions: RequestConditions::default(),
            digests: Vec::new(),
            most: server.options.max_body.unwrap_or(u64::MAX),
            length: None,
            many: None,
            first: UploadPrecheck::Nothing,
        }
    }

    /// The same, if nothing has the key.
    pub(crate) fn if_new(self) -> Self {
        Self {
            conditions: RequestConditions::if_absent(),
            ..self
        }
    }

    /// Reads a request's fields.
    ///
    /// # Errors
    /// The answer to one that cannot be done, before any of its body is asked for.
    pub(crate) fn new(
        line: &ConnectionState,
        key: ObjectKey,
        headers: &HeaderMap,
    ) -> Result<Self, ErrorResponse> {
        let server = &line.server;
        if headers.contains_key(CONTENT_RANGE) {
            let text = "a part of a file cannot be put: Content-Range is of no use here";
            return Err(plain(StatusCode::BAD_REQUEST, text).into());
        }
        if is_encoded(headers) {
            let text = "a file is kept as it is sent, and nothing beside it would say how it is encoded: \
                put it without Content-Encoding";
            return Err(plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into());
        }
        let digests = request_digests(headers)
            .map_err(|error| plain(StatusCode::BAD_REQUEST, error.to_string()))?;
        let most = server.options.max_body.unwrap_or(u64::MAX);
        let length = headers
            .get(CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > most) {
            server
                .options
                .metrics
                .count_refused_body(BodyRefusal::TooLarge);
            return Err(too_long(most).into());
        }
        let many = length.filter(|length| *length >= MANY || !server.store.fits_quota(*length));
        let conditions = RequestConditions::parse(headers);
        let is_large = length.is_none_or(|length| length > SMALL as u64);
        let first = match (headers.contains_key(EXPECT) || many.is_some(), is_large) {
            (true, _) => UploadPrecheck::Everything,
            (false, true) if !conditions.is_empty() => UploadPrecheck::Everything,
            (false, true) => UploadPrecheck::WhatIsKnown,
            (false, false) => UploadPrecheck::Nothing,
        };
        Ok(Self {
            key,
            conditions,
            digests: digests.into_iter().map(checksum).collect(),
            most,
            length,
            many,
            first,
        })
    }

    /// Looks whether the upload can come to anything before its body is asked for: nobody sends a gigabyte to learn that it was not wanted. What
    /// counts is the look at the end.
    ///
    /// # Errors
    /// When it cannot.
    pub(super) async fn look(&self, line: &Arc<ConnectionState>) -> Result<(), StoreError> {
        let store = Arc::clone(&line.server.store);
        match self.first {
            UploadPrecheck::Nothing => return Ok(()),
            UploadPrecheck::WhatIsKnown => {
                return match store.try_open_file(&self.key) {
                    CachedLookup::Ready(found) => is_possible(found.map(drop)),
                    CachedLookup::WouldBlock => Ok(()),
                };
            }
            UploadPrecheck::Everything => {}
        }
        let (key, conditions, many) = (self.key.clone(), self.conditions.clone(), self.many);
        let _pause = line.pause();
        let check = move || {
            if conditions.is_empty() {
                is_possible(store.open_file(&key).map(drop))?;
            } else {
                store.check(&key, &|meta: Option<&FileMetadata>| {
                    holds(&conditions, meta)
                })?;
            }
            many.map_or(Ok(()), |bytes| store.check_space(&key, bytes))
        };
        line.server.disk.run(check).await
    }
}

/// Whether a file can come to where this was found.
fn is_possible(found: Result<(), StoreError>) -> Result<(), StoreError> {
    match found {
        Err(error @ (StoreError::IsFolder | StoreError::Conflict)) => Err(error),
        // What cannot be read can be replaced nevertheless.
        _ => Ok(()),
    }
}

/// Whether what is sent is to be decoded by whoever gets it (RFC 9110 8.4).
fn is_encoded(headers: &HeaderMap) -> bool {
    let plain = |value: &HeaderValue| {
        let text = value.to_str().unwrap_or("?");
        let mut codings = text.split(',').map(str::trim);
        codings.all(|coding| coding.is_empty() || coding.eq_ignore_ascii_case("identity"))
    };
    !headers.get_all(CONTENT_ENCODING).iter().all(plain)
}

/// What is expected, as what the store compares with.
fn checksum(expected: ExpectedDigest) -> Checksum {
    Checksum {
        algorithm: expected.algorithm,
        digest: Some(expected.digest),
    }
}
