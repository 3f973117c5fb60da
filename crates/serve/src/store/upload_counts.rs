//! How many uploads in parts each bucket has that have not ended, so that they stay bounded.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::StoreError;

/// Maximum unfinished uploads of a bucket.
const MAX_UPLOADS: usize = 10_000;

/// The least time between two counts: each reads what all uploads are of, and others wait for it.
const MIN_INTERVAL: Duration = Duration::from_secs(60);

/// The counts, as far as this process knows. Others may serve the same folder; at the limit everything is counted anew now and then.
#[derive(Debug, Default)]
pub(super) struct UploadCounts {
    last: Mutex<Option<LastCount>>,
}

#[derive(Debug)]
struct LastCount {
    at: Instant,
    by_bucket: HashMap<String, usize>,
}

impl UploadCounts {
    /// Counts another upload to a bucket. `count` counts those of all buckets.
    ///
    /// # Errors
    /// [`StoreError::TooManyUploads`]; those of `count`.
    pub(super) fn begin(
        &self,
        bucket: &str,
        now: Instant,
        count: impl Fn() -> Result<HashMap<String, usize>, StoreError>,
    ) -> Result<(), StoreError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |last: &LastCount| {
            let uploads = last.by_bucket.get(bucket);
            uploads.is_some_and(|uploads| *uploads >= MAX_UPLOADS)
        };
        let is_old = |last: &LastCount| now.saturating_duration_since(last.at) >= MIN_INTERVAL;
        let counted = match last.take() {
            Some(last) if !(is_full(&last) && is_old(&last)) => last,
            _ => LastCount {
                at: now,
                by_bucket: count()?,
            },
        };
        let last = last.insert(counted);
        if is_full(last) {
            return Err(StoreError::TooManyUploads(MAX_UPLOADS));
        }
        *last.by_bucket.entry(bucket.to_owned()).or_default() += 1;
        Ok(())
    }

    pub(super) fn end(&self, bucket: &str) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(LastCount { by_bucket, .. }) = &mut *last else {
            return;
        };
        if let Some(uploads) = by_bucket.get_mut(bucket) {
            *uploads = uploads.saturating_sub(1);
            if *uploads == 0 {
                by_bucket.remove(bucket);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_bucket_is_counted_anew_now_and_then_and_leaves_room_for_others() {
        let (counts, start) = (UploadCounts::default(), Instant::now());
        let counted = |uploads| move || Ok(HashMap::from([("b".to_owned(), uploads)]));
        let begin = |bucket, seconds, uploads| {
            let now = start + Duration::from_secs(seconds);
            counts.begin(bucket, now, counted(uploads))
        };
        assert!(begin("b", 0, MAX_UPLOADS - 1).is_ok());
        for (seconds, found) in [(1, 0), (60, MAX_UPLOADS), (61, 0)] {
            let full = begin("b", seconds, found);
            assert!(
                matches!(full, Err(StoreError::TooManyUploads(MAX_UPLOADS))),
                "{seconds}"
            );
        }
        assert!(begin("other", 61, 0).is_ok());
        counts.end("b");
        assert!(begin("b", 61, 0).is_ok());
        // Another process has ended some.
        assert!(begin("b", 120, 5).is_ok());
    }
}
