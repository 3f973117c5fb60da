//! Digests of bytes: what a download, an upload and a partial file are checked with.
//!
//! [`DigestSet`] computes several over one pass; `plan` has their names and how they are written. [`crc32c`] and [`combine`] are for
//! records of many small pieces.

mod crc;
mod hashers;

pub use crc::{Crc32c, combine, crc32c};
pub use hashers::{DigestSet, FinishedDigest, hex};
