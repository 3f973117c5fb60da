//! How a file is divided into parts (row F10).
//!
//! S3 takes 10,000 parts of 5 MiB to 5 GiB; only the last may be smaller. Large parts cost fewer requests, small ones less when one
//! fails, and there must be enough of them for all connections. So a file has some 64 parts, of 5 to 64 MiB; beyond that only the number
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
const USUAL_PART_BYTES: Range<u64> = MIN_PART_BYTES..64 << 20;

/// Bytes of a part of a stream whose length nobody knows: 10,000 hold 156 GiB, and four of them are in memory.
const STREAM_PART_BYTES: u64 = 16 << 20;

/// A stream may be longer than expected by one part in this number.
const STREAM_MARGIN: u64 = 20;

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
    /// A stream goes on behind its last part.
    #[error("it is longer than 10,000 parts hold, which is {limit} bytes: nothing was stored")]
    StreamTooLong {
        /// Bytes that the parts hold.
        limit: u64,
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
        let before = u64::from(number).saturating_sub(1);
        let start = before.saturating_mul(self.part_bytes).min(self.file_bytes);
        start..(start + self.part_bytes).min(self.file_bytes)
    }
}

/// The parts of a stream: all of one size, but for the last (row F33). Some stores take no others, so the size is chosen before the first
/// byte, and what the parts cannot hold is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamPartPlan {
    part_bytes: u64,
}

impl StreamPartPlan {
    /// `expected` is about how long the stream is, if anybody knows; `wanted` is the size that a user wants.
    ///
    /// # Errors
    /// [`PartPlanError::FileTooLarge`], [`PartPlanError::PartSize`], [`PartPlanError::TooManyParts`].
    pub(super) fn new(expected: Option<u64>, wanted: Option<u64>) -> Result<Self, PartPlanError> {
        let expected = expected.unwrap_or_default();
        let part_bytes = match wanted {
            Some(_) => PartPlan::new(expected, wanted)?.part_bytes(),
            None => {
                PartPlan::new(expected, None)?;
                // An estimate may fall short.
                let expected = expected.saturating_add(expected / STREAM_MARGIN);
                let least = round_up_to_mebibyte(expected.div_ceil(MAX_PARTS));
                least.clamp(STREAM_PART_BYTES, MAX_PART_BYTES)
            }
        };
        Ok(Self { part_bytes })
    }

    /// Bytes of a part that is not the last.
    #[must_use]
    pub(super) fn part_bytes(&self) -> u64 {
        self.part_bytes
    }

    /// How many bytes are to be read for a part. Numbers begin with 1. Behind the last part one byte shows whether there is too much.
    #[must_use]
    pub(super) fn bytes_to_read(&self, number: u32) -> u64 {
        if u64::from(number) <= MAX_PARTS {
            self.part_bytes
        } else {
            1
        }
    }

    /// Checks that the stream ends with the last part.
    ///
    /// # Errors
    /// [`PartPlanError::StreamTooLong`].
    pub(super) fn check(&self, number: u32, read: u64) -> Result<(), PartPlanError> {
        if u64::from(number) > MAX_PARTS && read > 0 {
            Err(PartPlanError::StreamTooLong {
                limit: self.part_bytes * MAX_PARTS,
            })
        } else {
            Ok(())
        }
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
    fn f10_parts_are_of_5_to_64_mebibytes_until_their_number_makes_them_larger() {
        let part_bytes = |file_bytes| PartPlan::new(file_bytes, None).unwrap().part_bytes();
        assert_eq!(part_bytes(20 * MIB), 5 * MIB);
        assert_eq!(part_bytes(512 * MIB), 8 * MIB);
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
    fn f10_a_number_that_no_part_has_names_no_bytes() {
        let plan = PartPlan::new(TIB, Some(MAX_PART_BYTES)).unwrap();
        assert_eq!(plan.range(u32::MAX), TIB..TIB);
    }

    #[test]
    fn f33_parts_of_a_stream_are_equal_and_hold_what_was_expected() {
        let part_bytes = |expected, wanted| Ok(StreamPartPlan::new(expected, wanted)?.part_bytes());
        assert_eq!(part_bytes(None, None), Ok(16 * MIB));
        assert_eq!(part_bytes(Some(TIB / 10), None), Ok(16 * MIB));
        assert_eq!(part_bytes(Some(5 * TIB), None), Ok(551 * MIB));
        assert_eq!(
            part_bytes(Some(10_000 * MAX_PART_BYTES), None),
            Ok(MAX_PART_BYTES)
        );
        assert_eq!(part_bytes(None, Some(5 * MIB)), Ok(5 * MIB));
        let too_large = Err(PartPlanError::FileTooLarge);
        assert_eq!(part_bytes(Some(10_001 * MAX_PART_BYTES), None), too_large);
        let least = TIB.div_ceil(10_000);
        let too_many = Err(PartPlanError::TooManyParts { least });
        assert_eq!(part_bytes(Some(TIB), Some(5 * MIB)), too_many);
    }

    proptest! {
        /// As many bytes as parts hold are taken, each part but the last of one size, and the next byte is refused.
        #[test]
        fn f33_a_stream_ends_with_its_last_part(expected in prop::option::of(0..5 * TIB), wanted in prop::option::of(MIN_PART_BYTES..MAX_PART_BYTES)) {
            let Ok(plan) = StreamPartPlan::new(expected, wanted) else {
                return Ok(());
            };
            prop_assert!(plan.part_bytes() * MAX_PARTS >= expected.unwrap_or_default());
            for number in [1, 999, 1000, 1001, 9_999, 10_000] {
                prop_assert_eq!(plan.bytes_to_read(number), plan.part_bytes());
                prop_assert_eq!(plan.check(number, plan.part_bytes()), Ok(()));
            }
            prop_assert_eq!(plan.bytes_to_read(10_001), 1);
            prop_assert_eq!(plan.check(10_001, 0), Ok(()));
            let limit = plan.part_bytes() * MAX_PARTS;
            prop_assert_eq!(plan.check(10_001, 1), Err(PartPlanError::StreamTooLong { limit }));
        }
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
