//! Where a job's sources are asked: each one's own URL, and where that was redirected to.
//!
//! Which of them is asked is decided by `plan::Mirrors`; they have the same numbers there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use url::Url;

use super::host_limits::{HostConnections, HostLimits};

/// The sources of one job.
#[derive(Debug)]
pub(super) struct JobSources {
    /// By number.
    sites: Mutex<Vec<JobSource>>,
    /// Knows the limits of hosts.
    hosts: HostLimits,
}

/// One source.
#[derive(Debug, Clone)]
pub(super) struct JobSource {
    /// The URL that it was named by.
    pub(super) home: Url,
    /// The URL that credentials are for: the same, unless it was an origin that named it, and not the user.
    pub(super) given: Url,
    /// Where redirects led, asked directly by all but the first request.
    pub(super) url: Url,
    /// The host there, whose limit counts.
    pub(super) host: Arc<HostConnections>,
    /// Whether it understands If-Range (row A4).
    pub(super) if_range: bool,
}

impl JobSources {
    /// The sources of these URLs, each with the one that credentials are for.
    pub(super) fn new(urls: impl IntoIterator<Item = (Url, Url)>, hosts: HostLimits) -> Self {
        let site = |(home, given): (Url, Url)| JobSource {
            url: home.clone(),
            host: hosts.host(&home),
            home,
            given,
            if_range: true,
        };
        let sites = Mutex::new(urls.into_iter().map(site).collect());
        Self { sites, hosts }
    }

    fn sites(&self) -> MutexGuard<'_, Vec<JobSource>> {
        self.sites.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of them, as it is now.
    pub(super) fn of(&self, source: usize) -> JobSource {
        self.sites()[source].clone()
    }

    /// The host that one is asked at.
    pub(super) fn host(&self, source: usize) -> Arc<HostConnections> {
        Arc::clone(&self.sites()[source].host)
    }

    /// Sends requests to one elsewhere from now on.
    pub(super) fn lead(&self, source: usize, url: Url) {
        let host = self.hosts.host(&url);
        let site = &mut self.sites()[source];
        (site.url, site.host) = (url, host);
    }

    /// Asks the URL that one was named by again.
    pub(super) fn resolve(&self, source: usize) {
        let home = self.of(source).home;
        self.lead(source, home);
    }

    /// Sends no If-Range to one any more, or says from the start whether to.
    pub(super) fn set_if_range(&self, source: usize, if_range: bool) {
        self.sites()[source].if_range = if_range;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_is_redirected_for_itself() {
        let url = |text: &str| Url::parse(text).unwrap();
        let (a, b, far) = (
            url("http://a.test/f"),
            url("http://b.test/f"),
            url("http://far.test/f"),
        );
        let urls = [(a.clone(), a.clone()), (b.clone(), a.clone())];
        let sources = JobSources::new(urls, HostLimits::new(2));
        sources.lead(1, far.clone());
        sources.set_if_range(1, false);
        assert_eq!(
            (sources.of(0).url, sources.of(0).if_range),
            (a.clone(), true)
        );
        assert_eq!((sources.of(1).url, sources.of(1).given), (far, a));
        let host = sources.host(1);
        sources.resolve(1);
        assert_eq!(sources.of(1).url, b);
        assert!(!Arc::ptr_eq(&host, &sources.host(1)) && !sources.of(1).if_range);
    }
}
