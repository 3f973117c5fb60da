//! A file that is one request: read for its checksum, sent, and compared with what the store says.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use haul_plan::{Checksum, DigestAlgorithm};
use haul_s3::{StoredObject, checksum_field};

use super::context::UploadContext;
use super::error::PutError;
use super::expected_object::ExpectedObject;
use super::file_part::{OpenFile, crc64nvme_checksum};
use super::options::UploadOutcome;
use crate::disk::blocking;

/// Uploads a file with one PutObject.
pub(super) async fn upload(
    context: &UploadContext,
    path: &Path,
    file: Arc<OpenFile>,
) -> Result<UploadOutcome, PutError> {
    let stored = context
        .with_md5_fallback(|| send(context, path, &file))
        .await?;
    let checksums = stored.checksums;
    Ok(UploadOutcome {
        target: context.job.target.clone(),
        bytes: file.snapshot.size,
        resumed: 0,
        elapsed: context.started.elapsed(),
        etag: stored.etag,
        checksums,
        version_id: stored.version_id,
        parts: 0,
    })
}

async fn send(
    context: &UploadContext,
    path: &Path,
    file: &Arc<OpenFile>,
) -> Result<StoredObject, PutError> {
    let range = 0..file.snapshot.size;
    let compute = || RangeDigests::compute(context, file, range.clone());
    let computed = if file.is_in_memory() {
        compute()
    } else {
        blocking(compute)
    };
    let digests = computed.map_err(|error| PutError::local("read", path, error))?;
    let checksums = digests.checksums;
    let mut headers = context.object_headers(checksums.iter().filter_map(checksum_field));
    headers.extend(context.job.conditions.clone());
    let client = &context.state.client;
    let expected = expected(range.end, checksums);
    let stored = expected
        .publish(context, None, || {
            context.sent.restart();
            let body = file.body(range.clone(), &context.sent, digests.sha256.clone());
            client.put_object(&context.target, body, headers.clone())
        })
        .await?;
    if !file.is_in_memory() {
        let is_unchanged = blocking(|| file.is_unchanged(path));
        if !is_unchanged.map_err(|error| PutError::local("read", path, error))? {
            return Err(PutError::ChangedAfterwards {
                path: path.to_owned(),
            });
        }
    }
    Ok(stored)
}

/// The object of one request. Its entity tag is the MD5 of its bytes, if the store tells it (row F7).
pub(super) fn expected(size: u64, checksums: Vec<Checksum>) -> ExpectedObject {
    let mut digests = checksums.iter();
    let md5 = digests.find(|checksum| checksum.algorithm == DigestAlgorithm::Md5);
    ExpectedObject {
        size,
        etag: md5.and_then(|md5| Some(haul_digest::hex(md5.digest.as_deref()?))),
        checksums,
    }
}

/// The digests of a range of a file that one request sends.
pub(super) struct RangeDigests {
    pub(super) crc64nvme: u64,
    /// Those in fields of the request.
    pub(super) checksums: Vec<Checksum>,
    /// The one that its signature covers, where it has to.
    pub(super) sha256: Option<Vec<u8>>,
}

impl RangeDigests {
    /// Reads the range. May wait for the disk.
    pub(super) fn compute(
        context: &UploadContext,
        file: &OpenFile,
        range: Range<u64>,
    ) -> io::Result<Self> {
        let mut algorithms = algorithms(context);
        // Of bytes in memory the signer computes it itself.
        let is_signed = context.state.client.signs_bodies() && !file.is_in_memory();
        let is_extra = is_signed && !algorithms.contains(&DigestAlgorithm::Sha256);
        if is_extra {
            algorithms.push(DigestAlgorithm::Sha256);
        }
        let (crc64nvme, mut others) = file.checksums(range, &algorithms)?;
        let is_sha256 = |checksum: &Checksum| checksum.algorithm == DigestAlgorithm::Sha256;
        let sha256 = others
            .iter()
            .find(|checksum| is_signed && is_sha256(checksum))
            .and_then(|checksum| checksum.digest.clone());
        others.retain(|checksum| !(is_extra && is_sha256(checksum)));
        Ok(Self {
            crc64nvme,
            checksums: sent_checksums(crc64nvme, others),
            sha256,
        })
    }
}

/// The checksums to compute beside CRC-64/NVME.
pub(super) fn algorithms(context: &UploadContext) -> Vec<DigestAlgorithm> {
    if context.is_without_checksums() {
        vec![DigestAlgorithm::Md5]
    } else {
        context.state.options.checksum.into_iter().collect()
    }
}

/// The checksums to send with the bytes. S3 accepts one algorithm, so CRC-64/NVME is sent only if no other was computed.
pub(super) fn sent_checksums(crc: u64, others: Vec<Checksum>) -> Vec<Checksum> {
    if others.is_empty() {
        vec![crc64nvme_checksum(crc)]
    } else {
        others
    }
}
