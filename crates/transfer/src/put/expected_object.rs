//! Whether an object at the store is the one that was sent: asked when the response to the last request was lost (row F2).

use haul_plan::DigestAlgorithm;
use haul_s3::{S3Error, StoredObject, UploadedPart};

use super::context::UploadContext;
use super::file_part::crc64nvme_in;

/// What the object must be if it is ours.
pub(super) struct ExpectedObject {
    pub(super) size: u64,
    /// The CRC-64/NVME, if haul has read the bytes.
    pub(super) crc: Option<u64>,
    /// Where there is no CRC-64 to compare: the entity tag, if it follows from the bytes.
    pub(super) etag: Option<String>,
}

impl ExpectedObject {
    /// Looks whether the object is there: `error` if it is not, or is another one.
    pub(super) async fn look_up(
        &self,
        context: &UploadContext,
        error: S3Error,
    ) -> Result<StoredObject, S3Error> {
        self.find(context).await?.ok_or(error)
    }

    /// The object that the store has, if it is this one.
    pub(super) async fn find(
        &self,
        context: &UploadContext,
    ) -> Result<Option<StoredObject>, S3Error> {
        let client = &context.state.client;
        let found = match client.head_object(&context.target).await {
            Err(error) if error.is_not_found() => return Ok(None),
            found => found?,
        };
        let is_ours = match (crc64nvme_in(&found.checksums), self.crc) {
            (Some(theirs), Some(crc)) => theirs == crc,
            _ => self.etag.as_ref() == Some(&found.etag),
        };
        Ok(
            (found.size == self.size && is_ours).then_some(StoredObject {
                etag: found.etag,
                checksums: found.checksums,
                version_id: found.version_id,
            }),
        )
    }
}

/// The entity tag that S3 gives an object of these parts: the MD5 of their MD5s (row F7).
pub(super) fn multipart_etag(parts: &[UploadedPart]) -> Option<String> {
    let mut digests = haul_digest::DigestSet::new([DigestAlgorithm::Md5]);
    for part in parts {
        let bytes: Option<Vec<u8>> = (0..part.etag.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(part.etag.get(at..at + 2)?, 16).ok())
            .collect();
        digests.update(&bytes.filter(|bytes| bytes.len() == 16)?);
    }
    let digest = digests.finish().pop()?.digest;
    Some(format!("{}-{}", haul_digest::hex(&digest), parts.len()))
}
