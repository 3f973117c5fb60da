//! Unique modification times for uploads.
//!
//! A file system's clock ticks some hundred times a second, and an inode number is reused as soon
//! as it is free. So two uploads of one key within a tick could look the same. Each upload
//! therefore gets a time to the nanosecond, later than that of the one before.
//!
//! The nanoseconds also say whether a digest is stored with the file. Reading a file's attributes
//! may read a block of the disk, while its times come with its length: if the time has no mark, the
//! attributes are not read. One in a thousand files of other programs has the mark by chance;
//! reading its attributes then finds nothing.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::Timespec;

/// Nanoseconds in a second.
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// The mark: the nanoseconds modulo 1024 of files with a digest.
const DIGEST_REMAINDER: i64 = 517;

/// Whether an upload's time has the mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DigestMark {
    /// No digest is stored.
    Absent,
    /// A digest is stored.
    Present,
}

/// Hands out times.
#[derive(Debug, Default)]
pub(super) struct UploadTimestamps {
    /// The last time, in nanoseconds since 1970: good until 2262.
    last: AtomicI64,
}

impl UploadTimestamps {
    /// The current time, or soon after: later than the last one.
    pub(super) fn next(&self, mark: DigestMark) -> Timespec {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX - 1);
        let later = |last: i64| {
            let from = now.max(last + 1);
            (from..).find(|time| is_marked(*time) == (mark == DigestMark::Present))
        };
        let last = self
            .last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        let next = last.ok().and_then(later).unwrap_or(now);
        Timespec {
            tv_sec: next / NANOS_PER_SECOND,
            tv_nsec: next % NANOS_PER_SECOND,
        }
    }
}

/// Whether a modification time, in nanoseconds since 1970, has the mark.
pub(super) fn has_digest_mark(modified: i128) -> bool {
    let nanoseconds = modified.rem_euclid(i128::from(NANOS_PER_SECOND));
    nanoseconds % 1024 == i128::from(DIGEST_REMAINDER)
}

fn is_marked(time: i64) -> bool {
    has_digest_mark(time.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn only_times_with_digests_are_marked(
            last in 0..NANOS_PER_SECOND * 3,
            marks in proptest::collection::vec(any::<bool>(), 1..50),
        ) {
            // Far ahead of the clock, so that the last time counts; the range crosses a second.
            let start = 4_000_000_000 * NANOS_PER_SECOND + last;
            let timestamps = UploadTimestamps { last: AtomicI64::new(start) };
            let mut before = start;
            for with_digest in marks {
                let time = timestamps.next(if with_digest { DigestMark::Present } else { DigestMark::Absent });
                let now = time.tv_sec * NANOS_PER_SECOND + time.tv_nsec;
                prop_assert!(before < now && now - before < 3000);
                prop_assert_eq!(is_marked(now), with_digest);
                before = now;
            }
        }
    }

    #[test]
    fn timestamps_are_unique_and_current() {
        let timestamps = UploadTimestamps::default();
        let all: Vec<_> = (0..1000)
            .map(|_| timestamps.next(DigestMark::Absent))
            .map(|time| (time.tv_sec, time.tv_nsec))
            .collect();
        assert!(all.is_sorted_by(|a, b| a < b));
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        assert!(all[0].0.unsigned_abs().abs_diff(now.as_secs()) < 100);
    }
}
