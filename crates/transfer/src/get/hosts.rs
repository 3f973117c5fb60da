//! The per-host limit: how many connections all jobs together may hold to one origin.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

/// Leave to hold one connection to a host; given back when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    /// Whose connection it is for.
    host: Arc<Host>,
    /// What is given back.
    _held: OwnedSemaphorePermit,
}

impl Permit {
    /// Whether it is for a connection to this host.
    pub(super) fn is_for(&self, host: &Arc<Host>) -> bool {
        Arc::ptr_eq(&self.host, host)
    }
}

/// One origin's connections.
#[derive(Debug)]
pub(super) struct Host {
    /// A permit a connection.
    permits: Arc<Semaphore>,
}

impl Host {
    /// Waits for a permit: a job's first connection. A job waits here with nothing in its hands, so none can block
    /// another for ever. Cancel safe.
    pub(super) async fn permit(self: &Arc<Self>) -> Option<Permit> {
        let held = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        Some(self.hold(held))
    }

    /// The same for who holds leave to hold a connection to another host, and gives it back first. Cancel safe.
    pub(super) async fn permit_after(self: &Arc<Self>, other: Permit) -> Option<Permit> {
        drop(other);
        self.permit().await
    }

    /// A permit if one is free: a job's further connections.
    pub(super) fn try_permit(self: &Arc<Self>) -> Option<Permit> {
        let held = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(self.hold(held))
    }

    fn hold(self: &Arc<Self>, held: OwnedSemaphorePermit) -> Permit {
        Permit {
            host: Arc::clone(self),
            _held: held,
        }
    }
}

/// The hosts that an engine's jobs talk to. Clones are of the same hosts.
#[derive(Debug, Clone)]
pub(super) struct Hosts {
    /// Connections a host.
    limit: usize,
    /// By scheme, name and port. Entries nobody uses are dropped when a new one comes, so this grows with the jobs
    /// that run and not with those that have ended.
    known: Arc<Mutex<HashMap<String, Arc<Host>>>>,
}

impl Hosts {
    /// At most `limit` connections to each host.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            known: Arc::default(),
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
        assert!(held[0].is_for(&again));
        drop((held, a, again));
        let b = hosts.of(&Url::parse("http://b.test/").unwrap());
        let a = hosts.of(&Url::parse("http://a.test/").unwrap());
        assert!(!b.try_permit().unwrap().is_for(&a));
        drop(a);
        let _c = hosts.of(&Url::parse("http://c.test/").unwrap());
        drop(b);
        let _d = hosts.of(&Url::parse("http://d.test/").unwrap());
        assert_eq!(hosts.known.lock().unwrap().len(), 2);
    }
}
