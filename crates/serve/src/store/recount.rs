//! Recounts in the background what the store holds, since other programs add and remove files.
//!
//! The recount walks the whole tree, for a tenth of a second every few seconds, so that a tree of
//! any size takes a few hundredths of one thread. It begins when an upload was refused, since the
//! count matters then, and otherwise at intervals. [`StorageQuota::finish_recount`] decides what of
//! the result to believe.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::quota::{RecountStart, StorageQuota};
use super::root::StoreRoot;
use super::usage::UsageWalk;

/// How long it walks at a time.
const STEP: Duration = Duration::from_millis(100);

/// The time between two recounts without a refusal.
const INTERVAL: Duration = Duration::from_secs(600);

/// The recount in progress, or the next one.
#[derive(Debug)]
pub(super) struct QuotaRecount {
    state: Mutex<QuotaRecountState>,
}

#[derive(Debug)]
struct QuotaRecountState {
    /// The count at its beginning, and the walk.
    walk: Option<(RecountStart, UsageWalk)>,
    /// When the last recount ended.
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

    /// Continues the recount if one is due. To be called every few seconds; waits for a disk.
    pub(super) fn step(&self, quota: &StorageQuota, root: &StoreRoot) {
        if !quota.is_limited() {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let started = Instant::now();
        if state.walk.is_none() {
            let is_due = quota.take_refused() || started - state.ended >= INTERVAL;
            // Changes from here on are known to happen during the walk.
            let begin = || (quota.begin_recount(), UsageWalk::new(root.top()));
            state.walk = is_due.then(begin);
        }
        let Some((since, walk)) = &mut state.walk else {
            return;
        };
        if let Some(found) = walk.step(|| started.elapsed() >= STEP) {
            quota.finish_recount(*since, found);
            state.walk = None;
            state.ended = Instant::now();
        }
    }
}
