//! What the attempts of all jobs have learned about hosts that fail: why, and whether their 403 means too many requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::batch::outcome::error_chain;
use crate::recovery::ForbiddenPolicy;
/// The most hosts whose reason is kept. If more are unreachable, the cause is on this machine and all reasons are the
/// same. If more refuse requests, the message of the others has no reason.
const MAX_HOSTS: usize = 1024;

/// Knowledge about hosts that fail.
#[derive(Debug, Default)]
pub(super) struct HostFailures {
    /// The last reason for each unreachable host.
    unreachable: Mutex<HashMap<String, UnreachableReason>>,
    /// The last refusal of each host.
    refusals: Mutex<HashMap<String, Arc<str>>>,
    forbidden: Mutex<ForbiddenPolicy>,
}

/// Why a host could not be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnreachableReason {
    /// The chain of errors in one line.
    pub(super) text: Arc<str>,
    /// Whether the proxy could not be reached, not the host.
    pub(super) is_proxy: bool,
}

impl HostFailures {
    /// Records why a host could not be reached. Jobs that are rejected because of their host give this reason.
    pub(super) fn record_unreachable(&self, host: String, error: &haul_net::Error) {
        let reason = UnreachableReason {
            text: error_chain(error).into(),
            is_proxy: error.is_proxy_unreachable(),
        };
        record(&self.unreachable, host, reason);
    }

    /// Why a host could not be reached the last time.
    pub(super) fn unreachable_reason(&self, host: &str) -> Option<UnreachableReason> {
        lock(&self.unreachable).get(host).cloned()
    }

    /// Records how a host refused a request, for the same use.
    pub(super) fn record_refusal(&self, host: String, reason: String) {
        record(&self.refusals, host, reason.into());
    }

    /// How a host refused a request the last time.
    pub(super) fn last_refusal(&self, host: &str) -> Option<Arc<str>> {
        lock(&self.refusals).get(host).cloned()
    }

    /// The knowledge about hosts that have sent 403.
    pub(super) fn forbidden(&self) -> MutexGuard<'_, ForbiddenPolicy> {
        lock(&self.forbidden)
    }
}

/// Records the reason of a host, if there is room for it.
fn record<T>(reasons: &Mutex<HashMap<String, T>>, host: String, reason: T) {
    let mut reasons = lock(reasons);
    if reasons.len() < MAX_HOSTS || reasons.contains_key(&host) {
        reasons.insert(host, reason);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
