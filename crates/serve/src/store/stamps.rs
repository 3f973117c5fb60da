//! Times for uploads, of which no two are the same.
//!
//! A file system's clock ticks some hundred times a second, and a file's number is given to the next one as soon as it is free. Two
//! uploads of one key within a tick could look the same. So each is given a time to the nanosecond, later than that of the one before.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::Timespec;

/// Nanoseconds in a second.
const SECOND: i64 = 1_000_000_000;

/// Hands them out.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    /// The last, in nanoseconds since 1970: good until 2262.
    last: AtomicI64,
}

impl Stamps {
    /// Now, or a nanosecond after the last.
    pub(super) fn next(&self) -> Timespec {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX - 1);
        let later = |last: i64| Some(now.max(last + 1));
        let last = self
            .last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        let next = now.max(last.unwrap_or(now) + 1);
        Timespec {
            tv_sec: next / SECOND,
            tv_nsec: next % SECOND,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_the_same_and_all_are_now() {
        let stamps = Stamps::default();
        let all: Vec<_> = (0..1000)
            .map(|_| stamps.next())
            .map(|time| (time.tv_sec, time.tv_nsec))
            .collect();
        assert!(all.is_sorted_by(|a, b| a < b));
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        assert!(all[0].0.unsigned_abs().abs_diff(now.as_secs()) < 100);
    }
}
