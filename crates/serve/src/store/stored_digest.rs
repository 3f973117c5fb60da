//! The digest of an upload, kept beside its bytes.
//!
//! When a client says what its bytes must hash to, and they do, that is worth keeping: later answers carry it, and the entity tag can
//! be made of it. It is an extended attribute of the file, so that it moves with it and goes with it, and it names the version that it is
//! of, so that a file that somebody else wrote to afterwards has none. File systems without such attributes have no kept digests.

use std::os::fd::AsFd;

use haul_plan::Checksum;
use rustix::fs::XattrFlags;

use super::version::FileVersionId;

/// The attribute.
const DIGEST_ATTRIBUTE: &str = "user.haul.digest";

/// Bytes that it may have: a version and a SHA-512.
const MAX_ATTRIBUTE_BYTES: usize = 400;

/// The digest that is kept for this version of a file.
pub(super) fn read_stored_digest(file: impl AsFd, version: &FileVersionId) -> Option<Checksum> {
    let mut buffer = [0; MAX_ATTRIBUTE_BYTES];
    let length = rustix::fs::fgetxattr(file, DIGEST_ATTRIBUTE, &mut buffer).ok()?;
    let text = std::str::from_utf8(buffer.get(..length)?).ok()?;
    let (of, checksum) = text.split_once(';')?;
    let checksum: Checksum = checksum.parse().ok()?;
    (of == version.digest_binding() && checksum.digest.is_some()).then_some(checksum)
}

/// Keeps a digest for this version. Where that cannot be done there is none: it is no part of the file.
pub(super) fn store_digest(file: impl AsFd, version: &FileVersionId, checksum: &Checksum) {
    let hex = checksum.digest.as_deref().map(haul_digest::hex);
    let Some(hex) = hex else { return };
    let text = format!("{};{}:{hex}", version.digest_binding(), checksum.algorithm);
    if let Err(error) =
        rustix::fs::fsetxattr(file, DIGEST_ATTRIBUTE, text.as_bytes(), XattrFlags::empty())
    {
        tracing::debug!(%error, "a digest is not kept");
    }
}
