//! What the workers of one job share: the table under a lock, the file, where to ask.
//!
//! The lock is held for bookkeeping only, never across an await or a system call.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haul_net::{Client, FetchResponse};
use haul_plan::{ClaimId, ResourceVersion, ResponseVerdict, SourceContent, expected_digests};
use http::HeaderMap;
use tokio::time::Instant;

use super::attempt_failure::AttemptFailure;
use super::claim_table::{ClaimTable, HeldClaim};
use super::job_sources::JobSources;
use super::request::RangeRequest;
use super::worker_counts::WorkerCounts;
use crate::disk::PartialStorage;

/// What all workers of a job read and write.
#[derive(Debug)]
pub(super) struct SegmentedState {
    /// The user's header fields for the job.
    headers: HeaderMap,
    /// Makes requests.
    pub(super) client: Client,
    /// The partial file.
    pub(super) storage: Arc<dyn PartialStorage>,
    /// The moment that the plan's durations count from.
    pub(super) epoch: Instant,
    /// The moment that the sources' durations count from: the job's beginning, which is earlier.
    begun: Instant,
    /// Where requests go.
    pub(super) sources: JobSources,
    /// The plan and what goes with it.
    table: Mutex<ClaimTable>,
    /// Bytes in a piece that has a digest: no claim in the journal goes beyond one.
    pub(super) cut: Option<u64>,
    /// How many workers there are and should be.
    pub(super) crew: WorkerCounts,
    /// Bytes that came over the wire, in this run and for this job.
    pub(super) fetched: AtomicU64,
    /// Requests that brought bytes.
    pub(super) segments: AtomicU64,
}

impl SegmentedState {
    /// Shared state at the start of a segmented download.
    pub(super) fn new(
        client: Client,
        storage: Arc<dyn PartialStorage>,
        start: SegmentedStart,
    ) -> Self {
        Self {
            headers: start.headers,
            client,
            storage,
            epoch: start.epoch,
            begun: start.begun,
            sources: start.sources,
            table: Mutex::new(start.table),
            cut: start.cut,
            crew: WorkerCounts::default(),
            fetched: AtomicU64::new(0),
            segments: AtomicU64::new(0),
        }
    }

    /// The lock. A panic under it is a bug that the panicking task reports; the others may still save what they have.
    pub(super) fn table(&self) -> MutexGuard<'_, ClaimTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the plan's beginning.
    pub(super) fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Time since the job's beginning.
    pub(super) fn since_begun(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Bytes that came over the wire.
    pub(super) fn fetched(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed)
    }

    /// Requests that brought bytes.
    pub(super) fn segments(&self) -> u64 {
        self.segments.load(Ordering::Relaxed)
    }

    /// The next claim for an idle worker that asks this source.
    pub(super) fn claim(&self, source: usize) -> Option<HeldClaim> {
        let now = self.now();
        self.table().claim(source, now)
    }

    /// The claim that belongs to the job's first request, sent before there was a plan.
    pub(super) fn adopt(&self, source: usize, range: Range<u64>) -> Option<HeldClaim> {
        let now = self.now();
        self.table().adopt(source, range, now)
    }

    /// A claim's holder is through with it, for whatever reason.
    pub(super) fn release(&self, id: ClaimId) {
        self.table().release(id);
    }

    /// Whether a worker that asks this source should end now, since fewer are wanted: then it counts no more.
    pub(super) fn retires(&self, source: usize) -> bool {
        self.table().sources.goes_first(source) && self.crew.try_retire()
    }

    /// Whether a worker should ask its source for more: not one that was dropped, or where another would bring far more.
    pub(super) fn stays(&self, source: usize) -> bool {
        let now = self.since_begun();
        self.table().sources.stays(source, now)
    }

    /// Asks a source for a range and judges the head of what comes; only an answer whose bytes may go into the file returns.
    pub(super) async fn ask(
        &self,
        source: usize,
        range: Range<u64>,
    ) -> Result<(FetchResponse, Range<u64>), AttemptFailure> {
        let site = self.sources.of(source);
        let pinned = self.table().sources.pinned(source).cloned();
        let ask = RangeRequest {
            own: &self.headers,
            client: &self.client,
            url: &site.url,
            given: &site.given,
            range: Some(range),
            pinned: pinned.as_ref(),
            if_range: site.if_range,
            shared: false,
            conditions: HeaderMap::new(),
        };
        let (answer, verdict) = ask.send().await?;
        let failure = match verdict {
            ResponseVerdict::Part { range, version, .. } => {
                let admitted = match pinned {
                    Some(_) => Ok(()),
                    None => self.admit(source, &version, &answer.headers),
                };
                match admitted {
                    Ok(()) => {
                        if answer.redirected {
                            self.sources.lead(source, answer.url.clone());
                        }
                        return Ok((answer, range));
                    }
                    Err(failure) => failure,
                }
            }
            verdict => AttemptFailure::from_verdict(verdict, &answer),
        };
        answer.discard().await;
        Err(failure)
    }

    /// The first answer of a source: is it the file?
    fn admit(
        &self,
        source: usize,
        version: &ResourceVersion,
        headers: &HeaderMap,
    ) -> Result<(), AttemptFailure> {
        let digests = expected_digests(headers, false);
        let found = SourceContent {
            version,
            digests: &digests,
        };
        let admitted = self.table().sources.admit(source, &found);
        admitted.map_err(|mismatch| AttemptFailure::Unfit(mismatch.to_string()))
    }
}

/// What a segmented download begins with.
#[derive(Debug)]
pub(super) struct SegmentedStart {
    /// The moment that durations count from.
    pub(super) epoch: Instant,
    /// The job's beginning.
    pub(super) begun: Instant,
    /// Where requests go.
    pub(super) sources: JobSources,
    /// Who fetches what, and from whom.
    pub(super) table: ClaimTable,
    /// Bytes in a piece that has a digest.
    pub(super) cut: Option<u64>,
    /// The user's header fields for the job.
    pub(super) headers: HeaderMap,
}
