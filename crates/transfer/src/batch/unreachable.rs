//! Why hosts could not be reached. Jobs that are rejected because of their host say this in their error.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::group_commit::error_chain;

/// The most hosts whose reason is kept. If more are unreachable, the cause is on this machine and all reasons are the
/// same.
const MAX_HOSTS: usize = 1024;

/// Why a host could not be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnreachableReason {
    /// The chain of errors in one line.
    pub(super) text: Arc<str>,
    /// Whether the proxy could not be reached, not the host.
    pub(super) is_proxy: bool,
}

/// The last reason for each host.
#[derive(Debug, Default)]
pub(super) struct UnreachableReasons(Mutex<HashMap<String, UnreachableReason>>);

impl UnreachableReasons {
    /// Records an error of a host.
    pub(super) fn record(&self, host: String, error: &haul_net::Error) {
        let reason = UnreachableReason {
            text: error_chain(error).into(),
            is_proxy: error.is_proxy_unreachable(),
        };
        let mut known = self.lock();
        if known.len() < MAX_HOSTS || known.contains_key(&host) {
            known.insert(host, reason);
        }
    }

    /// The last reason for a host.
    pub(super) fn get(&self, host: &str) -> Option<UnreachableReason> {
        self.lock().get(host).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, UnreachableReason>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
