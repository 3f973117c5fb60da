//! CRCs, at tens of gigabytes a second: they run over every byte on its way to the disk or to a store.
//!
//! CRC-32C (RFC 3720 B.4) is what journals keep. S3 also stores the CRC-32 of zip and the CRC-64 of NVMe.

use crc_fast::{CrcAlgorithm, Digest, checksum_combine};

/// Declares a CRC in the making.
macro_rules! crc {
    ($name:ident, $value:ty, $algorithm:expr, $narrow:expr, $doc:literal) => {
        #[doc = $doc]
        #[derive(Debug)]
        pub struct $name(Digest);

        impl $name {
            const ALGORITHM: CrcAlgorithm = $algorithm;

            /// Of nothing yet.
            #[must_use]
            pub fn new() -> Self {
                Self(Digest::new(Self::ALGORITHM))
            }

            /// Takes the next bytes.
            pub fn update(&mut self, bytes: &[u8]) {
                self.0.update(bytes);
            }

            /// Of all bytes taken.
            #[must_use]
            pub fn finish(&self) -> $value {
                $narrow(self.0.finalize())
            }

            /// The CRC of two runs one after the other, from theirs and the second one's length in bytes.
            #[must_use]
            pub fn combine(first: $value, second: $value, second_length: u64) -> $value {
                $narrow(checksum_combine(
                    Self::ALGORITHM,
                    first.into(),
                    second.into(),
                    second_length,
                ))
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}

crc!(
    Crc32c,
    u32,
    CrcAlgorithm::Crc32Iscsi,
    narrow,
    "A CRC-32C in the making."
);
crc!(
    Crc32,
    u32,
    CrcAlgorithm::Crc32IsoHdlc,
    narrow,
    "A CRC-32 in the making, as zip has it."
);
crc!(
    Crc64Nvme,
    u64,
    CrcAlgorithm::Crc64Nvme,
    std::convert::identity,
    "A CRC-64/NVME in the making."
);

/// The crate speaks of every CRC as 64 bits.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a 32-bit CRC in a 64-bit word"
)]
fn narrow(crc: u64) -> u32 {
    crc as u32
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
    Crc32c::combine(first, second, second_length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn crc32(bytes: &[u8]) -> u32 {
        let mut crc = Crc32::new();
        crc.update(bytes);
        crc.finish()
    }

    fn crc64nvme(bytes: &[u8]) -> u64 {
        let mut crc = Crc64Nvme::new();
        crc.update(bytes);
        crc.finish()
    }

    #[test]
    fn they_are_the_crcs_of_the_catalogue() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc64nvme(b"123456789"), 0xae8b_1486_0a79_9888);
    }

    proptest! {
        #[test]
        fn two_runs_combine_to_one(bytes: Vec<u8>, cut: proptest::sample::Index) {
            let (a, b) = bytes.split_at(cut.index(bytes.len() + 1));
            let length = b.len() as u64;
            prop_assert_eq!(combine_crc32c(crc32c(a), crc32c(b), length), crc32c(&bytes));
            prop_assert_eq!(Crc32::combine(crc32(a), crc32(b), length), crc32(&bytes));
            prop_assert_eq!(Crc64Nvme::combine(crc64nvme(a), crc64nvme(b), length), crc64nvme(&bytes));
        }
    }
}
