//! The state that the workers of one job share: the claims under a lock, the file, the counters.
//!
//! The lock is held for bookkeeping only, never across an await or a system call.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haul_net::{Client, FetchResponse};
use haul_plan::expected_digests;
use http::HeaderMap;
use tokio::time::Instant;

use super::claim_table::ClaimTable;
use crate::disk::PartialStorage;
use crate::get::attempt_error::AttemptError;
use crate::get::download_monitor::BodyMeter;
use crate::get::download_sources::DownloadSource;
use crate::get::host_limits::HostLimits;
use crate::get::request::{check_robots_tag, send};
use crate::get::snapshot::{DownloadSnapshot, SnapshotSource};
use crate::response::{RequestFailure, ResponseContent, RobotsTagPolicy, UnusableResponse};
use crate::sources::SourceContent;

/// The state that all workers of a job read and write.
#[derive(Debug)]
pub(super) struct SegmentedState {
    pub(super) client: Client,
    pub(super) host_limits: HostLimits,
    /// The user's header fields for the job.
    pub(super) headers: HeaderMap,
    pub(super) robots_tag: RobotsTagPolicy,
    pub(super) storage: Arc<dyn PartialStorage>,
    /// The final path, for messages.
    pub(super) path: PathBuf,
    /// The moment that the plan's times count from.
    pub(super) epoch: Instant,
    /// The moment that the sources' times count from: the job's beginning, which is earlier.
    pub(super) job_started: Instant,
    pub(super) table: Mutex<ClaimTable>,
    /// Bytes in a piece that has a digest: no record in the journal goes beyond one.
    pub(super) piece_length: Option<u64>,
    pub(super) counts: WorkerCounts,
    /// Counts bytes that arrive over the wire.
    pub(super) meter: Arc<BodyMeter>,
    /// Those of the job's attempts before.
    pub(super) received_before: u64,
    /// Requests that brought bytes.
    pub(super) segments: AtomicU64,
    /// The bytes that each worker's requests brought, by the worker's number.
    pub(super) worker_bytes: Mutex<Vec<u64>>,
    /// The peers that the workers are connected to, by the worker's number.
    pub(super) peers: Mutex<Vec<Option<SocketAddr>>>,
}

impl SegmentedState {
    /// The lock. A panic under it is a bug that the panicking task reports; the others may still save what they have.
    pub(super) fn table(&self) -> MutexGuard<'_, ClaimTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that arrived over the wire.
    pub(super) fn fetched(&self) -> u64 {
        self.meter.received().saturating_sub(self.received_before)
    }

    /// A request of a worker brought bytes.
    pub(super) fn count_request(&self, worker: usize, bytes: u64) {
        self.segments.fetch_add(1, Ordering::Relaxed);
        let mut worker_bytes = self.worker_bytes();
        let workers = worker_bytes.len().max(worker + 1);
        worker_bytes.resize(workers, 0);
        worker_bytes[worker] += bytes;
    }

    pub(super) fn worker_bytes(&self) -> MutexGuard<'_, Vec<u64>> {
        let bytes = self.worker_bytes.lock();
        bytes.unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker has a response from this peer.
    pub(super) fn note_peer(&self, worker: usize, peer: Option<SocketAddr>) {
        let mut peers = self.peers();
        let workers = peers.len().max(worker + 1);
        peers.resize(workers, None);
        peers[worker] = peer;
    }

    fn peers(&self) -> MutexGuard<'_, Vec<Option<SocketAddr>>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plan's time.
    pub(super) fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// The sources' time: that since the job began.
    pub(super) fn job_now(&self) -> Duration {
        self.job_started.elapsed()
    }

    /// A source as it is now.
    pub(super) fn source(&self, source: usize) -> DownloadSource {
        self.table().sources.get(source).clone()
    }

    /// Whether a worker of this source should end now, since fewer are wanted. Then it is not counted any more.
    pub(super) fn should_retire(&self, source: usize) -> bool {
        self.table().source_set().should_release(source) && self.counts.try_retire()
    }

    /// Whether a worker should request more from its source, and not from one that would bring far more.
    pub(super) fn should_stay(&self, source: usize) -> bool {
        let now = self.job_now();
        self.table().source_set().should_stay(source, now)
    }

    /// Requests a range from a source. Returns a response whose bytes may go into the file, and its range.
    pub(super) async fn request(
        &self,
        number: usize,
        source: &DownloadSource,
        range: Range<u64>,
    ) -> Result<(FetchResponse, Range<u64>), Box<AttemptError>> {
        let mut request = source.request(Some(range), &self.headers);
        let pinned = {
            let table = self.table();
            request.is_replaceable = table.source_set().live_count() > 1;
            table.source_set().pinned_version(number).cloned()
        };
        let if_range = source.may_send_if_range;
        let waiting = self.meter.waiting();
        let sent = send(&self.client, request, pinned.as_ref().into(), if_range);
        let (response, content) = sent.await?;
        drop(waiting);
        check_robots_tag(self.robots_tag, &response, &source.location)?;
        let ResponseContent::Part { range, version, .. } = content else {
            // To a range that begins with the first byte, before the version is known, the whole file.
            let failure = RequestFailure::Unusable(UnusableResponse::Unexpected);
            let error = AttemptError::response(failure, &response, &source.location);
            response.discard().await;
            return Err(error);
        };
        if pinned.is_none() {
            let digests = expected_digests(&response.headers, false);
            let content = SourceContent {
                version: &version,
                digests: &digests,
            };
            let admitted = {
                let mut table = self.table();
                table.sources.recovery.sources_mut().admit(number, &content)
            };
            if let Err(mismatch) = admitted {
                response.discard().await;
                return Err(AttemptError::wrong_file(mismatch, &source.location));
            }
        }
        let mut table = self.table();
        table.sources.recovery.on_usable_response(number);
        if response.redirected {
            let location = response.url.clone();
            table
                .sources
                .get_mut(number)
                .redirect(location, &self.host_limits);
        }
        drop(table);
        Ok((response, range))
    }
}

impl SnapshotSource for SegmentedState {
    fn fill_snapshot(&self, snapshot: &mut DownloadSnapshot) {
        self.table().fill_snapshot(snapshot, self.now());
        let peers = self.peers();
        for request in &mut snapshot.requests {
            request.address = peers.get(request.connection).copied().flatten();
        }
    }
}

/// How many of a job's workers are wanted, and how many there are.
///
/// A worker that retires takes itself out at once, some time before the coordinator learns that it has ended. If the coordinator
/// counted the surplus, one worker that has gone already would send another after it.
#[derive(Debug, Default)]
pub(super) struct WorkerCounts {
    wanted: AtomicUsize,
    working: AtomicUsize,
}

impl WorkerCounts {
    pub(super) fn set_wanted(&self, count: usize) {
        self.wanted.store(count, Ordering::Relaxed);
    }

    pub(super) fn worker_started(&self) {
        self.working.fetch_add(1, Ordering::Relaxed);
    }

    /// A worker ended that did not retire.
    pub(super) fn worker_ended(&self) {
        self.working.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether the calling worker should retire, since there are more than are wanted. Then it is not counted any more.
    pub(super) fn try_retire(&self) -> bool {
        self.try_leave(self.wanted.load(Ordering::Relaxed))
    }

    /// Whether the calling worker may end in favour of another job, since it is not the only one. Then it is not counted any more.
    pub(super) fn try_yield(&self) -> bool {
        self.try_leave(1)
    }

    fn try_leave(&self, others: usize) -> bool {
        let one_less = |working: usize| (working > others).then(|| working - 1);
        self.working
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_workers_retire_as_are_too_many_however_often_the_number_is_set() {
        let counts = WorkerCounts::default();
        (0..5).for_each(|_| counts.worker_started());
        counts.set_wanted(3);
        assert!(counts.try_retire());
        // The coordinator sets the number again before it has seen the first one end.
        counts.set_wanted(3);
        assert!(counts.try_retire());
        assert!(!counts.try_retire());
        counts.worker_ended();
        counts.set_wanted(2);
        assert!(!counts.try_retire());
        assert!(counts.try_yield() && !counts.try_yield());
    }
}
