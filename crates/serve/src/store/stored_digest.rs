//! The digest of an upload, stored with the file.
//!
//! If a client sends a digest and the body matches it, the digest is kept: later responses carry
//! it, and the entity tag can be derived from it. It is an extended attribute of the file, so it
//! moves and disappears with the file. It names the version that it belongs to, so a file that
//! another program wrote to afterwards has none. File systems without extended attributes store no
//! digests.

use std::os::fd::AsFd;

use haul_plan::Checksum;
use rustix::fs::XattrFlags;

use super::version::FileVersionId;

/// Name of the attribute.
const DIGEST_ATTRIBUTE: &str = "user.haul.digest";

/// Maximum bytes of its value: a version and a SHA-512.
const MAX_ATTRIBUTE_BYTES: usize = 400;

/// The stored digest, if it belongs to this version of the file.
pub(super) fn read_stored_digest(file: impl AsFd, version: &FileVersionId) -> Option<Checksum> {
    let mut buffer = [0; MAX_ATTRIBUTE_BYTES];
    let length = rustix::fs::fgetxattr(file, DIGEST_ATTRIBUTE, &mut buffer).ok()?;
    let text = std::str::from_utf8(buffer.get(..length)?).ok()?;
    let (of, checksum) = text.split_once(';')?;
    let checksum: Checksum = checksum.parse().ok()?;
    (of == version.digest_binding() && checksum.digest.is_some()).then_some(checksum)
}

/// Stores a digest for this version. Failures are ignored: the digest is not part of the file.
pub(super) fn store_digest(file: impl AsFd, version: &FileVersionId, checksum: &Checksum) {
    let hex = checksum.digest.as_deref().map(haul_digest::hex);
    let Some(hex) = hex else { return };
    let text = format!("{};{}:{hex}", version.digest_binding(), checksum.algorithm);
    if let Err(error) =
        rustix::fs::fsetxattr(file, DIGEST_ATTRIBUTE, text.as_bytes(), XattrFlags::empty())
    {
        tracing::debug!(%error, "a digest could not be stored");
    }
}
