//! Compares contents by digests: a file is read, an object is asked for.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use haul_digest::DigestSet;
use haul_s3::S3Address;

use super::ObjectDigests;
use crate::bucket::{BucketError, StoreSession};

/// Bytes that are read at a time.
const CHUNK: usize = 256 << 10;

/// Why contents cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// A file cannot be read.
    #[error("cannot read it")]
    File(#[from] io::Error),
    /// The store does not say what is asked.
    #[error(transparent)]
    Store(#[from] BucketError),
}

/// What the store says about the content of an object.
///
/// # Errors
/// The store refused, or could not be reached.
pub(super) async fn object_digests(
    session: &StoreSession,
    object: &S3Address,
) -> Result<ObjectDigests, BucketError> {
    let head = session.request(|| session.client.head_object(object));
    let found = head.await?;
    let has_key = |name: &str| found.headers.contains_key(name);
    let is_encrypted = has_key("x-amz-server-side-encryption-aws-kms-key-id")
        || has_key("x-amz-server-side-encryption-customer-algorithm")
        || found
            .headers
            .get("x-amz-server-side-encryption")
            .is_some_and(|kind| kind.as_bytes().starts_with(b"aws:"));
    Ok(ObjectDigests {
        checksums: found.checksums,
        entity_tag: found.etag,
        is_encrypted,
    })
}

/// Whether a file has the content that a store says an object has; false if the store says nothing that follows from the bytes. Reads
/// the file, so it is for a thread that may wait.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn file_has_content(path: &Path, object: &ObjectDigests) -> io::Result<bool> {
    let Some(checksum) = object.content_checksum() else {
        return Ok(false);
    };
    let mut digests = DigestSet::new([checksum.algorithm]);
    let mut file = File::open(path)?;
    let mut buffer = vec![0; CHUNK];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => digests.update(&buffer[..read]),
        }
    }
    let computed = digests.finish().pop().map(|computed| computed.digest);
    Ok(computed == checksum.digest)
}
