//! How many bytes the store holds, and may hold.
//!
//! Counted once when it is opened, and by what goes through it after that: bytes are claimed before they are written and given back when
//! their upload vanishes or a file goes. What others put beneath the root meanwhile is not seen until the next start.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::StoreError;

/// The count.
#[derive(Debug)]
pub(super) struct Quota {
    /// Bytes held or claimed.
    used: AtomicU64,
    /// Bytes that may be; `None` and nothing is counted.
    most: Option<u64>,
}

/// Bytes claimed by an upload; given back when it is dropped, unless they were kept.
#[derive(Debug)]
pub(super) struct Claimed {
    quota: Arc<Quota>,
    bytes: u64,
}

impl Quota {
    /// A store that holds `used` bytes.
    pub(super) fn new(used: u64, most: Option<u64>) -> Self {
        Self {
            used: AtomicU64::new(used),
            most,
        }
    }

    /// Begins a claim of nothing.
    pub(super) fn claim(self: &Arc<Self>) -> Claimed {
        Claimed {
            quota: Arc::clone(self),
            bytes: 0,
        }
    }

    /// Whether so many more would be too many just now.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        let used = self.used.load(Ordering::Relaxed);
        self.most
            .is_none_or(|most| used.checked_add(bytes).is_some_and(|sum| sum <= most))
    }

    /// A file of so many bytes is gone.
    pub(super) fn gone(&self, bytes: u64) {
        if self.most.is_some() {
            // What was changed behind our back may be more than we knew of.
            let less = |used: u64| Some(used.saturating_sub(bytes));
            let _ = self
                .used
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }
}

impl Claimed {
    /// Claims more.
    ///
    /// # Errors
    /// When the store would hold more than it may; the claim is as it was.
    pub(super) fn more(&mut self, bytes: u64) -> Result<(), StoreError> {
        let Some(most) = self.quota.most else {
            return Ok(());
        };
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= most);
        self.quota
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map_err(|_| StoreError::OverQuota)?;
        self.bytes += bytes;
        Ok(())
    }

    /// They are a file's now.
    pub(super) fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        self.quota.gone(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_vanishes_is_given_back_and_what_stays_is_not() {
        let quota = Arc::new(Quota::new(50, Some(100)));
        let mut first = quota.claim();
        first.more(30).expect("room");
        let mut second = quota.claim();
        assert!(matches!(second.more(21), Err(StoreError::OverQuota)));
        second.more(20).expect("the rest");
        drop(first);
        second.more(30).expect("what the first gave back");
        second.keep();
        assert!(matches!(quota.claim().more(1), Err(StoreError::OverQuota)));
        quota.gone(1);
        quota.claim().more(1).expect("what went");
    }

    #[test]
    fn no_quota_is_no_limit() {
        let quota = Arc::new(Quota::new(0, None));
        quota.claim().more(u64::MAX).expect("room");
    }
}
