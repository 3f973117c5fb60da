//! The per-host limit: how many connections all jobs together may hold to one origin.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

/// Leave to hold one connection to a host; given back when dropped.
pub(super) type Permit = OwnedSemaphorePermit;

/// One origin's connections.
#[derive(Debug)]
pub(super) struct Host {
    /// A permit a connection.
    permits: Arc<Semaphore>,
}

impl Host {
    /// Waits for a permit: a job's first connection. A job waits here with nothing in its hands, so none can block
    /// another for ever. Cancel safe.
    pub(super) async fn permit(&self) -> Option<Permit> {
        Arc::clone(&self.permits).acquire_owned().await.ok()
    }

    /// A permit if one is free: a job's further connections.
    pub(super) fn try_permit(&self) -> Option<Permit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }
}

/// The hosts that an engine's jobs talk to.
#[derive(Debug)]
pub(super) struct Hosts {
    /// Connections a host.
    limit: usize,
    /// By scheme, name and port. Entries nobody uses are dropped when a new one comes, so this grows with the jobs
    /// that run and not with those that have ended.
    known: Mutex<HashMap<String, Arc<Host>>>,
}

impl Hosts {
    /// At most `limit` connections to each host.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            known: Mutex::default(),
        }
    }

    /// The host of a URL.
    pub(super) fn of(&self, url: &Url) -> Arc<Host> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = url.origin().ascii_serialization();
        if let Some(host) = known.get(&key) {
            return Arc::clone(host);
        }
        known.retain(|_, host| Arc::strong_count(host) > 1);
        let host = Arc::new(Host {
            permits: Arc::new(Semaphore::new(self.limit)),
        });
        known.insert(key, Arc::clone(&host));
        host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_one_host_share_its_limit_and_idle_hosts_are_forgotten() {
        let hosts = Hosts::new(2);
        let a = hosts.of(&Url::parse("http://a.test/1").unwrap());
        let again = hosts.of(&Url::parse("http://a.test:80/2").unwrap());
        let held: Vec<_> = [a.try_permit(), again.try_permit()]
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(held.len(), 2);
        assert!(a.try_permit().is_none());
        drop((held, a, again));
        let _b = hosts.of(&Url::parse("http://b.test/").unwrap());
        assert_eq!(hosts.known.lock().unwrap().len(), 1);
    }
}
