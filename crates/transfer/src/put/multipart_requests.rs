//! The requests about an upload in parts as a whole, be it of a file or a stream: it begins, is published, or is removed; and whether a
//! server at a plain URL takes them.

use std::time::Duration;

use haul_net::FetchRequest;
use haul_plan::DigestAlgorithm;
use haul_plan::upload::HTTP_MULTIPART_HEADER;
use haul_s3::{MultipartUpload, StoredObject, UploadedPart, checksum_field};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::context::{UploadContext, UploadState};
use super::error::PutError;
use super::expected_object::{ExpectedObject, multipart_etag};
use super::file_part::crc64nvme_checksum;
use crate::bucket::retrying;
use crate::recovery::RequestRetries;
use crate::warning::TransferWarning;

/// How long a server may take to say whether it takes parts.
const OPTIONS_TIMEOUT: Duration = Duration::from_secs(10);

/// The most bytes of a file that the server takes in parts. `None` if it takes none: a server need not know OPTIONS, or answer it.
pub(super) async fn multipart_limit(state: &UploadState, url: &Url) -> Option<u64> {
    let request = FetchRequest {
        method: Method::OPTIONS,
        ..FetchRequest::get(url)
    };
    let fetching = Box::pin(state.client.http().fetch(request));
    let response = tokio::time::timeout(OPTIONS_TIMEOUT, fetching)
        .await
        .ok()?
        .ok()?;
    let limit = response.headers.get(HTTP_MULTIPART_HEADER);
    let limit = limit.and_then(|limit| limit.to_str().ok()?.parse().ok());
    response.discard().await;
    limit
}

pub(super) async fn create(context: &UploadContext) -> Result<MultipartUpload, PutError> {
    let client = &context.state.client;
    let create = || {
        let algorithm = context.multipart_algorithm();
        context.send_with_slot(move || {
            let headers = context.job.headers.clone();
            client.create_multipart_upload(&context.target, algorithm, headers)
        })
    };
    context.with_md5_fallback(create).await
}

/// Publishes the object. `whole` is its length and its CRC-64/NVME.
pub(super) async fn complete(
    context: &UploadContext,
    upload: &MultipartUpload,
    parts: &[UploadedPart],
    whole: (u64, u64),
) -> Result<StoredObject, PutError> {
    let (size, crc) = whole;
    let mut headers = context.job.conditions.clone();
    headers.extend(completion_headers(context, crc));
    let client = &context.state.client;
    let expected = ExpectedObject {
        size,
        checksums: vec![crc64nvme_checksum(crc)],
        etag: multipart_etag(parts),
    };
    let completed = expected.publish(context, Some(upload), || {
        client.complete_multipart_upload(upload, parts, headers.clone())
    });
    completed.await
}

/// The checksum of the whole, for the store to compare.
fn completion_headers(context: &UploadContext, crc: u64) -> HeaderMap {
    if context.multipart_algorithm() != Some(DigestAlgorithm::Crc64Nvme) {
        return HeaderMap::new();
    }
    let kind = (
        HeaderName::from_static("x-amz-checksum-type"),
        HeaderValue::from_static("FULL_OBJECT"),
    );
    checksum_field(&crc64nvme_checksum(crc))
        .into_iter()
        .chain([kind])
        .collect()
}

/// Aborts an upload that failed. Returns whether nothing is left; else the user reads what.
pub(super) async fn abort_failed(context: &UploadContext, upload: &MultipartUpload) -> bool {
    let Err(left) = abort(&context.state, upload).await else {
        return true;
    };
    let warning = TransferWarning::PartsLeft {
        upload_id: upload.upload_id.clone(),
        error: left.to_string(),
    };
    context.warn(warning).await;
    false
}

/// Aborts an upload until the store knows no part of it: a part that was under way may arrive after an abort (row F13).
pub(super) async fn abort(state: &UploadState, upload: &MultipartUpload) -> Result<(), PutError> {
    let left = || PutError::PartsLeft {
        target: upload.address.clone(),
        upload_id: upload.upload_id.clone(),
    };
    if let Some(url) = upload.address.http_url()
        && multipart_limit(state, &url).await.is_none()
    {
        // To a server that no longer speaks S3 the request would mean the file.
        return Err(left());
    }
    // It ends what was stopped, so it is not stopped itself; a second signal ends the process.
    let never = CancellationToken::new();
    let retry = &state.options.retry;
    let (mut rounds, started) = (RequestRetries::new(retry.clone()), Instant::now());
    loop {
        let aborted = retrying(retry, &never, || {
            state.client.abort_multipart_upload(upload)
        })
        .await;
        match aborted.map_err(PutError::from) {
            Ok(()) => {}
            Err(PutError::Store(error)) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        }
        let listed = retrying(retry, &never, || state.client.list_parts(upload)).await;
        match listed.map_err(PutError::from) {
            Ok(parts) if parts.is_empty() => return Ok(()),
            Ok(_) => {}
            Err(PutError::Store(error)) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        }
        let Some(wait) = rounds.on_failure(started.elapsed(), None, true, rand::random()) else {
            return Err(left());
        };
        tokio::time::sleep(wait).await;
    }
}
