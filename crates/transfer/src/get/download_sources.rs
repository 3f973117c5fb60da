//! The sources of one job: the URL of each, where it was redirected to, and what the requests to it may say.
//!
//! Which source is used is decided by [`RecoveryPolicy`] and its [`SourceSet`]; a source has the same number
//! there.

use std::ops::Range;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use haul_net::{CredentialScope, FetchRequest, FetchResponse};
use http::HeaderMap;
use url::Url;

use super::host_limits::{HostConnections, HostLimits};
use super::snapshot::SourceSnapshot;
use crate::error::GetError;
use crate::options::DownloadJob;
use crate::recovery::{RecoveryPolicy, RetryOptions};
use crate::response::{RequestFailure, UnusableResponse};
use crate::sources::SourceSet;

/// Connections of one job in all, however many sources it has.
const MAX_CONNECTIONS: usize = 64;

/// Sources that an origin names which are used, its header fields and its document together.
const MAX_FOUND: usize = 64;

#[derive(Debug, Default)]
pub(super) struct DownloadSources {
    sources: Vec<DownloadSource>,
    /// Decides what failures lead to, and which source is next.
    pub(super) recovery: RecoveryPolicy,
    /// The source that requests go to, where they go to one at a time.
    current: usize,
    /// Sources that the job names; the others were found on the way.
    listed: usize,
    /// What was wrong with the last whole file, if a digest was.
    pub(super) wrong_digest: Option<GetError>,
}

/// One source. Clones are cheap: a worker takes one for each request.
#[derive(Debug, Clone)]
pub(super) struct DownloadSource {
    /// The URL that it was named by.
    pub(super) url: Arc<Url>,
    /// Credentials for this URL's origin may be sent to the source. It is the same URL, unless an origin or a document named the
    /// source, and not the user.
    credential_url: Arc<Url>,
    /// The URL that requests go to: its own, or where redirects led.
    pub(super) location: Arc<Url>,
    /// The host there, whose connection limit counts.
    pub(super) host: Arc<HostConnections>,
    /// Whether it understands If-Range (row A4).
    pub(super) may_send_if_range: bool,
    /// Whether its ranges can be trusted.
    pub(super) may_send_range: bool,
    /// Whether its parts do not say how long the file is, so that a response with all of it has to (row A40).
    pub(super) needs_length_first: bool,
}

impl DownloadSource {
    fn new(url: Url, credential_url: Url, hosts: &HostLimits) -> Self {
        let url = Arc::new(url);
        Self {
            location: Arc::clone(&url),
            host: hosts.host(&url),
            url,
            credential_url: Arc::new(credential_url),
            may_send_if_range: true,
            may_send_range: true,
            needs_length_first: false,
        }
    }

    /// Sends requests elsewhere from now on.
    pub(super) fn redirect(&mut self, location: Url, hosts: &HostLimits) {
        self.host = hosts.host(&location);
        self.location = Arc::new(location);
    }

    /// Sends requests to the source's own URL again.
    pub(super) fn resolve_again(&mut self, hosts: &HostLimits) {
        self.host = hosts.host(&self.url);
        self.location = Arc::clone(&self.url);
    }

    /// Requests no parts any more, because of a failure.
    pub(super) fn give_up_ranges(&mut self, failure: &RequestFailure) {
        self.may_send_range = false;
        let lacks_total = RequestFailure::Unusable(UnusableResponse::MissingTotal);
        self.needs_length_first = *failure == lacks_total;
    }

    pub(super) fn credential_url(&self) -> &Url {
        &self.credential_url
    }

    pub(super) fn is_redirected(&self) -> bool {
        self.location != self.url
    }

    /// A request for bytes of the file, over a connection of its own.
    pub(super) fn request<'a>(
        &'a self,
        range: Option<Range<u64>>,
        user_headers: &'a HeaderMap,
    ) -> FetchRequest<'a> {
        FetchRequest {
            user_url: &self.credential_url,
            range,
            user_headers: Some(user_headers).filter(|headers| !headers.is_empty()),
            ..FetchRequest::get(&self.location)
        }
    }
}

impl DownloadSources {
    /// The sources of a job: its URL and its mirrors. The first request goes to `current`.
    pub(super) fn new(
        job: &DownloadJob,
        retry: RetryOptions,
        current: usize,
        hosts: &HostLimits,
    ) -> Self {
        let mut recovery = RecoveryPolicy::new(retry);
        let source = |url: &Url| {
            recovery.add_source(true);
            DownloadSource::new(url.clone(), credential_url(job, url).clone(), hosts)
        };
        let sources: Vec<DownloadSource> = job.source_urls().map(source).collect();
        Self {
            listed: sources.len(),
            sources,
            recovery,
            current,
            wrong_digest: None,
        }
    }

    /// Drops the sources that were dropped elsewhere before.
    pub(super) fn drop_failed(&mut self, failed: &SourceSet) {
        for (source, reason) in failed.dropped() {
            self.recovery.sources_mut().drop_source(source, reason);
        }
    }

    pub(super) fn snapshot(&self) -> Vec<SourceSnapshot> {
        let set = self.recovery.sources();
        let dropped = |number| {
            let mut dropped = set.dropped();
            dropped.find_map(|(source, reason)| (source == number).then(|| reason.to_owned()))
        };
        let sources = self.sources.iter().enumerate();
        sources
            .map(|(number, source)| SourceSnapshot {
                url: Url::clone(&source.url),
                bytes: self.recovery.received(number),
                dropped: dropped(number),
            })
            .collect()
    }

    /// Adds sources that only the origin names, and not the user.
    pub(super) fn add_found(
        &mut self,
        job: &DownloadJob,
        urls: impl IntoIterator<Item = Url>,
        hosts: &HostLimits,
    ) {
        for mut url in urls {
            // An origin does not choose which credentials are sent. These fail only for URLs that cannot have any.
            let _ = url.set_username("");
            let _ = url.set_password(None);
            let is_new = self.sources.iter().all(|source| *source.url != url);
            if is_new && self.sources.len() < self.listed + MAX_FOUND {
                let credential_url = match &job.credential_urls {
                    None => job.url.clone(),
                    Some(_) => credential_url(job, &url).clone(),
                };
                self.recovery.add_source(false);
                let source = DownloadSource::new(url, credential_url, hosts);
                self.sources.push(source);
            }
        }
    }

    /// Drops the sources that were found on the way.
    pub(super) fn drop_found(&mut self, reason: &str) {
        for source in self.listed..self.sources.len() {
            self.recovery.sources_mut().drop_source(source, reason);
        }
    }

    pub(super) fn get(&self, source: usize) -> &DownloadSource {
        &self.sources[source]
    }

    pub(super) fn get_mut(&mut self, source: usize) -> &mut DownloadSource {
        &mut self.sources[source]
    }

    /// The source that requests go to, where they go to one at a time.
    pub(super) fn current(&self) -> &DownloadSource {
        self.get(self.current)
    }

    pub(super) fn current_mut(&mut self) -> &mut DownloadSource {
        let current = self.current;
        self.get_mut(current)
    }

    /// Sends the next requests to where a redirect of the current source led, if its response came from there.
    pub(super) fn follow_redirect(&mut self, response: &FetchResponse, hosts: &HostLimits) {
        if response.redirected {
            self.current_mut().redirect(response.url.clone(), hosts);
        }
    }

    pub(super) fn current_number(&self) -> usize {
        self.current
    }

    /// Sources that the job names.
    pub(super) fn listed(&self) -> usize {
        self.listed
    }

    /// Whether a source that the job names is left.
    pub(super) fn has_listed(&self) -> bool {
        let dropped = self.recovery.sources().dropped();
        dropped.filter(|(source, _)| *source < self.listed).count() < self.listed
    }

    /// Whether the job has one source.
    pub(super) fn is_single(&self) -> bool {
        self.sources.len() == 1
    }

    /// Makes the next source the current one, and returns how long to wait before a request to it. `None` when none is left.
    pub(super) fn advance(&mut self, now: Duration, hosts: &HostLimits) -> Option<Duration> {
        let next = self.recovery.next_source(now)?;
        if next.source != self.current {
            self.current = next.source;
            let source = self.current_mut();
            (source.may_send_if_range, source.may_send_range) = (true, true);
            source.resolve_again(hosts);
        }
        Some(next.wait)
    }

    /// Connections that the job may have to all its sources, with this limit for each.
    pub(super) fn max_connections(&self, for_each: usize) -> usize {
        let active = self.recovery.sources().active_count().max(1);
        let all = for_each.saturating_mul(active);
        all.min(MAX_CONNECTIONS.max(for_each))
    }

    /// The error of a job whose sources were all dropped; `last` is the error of the last one.
    pub(super) fn all_failed(&mut self, last: GetError) -> GetError {
        // That a digest was wrong says more than that others could not be reached.
        let wrong_digest = self.wrong_digest.take().filter(|_| !last.is_checksum());
        let dropped = self.recovery.sources().dropped().map(|(source, reason)| {
            let url = haul_net::without_credentials(&self.get(source).url);
            (url, reason.to_owned())
        });
        GetError::AllSourcesFailed {
            dropped: dropped.collect(),
            last: Box::new(wrong_digest.unwrap_or(last)),
        }
    }

    /// Sources of which only the policy is of interest.
    #[cfg(test)]
    pub(super) fn with_policy(recovery: RecoveryPolicy) -> Self {
        Self {
            recovery,
            ..Self::default()
        }
    }
}

/// The URL whose origin's credentials may be sent to a URL that a job lists: its own if the user named it. Where a document named it,
/// a URL of that origin that the user named, or none.
pub(super) fn credential_url<'a>(job: &'a DownloadJob, url: &'a Url) -> &'a Url {
    let Some(user_urls) = &job.credential_urls else {
        return url;
    };
    let mut known = user_urls.iter();
    let is_same =
        |user_url: &&Url| CredentialScope::for_url(url, user_url) == CredentialScope::UserOrigin;
    known.find(is_same).unwrap_or(&NO_ORIGIN)
}

/// A URL of no origin: its credentials are sent nowhere.
static NO_ORIGIN: LazyLock<Url> = LazyLock::new(|| {
    let Ok(url) = Url::parse("about:blank") else {
        unreachable!("it is a URL")
    };
    url
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::JobOutput;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn job(credential_urls: Option<Vec<Url>>) -> DownloadJob {
        DownloadJob {
            id: 1,
            url: url("http://a.test/f"),
            output: JobOutput::Stdout,
            checksums: Vec::new(),
            mirrors: vec![url("http://b.test/f"), url("http://a.test/f")],
            credential_urls,
            piece_digests: None,
            expected_size: None,
            replaces_file: false,
            headers: HeaderMap::new(),
        }
    }

    #[test]
    fn each_source_is_redirected_by_itself() {
        let hosts = HostLimits::new(2);
        let mut sources = DownloadSources::new(&job(None), RetryOptions::default(), 0, &hosts);
        assert_eq!(sources.recovery.sources().count(), 2, "each URL once");
        let host = Arc::clone(&sources.get(1).host);
        sources
            .get_mut(1)
            .redirect(url("http://far.test/f"), &hosts);
        assert!(sources.get(1).is_redirected() && !sources.get(0).is_redirected());
        assert!(!Arc::ptr_eq(&host, &sources.get(1).host));
        sources.get_mut(1).resolve_again(&hosts);
        assert_eq!(*sources.get(1).location, url("http://b.test/f"));
        assert!(Arc::ptr_eq(&host, &sources.get(1).host));
    }

    #[test]
    fn credentials_go_to_origins_that_the_user_named() {
        let hosts = HostLimits::new(2);
        let found = [url("http://me:pw@c.test/f")];
        let credentials = |job: &DownloadJob| {
            let mut sources = DownloadSources::new(job, RetryOptions::default(), 0, &hosts);
            sources.add_found(job, found.clone(), &hosts);
            let urls = sources.sources.iter();
            urls.map(|source| source.credential_url.to_string())
                .collect::<Vec<_>>()
        };
        let (a, b) = ("http://a.test/f", "http://b.test/f");
        assert_eq!(credentials(&job(None)), [a, b, a]);
        let document = job(Some(vec![url("http://b.test/other")]));
        let none = "about:blank";
        assert_eq!(credentials(&document), [none, "http://b.test/other", none]);
    }

    #[test]
    fn advancing_forgets_what_was_learned_of_a_source_before() {
        let hosts = HostLimits::new(2);
        let mut sources = DownloadSources::new(&job(None), RetryOptions::default(), 0, &hosts);
        let now = Duration::ZERO;
        assert_eq!(sources.advance(now, &hosts), Some(now));
        sources.get_mut(1).may_send_range = false;
        sources.current_mut().may_send_if_range = false;
        sources.recovery.sources_mut().drop_source(0, "gone");
        assert_eq!(sources.advance(now, &hosts), Some(now));
        assert_eq!(sources.current_number(), 1);
        assert!(sources.current().may_send_range && sources.current().may_send_if_range);
        let error = sources.all_failed(GetError::INTERRUPTED);
        assert!(matches!(error, GetError::AllSourcesFailed { dropped, .. } if dropped.len() == 1));
    }
}
