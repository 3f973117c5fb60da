//! Digests of bytes: what a download, an upload and a partial file are checked with.
//!
//! [`DigestSet`] computes several over one pass; `plan` has their names and how they are written. [`crc32c`] and [`combine_crc32c`] are for
//! records of many small pieces.

mod crc;
mod digest_set;

pub use crc::{Crc32, Crc32c, Crc64Nvme, combine_crc32c, crc32c};
pub use digest_set::{ComputedDigest, DigestSet};
pub use haul_plan::hex;
