//! What the attempts of all jobs have learned about hosts that fail: why, and whether their 403 means too many requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haul_plan::ForbiddenPolicy;

use crate::batch::outcome::error_chain;
use crate::error::HostFailureKind;

/// The most hosts whose reason is kept. If more fail, the cause is on this machine and all reasons are the same.
const MAX_HOSTS: usize = 1024;

/// Knowledge about hosts that fail.
#[derive(Debug, Default)]
pub(super) struct HostFailures {
    /// The last reason for each host that failed.
    reasons: Mutex<HashMap<String, HostFailureReason>>,
    forbidden: Mutex<ForbiddenPolicy>,
}

/// Why a host failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostFailureReason {
    pub(super) kind: HostFailureKind,
    /// The chain of errors in one line.
    pub(super) text: Arc<str>,
}

impl HostFailures {
    /// Records why a host could not be reached.
    pub(super) fn record_unreachable(&self, host: String, error: &haul_net::Error) {
        let kind = match error.is_proxy_unreachable() {
            true => HostFailureKind::ProxyUnreachable,
            false => HostFailureKind::Unreachable,
        };
        let text = error_chain(error).into();
        self.record(host, HostFailureReason { kind, text });
    }

    /// Records why a host failed. Jobs that are rejected because of their host give this reason.
    pub(super) fn record(&self, host: String, reason: HostFailureReason) {
        let mut reasons = self.lock_reasons();
        if reasons.len() < MAX_HOSTS || reasons.contains_key(&host) {
            reasons.insert(host, reason);
        }
    }

    /// Why a host failed the last time.
    pub(super) fn last_reason(&self, host: &str) -> Option<HostFailureReason> {
        self.lock_reasons().get(host).cloned()
    }

    /// The knowledge about hosts that have sent 403.
    pub(super) fn forbidden(&self) -> MutexGuard<'_, ForbiddenPolicy> {
        self.forbidden
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_reasons(&self) -> MutexGuard<'_, HashMap<String, HostFailureReason>> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
