//! Counting anew what the store holds, in the background: other programs put files there and take them away.
//!
//! The count goes through the whole tree, a tenth of a second at a time between which seconds pass, so that a tree of any size takes a few
//! hundredths of one thread. It begins when an upload was refused, since then it matters whether that was right, and once in a
//! while. [`StorageQuota::finish_recount`] says what of it to believe.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::quota::{RecountStart, StorageQuota};
use super::root::StoreRoot;
use super::usage::UsageWalk;

/// How long it counts at a time.
const STEP: Duration = Duration::from_millis(100);

/// How long after a count the next one begins without a reason.
const INTERVAL: Duration = Duration::from_secs(600);

/// The count that is under way, or the next one.
#[derive(Debug)]
pub(super) struct QuotaRecount {
    state: Mutex<QuotaRecountState>,
}

#[derive(Debug)]
struct QuotaRecountState {
    /// Since when, and how far it is.
    walk: Option<(RecountStart, UsageWalk)>,
    /// When the last one ended.
    ended: Instant,
}

impl QuotaRecount {
    /// The store was counted just now.
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(QuotaRecountState {
                walk: None,
                ended: Instant::now(),
            }),
        }
    }

    /// Counts for a little while, if it is time for that. To be called every few seconds; waits for a disk.
    pub(super) fn step(&self, quota: &StorageQuota, root: &StoreRoot) {
        if !quota.is_limited() {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        if state.walk.is_none() {
            let is_due = quota.take_refused() || begun - state.ended >= INTERVAL;
            // What changes from here on is known to change meanwhile.
            let begin = || (quota.begin_recount(), UsageWalk::new(root.top()));
            state.walk = is_due.then(begin);
        }
        let Some((since, walk)) = &mut state.walk else {
            return;
        };
        if let Some(found) = walk.step(|| begun.elapsed() >= STEP) {
            quota.finish_recount(*since, found);
            state.walk = None;
            state.ended = Instant::now();
        }
    }
}
