//! One worker: claims a segment, fetches it over its connection, writes it, until nothing is left to claim.
//!
//! This is the hot path. Pieces that have arrived are gathered ([`GatheredChunks`]) and written with one call; between two writes
//! there is one short lock and one CRC. A worker decides nothing: the plan says what to fetch and how many
//! of the bytes at hand still belong to it, and a failure is handed to the coordinator as it is.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use haul_net::FetchResponse;
use haul_plan::ClaimId;
use url::Url;

use super::attempt_failure::AttemptFailure;
use super::claim_table::HeldClaim;
use super::gathered_chunks::GatheredChunks;
use super::host_limits::HostPermit;
use super::segmented_state::SegmentedState;
use super::unsynced_ranges::written_ranges;
use crate::disk::blocking;
use crate::event::{TransferEvent, TransferEventSender};

/// A worker's surroundings.
#[derive(Debug)]
pub(super) struct SegmentWorker {
    /// Which of the job's workers this is, from 0 on.
    pub(super) number: usize,
    /// Which job.
    pub(super) job: u64,
    /// Which source it asks.
    pub(super) source: usize,
    /// What the job's workers share.
    pub(super) shared: Arc<SegmentedState>,
    /// Where ended segments are told.
    pub(super) events: TransferEventSender,
    /// Leave to hold its connection.
    pub(super) permit: HostPermit,
}

/// How a worker ended.
#[derive(Debug)]
pub(super) struct WorkerExit {
    /// Which worker.
    pub(super) number: usize,
    /// Which source it asked.
    pub(super) source: usize,
    /// Why.
    pub(super) reason: WorkerExitReason,
}

/// Why a worker ended.
#[derive(Debug)]
pub(super) enum WorkerExitReason {
    /// Nothing is left to claim, fewer workers are wanted, or another host is asked now.
    Done,
    /// A request failed.
    Failed(FailedRequest),
}

/// A request that failed.
#[derive(Debug)]
pub(super) struct FailedRequest {
    /// Why.
    pub(super) failure: AttemptFailure,
    /// The bytes that had been asked for.
    pub(super) range: Range<u64>,
    /// When they had been asked for.
    pub(super) requested_at: Duration,
    /// Of which source.
    pub(super) source: usize,
    /// Where.
    pub(super) url: Url,
}

impl SegmentWorker {
    /// Works until there is nothing to claim, fewer workers are wanted, or a failure.
    ///
    /// Dropping it at any await loses at most the gathered bytes: what was written is in the plan.
    pub(super) async fn run(self, first: Option<(FetchResponse, HeldClaim)>) -> WorkerExit {
        let (number, source) = (self.number, self.source);
        let end = self.work(first).await;
        WorkerExit {
            number,
            source,
            reason: end,
        }
    }

    async fn work(&self, first: Option<(FetchResponse, HeldClaim)>) -> WorkerExitReason {
        let (mut answer, mut held) = match first {
            Some((answer, held)) => (Some(answer), Some(held)),
            None => (None, None),
        };
        let mut answered = held.is_some();
        loop {
            if held.is_none() && self.shared.retires(self.source) {
                return WorkerExitReason::Done;
            }
            let next = match held.take() {
                Some(held) => Some(held),
                None => self.claim(answered),
            };
            let Some(next) = next else {
                self.shared.crew.worker_ended();
                return WorkerExitReason::Done;
            };
            let (asked, url) = (self.shared.now(), self.shared.sources.of(self.source).url);
            if let Err(failure) = self.fetch_claim(answer.take(), &next).await {
                self.shared.crew.worker_ended();
                return WorkerExitReason::Failed(FailedRequest {
                    failure,
                    range: next.claim.range,
                    requested_at: asked,
                    source: self.source,
                    url,
                });
            }
            answered = true;
        }
    }

    /// The next claim, as long as requests go to the host that this worker may hold a connection to, and no other source is worth
    /// more; that is not asked of one that has only come.
    fn claim(&self, answered: bool) -> Option<HeldClaim> {
        let (shared, source) = (&self.shared, self.source);
        if !self.permit.is_for(&shared.sources.host(source)) || (answered && !shared.stays(source))
        {
            return None;
        }
        shared.claim(source)
    }

    /// Fetches one claim, as far as it stays ours. Whatever happens, the claim is released.
    async fn fetch_claim(
        &self,
        answer: Option<FetchResponse>,
        held: &HeldClaim,
    ) -> Result<(), AttemptFailure> {
        let _release = ClaimGuard {
            shared: &self.shared,
            id: held.claim.id,
        };
        let mut came = RequestReport {
            worker: self,
            range: held.claim.range.start..held.claim.range.start,
            since: self.shared.now(),
        };
        let fetch = async {
            let (answer, end) = match answer {
                Some(answer) => (answer, held.claim.range.end),
                None => {
                    let (answer, range) = self
                        .shared
                        .ask(self.source, held.claim.range.clone())
                        .await?;
                    (answer, range.end)
                }
            };
            self.shared
                .table()
                .plan
                .response_started(held.claim.id, self.shared.now());
            self.read_body(answer, held.claim.id, &mut came.range.end, end)
                .await
        };
        let ended = tokio::select! {
            ended = fetch => ended,
            // Another worker has taken the whole rest, or the source was dropped: this connection goes.
            () = held.cancelled.cancelled() => Ok(()),
        };
        if let Some(event) = came.take_event() {
            // Nobody listening is no reason to stop.
            let _ = self.events.send(event).await;
        }
        ended
    }

    /// Reads a body into the file from `at` on, which follows what got there. The head promised bytes up to `reason`.
    async fn read_body(
        &self,
        mut answer: FetchResponse,
        id: ClaimId,
        at: &mut u64,
        end: u64,
    ) -> Result<(), AttemptFailure> {
        let _flowing = ActiveBodyGuard::new(&self.shared, self.source);
        let mut gathered = GatheredChunks::new();
        let broken = |error| AttemptFailure::Transport {
            error: Box::new(error),
            answered: true,
        };
        loop {
            let broke = match gathered.gather(&mut answer, &self.shared.fetched).await {
                Ok(more) if !more && gathered.bytes() == 0 => break,
                Ok(_) => None,
                Err(error) => Some(error),
            };
            let ours = self.write(&mut gathered, id, *at)?;
            *at += ours.written;
            if let Some(error) = broke {
                return Err(broken(error));
            }
            if ours.cut {
                // The rest belongs to another worker. What is left of this answer is not worth reading.
                return Ok(());
            }
        }
        if *at < end.min(self.shared.table().plan.claim_end(id)) {
            // Framed so that its end is no error (chunked, or closed), yet not what the head said (row A10): asked for again
            // without a price, such answers would follow each other for ever.
            return Err(broken(answer.truncated_error()));
        }
        answer.recycle();
        Ok(())
    }

    /// Writes what of the pieces is still this worker's, and empties it.
    fn write(
        &self,
        gathered: &mut GatheredChunks,
        id: ClaimId,
        at: u64,
    ) -> Result<FlushOutcome, AttemptFailure> {
        let came = gathered.bytes();
        let now = self.shared.now();
        let ours = self.shared.table().reserve(id, came, now);
        gathered.truncate(ours);
        if ours > 0 {
            let spans = written_ranges(at, gathered.chunks(), self.shared.cut);
            blocking(|| self.shared.storage.write_at(at, gathered.chunks()))
                .map_err(AttemptFailure::Local)?;
            self.shared.table().wrote(id, spans);
        }
        gathered.clear();
        Ok(FlushOutcome {
            written: ours,
            cut: ours < came,
        })
    }
}

/// What became of gathered pieces.
struct FlushOutcome {
    /// Bytes that are in the file.
    written: u64,
    /// Whether some of the bytes at hand belonged to another worker by now.
    cut: bool,
}

/// What a request brought. Dropped before that was told, with a worker whose rest another has fetched by now, it is told all the
/// same unless the channel is full.
struct RequestReport<'a> {
    worker: &'a SegmentWorker,
    /// Where it lies in the resource.
    range: Range<u64>,
    /// When it was asked for.
    since: Duration,
}

impl RequestReport<'_> {
    /// The event to tell, once, if there is anything.
    fn take_event(&mut self) -> Option<TransferEvent> {
        let range = std::mem::replace(&mut self.range, 0..0);
        let shared = &self.worker.shared;
        if range.is_empty() {
            return None;
        }
        shared.segments.fetch_add(1, Ordering::Relaxed);
        Some(TransferEvent::SegmentEnded {
            job: self.worker.job,
            range,
            elapsed: shared.now().saturating_sub(self.since),
            worker: self.worker.number,
        })
    }
}

impl Drop for RequestReport<'_> {
    fn drop(&mut self) {
        if let Some(event) = self.take_event() {
            let _ = self.worker.events.try_send(event);
        }
    }
}

/// Gives a claim back when its worker is through with it or dropped.
struct ClaimGuard<'a> {
    shared: &'a SegmentedState,
    id: ClaimId,
}

impl Drop for ClaimGuard<'_> {
    fn drop(&mut self) {
        self.shared.release(self.id);
    }
}

/// Counts a worker among those in the middle of a body.
struct ActiveBodyGuard<'a>(&'a SegmentedState, usize);

impl<'a> ActiveBodyGuard<'a> {
    fn new(shared: &'a SegmentedState, source: usize) -> Self {
        shared.table().body_started(source);
        Self(shared, source)
    }
}

impl Drop for ActiveBodyGuard<'_> {
    fn drop(&mut self) {
        self.0.table().body_ended(self.1);
    }
}
