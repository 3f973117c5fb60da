//! The state that all jobs of an engine share, and the context of one job that all its steps share.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_net::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::MinRate;
use super::download_monitor::{BodyMeter, DownloadMonitor};
use super::download_sources::DownloadSources;
use super::download_totals::DownloadTotals;
use super::host_limits::HostLimits;
use super::reserved_names::ReservedNames;
use super::segment_plan::SegmentOptions;
use super::steering::JobSteering;
use crate::error::GetError;
use crate::event::{TransferEvent, TransferEventSender};
use crate::options::{
    ConnectionCount, DownloadJob, DownloadOutcome, ExistingFilePolicy, GetOptions,
};
use crate::recovery::RetryNumber;
use crate::warning::TransferWarning;

/// How often a running job reports its progress: smooth for an eye, nothing for a processor.
pub(super) const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// The state that all jobs of an engine share.
#[derive(Debug)]
pub(crate) struct EngineState {
    pub(super) client: Client,
    pub(super) options: GetOptions,
    pub(super) events: TransferEventSender,
    pub(super) host_limits: HostLimits,
    /// Final names, and the job that has each; `None` where the caller gives each job a name of its own.
    pub(super) reserved_names: Option<ReservedNames>,
    /// Whether a job is only done when its file's name, and all directories above it, would survive a power cut: a batch's manifest
    /// will say so. Else it is worth a warning that they may not.
    pub(super) requires_durable_name: bool,
    /// Whether it was said that a file system does not keep times.
    pub(super) lost_times: AtomicBool,
}

impl EngineState {
    pub(super) fn new(client: Client, options: GetOptions, events: TransferEventSender) -> Self {
        Self {
            host_limits: HostLimits::new(options.connections.max()),
            client,
            options,
            events,
            reserved_names: Some(ReservedNames::default()),
            requires_durable_name: false,
            lost_times: AtomicBool::new(false),
        }
    }

    /// The state that the jobs of a batch share. The batch gives them their names, and a lowest rate if nobody else has. `small_file_connections`: the most connections
    /// that small files may have to one host.
    pub(crate) fn for_batch(
        client: Client,
        mut options: GetOptions,
        small_file_connections: usize,
        events: TransferEventSender,
    ) -> Self {
        let large_file_connections = options.connections.max();
        options.limits.min_rate.get_or_insert(MinRate::OF_BATCHES);
        Self {
            host_limits: HostLimits::for_batch(small_file_connections, large_file_connections),
            reserved_names: None,
            requires_durable_name: true,
            ..Self::new(client, options, events)
        }
    }

    pub(crate) fn options(&self) -> &GetOptions {
        &self.options
    }

    /// A monitor for a download, which may have sent its first request before.
    pub(crate) fn monitor(&self, first_request_at: Option<Instant>) -> DownloadMonitor {
        DownloadMonitor::new(self.client.clone(), self.options.limits, first_request_at)
    }

    /// Sizes of segments, for a job with at most this number of connections.
    pub(super) fn segment_options(&self, connections: usize) -> SegmentOptions {
        let options = &self.options;
        let defaults = SegmentOptions::default();
        let at_least = |size: u64| options.min_segment_size.map_or(size, |min| size.max(min));
        SegmentOptions {
            min_size: options.min_segment_size.unwrap_or(defaults.min_size),
            min_takeover: options.min_segment_size.unwrap_or(defaults.min_takeover),
            first_request: options.segment_size.unwrap_or_else(|| match connections {
                // One response brings all.
                1 => u64::MAX,
                _ => at_least(defaults.first_request),
            }),
            max_size: at_least(defaults.max_size),
            fixed_size: options.segment_size,
            connections,
            rate_limit: self.client.connector().rate_limit(),
        }
    }
}

/// One job, and what all its steps use.
#[derive(Debug)]
pub(super) struct JobContext<'a> {
    pub(super) engine: &'a EngineState,
    pub(super) job: &'a DownloadJob,
    /// What the job shares with its handle, if it has one.
    pub(super) steering: Option<&'a JobSteering>,
    /// Whether the bytes on disk must be of the version that a new URL has.
    pub(super) replaces_url: bool,
    /// Ends the job early.
    pub(super) stop: CancellationToken,
    pub(super) started: Instant,
    /// Counts what the job receives.
    pub(super) meter: Arc<BodyMeter>,
}

impl JobContext<'_> {
    pub(super) fn options(&self) -> &GetOptions {
        &self.engine.options
    }

    /// The job's connections: the engine's options, unless its handle says otherwise.
    pub(super) fn connections(&self) -> ConnectionCount {
        let given = self.options().connections;
        let wanted = self.steering.and_then(JobSteering::connections);
        wanted.map_or(given, |number| {
            ConnectionCount::Fixed(number.min(given.max()))
        })
    }

    /// What may happen to a file that exists.
    pub(super) fn existing_file(&self) -> ExistingFilePolicy {
        if self.job.replaces_file {
            ExistingFilePolicy::Overwrite
        } else {
            self.options().existing_file
        }
    }

    /// The outcome of a file with this number of bytes.
    pub(super) fn outcome(
        &self,
        totals: &DownloadTotals,
        sources: &DownloadSources,
        bytes: u64,
    ) -> DownloadOutcome {
        DownloadOutcome {
            url: haul_net::without_credentials(&self.job.url),
            final_url: haul_net::without_credentials(&sources.current().location),
            path: None,
            bytes,
            fetched: totals.fetched,
            resumed: totals.resumed,
            elapsed: self.elapsed(),
            connections: totals.connections,
            segments: totals.segments,
            retries: sources.recovery.retries(),
            etag: None,
            checksums: Vec::new(),
            not_modified: false,
        }
    }

    /// The most connections over all sources. The number that a handle gives is for all of them together.
    pub(super) fn max_connections(&self, sources: &DownloadSources) -> usize {
        let most = self.connections().max();
        if self.steering.and_then(JobSteering::connections).is_some() {
            most
        } else {
            sources.max_connections(most)
        }
    }

    /// The time since the job began.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Sends an event. A closed channel is not a reason to stop.
    pub(super) async fn send(&self, event: TransferEvent) {
        let _ = self.engine.events.send(event).await;
    }

    /// Says, once for all jobs, that the file system of a file does not keep its time.
    pub(super) async fn warn_of_lost_times(&self, path: &Path) {
        if !self.engine.lost_times.swap(true, Ordering::Relaxed) {
            let path = path.to_owned();
            self.warn(TransferWarning::LostTime { path }).await;
        }
    }

    pub(super) async fn warn(&self, warning: TransferWarning) {
        self.send(TransferEvent::Warning {
            job: self.job.id,
            warning,
            url: None,
        })
        .await;
    }

    /// Announces a retry and waits for its time.
    ///
    /// # Errors
    /// [`GetError::Interrupted`].
    pub(super) async fn wait_for_retry(
        &self,
        wait: Duration,
        retry: RetryNumber,
        reason: String,
    ) -> Result<(), GetError> {
        self.send(TransferEvent::Retry {
            job: self.job.id,
            attempt: retry.number,
            limit: retry.limit,
            wait,
            reason: reason.into(),
        })
        .await;
        self.unless_stopped(tokio::time::sleep(wait)).await
    }

    /// Waits for a future, unless the job is stopped before.
    ///
    /// # Errors
    /// [`GetError::Interrupted`].
    pub(super) async fn unless_stopped<T>(
        &self,
        future: impl Future<Output = T>,
    ) -> Result<T, GetError> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(GetError::INTERRUPTED),
            output = future => Ok(output),
        }
    }
}

#[cfg(test)]
mod tests {
    use haul_net::ClientConfig;
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn a48_files_of_a_batch_alone_have_a_lowest_rate_unless_the_user_says_otherwise() {
        let client = Client::new(ClientConfig::default()).unwrap();
        let (events, _) = mpsc::channel(1);
        let single = EngineState::new(client.clone(), GetOptions::default(), events.clone());
        assert_eq!(single.options.limits.min_rate, None);
        let off = MinRate {
            bytes_per_second: 0,
            ..MinRate::OF_BATCHES
        };
        for (given, expected) in [(None, MinRate::OF_BATCHES), (Some(off), off)] {
            let mut options = GetOptions::default();
            options.limits.min_rate = given;
            let batch = EngineState::for_batch(client.clone(), options, 1, events.clone());
            assert_eq!(batch.options.limits.min_rate, Some(expected));
        }
    }
}
