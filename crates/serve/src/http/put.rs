//! Uploads: from the request body to the store (RFC 9110 9.3.4, 13, 14.5; RFC 9530).
//!
//! A small body that has arrived completely is created, written and committed by one task on a
//! blocking thread. A larger one is read in portions: the next portion is read while one is
//! written. If a request ends before its body is complete, the upload is discarded and nobody ever
//! sees it.
//!
//! `request` holds what the head asks for, `body` reads the body.

mod body;
mod request;

use std::sync::Arc;

use body::UploadBody;
use bytes::Bytes;
use haul_plan::Checksum;
use haul_plan::serving::{ConditionOutcome, RequestConditions};
use http::StatusCode;

use super::error_response::{ServeResponse, empty_response, store_error_response, text_response};
use super::get::{current_representation, insert_version_headers};
use super::request_body::IncomingBody;
use crate::ObjectKey;
use crate::connection::ConnectionState;
use crate::observe::BodyRefusal;
use crate::page::DisplaySize;
use crate::store::{CachedLookup, CommittedUpload, DiskThreads, FileMetadata, StoreError, Upload};

pub use body::UploadSource;
pub use request::{ObjectUpload, UploadRequest};

/// Bytes that are read before anything is done on the disk.
const FIRST_READ: usize = 64 << 10;

/// Bytes that are read for one write.
const WRITE_SIZE: usize = 512 << 10;

/// Why an upload failed.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The body ended early or is malformed.
    #[error("the body ended early")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The body is longer than the server allows.
    #[error("the body is longer than allowed")]
    TooLong,
}

impl UploadError {
    /// Adds the body's length, if the head declares it, to an error about the quota.
    fn with_length(self, length: Option<u64>) -> Self {
        match self {
            Self::Store(StoreError::OverQuota { room, needed: None }) => {
                let needed = length;
                Self::Store(StoreError::OverQuota { room, needed })
            }
            other => other,
        }
    }
}

/// Stores a request's body.
pub(crate) async fn respond(
    connection: Arc<ConnectionState>,
    request: UploadRequest,
    body: IncomingBody,
) -> ServeResponse {
    let (key, max_bytes, length) = (request.key.clone(), request.max_bytes, request.length);
    match store_upload(&connection, request, body).await {
        Ok(put) => committed_response(&put),
        Err(error) => {
            upload_error_response(&connection, &error.with_length(length), &key, max_bytes)
        }
    }
}

/// The response to an upload that failed; counts the failure too.
pub(crate) fn upload_error_response(
    connection: &ConnectionState,
    error: &UploadError,
    key: &ObjectKey,
    max_bytes: u64,
) -> ServeResponse {
    let metrics = &connection.server.options.metrics;
    match error {
        UploadError::Store(error) => {
            match error {
                StoreError::OverQuota { .. } => metrics.count_refused_body(BodyRefusal::Quota),
                StoreError::NoSpace => metrics.count_refused_body(BodyRefusal::DiskFull),
                StoreError::DigestMismatch(_) => metrics.count_refused_body(BodyRefusal::Digest),
                _ => {}
            }
            match error {
                // Missing folders are created, so only a link in the path can cause this.
                StoreError::NotFound => {
                    let text = "the path contains a symbolic link that leads nowhere or out of the served folder";
                    text_response(StatusCode::NOT_FOUND, text)
                }
                StoreError::OverQuota { room, needed } => text_response(
                    StatusCode::INSUFFICIENT_STORAGE,
                    over_quota_text(*room, *needed),
                ),
                error => store_error_response(&connection.server, error, key),
            }
        }
        UploadError::TooLong => {
            metrics.count_refused_body(BodyRefusal::TooLarge);
            body_too_long_response(max_bytes)
        }
        // The body is incomplete because it timed out.
        UploadError::Broken(_) if connection.timeouts.has_expired() => slow_body_response(),
        UploadError::Broken(error) => {
            metrics.count_refused_body(BodyRefusal::Short);
            tracing::debug!(%key, %error, "an upload failed because its body ended early");
            text_response(
                StatusCode::BAD_REQUEST,
                "the body ended early or is malformed",
            )
        }
    }
}

fn committed_response(put: &CommittedUpload) -> ServeResponse {
    let status = if put.replaced {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::CREATED
    };
    let mut response = empty_response(status);
    insert_version_headers(&put.metadata, response.headers_mut());
    response
}

/// The response to a body that timed out.
pub(crate) fn slow_body_response() -> ServeResponse {
    let text = "the body arrived too slowly or not at all, and the server has stopped waiting";
    text_response(StatusCode::REQUEST_TIMEOUT, text)
}

fn body_too_long_response(max_bytes: u64) -> ServeResponse {
    text_response(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("this server accepts bodies of up to {max_bytes} bytes"),
    )
}

/// What the quota leaves and what the upload needs, in units that people read; in bytes if both
/// would look alike.
fn over_quota_text(room: u64, needed: Option<u64>) -> String {
    let [left, wanted] =
        [Some(room), needed].map(|bytes| bytes.map(|bytes| DisplaySize(bytes).to_string()));
    let is_close = left == wanted;
    let shown = |bytes: u64| {
        if is_close {
            format!("{bytes} bytes")
        } else {
            DisplaySize(bytes).to_string()
        }
    };
    let wanted = needed.map_or_else(
        || "this file has more".to_owned(),
        |needed| format!("this file has {}", shown(needed)),
    );
    match (room, needed) {
        (0, None) => "the server's quota is used up".to_owned(),
        (0, Some(_)) => format!("the server's quota is used up, and {wanted}"),
        (room, _) => format!(
            "the server's quota has room for a file of at most {} here, and {wanted}",
            shown(room)
        ),
    }
}

pub(crate) fn conditions_hold(conditions: &RequestConditions, meta: Option<&FileMetadata>) -> bool {
    conditions.evaluate_write(meta.map(current_representation)) == ConditionOutcome::Proceed
}

/// Stores what a source gives.
pub(crate) async fn store_upload(
    connection: &Arc<ConnectionState>,
    request: UploadRequest,
    source: impl UploadSource,
) -> Result<CommittedUpload, UploadError> {
    let (store, disk) = (
        Arc::clone(&connection.server.store),
        &connection.server.disk,
    );
    let _upload = connection.server.options.metrics.track_upload();
    request.run_precheck(connection).await?;
    let conditions_hold = request.condition_check();
    let UploadRequest {
        key,
        conditions,
        digests,
        max_bytes,
        object,
        ..
    } = request;
    let commit = UploadCommit::new(conditions, conditions_hold, object);
    let mut body = UploadBody::new(source, max_bytes);
    let mut chunks = body.read(FIRST_READ).await?;
    let mut guard = match store.try_begin_upload(&key, &digests) {
        CachedLookup::Ready(upload) => UploadGuard::new(upload?, disk),
        CachedLookup::WouldBlock if body.is_finished => {
            let all = move || {
                let mut upload = store.begin_upload(&key, digests)?;
                upload.accept(&chunks)?;
                upload.write(&mut chunks)?;
                commit.run(upload)
            };
            let _pause = connection.timeouts.pause();
            return Ok(disk.write(all).await?);
        }
        CachedLookup::WouldBlock => begin_on_disk(connection, key, digests).await?,
    };
    loop {
        guard.upload().accept(&chunks)?;
        let is_written = guard.upload().try_write(&mut chunks)?;
        if body.is_finished {
            if is_written
                && commit.is_plain()
                && let Some(done) = guard.try_commit()
            {
                return Ok(done?);
            }
            return finish_upload(connection, guard, chunks, commit).await;
        }
        if is_written {
            chunks = body.read(FIRST_READ).await?;
            continue;
        }
        let writing = disk.write(move || {
            guard.upload().write(&mut chunks)?;
            Ok::<_, StoreError>(guard)
        });
        // The next portion is read while this one is written.
        let next = body.read(WRITE_SIZE).await;
        let _pause = connection.timeouts.pause();
        guard = writing.await?;
        chunks = next?;
    }
}

/// Begins an upload on a thread that may wait.
async fn begin_on_disk(
    connection: &Arc<ConnectionState>,
    key: ObjectKey,
    digests: Vec<Checksum>,
) -> Result<UploadGuard, StoreError> {
    let (store, disk) = (
        Arc::clone(&connection.server.store),
        &connection.server.disk,
    );
    let _pause = connection.timeouts.pause();
    let upload = disk
        .write(move || store.begin_upload(&key, digests))
        .await?;
    Ok(UploadGuard::new(upload, disk))
}

/// Writes the rest and commits.
async fn finish_upload(
    connection: &Arc<ConnectionState>,
    mut guard: UploadGuard,
    mut chunks: Vec<Bytes>,
    commit: UploadCommit,
) -> Result<CommittedUpload, UploadError> {
    let end = move || {
        guard.upload().write(&mut chunks)?;
        commit.run(guard.take())
    };
    let _pause = connection.timeouts.pause();
    Ok(connection.server.disk.write(end).await?)
}

/// What is done with a complete upload.
struct UploadCommit {
    conditions: RequestConditions,
    conditions_hold: fn(&RequestConditions, Option<&FileMetadata>) -> bool,
    /// Of an object of S3.
    object: Option<ObjectUpload>,
}

impl UploadCommit {
    fn new(
        conditions: RequestConditions,
        conditions_hold: fn(&RequestConditions, Option<&FileMetadata>) -> bool,
        object: Option<ObjectUpload>,
    ) -> Self {
        Self {
            conditions,
            conditions_hold,
            object,
        }
    }

    /// Whether nothing needs a thread that may wait.
    fn is_plain(&self) -> bool {
        self.conditions.is_empty() && self.object.is_none()
    }

    fn run(self, mut upload: Upload) -> Result<CommittedUpload, StoreError> {
        if let Some(object) = self.object {
            upload.set_attributes((object.attributes)());
        }
        if self.conditions.is_empty() {
            upload.commit(None)
        } else {
            upload.commit(Some(&|meta| (self.conditions_hold)(&self.conditions, meta)))
        }
    }
}

/// Discards an unfinished upload on a thread that may block, wherever the guard is dropped.
pub(super) struct UploadGuard {
    /// `None` once the upload was taken.
    upload: Option<Box<Upload>>,
    disk: DiskThreads,
}

impl UploadGuard {
    pub(super) fn new(upload: Upload, disk: &DiskThreads) -> Self {
        Self {
            upload: Some(Box::new(upload)),
            disk: disk.clone(),
        }
    }

    #[expect(
        clippy::expect_used,
        reason = "it is given away by what consumes the holder's use of it"
    )]
    pub(super) fn upload(&mut self) -> &mut Upload {
        self.upload.as_mut().expect("it is held")
    }

    /// Takes the upload to commit it.
    #[expect(clippy::expect_used, reason = "the same")]
    pub(super) fn take(&mut self) -> Upload {
        *self.upload.take().expect("it is held")
    }

    /// Commits the upload if that needs no waiting.
    pub(super) fn try_commit(&mut self) -> Option<Result<CommittedUpload, StoreError>> {
        match self.take().try_commit() {
            Ok(done) => Some(done),
            Err(upload) => {
                self.upload = Some(upload);
                None
            }
        }
    }
}

impl Drop for UploadGuard {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take() {
            // The task starts at once; nothing needs to wait for it.
            drop(self.disk.run(move || drop(upload)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d6_a_full_store_says_how_much_room_is_left() {
        for (room, needed, says) in [
            (0, None, "quota is used up"),
            (0, Some(12), "is used up, and this file has 12 B"),
            (
                3 << 19,
                Some(2 << 30),
                "room for a file of at most 1.5 MiB here, and this file has 2.0 GiB",
            ),
            (
                1 << 20,
                Some((1 << 20) + 1),
                "room for a file of at most 1048576 bytes here, and this file has 1048577 bytes",
            ),
        ] {
            let text = over_quota_text(room, needed);
            assert!(text.ends_with(says), "{text}");
        }
    }
}
