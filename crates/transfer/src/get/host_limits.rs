//! The per-host limit: how many connections all jobs together may hold to one origin.
//!
//! A permit is for the host that sends the bytes. The target of a redirect has a limit of its own: a job that finds it full drops its
//! response and waits without a permit, so that two jobs never wait for each other.
//!
//! Where large files may take all connections of a host, the first of a job comes before further ones of others: these are given back
//! at the end of a range while a job waits.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

/// Permission for one connection to a host; given back when dropped.
#[derive(Debug)]
pub(super) struct HostPermit {
    host: Arc<HostConnections>,
    /// One of [`HostConnections::permits`].
    _permit: OwnedSemaphorePermit,
    /// For a connection beyond a job's first: one of [`HostConnections::extra_permits`].
    extra_permit: Option<OwnedSemaphorePermit>,
}

impl HostPermit {
    /// Whether it is for a connection to this host.
    pub(super) fn is_for(&self, host: &Arc<HostConnections>) -> bool {
        Arc::ptr_eq(&self.host, host)
    }

    /// Whether it is for a connection beyond a job's first, while another job waits for its first, and all may be of this kind.
    pub(super) fn is_wanted_by_others(&self) -> bool {
        self.extra_permit.is_some()
            && self.host.extras_may_take_all
            && self.host.waiting_jobs.load(Ordering::Relaxed) > 0
    }
}

/// One origin's connections.
#[derive(Debug)]
pub(super) struct HostConnections {
    /// One for each connection.
    permits: Arc<Semaphore>,
    /// One more for each connection beyond a job's first.
    extra_permits: Arc<Semaphore>,
    /// Whether connections beyond the first may take all, so that jobs could wait for theirs as long as a large file lasts.
    extras_may_take_all: bool,
    /// Jobs that wait for their first connection.
    waiting_jobs: AtomicUsize,
    /// Whether small requests share a connection.
    multiplexed: AtomicBool,
}

/// Permission for a request: on a connection of its own, or on a shared one (`None`).
#[derive(Debug)]
pub(super) struct RequestPermit(Option<HostPermit>);

impl RequestPermit {
    /// The permit for a connection of its own: waits for one if the request was to share a connection.
    pub(super) async fn into_host_permit(self, host: &Arc<HostConnections>) -> HostPermit {
        match self.0 {
            Some(permit) => permit,
            None => match host.acquire().await {
                Some(permit) => permit,
                None => unreachable!("permits are never closed"),
            },
        }
    }
}

impl HostConnections {
    /// Waits for a permit: a job's first connection. A job that waits here holds no other permit, so there is no deadlock. Cancel safe.
    pub(super) async fn acquire(self: &Arc<Self>) -> Option<HostPermit> {
        // Nobody is overtaken: what is given back belongs to those who wait.
        if let Some(permit) = self.try_acquire() {
            return Some(permit);
        }
        let _waiting = WaitingJob::new(self);
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        Some(self.host_permit(permit, None))
    }

    /// A permit for a job's first connection, if one is free.
    pub(super) fn try_acquire(self: &Arc<Self>) -> Option<HostPermit> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(self.host_permit(permit, None))
    }

    /// A permit for a request whose connection may be shared. Cancel safe.
    pub(super) async fn acquire_for_request(self: &Arc<Self>) -> RequestPermit {
        if self.is_multiplexed() {
            return RequestPermit(None);
        }
        RequestPermit(self.acquire().await)
    }

    /// Exchanges a permit for another host, perhaps this one, for one of this host. An error if none is free now; the other is given
    /// back then too: to hold it while waiting could be a deadlock of two hosts that redirect to each other.
    pub(super) fn try_move_permit(
        self: &Arc<Self>,
        other: RequestPermit,
    ) -> Result<RequestPermit, ()> {
        if self.is_multiplexed() {
            return Ok(RequestPermit(None));
        }
        match other.0 {
            Some(permit) if permit.is_for(self) => Ok(RequestPermit(Some(permit))),
            other => {
                drop(other);
                let permit = self.try_acquire().ok_or(())?;
                Ok(RequestPermit(Some(permit)))
            }
        }
    }

    /// Sets whether requests share a connection (HTTP/2): small requests then need no permit.
    pub(super) fn set_multiplexed(&self, shared: bool) {
        self.multiplexed.store(shared, Ordering::Relaxed);
    }

    fn is_multiplexed(&self) -> bool {
        self.multiplexed.load(Ordering::Relaxed)
    }

    /// A permit if one is free: a job's further connections.
    pub(super) fn try_acquire_extra(self: &Arc<Self>) -> Option<HostPermit> {
        let extra = Arc::clone(&self.extra_permits).try_acquire_owned().ok()?;
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(self.host_permit(permit, Some(extra)))
    }

    /// The same for a job without connections: the permit that it kept, if that is for this host, counts as free. If none is free, it keeps
    /// none: two jobs that keep what the other one wants would wait for ever.
    pub(super) fn try_acquire_next(
        self: &Arc<Self>,
        kept: &mut Option<HostPermit>,
    ) -> Option<HostPermit> {
        let kept_here = kept.take_if(|permit| permit.is_for(self));
        let permit = kept_here.or_else(|| self.try_acquire_extra());
        kept.take_if(|_| permit.is_none());
        permit
    }

    fn host_permit(
        self: &Arc<Self>,
        permit: OwnedSemaphorePermit,
        extra_permit: Option<OwnedSemaphorePermit>,
    ) -> HostPermit {
        HostPermit {
            host: Arc::clone(self),
            _permit: permit,
            extra_permit,
        }
    }
}

/// Counts a job among those that wait.
struct WaitingJob<'a>(&'a HostConnections);

impl<'a> WaitingJob<'a> {
    fn new(host: &'a HostConnections) -> Self {
        host.waiting_jobs.fetch_add(1, Ordering::Relaxed);
        Self(host)
    }
}

impl Drop for WaitingJob<'_> {
    fn drop(&mut self) {
        self.0.waiting_jobs.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The hosts that an engine's jobs talk to. Clones are of the same hosts.
#[derive(Debug, Clone)]
pub(super) struct HostLimits {
    /// Connections a host.
    limit: usize,
    /// How many of those may be beyond the first of their jobs.
    extra_limit: usize,
    /// By scheme, name and port. Entries nobody uses are dropped when a new one comes, so this grows with the jobs
    /// that run and not with those that have ended.
    hosts: Arc<Mutex<foldhash::HashMap<String, Arc<HostConnections>>>>,
}

impl HostLimits {
    /// At most `limit` connections to each host.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            extra_limit: limit,
            hosts: Arc::default(),
        }
    }

    /// At most `small` connections to each host, as many as small files may want, of which large ones share `large` beyond the first
    /// of each.
    pub(super) fn for_batch(small: usize, large: usize) -> Self {
        Self {
            limit: small.max(large),
            extra_limit: large,
            hosts: Arc::default(),
        }
    }

    pub(super) fn host(&self, url: &Url) -> Arc<HostConnections> {
        let mut known = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let key = haul_net::origin_text(url);
        if let Some(host) = known.get(key.as_ref()) {
            return Arc::clone(host);
        }
        known.retain(|_, host| Arc::strong_count(host) > 1);
        let host = Arc::new(HostConnections {
            permits: Arc::new(Semaphore::new(self.limit)),
            extra_permits: Arc::new(Semaphore::new(self.extra_limit)),
            extras_may_take_all: self.extra_limit >= self.limit,
            waiting_jobs: AtomicUsize::new(0),
            multiplexed: AtomicBool::new(false),
        });
        known.insert(key.into_owned(), Arc::clone(&host));
        host
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn large_files_of_a_batch_share_fewer_connections_than_small_ones_may_have() {
        let hosts = HostLimits::for_batch(4, 2);
        let host = hosts.host(&Url::parse("http://a.test/").unwrap());
        let first = host
            .acquire_for_request()
            .await
            .into_host_permit(&host)
            .await;
        let further = [host.try_acquire_extra(), host.try_acquire_extra()];
        assert!(further.iter().all(Option::is_some) && host.try_acquire_extra().is_none());
        // A small one has room all the same, and where all is taken nobody has.
        let small = host.acquire_for_request().await;
        drop(further);
        let extra = [host.try_acquire_extra(), host.try_acquire_extra()];
        assert!(extra.iter().all(Option::is_some));
        let mut waiting = Box::pin(host.acquire());
        assert!((&mut waiting).now_or_never().is_none());
        assert!(!extra[0].as_ref().unwrap().is_wanted_by_others());
        drop(waiting);
        assert!(host.try_move_permit(RequestPermit(None)).is_err());
        drop((first, small, extra));
        assert!(host.try_move_permit(RequestPermit(None)).is_ok());
    }

    #[tokio::test]
    async fn only_further_connections_are_wanted_by_a_job_that_waits_for_its_first() {
        let host = HostLimits::new(2).host(&Url::parse("http://a.test/").unwrap());
        let first = host.acquire().await.unwrap();
        let extra = host.try_acquire_extra().unwrap();
        assert!(!extra.is_wanted_by_others());
        let mut waiting = Box::pin(host.acquire());
        assert!((&mut waiting).now_or_never().is_none());
        assert!(extra.is_wanted_by_others() && !first.is_wanted_by_others());
        drop(extra);
        // What was given back is the waiting job's.
        assert!(host.try_acquire_extra().is_none());
        assert!((&mut waiting).now_or_never().is_some());
        assert!(!host.try_acquire_extra().unwrap().is_wanted_by_others());
    }

    #[test]
    fn jobs_of_one_host_share_its_limit_and_idle_hosts_are_forgotten() {
        let hosts = HostLimits::new(2);
        let a = hosts.host(&Url::parse("http://a.test/1").unwrap());
        let same_host = hosts.host(&Url::parse("http://a.test:80/2").unwrap());
        let permits: Vec<_> = [a.try_acquire_extra(), same_host.try_acquire_extra()]
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(permits.len(), 2);
        assert!(a.try_acquire_extra().is_none());
        assert!(permits[0].is_for(&same_host));
        drop((permits, a, same_host));
        let b = hosts.host(&Url::parse("http://b.test/").unwrap());
        let a = hosts.host(&Url::parse("http://a.test/").unwrap());
        assert!(!b.try_acquire_extra().unwrap().is_for(&a));
        drop(a);
        let _c = hosts.host(&Url::parse("http://c.test/").unwrap());
        drop(b);
        let _d = hosts.host(&Url::parse("http://d.test/").unwrap());
        assert_eq!(hosts.hosts.lock().unwrap().len(), 2);
    }
}
