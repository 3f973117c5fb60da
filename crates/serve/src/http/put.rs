//! An upload: from the wire to the store (RFC 9110 9.3.4, 13, 14.5; RFC 9530).
//!
//! What comes whole in little is begun, written and committed by one visit to a thread that may wait. What is larger is gathered, and while one
//! load is written the next one comes. Whatever ends the request before its body is whole ends the upload: nobody ever sees it.
//!
//! What the head asks for is in `asked`, what gathers the body in `intake`; `held` is an upload that may be dropped at any moment.

mod body;
mod guard;
mod request;

use std::sync::Arc;

use bytes::Bytes;
use haul_plan::serving::{ConditionOutcome, RequestConditions};
use http::StatusCode;

use super::error_response::{ServeResponse, bare, of_store, plain};
use super::get::{current, version};
use super::request_body::RequestBody;
use crate::ObjectKey;
use crate::connection::ConnectionState;
use crate::observe::BodyRefusal;
use crate::page::DisplaySize;
use crate::store::{CachedLookup, CommittedUpload, FileMetadata, StoreError, Upload};
use body::UploadBody;
pub(crate) use body::UploadSource;
use guard::UploadGuard;
pub(crate) use request::UploadRequest;

/// Bytes up to which an upload is gathered before anything is done on the disk.
const SMALL: usize = 64 << 10;

/// Bytes that are gathered for one write.
const LOAD: usize = 512 << 10;

/// Why an upload came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    /// The store's reason.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The body broke off, or is no HTTP.
    #[error("the body broke off")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// More than a body may have.
    #[error("the body is longer than allowed")]
    TooLong,
}

impl UploadError {
    /// Of a body whose head says how long it is.
    fn of_length(self, length: Option<u64>) -> Self {
        match self {
            Self::Store(StoreError::OverQuota { room, needed: None }) => {
                let needed = length;
                Self::Store(StoreError::OverQuota { room, needed })
            }
            other => other,
        }
    }
}

/// Puts a request's body.
pub(crate) async fn answer(
    line: Arc<ConnectionState>,
    asked: UploadRequest,
    body: RequestBody,
) -> ServeResponse {
    let (key, most, length) = (asked.key.clone(), asked.most, asked.length);
    match put(&line, asked, body).await {
        Ok(put) => done(&put),
        Err(error) => failed(&line, &error.of_length(length), &key, most),
    }
}

/// The answer to an upload that came to nothing; also counts it.
pub(crate) fn failed(
    line: &ConnectionState,
    error: &UploadError,
    key: &ObjectKey,
    most: u64,
) -> ServeResponse {
    let metrics = &line.server.options.metrics;
    match error {
        UploadError::Store(error) => {
            match error {
                StoreError::OverQuota { .. } => metrics.count_refused_body(BodyRefusal::Quota),
                StoreError::NoSpace => metrics.count_refused_body(BodyRefusal::DiskFull),
                StoreError::DigestMismatch(_) => metrics.count_refused_body(BodyRefusal::Digest),
                _ => {}
            }
            match error {
                // What is missing is made: only where a link is on the way nothing can be.
                StoreError::NotFound => {
                    let text =
                        "on the way there is a link that leads nowhere, or out of what is served";
                    plain(StatusCode::NOT_FOUND, text)
                }
                StoreError::OverQuota { room, needed } => {
                    plain(StatusCode::INSUFFICIENT_STORAGE, over_quota(*room, *needed))
                }
                error => of_store(&line.server, error, key),
            }
        }
        UploadError::TooLong => {
            metrics.count_refused_body(BodyRefusal::TooLarge);
            too_long(most)
        }
        // What is wrong with it is that the rest did not come.
        UploadError::Broken(_) if line.is_tired() => too_slow(),
        UploadError::Broken(error) => {
            metrics.count_refused_body(BodyRefusal::Short);
            tracing::debug!(%key, %error, "an upload broke off");
            plain(
                StatusCode::BAD_REQUEST,
                "the body broke off, or is malformed",
            )
        }
    }
}

fn done(put: &CommittedUpload) -> ServeResponse {
    let status = if put.replaced {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::CREATED
    };
    let mut answer = bare(status);
    version(&put.metadata, answer.headers_mut());
    answer
}

/// A body that was given up.
pub(crate) fn too_slow() -> ServeResponse {
    let text = "the body came too slowly, or not at all: the server has waited for long enough";
    plain(StatusCode::REQUEST_TIMEOUT, text)
}

fn too_long(most: u64) -> ServeResponse {
    plain(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("this server takes bodies of up to {most} bytes (--max-body)"),
    )
}

/// What the quota leaves and what was wanted, as people read sizes; where that makes both look alike, to the byte.
fn over_quota(room: u64, needed: Option<u64>) -> String {
    let [left, wanted] =
        [Some(room), needed].map(|bytes| bytes.map(|bytes| DisplaySize(bytes).to_string()));
    let is_close = left == wanted;
    let shown = |bytes: u64| match is_close {
        true => format!("{bytes} bytes"),
        false => DisplaySize(bytes).to_string(),
    };
    let wanted = needed.map_or_else(
        || "this one has more".to_owned(),
        |needed| format!("this one has {}", shown(needed)),
    );
    match (room, needed) {
        (0, None) => "the server's quota (--quota) is used up".to_owned(),
        (0, Some(_)) => format!("the server's quota (--quota) is used up, and {wanted}"),
        (room, _) => format!(
            "the server's quota (--quota) has room for a file of at most {} here, and {wanted}",
            shown(room)
        ),
    }
}

/// Whether conditions hold for what is there.
pub(crate) fn holds(conditions: &RequestConditions, meta: Option<&FileMetadata>) -> bool {
    conditions.evaluate_write(meta.map(current)) == ConditionOutcome::Proceed
}

/// Puts what a source gives.
pub(crate) async fn put(
    line: &Arc<ConnectionState>,
    asked: UploadRequest,
    source: impl UploadSource,
) -> Result<CommittedUpload, UploadError> {
    let (store, disk) = (Arc::clone(&line.server.store), &line.server.disk);
    let _upload = line.server.options.metrics.track_upload();
    asked.look(line).await?;
    let UploadRequest {
        key,
        conditions,
        digests,
        most,
        ..
    } = asked;
    let mut intake = UploadBody::new(source, most);
    let mut load = intake.load(SMALL).await?;
    let mut held = match store.try_begin_upload(&key, &digests) {
        CachedLookup::Ready(upload) => UploadGuard::new(upload?, disk),
        CachedLookup::WouldBlock if intake.is_over => {
            let all = move || {
                let mut upload = store.begin_upload(&key, digests)?;
                upload.accept(&load)?;
                upload.write(&mut load)?;
                commit(upload, &conditions)
            };
            let _pause = line.pause();
            return Ok(disk.write(all).await?);
        }
        CachedLookup::WouldBlock => {
            let _pause = line.pause();
            UploadGuard::new(
                disk.write(move || store.begin_upload(&key, digests))
                    .await?,
                disk,
            )
        }
    };
    loop {
        held.upload().accept(&load)?;
        let is_written = held.upload().try_write(&mut load)?;
        if intake.is_over {
            if is_written
                && conditions.is_empty()
                && let Some(done) = held.commit_now()
            {
                return Ok(done?);
            }
            return end(line, held, load, conditions).await;
        }
        if is_written {
            load = intake.load(SMALL).await?;
            continue;
        }
        let writing = disk.write(move || {
            held.upload().write(&mut load)?;
            Ok::<_, StoreError>(held)
        });
        // The next load comes while this one is written.
        let next = intake.load(LOAD).await;
        let _pause = line.pause();
        held = writing.await?;
        load = next?;
    }
}

/// Writes what is left and commits.
async fn end(
    line: &Arc<ConnectionState>,
    mut held: UploadGuard,
    mut load: Vec<Bytes>,
    conditions: RequestConditions,
) -> Result<CommittedUpload, UploadError> {
    let end = move || {
        held.upload().write(&mut load)?;
        commit(held.give(), &conditions)
    };
    let _pause = line.pause();
    Ok(line.server.disk.write(end).await?)
}

fn commit(upload: Upload, conditions: &RequestConditions) -> Result<CommittedUpload, StoreError> {
    match conditions.is_empty() {
        true => upload.commit(None),
        false => upload.commit(Some(&|meta| holds(conditions, meta))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d6_a_full_store_says_what_there_is_room_for() {
        for (room, needed, says) in [
            (0, None, "quota (--quota) is used up"),
            (0, Some(12), "is used up, and this one has 12 B"),
            (
                3 << 19,
                Some(2 << 30),
                "room for a file of at most 1.5 MiB here, and this one has 2.0 GiB",
            ),
            (
                1 << 20,
                Some((1 << 20) + 1),
                "room for a file of at most 1048576 bytes here, and this one has 1048577 bytes",
            ),
        ] {
            let text = over_quota(room, needed);
            assert!(text.ends_with(says), "{text}");
        }
    }
}
