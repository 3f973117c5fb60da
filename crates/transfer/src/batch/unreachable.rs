//! Why hosts could not be reached: what the jobs say that are refused since others could not reach theirs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::group_commit::error_chain;

/// Hosts of which the reason is kept. More are not dead in one list but where something is wrong here, and then each says the same.
const MOST: usize = 1024;

/// Why a host could not be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnreachableReason {
    /// In words.
    pub(super) text: Arc<str>,
    /// Whether it is the proxy before it that could not.
    pub(super) is_proxy: bool,
}

/// The last reason of each host.
#[derive(Debug, Default)]
pub(super) struct UnreachableReasons(Mutex<HashMap<String, UnreachableReason>>);

impl UnreachableReasons {
    /// A host could not be reached.
    pub(super) fn record(&self, host: String, error: &haul_net::Error) {
        let reason = UnreachableReason {
            text: error_chain(error).into(),
            is_proxy: error.is_proxy_unreachable(),
        };
        let mut known = self.lock();
        if known.len() < MOST || known.contains_key(&host) {
            known.insert(host, reason);
        }
    }

    /// Why it could not, as far as that is known.
    pub(super) fn get(&self, host: &str) -> Option<UnreachableReason> {
        self.lock().get(host).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, UnreachableReason>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
