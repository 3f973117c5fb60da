//! What the attempts of all jobs have learned about hosts that fail: why they could not be reached, and whether their 403
//! means too many requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haul_plan::ForbiddenPolicy;

use crate::batch::outcome::error_chain;

/// The most hosts whose reason is kept. If more are unreachable, the cause is on this machine and all reasons are the
/// same.
const MAX_HOSTS: usize = 1024;

/// Knowledge about hosts that fail.
#[derive(Debug, Default)]
pub(super) struct HostFailures {
    /// The last reason for each unreachable host.
    unreachable: Mutex<HashMap<String, UnreachableReason>>,
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
        let mut unreachable = self.lock_unreachable();
        if unreachable.len() < MAX_HOSTS || unreachable.contains_key(&host) {
            unreachable.insert(host, reason);
        }
    }

    /// Why a host could not be reached the last time.
    pub(super) fn unreachable_reason(&self, host: &str) -> Option<UnreachableReason> {
        self.lock_unreachable().get(host).cloned()
    }

    /// The knowledge about hosts that have sent 403.
    pub(super) fn forbidden(&self) -> MutexGuard<'_, ForbiddenPolicy> {
        self.forbidden
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_unreachable(&self) -> MutexGuard<'_, HashMap<String, UnreachableReason>> {
        self.unreachable
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
