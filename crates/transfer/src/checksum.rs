//! Digests of downloads. [`DigestFollower`] computes them on a separate thread behind the download, reading from the page
//! cache as the contiguous front of the file grows, so that hashing never slows the sockets.

mod follow;

pub(crate) use follow::DigestFollower;
pub(crate) use haul_digest::{ComputedDigest, Crc32c, DigestSet, combine_crc32c, crc32c, hex};
