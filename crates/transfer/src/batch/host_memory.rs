//! What one batch has learned about hosts, for the next batch of the same process.
//!
//! A host that asked to wait, that could not be reached, or that has had its requests of this second, is in the same state a
//! moment later, whichever batch asks. All batches with one memory have one clock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::dispatch::IdleHosts;
use super::host_failures::HostFailures;

/// What batches have learned about hosts: pauses that they asked for, circuit breakers, numbers of requests at once, and how
/// many of the requests of a second they have had. Copies share one memory, which is bounded.
///
/// A batch takes it at its beginning and gives it back at its end. So batches that run at the same time do not share limits,
/// and a later one begins with what the last of them knew.
#[derive(Debug, Clone)]
pub struct HostMemory(Arc<HostMemoryState>);

#[derive(Debug)]
struct HostMemoryState {
    /// Times in the memory count from here.
    started: Instant,
    idle_hosts: Mutex<IdleHosts>,
    failures: Arc<HostFailures>,
}

impl HostMemory {
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(HostMemoryState {
            started: Instant::now(),
            idle_hosts: Mutex::default(),
            failures: Arc::default(),
        }))
    }

    pub(super) fn started(&self) -> Instant {
        self.0.started
    }

    /// Why hosts could not be reached, and what their 403s mean.
    pub(super) fn failures(&self) -> Arc<HostFailures> {
        Arc::clone(&self.0.failures)
    }

    /// Takes what is known of hosts, for a batch that begins.
    pub(super) fn take(&self) -> IdleHosts {
        std::mem::take(&mut *self.lock())
    }

    /// Gives back what a batch knows at its end.
    pub(super) fn give_back(&self, hosts: IdleHosts) {
        self.lock().merge(hosts);
    }

    fn lock(&self) -> MutexGuard<'_, IdleHosts> {
        let idle_hosts = self.0.idle_hosts.lock();
        idle_hosts.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for HostMemory {
    fn default() -> Self {
        Self::new()
    }
}
