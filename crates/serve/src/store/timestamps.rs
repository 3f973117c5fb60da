//! Times for uploads, of which no two are the same.
//!
//! A file system's clock ticks some hundred times a second, and a file's number is given to the next one as soon as it is free. Two
//! uploads of one key within a tick could look the same. So each is given a time to the nanosecond, later than that of the one before.
//!
//! The nanoseconds also say whether a digest is kept beside the file. Asking a file for its attributes may read a block of the disk, and
//! its times come with its length: a file whose time has no mark is not asked. Of other programs' files one in a thousand has it by chance,
//! and is asked for nothing.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::Timespec;

/// Nanoseconds in a second.
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// The mark: the nanoseconds of files with a digest, as a remainder of 1024.
const DIGEST_REMAINDER: i64 = 517;

/// Whether an upload's time is to have the mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DigestMark {
    /// No digest is kept.
    Absent,
    /// One is.
    Present,
}

/// Hands them out.
#[derive(Debug, Default)]
pub(super) struct UploadTimestamps {
    /// The last, in nanoseconds since 1970: good until 2262.
    last: AtomicI64,
}

impl UploadTimestamps {
    /// Now, or soon after: later than the last.
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

/// Whether a time of modification, in nanoseconds since 1970, has the mark.
pub(super) fn has_digest_mark(modified: i128) -> bool {
    let rest = modified.rem_euclid(i128::from(NANOS_PER_SECOND));
    rest % 1024 == i128::from(DIGEST_REMAINDER)
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
        fn those_of_digests_have_the_mark_and_no_others(
            last in 0..NANOS_PER_SECOND * 3,
            marks in proptest::collection::vec(any::<bool>(), 1..50),
        ) {
            // Far ahead of the clock, so that it is the last that counts; seconds end among them.
            let start = 4_000_000_000 * NANOS_PER_SECOND + last;
            let stamps = UploadTimestamps { last: AtomicI64::new(start) };
            let mut before = start;
            for with_digest in marks {
                let time = stamps.next(if with_digest { DigestMark::Present } else { DigestMark::Absent });
                let now = time.tv_sec * NANOS_PER_SECOND + time.tv_nsec;
                prop_assert!(before < now && now - before < 3000);
                prop_assert_eq!(is_marked(now), with_digest);
                before = now;
            }
        }
    }

    #[test]
    fn no_two_are_the_same_and_all_are_now() {
        let stamps = UploadTimestamps::default();
        let all: Vec<_> = (0..1000)
            .map(|_| stamps.next(DigestMark::Absent))
            .map(|time| (time.tv_sec, time.tv_nsec))
            .collect();
        assert!(all.is_sorted_by(|a, b| a < b));
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        assert!(all[0].0.unsigned_abs().abs_diff(now.as_secs()) < 100);
    }
}
