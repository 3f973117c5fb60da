//! Ends downloads that drip, or take too long (row A48): the clock around `download_limits`.
//!
//! Whoever reads a body counts it in the download's [`BodyMeter`]. [`DownloadMonitor`] looks at the meter now and then; when a limit is
//! exceeded it cancels the download's own token, so that the download ends as if its caller had stopped it: what is resumable is kept.

use std::future::{Future, pending};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use haul_net::Client;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::job_rate_limit::JobRateLimit;
use super::{DownloadLimitTracker, DownloadLimits, DownloadSample, ExceededLimit};
use crate::error::{GetError, NetworkError};

/// What a download receives, counted where bodies are read.
#[derive(Debug, Default)]
pub(crate) struct BodyMeter {
    received: AtomicU64,
    /// How many readers wait for bytes of a body, or for the response with the next ones.
    waiting: AtomicUsize,
    first_request_at: OnceLock<Instant>,
    /// Whether all bytes are there: their verification has no limit of time.
    is_whole: AtomicBool,
    /// The download's own rate limit, if it has a handle.
    limit: Option<Arc<JobRateLimit>>,
}

impl BodyMeter {
    /// A first request may be sent now. The limit of time counts from the first call on.
    pub(super) fn note_request(&self) {
        self.first_request_at.get_or_init(Instant::now);
        self.is_whole.store(false, Ordering::Relaxed);
    }

    /// All bytes of the file are there.
    pub(super) fn note_whole_file(&self) {
        self.is_whole.store(true, Ordering::Relaxed);
    }

    /// Counts bytes of a body.
    pub(super) fn add(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Waits until these bytes are within the download's own rate limit.
    pub(super) async fn throttle(&self, bytes: u64) {
        if let Some(limit) = &self.limit {
            limit.throttle(bytes).await;
        }
    }

    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// A reader waits for bytes until the guard is dropped.
    pub(super) fn waiting(&self) -> WaitingReader<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        WaitingReader(self)
    }
}

/// Counts a reader among those that wait for bytes.
#[derive(Debug)]
pub(super) struct WaitingReader<'a>(&'a BodyMeter);

impl Drop for WaitingReader<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct DownloadMonitor {
    client: Client,
    limits: DownloadLimits,
    pub(super) meter: Arc<BodyMeter>,
}

impl DownloadMonitor {
    /// `first_request_at`: when the download sent its first request, if it has sent one.
    pub(super) fn new(
        client: Client,
        limits: DownloadLimits,
        first_request_at: Option<Instant>,
    ) -> Self {
        Self {
            client,
            limits,
            meter: Arc::new(BodyMeter {
                first_request_at: first_request_at.map_or_else(OnceLock::new, OnceLock::from),
                ..BodyMeter::default()
            }),
        }
    }

    /// The same for a download with a rate limit of its own.
    pub(super) fn with_limit(mut self, limit: Option<Arc<JobRateLimit>>) -> Self {
        if let Some(meter) = Arc::get_mut(&mut self.meter) {
            meter.limit = limit;
        }
        self
    }

    /// Runs a download. When it exceeds a limit, `own_stop` is cancelled, which ends it soon; so does its parent `stop`, the caller's.
    ///
    /// # Errors
    /// That of the download, or [`NetworkError::LimitExceeded`] of this URL.
    pub(super) async fn run<T>(
        self,
        download: impl Future<Output = Result<T, GetError>>,
        own_stop: &CancellationToken,
        stop: &CancellationToken,
        url: &Url,
    ) -> Result<T, GetError> {
        // A task of its own: a write to a pipe blocks that of the download.
        let mut watch = JoinSet::new();
        let own_stop = own_stop.clone();
        watch.spawn(async move {
            let limit = self.exceeded().await;
            own_stop.cancel();
            limit
        });
        match download.await {
            Err(GetError::Interrupted { resumable }) if !stop.is_cancelled() => {
                let url = Box::new(haul_net::without_credentials(url));
                Err(match watch.join_next().await {
                    Some(Ok(limit)) => {
                        GetError::network(url, NetworkError::LimitExceeded { limit })
                            .with_resumable(resumable)
                    }
                    _ => GetError::Interrupted { resumable },
                })
            }
            result => result,
        }
    }

    /// Waits until a limit is exceeded: for ever, if there is none. Cancel safe, but each call begins to measure the rate anew.
    pub(super) async fn exceeded(&self) -> ExceededLimit {
        self.exceeded_of(self.limits).await
    }

    /// The same for the limit of time alone.
    pub(crate) async fn time_over(&self) -> ExceededLimit {
        let limits = DownloadLimits {
            min_rate: None,
            ..self.limits
        };
        self.exceeded_of(limits).await
    }

    async fn exceeded_of(&self, limits: DownloadLimits) -> ExceededLimit {
        let begun = Instant::now();
        let mut tracker = DownloadLimitTracker::new(limits, self.sample(begun));
        loop {
            let Some(wait) = tracker.next_sample_in() else {
                return pending().await;
            };
            if !wait.is_zero() {
                sleep(wait).await;
            }
            if let Some(limit) = tracker.on_sample(self.sample(begun)) {
                return limit;
            }
        }
    }

    fn sample(&self, begun: Instant) -> DownloadSample {
        let meter = &self.meter;
        let is_whole = meter.is_whole.load(Ordering::Relaxed);
        let first_request_at = meter.first_request_at.get().filter(|_| !is_whole);
        DownloadSample {
            now: begun.elapsed(),
            elapsed: first_request_at.map_or_else(Default::default, Instant::elapsed),
            received: meter.received(),
            waits_for_bytes: meter.waiting.load(Ordering::Relaxed) > 0
                && !self.client.connector().is_rate_limit_reached(),
        }
    }
}
