//! The per-host limit: how many connections all jobs together may hold to one origin.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

/// Leave to hold one connection to a host; given back when dropped.
#[derive(Debug)]
pub(super) struct HostPermit {
    /// Whose connection it is for.
    host: Arc<HostConnections>,
    /// What is given back.
    _held: OwnedSemaphorePermit,
    /// The same, for a connection beyond a job's first.
    _further: Option<OwnedSemaphorePermit>,
}

impl HostPermit {
    /// Whether it is for a connection to this host.
    pub(super) fn is_for(&self, host: &Arc<HostConnections>) -> bool {
        Arc::ptr_eq(&self.host, host)
    }
}

/// One origin's connections.
#[derive(Debug)]
pub(super) struct HostConnections {
    /// A permit a connection.
    permits: Arc<Semaphore>,
    /// Besides, one for each connection beyond a job's first.
    further: Arc<Semaphore>,
    /// Whether small requests share one.
    shared: AtomicBool,
}

/// Leave to make a request: to hold a connection, or to share one.
#[derive(Debug)]
pub(super) struct RequestPermit(Option<HostPermit>);

impl RequestPermit {
    /// Leave to hold a connection, for what goes on over ones of its own.
    pub(super) async fn permit(self, host: &Arc<HostConnections>) -> HostPermit {
        match self.0 {
            Some(permit) => permit,
            None => match host.permit().await {
                Some(permit) => permit,
                None => unreachable!("permits are never closed"),
            },
        }
    }
}

impl HostConnections {
    /// Waits for a permit: a job's first connection. A job waits here with nothing in its hands, so none can block
    /// another for ever. Cancel safe.
    pub(super) async fn permit(self: &Arc<Self>) -> Option<HostPermit> {
        let held = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        Some(self.hold(held, None))
    }

    /// Leave to make a request whose connection may be shared. Cancel safe.
    pub(super) async fn leave(self: &Arc<Self>) -> RequestPermit {
        if self.is_shared() {
            return RequestPermit(None);
        }
        RequestPermit(self.permit().await)
    }

    /// The same for who has leave for another host, perhaps this one; an error when there is none just now, and what was had is given
    /// back: to wait here with it could make two hosts that lead to each other wait for ever.
    pub(super) fn leave_for(self: &Arc<Self>, other: RequestPermit) -> Result<RequestPermit, ()> {
        if self.is_shared() {
            return Ok(RequestPermit(None));
        }
        match other.0 {
            Some(permit) if permit.is_for(self) => Ok(RequestPermit(Some(permit))),
            other => {
                drop(other);
                let held = Arc::clone(&self.permits).try_acquire_owned();
                held.map(|held| RequestPermit(Some(self.hold(held, None))))
                    .map_err(|_| ())
            }
        }
    }

    /// Whether the host's answers share a connection (HTTP/2): small requests need no leave to hold one of their own.
    pub(super) fn share(&self, shared: bool) {
        self.shared.store(shared, Ordering::Relaxed);
    }

    fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    /// A permit if one is free: a job's further connections.
    pub(super) fn try_permit(self: &Arc<Self>) -> Option<HostPermit> {
        let further = Arc::clone(&self.further).try_acquire_owned().ok()?;
        let held = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(self.hold(held, Some(further)))
    }

    fn hold(
        self: &Arc<Self>,
        held: OwnedSemaphorePermit,
        further: Option<OwnedSemaphorePermit>,
    ) -> HostPermit {
        HostPermit {
            host: Arc::clone(self),
            _held: held,
            _further: further,
        }
    }
}

/// The hosts that an engine's jobs talk to. Clones are of the same hosts.
#[derive(Debug, Clone)]
pub(super) struct HostLimits {
    /// Connections a host.
    limit: usize,
    /// How many of those may be beyond the first of their jobs.
    further: usize,
    /// By scheme, name and port. Entries nobody uses are dropped when a new one comes, so this grows with the jobs
    /// that run and not with those that have ended.
    known: Arc<Mutex<HashMap<String, Arc<HostConnections>>>>,
}

impl HostLimits {
    /// At most `limit` connections to each host.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            further: limit,
            known: Arc::default(),
        }
    }

    /// At most `small` connections to each host, as many as small files may want, of which large ones share `large` beyond the first
    /// of each.
    pub(super) fn of_batch(small: usize, large: usize) -> Self {
        Self {
            limit: small.max(large),
            further: large,
            known: Arc::default(),
        }
    }

    /// The host of a URL.
    pub(super) fn of(&self, url: &Url) -> Arc<HostConnections> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = url.origin().ascii_serialization();
        if let Some(host) = known.get(&key) {
            return Arc::clone(host);
        }
        known.retain(|_, host| Arc::strong_count(host) > 1);
        let host = Arc::new(HostConnections {
            permits: Arc::new(Semaphore::new(self.limit)),
            further: Arc::new(Semaphore::new(self.further)),
            shared: AtomicBool::new(false),
        });
        known.insert(key, Arc::clone(&host));
        host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn large_files_of_a_batch_share_fewer_connections_than_small_ones_may_have() {
        let hosts = HostLimits::of_batch(4, 2);
        let host = hosts.of(&Url::parse("http://a.test/").unwrap());
        let first = host.leave().await.permit(&host).await;
        let further = [host.try_permit(), host.try_permit()];
        assert!(further.iter().all(Option::is_some) && host.try_permit().is_none());
        // A small one has room all the same, and where all is taken nobody has.
        let small = host.leave().await;
        drop(further);
        let again = [host.try_permit(), host.try_permit()];
        assert!(again.iter().all(Option::is_some));
        assert!(host.leave_for(RequestPermit(None)).is_err());
        drop((first, small, again));
        assert!(host.leave_for(RequestPermit(None)).is_ok());
    }

    #[test]
    fn jobs_of_one_host_share_its_limit_and_idle_hosts_are_forgotten() {
        let hosts = HostLimits::new(2);
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
