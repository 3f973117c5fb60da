//! How a file is divided into parts (row F10).
//!
//! S3 takes 10,000 parts of 5 MiB to 5 GiB; only the last may be smaller. Large parts cost fewer requests, small ones less when one
//! fails, and there must be enough of them for all connections. So a file has some 64 parts, of 8 to 64 MiB; beyond that only the number
//! of parts makes them larger.

use std::ops::Range;

/// The least that S3 takes as a part that is not the last.
pub const MIN_PART_BYTES: u64 = 5 << 20;

/// The most that S3 takes as a part.
pub const MAX_PART_BYTES: u64 = 5 << 30;

/// The most parts.
const MAX_PARTS: u64 = 10_000;

/// Four times as many parts as connections: the last ones end at about the same time.
const USUAL_PARTS: u64 = 64;

/// The sizes that haul chooses by itself.
const USUAL_PART_BYTES: Range<u64> = 8 << 20..64 << 20;

/// Parts of a stream have the same size until so many have been sent.
const STREAM_STEP: u32 = 1000;

/// A file's parts: all of one size, the last one with what is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartPlan {
    file_bytes: u64,
    part_bytes: u64,
}

/// Why a file cannot be divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PartPlanError {
    /// No parts that S3 takes are enough.
    #[error("the file has more bytes than 10,000 parts of 5 GiB")]
    FileTooLarge,
    /// The wanted size is less or more than S3 takes.
    #[error("parts have between 5 MiB and 5 GiB")]
    PartSize,
    /// The wanted size would take too many parts.
    #[error(
        "with parts of this size the file would have more than 10,000; the least is {least} bytes"
    )]
    TooManyParts {
        /// The least size that would do.
        least: u64,
    },
}

impl PartPlan {
    /// Divides a file. `wanted` is the size that a user wants.
    ///
    /// # Errors
    /// See [`PartPlanError`].
    pub fn new(file_bytes: u64, wanted: Option<u64>) -> Result<Self, PartPlanError> {
        let least = file_bytes.div_ceil(MAX_PARTS).max(MIN_PART_BYTES);
        if least > MAX_PART_BYTES {
            return Err(PartPlanError::FileTooLarge);
        }
        let part_bytes = match wanted {
            Some(wanted) if !(MIN_PART_BYTES..=MAX_PART_BYTES).contains(&wanted) => {
                return Err(PartPlanError::PartSize);
            }
            Some(wanted) if wanted < least => return Err(PartPlanError::TooManyParts { least }),
            Some(wanted) => wanted,
            None => {
                let usual =
                    (file_bytes / USUAL_PARTS).clamp(USUAL_PART_BYTES.start, USUAL_PART_BYTES.end);
                round_up_to_mebibyte(usual.max(least)).min(MAX_PART_BYTES)
            }
        };
        Ok(Self {
            file_bytes,
            part_bytes,
        })
    }

    /// Bytes of the file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Bytes of a part that is not the last.
    #[must_use]
    pub fn part_bytes(&self) -> u64 {
        self.part_bytes
    }

    /// How many parts there are. An empty file has one, without bytes.
    #[must_use]
    pub fn count(&self) -> u32 {
        let count = self.file_bytes.div_ceil(self.part_bytes).max(1);
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// The bytes of a part. Numbers begin with 1.
    #[must_use]
    pub fn range(&self, number: u32) -> Range<u64> {
        let start = (u64::from(number).saturating_sub(1) * self.part_bytes).min(self.file_bytes);
        start..(start + self.part_bytes).min(self.file_bytes)
    }
}

/// The size of a part of a stream whose length nobody knows: 8 MiB at first, and larger with the number, so that 10,000 parts suffice for
/// the 5 TiB that an object may have.
#[must_use]
pub fn stream_part_bytes(number: u32) -> u64 {
    const MIB: u64 = 1 << 20;
    match number / STREAM_STEP {
        0 => 8 * MIB,
        1 => 16 * MIB,
        2 => 64 * MIB,
        3 => 256 * MIB,
        _ => 1024 * MIB,
    }
}

fn round_up_to_mebibyte(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20) << 20
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;
    const TIB: u64 = 1 << 40;

    #[test]
    fn f10_parts_are_of_8_to_64_mebibytes_until_their_number_makes_them_larger() {
        let part_bytes = |file_bytes| PartPlan::new(file_bytes, None).unwrap().part_bytes();
        assert_eq!(part_bytes(20 * MIB), 8 * MIB);
        assert_eq!(part_bytes(1024 * MIB), 16 * MIB);
        assert_eq!(part_bytes(50 << 30), 64 * MIB);
        assert_eq!(part_bytes(5 * TIB), 525 * MIB);
        let too_large = PartPlan::new(10_001 * MAX_PART_BYTES, None);
        assert_eq!(too_large, Err(PartPlanError::FileTooLarge));
    }

    #[test]
    fn f10_a_wanted_size_is_kept_or_refused() {
        let plan = |file_bytes, wanted| PartPlan::new(file_bytes, Some(wanted));
        assert_eq!(plan(100 * MIB, 5 * MIB).unwrap().part_bytes(), 5 * MIB);
        assert_eq!(plan(100 * MIB, 4 * MIB), Err(PartPlanError::PartSize));
        assert_eq!(plan(100 * MIB, 6 << 30), Err(PartPlanError::PartSize));
        let least = TIB.div_ceil(10_000);
        assert_eq!(
            plan(TIB, 5 * MIB),
            Err(PartPlanError::TooManyParts { least })
        );
    }

    #[test]
    fn f10_parts_of_a_stream_suffice_for_the_largest_object() {
        let all: u64 = (1..=10_000).map(stream_part_bytes).sum();
        assert!(all >= 5 * TIB, "{all}");
        assert!((1..=10_000).all(|number| stream_part_bytes(number) <= MAX_PART_BYTES));
    }

    proptest! {
        #[test]
        fn f10_parts_cover_the_file_without_gap_or_overlap(file_bytes in 1_u64..(48 * TIB), wanted in prop::option::of(MIN_PART_BYTES..MAX_PART_BYTES)) {
            if let Ok(plan) = PartPlan::new(file_bytes, wanted) {
                let count = plan.count();
                prop_assert!(u64::from(count) <= MAX_PARTS);
                prop_assert_eq!(plan.range(1).start, 0);
                prop_assert_eq!(plan.range(count).end, file_bytes);
                prop_assert!(!plan.range(count).is_empty());
                for number in [1, 2, count / 2, count.saturating_sub(1)] {
                    if (1..count).contains(&number) {
                        let range = plan.range(number);
                        prop_assert_eq!(range.end, plan.range(number + 1).start);
                        prop_assert!((MIN_PART_BYTES..=MAX_PART_BYTES).contains(&(range.end - range.start)));
                    }
                }
            }
        }
    }
}
