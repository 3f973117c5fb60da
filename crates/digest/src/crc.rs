//! CRC-32C (RFC 3720 B.4), at tens of gigabytes a second: it runs over every byte on its way to the disk.

use crc_fast::{CrcAlgorithm, Digest, checksum_combine};

/// A CRC-32C in the making.
#[derive(Debug)]
pub struct Crc32c(Digest);

impl Crc32c {
    /// Of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Of all bytes taken.
    #[must_use]
    pub fn finish(&self) -> u32 {
        narrow(self.0.finalize())
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

/// The CRC-32C of some bytes.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = Crc32c::new();
    crc.update(bytes);
    crc.finish()
}

/// The CRC-32C of two runs one after the other, from theirs and the second one's length in bytes.
#[must_use]
pub fn combine_crc32c(first: u32, second: u32, second_length: u64) -> u32 {
    narrow(checksum_combine(
        CrcAlgorithm::Crc32Iscsi,
        first.into(),
        second.into(),
        second_length,
    ))
}

/// The crate speaks of every CRC as 64 bits; this one has 32.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a 32-bit CRC in a 64-bit word"
)]
fn narrow(crc: u64) -> u32 {
    crc as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_is_the_crc_of_the_catalogue() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
    }

    proptest! {
        #[test]
        fn two_runs_combine_to_one(bytes: Vec<u8>, cut: proptest::sample::Index) {
            let (a, b) = bytes.split_at(cut.index(bytes.len() + 1));
            prop_assert_eq!(combine_crc32c(crc32c(a), crc32c(b), b.len() as u64), crc32c(&bytes));
        }
    }
}
