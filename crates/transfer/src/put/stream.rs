//! Standard input: read into parts in memory, of which a few are sent at a time.
//!
//! A stream cannot be read twice, so each part stays in memory until the store has it, and no later run can go on. A short one is one
//! request.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use haul_digest::{Crc64Nvme, DigestSet};
use haul_net::RequestBody;
use haul_plan::Checksum;
use haul_s3::{MultipartUpload, StoredObject, UploadedPart, checksum_field};
use tokio::task::JoinSet;

use super::context::UploadContext;
use super::error::PutError;
use super::file_part::finished;
use super::multipart_requests::{abort_failed, complete, create};
use super::options::UploadOutcome;
use super::part_plan::{PartPlanError, StreamPartPlan};
use super::single_request::{algorithms, expected, sent_checksums};

/// Parts in memory at a time: those that are sent, and one that is read. Of larger parts there are fewer.
const MAX_PARTS_IN_MEMORY: usize = 4;

/// Bytes of parts in memory, but for one part.
const MAX_BYTES_IN_MEMORY: u64 = 64 << 20;

/// Uploads standard input.
pub(super) async fn upload(context: &UploadContext) -> Result<UploadOutcome, PutError> {
    let options = &context.state.options;
    let plan = StreamPartPlan::new(options.stream_bytes, options.part_bytes).map_err(unusable)?;
    let first = read_part(context, plan.part_bytes()).await?;
    if (first.len() as u64) < plan.part_bytes() {
        return upload_whole(context, first).await;
    }
    let upload = Arc::new(create(context).await?);
    match Box::pin(upload_parts(context, &upload, plan, first)).await {
        Ok(outcome) => Ok(outcome),
        Err(error) => {
            abort_failed(context, &upload).await;
            Err(error)
        }
    }
}

/// Why no parts hold the stream.
fn unusable(source: PartPlanError) -> PutError {
    PutError::Parts {
        path: "standard input".into(),
        source,
    }
}

async fn upload_whole(context: &UploadContext, bytes: Bytes) -> Result<UploadOutcome, PutError> {
    let stored = context
        .with_md5_fallback(|| send_whole(context, &bytes))
        .await?;
    context.sent.add(bytes.len() as u64);
    Ok(outcome(context, stored, bytes.len() as u64, 0))
}

async fn send_whole(context: &UploadContext, bytes: &Bytes) -> Result<StoredObject, PutError> {
    let (_, checksums) = checksums_of(context, bytes);
    let mut headers = context.object_headers(checksums.iter().filter_map(checksum_field));
    headers.extend(context.job.conditions.clone());
    let client = &context.state.client;
    let expected = expected(bytes.len() as u64, checksums);
    let stored = expected.publish(context, None, || {
        client.put_object(&context.target, body_of(bytes), headers.clone())
    });
    stored.await
}

fn outcome(
    context: &UploadContext,
    stored: StoredObject,
    bytes: u64,
    parts: usize,
) -> UploadOutcome {
    UploadOutcome {
        target: context.job.target.clone(),
        bytes,
        resumed: 0,
        elapsed: context.started.elapsed(),
        etag: stored.etag,
        checksums: stored.checksums,
        version_id: stored.version_id,
        parts: u32::try_from(parts).unwrap_or(u32::MAX),
    }
}

async fn upload_parts(
    context: &UploadContext,
    upload: &Arc<MultipartUpload>,
    plan: StreamPartPlan,
    first: Bytes,
) -> Result<UploadOutcome, PutError> {
    let (mut next, mut number, mut total) = (first, 1, 0);
    let mut crc = Crc64Nvme::new().finish();
    let mut running: JoinSet<Result<UploadedPart, PutError>> = JoinSet::new();
    let (mut parts, mut in_memory) = (Vec::new(), 0);
    loop {
        let length = next.len() as u64;
        plan.check(number, length).map_err(unusable)?;
        if length > 0 {
            let (part_crc, checksums) = checksums_of(context, &next);
            crc = Crc64Nvme::combine(crc, part_crc, length);
            (total, in_memory) = (total + length, in_memory + length);
            let (context, upload) = (context.clone(), Arc::clone(upload));
            running.spawn(async move {
                Box::pin(send_part(&context, &upload, number, next, checksums)).await
            });
        }
        let is_last = length < plan.part_bytes();
        number += 1;
        let wanted = plan.bytes_to_read(number);
        while !running.is_empty()
            && (is_last
                || running.len() >= MAX_PARTS_IN_MEMORY
                || in_memory + wanted > MAX_BYTES_IN_MEMORY)
        {
            let part = match running.join_next().await {
                Some(Ok(part)) => part?,
                Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
                None => break,
            };
            in_memory -= part.size;
            parts.push(part);
        }
        if is_last {
            break;
        }
        next = read_part(context, wanted).await?;
    }
    parts.sort_by_key(|part| part.number);
    let stored = complete(context, upload, &parts, (total, crc)).await?;
    Ok(outcome(context, stored, total, parts.len()))
}

async fn send_part(
    context: &UploadContext,
    upload: &MultipartUpload,
    number: u32,
    bytes: Bytes,
    checksums: Vec<Checksum>,
) -> Result<UploadedPart, PutError> {
    let client = &context.state.client;
    let sent = context
        .send_with_slot(|| client.upload_part(upload, number, body_of(&bytes), &checksums))
        .await?;
    context.sent.add(bytes.len() as u64);
    Ok(UploadedPart { checksums, ..sent })
}

fn body_of(bytes: &Bytes) -> RequestBody {
    if bytes.is_empty() {
        RequestBody::Empty
    } else {
        RequestBody::Bytes(bytes.clone())
    }
}

/// The CRC-64/NVME of bytes, and the checksums that go out with them.
fn checksums_of(context: &UploadContext, bytes: &[u8]) -> (u64, Vec<Checksum>) {
    let (mut crc, mut digests) = (Crc64Nvme::new(), DigestSet::new(algorithms(context)));
    crc.update(bytes);
    digests.update(bytes);
    let crc = crc.finish();
    (crc, sent_checksums(crc, finished(digests)))
}

/// Reads a part, or less at the end, on a thread that may wait for the writer.
async fn read_part(context: &UploadContext, size: u64) -> Result<Bytes, PutError> {
    let read = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        io::stdin().lock().take(size).read_to_end(&mut bytes)?;
        Ok::<_, io::Error>(Bytes::from(bytes))
    });
    tokio::select! {
        biased;
        () = context.stop.cancelled() => Err(context.interrupted()),
        read = read => match read {
            Ok(bytes) => bytes.map_err(|error| PutError::local("read", "standard input", error)),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        },
    }
}
