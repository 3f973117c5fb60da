//! An object of the same store: the store copies it, and no byte of it passes through haul.
//!
//! One request copies up to 5 GiB, with metadata and tags. A larger object is copied in parts, and the new object gets its metadata and tags
//! when that begins. Every request names the entity tag of the source, so that parts of two versions never meet (row F14). Where a store
//! lists objects without entity tags, one more request asks for it.

use std::sync::Arc;

use haul_s3::{CopySource, MultipartUpload, ObjectMetadata, StoredObject, UploadedPart};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::task::JoinSet;

use super::context::UploadContext;
use super::error::PutError;
use super::expected_object::{ExpectedObject, multipart_etag};
use super::multipart_requests::abort_failed;
use super::options::{SourceObject, UploadOutcome};
use super::part_plan::{MAX_PART_BYTES, PartPlan};

/// The size of parts: some thousand of them make the largest object, and several are copied at a time.
const COPIED_PART_BYTES: u64 = 512 << 20;

/// The fields that say what an object is, beside its metadata.
const COPIED_FIELDS: [&str; 7] = [
    "content-type",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "expires",
    "x-amz-website-redirect-location",
];

/// Copies an object.
pub(super) async fn copy(
    context: &UploadContext,
    listed: &SourceObject,
) -> Result<UploadOutcome, PutError> {
    let source = &with_etag(context, listed).await?;
    let largest = context.state.options.part_bytes.unwrap_or(MAX_PART_BYTES);
    let copied = if source.size <= largest {
        copy_whole(context, source).await.map(|stored| (stored, 0))
    } else {
        Box::pin(copy_in_parts(context, source)).await
    };
    let (stored, parts) = copied.map_err(|error| match error {
        // There is no other condition than the version of the source.
        PutError::Condition { .. } => PutError::Changed {
            path: source.address.to_string().into(),
        },
        other => other,
    })?;
    Ok(UploadOutcome {
        target: context.job.target.clone(),
        bytes: source.size,
        resumed: 0,
        elapsed: context.started.elapsed(),
        etag: stored.etag,
        checksums: stored.checksums,
        version_id: stored.version_id,
        parts,
    })
}

/// The source with its entity tag, which some stores do not list.
async fn with_etag(
    context: &UploadContext,
    source: &SourceObject,
) -> Result<SourceObject, PutError> {
    if !source.etag.is_empty() {
        return Ok(source.clone());
    }
    let client = &context.state.client;
    let found = context
        .send_with_slot(|| client.head_object(&source.address))
        .await?;
    Ok(SourceObject {
        address: source.address.clone(),
        size: found.size,
        etag: found.etag,
    })
}

fn copy_source(source: &SourceObject) -> CopySource<'_> {
    CopySource {
        address: &source.address,
        if_match: Some(&source.etag),
    }
}

async fn copy_whole(
    context: &UploadContext,
    source: &SourceObject,
) -> Result<StoredObject, PutError> {
    let client = &context.state.client;
    let copied = context.send_with_slot(|| {
        let headers = context.job.headers.clone();
        client.copy_object(copy_source(source), &context.target, headers)
    });
    let stored = copied.await?;
    context.sent.add(source.size);
    Ok(stored)
}

async fn copy_in_parts(
    context: &UploadContext,
    source: &SourceObject,
) -> Result<(StoredObject, u32), PutError> {
    let wanted = context.state.options.part_bytes;
    let plan = match wanted {
        Some(_) => PartPlan::new(source.size, wanted),
        None => PartPlan::new(source.size, Some(COPIED_PART_BYTES))
            .or_else(|_| PartPlan::new(source.size, None)),
    };
    let plan = plan.map_err(|error| PutError::Parts {
        path: source.address.to_string().into(),
        source: error,
    })?;
    let client = &context.state.client;
    let metadata = context
        .send_with_slot(|| client.head_object(&source.address))
        .await?;
    let headers = headers_of_copy(context, source, &metadata).await?;
    let upload = context
        .send_with_slot(|| client.create_multipart_upload(&context.target, None, headers.clone()))
        .await?;
    let upload = Arc::new(upload);
    let copied = async {
        let parts = copy_parts(context, source, &upload, plan).await?;
        complete(context, source, &upload, &parts).await
    };
    match copied.await {
        Ok(stored) => Ok((stored, plan.count())),
        Err(error) => {
            abort_failed(context, &upload).await;
            Err(error)
        }
    }
}

/// What the source is, and what the user wants of the new object; the latter goes before.
async fn headers_of_copy(
    context: &UploadContext,
    source: &SourceObject,
    metadata: &ObjectMetadata,
) -> Result<HeaderMap, PutError> {
    let is_copied = |name: &HeaderName| {
        COPIED_FIELDS.contains(&name.as_str()) || name.as_str().starts_with("x-amz-meta-")
    };
    let fields = metadata.headers.iter();
    let mut headers: HeaderMap = fields
        .filter(|(name, _)| is_copied(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if metadata.headers.contains_key("x-amz-tagging-count") {
        let client = &context.state.client;
        let tags = context
            .send_with_slot(|| client.object_tagging(&source.address))
            .await?;
        if let Ok(tags) = HeaderValue::from_str(&tags) {
            headers.insert(HeaderName::from_static("x-amz-tagging"), tags);
        }
    }
    for (name, value) in &context.job.headers {
        headers.insert(name, value.clone());
    }
    Ok(headers)
}

async fn copy_parts(
    context: &UploadContext,
    source: &SourceObject,
    upload: &Arc<MultipartUpload>,
    plan: PartPlan,
) -> Result<Vec<UploadedPart>, PutError> {
    let mut waiting = (1..=plan.count()).peekable();
    let mut running = JoinSet::new();
    let mut parts = Vec::new();
    loop {
        tokio::select! {
            biased;
            Some(ended) = running.join_next() => {
                let part: Result<_, PutError> =
                    ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
                parts.push(part?);
            }
            slot = context.slot(), if waiting.peek().is_some() => {
                let (slot, Some(number)) = (slot?, waiting.next()) else { continue };
                let (context, source) = (context.clone(), source.clone());
                let (upload, range) = (Arc::clone(upload), plan.range(number));
                slot.activity().begin();
                running.spawn(async move {
                    let client = &context.state.client;
                    let copied = context.send_in_slot(slot, || {
                        client.upload_part_copy(&upload, number, copy_source(&source), range.clone())
                    });
                    let part = Box::pin(copied).await?;
                    context.sent.add(part.size);
                    Ok(part)
                });
            }
            else => break,
        }
    }
    parts.sort_by_key(|part| part.number);
    Ok(parts)
}

async fn complete(
    context: &UploadContext,
    source: &SourceObject,
    upload: &MultipartUpload,
    parts: &[UploadedPart],
) -> Result<StoredObject, PutError> {
    let client = &context.state.client;
    let expected = ExpectedObject {
        size: source.size,
        checksums: Vec::new(),
        etag: multipart_etag(parts),
    };
    let completed = expected.publish(context, Some(upload), || {
        client.complete_multipart_upload(upload, parts, HeaderMap::new())
    });
    completed.await
}
