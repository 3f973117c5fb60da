//! One worker: claims a range, fetches it over its connection and writes it, until nothing is left to claim.
//!
//! This is the hot path. Chunks that have arrived are gathered ([`GatheredChunks`]) and written with one call; between two writes there
//! is one short lock and one CRC. A worker decides nothing: the plan says which bytes to fetch and how many of the bytes at hand still
//! belong to it, and a failure is handed to the coordinator as it is.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use haul_net::FetchResponse;

use super::claim_table::HeldClaim;
use super::state::SegmentedState;
use crate::disk::blocking;
use crate::event::{TransferEvent, TransferEventSender};
use crate::get::attempt_error::AttemptError;
use crate::get::download_sources::DownloadSource;
use crate::get::gathered_chunks::GatheredChunks;
use crate::get::host_limits::HostPermit;
use crate::get::segment_plan::ClaimId;
use crate::get::unsynced_ranges::written_ranges;

#[derive(Debug)]
pub(super) struct SegmentWorker {
    /// Its number among the job's workers, from 0 on.
    pub(super) number: usize,
    pub(super) job: u64,
    pub(super) source: usize,
    pub(super) shared: Arc<SegmentedState>,
    pub(super) events: TransferEventSender,
    pub(super) permit: HostPermit,
}

#[derive(Debug)]
pub(super) struct WorkerExit {
    pub(super) number: usize,
    pub(super) source: usize,
    pub(super) permit: HostPermit,
    /// The request that failed. `None`: nothing is left to claim, fewer workers are wanted, another job
    /// wants the connection, or requests go to another host now.
    pub(super) failed: Option<FailedRequest>,
}

/// The job's first response, whose body a worker reads before it sends requests.
pub(super) struct FirstSegmentResponse {
    pub(super) response: FetchResponse,
    pub(super) held: HeldClaim,
    /// It counts from the start: if the origin refuses the requests of other workers meanwhile, that is a limit of connections.
    pub(super) active: ActiveBodyGuard,
}

#[derive(Debug)]
pub(super) struct FailedRequest {
    pub(super) error: Box<AttemptError>,
    /// The plan's time of the request.
    pub(super) requested_at: Duration,
    /// Bytes that it brought into the file.
    pub(super) received: u64,
    /// The number of its source.
    pub(super) number: usize,
    /// The source as it was at the request.
    pub(super) source: DownloadSource,
}

impl SegmentWorker {
    /// Works until there is nothing to claim, fewer workers are wanted, another job wants the connection, or a request fails.
    ///
    /// Dropping it at any await loses at most the gathered chunks: the plan knows what was written.
    pub(super) async fn run(self, first: Option<FirstSegmentResponse>) -> WorkerExit {
        let (number, source) = (self.number, self.source);
        let failed = self.work(first).await.err();
        WorkerExit {
            number,
            source,
            permit: self.permit,
            failed,
        }
    }

    /// Whether to end now, since another job wants the connection and this job has more. Then the worker is not counted any more.
    fn should_yield(&self) -> bool {
        self.permit.is_wanted_by_others() && self.shared.counts.try_yield()
    }

    async fn work(&self, mut first: Option<FirstSegmentResponse>) -> Result<(), FailedRequest> {
        let mut has_answered = first.is_some();
        loop {
            let is_surplus = || self.shared.should_retire(self.source) || self.should_yield();
            if first.is_none() && is_surplus() {
                return Ok(());
            }
            let (next, response) = match first.take() {
                Some(first) => (Some(first.held), Some((first.response, first.active))),
                None => (self.claim(has_answered), None),
            };
            let Some(next) = next else {
                self.shared.counts.worker_ended();
                return Ok(());
            };
            let (requested_at, source) = (self.shared.now(), self.shared.source(self.source));
            let (fetched, received) = self.fetch(response, &next, &source).await;
            if let Err(error) = fetched {
                self.shared.counts.worker_ended();
                return Err(FailedRequest {
                    error,
                    requested_at,
                    received,
                    number: self.source,
                    source,
                });
            }
            has_answered = true;
        }
    }

    /// The next claim, as long as requests go to the host that this worker's permit is for, and no other source would bring more. A
    /// worker that has only begun stays with its source.
    fn claim(&self, has_answered: bool) -> Option<HeldClaim> {
        let (shared, source) = (&self.shared, self.source);
        let host = Arc::clone(&shared.table().sources.get(source).host);
        if !self.permit.is_for(&host) || (has_answered && !shared.should_stay(source)) {
            return None;
        }
        let now = shared.now();
        shared.table().claim(self.number, source, now)
    }

    /// Fetches one claim, as far as it stays this worker's, and counts the bytes that arrived. Whatever happens, the claim is released.
    async fn fetch(
        &self,
        response: Option<(FetchResponse, ActiveBodyGuard)>,
        held: &HeldClaim,
        source: &DownloadSource,
    ) -> (Result<(), Box<AttemptError>>, u64) {
        let (id, claimed) = (held.claim.id, &held.claim.range);
        let _release = ClaimGuard {
            shared: &self.shared,
            id,
        };
        let mut report = RequestReport {
            worker: self,
            range: claimed.start..claimed.start,
            since: self.shared.now(),
        };
        let fetch = async {
            let (response, end, _active) = match response {
                Some((response, active)) => (response, claimed.end, active),
                None => {
                    let request = self.shared.request(self.source, source, claimed.clone());
                    let (response, range) = request.await?;
                    let active = ActiveBodyGuard::new(Arc::clone(&self.shared), self.source);
                    (response, range.end, active)
                }
            };
            let now = self.shared.now();
            self.shared.note_peer(self.number, response.peer);
            self.shared.table().plan.response_started(id, now);
            let body = Body {
                worker: self,
                source,
                id,
                range: claimed.start..end,
            };
            body.read(response, &mut report.range.end).await
        };
        let fetched = tokio::select! {
            fetched = fetch => fetched,
            // Another worker has taken the whole rest, or the source was dropped: this connection goes.
            () = held.cancelled.cancelled() => Ok(()),
        };
        let received = report.range.end - report.range.start;
        if let Some(event) = report.take_event() {
            // A closed channel is not a reason to stop.
            let _ = self.events.send(event).await;
        }
        (fetched, received)
    }
}

/// The body of a response on its way into the file.
struct Body<'a> {
    worker: &'a SegmentWorker,
    source: &'a DownloadSource,
    id: ClaimId,
    /// The range that its head announced.
    range: Range<u64>,
}

impl Body<'_> {
    /// Reads the body into the file from `at` on, which follows the bytes that got there.
    async fn read(
        &self,
        mut response: FetchResponse,
        at: &mut u64,
    ) -> Result<(), Box<AttemptError>> {
        let shared = &self.worker.shared;
        let mut gathered = GatheredChunks::new();
        loop {
            let error = match gathered.gather(&mut response, &shared.meter).await {
                Ok(more) if !more && gathered.bytes() == 0 => break,
                Ok(_) => None,
                Err(error) => Some(error),
            };
            let received = gathered.bytes();
            let flushed = self.write(&mut gathered, *at)?;
            *at += flushed.written;
            shared.meter.throttle(received).await;
            if let Some(error) = error {
                return Err(self.broken(error));
            }
            if flushed.is_cut {
                // The rest belongs to another worker. What is left of this response is not worth reading.
                return Ok(());
            }
        }
        let claim_end = shared.table().plan.claim_end(self.id);
        if *at < self.range.end.min(claim_end) {
            // Its framing says that the body ended properly (chunked, or closed), and yet it is shorter than its head said (row A10).
            // Requested again without costing a retry, such responses would follow each other for ever.
            return Err(self.broken(response.truncated_error()));
        }
        response.recycle();
        Ok(())
    }

    fn broken(&self, error: haul_net::Error) -> Box<AttemptError> {
        let range = Some(self.range.clone());
        AttemptError::transport(error, true, &self.source.location, range)
    }

    /// Writes the gathered chunks as far as they are still this worker's, and drops them.
    fn write(
        &self,
        gathered: &mut GatheredChunks,
        at: u64,
    ) -> Result<FlushOutcome, Box<AttemptError>> {
        let shared = &self.worker.shared;
        let (received, now) = (gathered.bytes(), shared.now());
        let written = shared.table().reserve(self.id, received, now);
        gathered.truncate(written);
        if written > 0 {
            let ranges = written_ranges(at, gathered.chunks(), shared.piece_length);
            blocking(|| shared.storage.write_at(at, gathered.chunks()))
                .map_err(|error| AttemptError::local(shared.path.clone(), error))?;
            shared.table().on_written(self.id, ranges);
        }
        gathered.clear();
        Ok(FlushOutcome {
            written,
            is_cut: written < received,
        })
    }
}

/// What became of gathered chunks.
struct FlushOutcome {
    /// Bytes that are in the file.
    written: u64,
    /// Whether some of the bytes at hand belonged to another worker by now.
    is_cut: bool,
}

/// The bytes that a request brought, for an event. The event is also sent when the report is dropped with its worker, whose rest another
/// worker has fetched by now, unless the channel is full.
struct RequestReport<'a> {
    worker: &'a SegmentWorker,
    /// The bytes in the resource.
    range: Range<u64>,
    /// The plan's time of the request.
    since: Duration,
}

impl RequestReport<'_> {
    /// The event to send, once, if there are bytes.
    fn take_event(&mut self) -> Option<TransferEvent> {
        let range = std::mem::replace(&mut self.range, 0..0);
        let shared = &self.worker.shared;
        if range.is_empty() {
            return None;
        }
        shared.count_request(self.worker.number, range.end - range.start);
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

/// Gives a claim back when its worker is finished with it or dropped.
struct ClaimGuard<'a> {
    shared: &'a SegmentedState,
    id: ClaimId,
}

impl Drop for ClaimGuard<'_> {
    fn drop(&mut self) {
        self.shared.table().release(self.id);
    }
}

/// Counts a worker among those in the middle of a body.
pub(super) struct ActiveBodyGuard {
    shared: Arc<SegmentedState>,
    source: usize,
}

impl ActiveBodyGuard {
    pub(super) fn new(shared: Arc<SegmentedState>, source: usize) -> Self {
        shared.table().body_started(source);
        Self { shared, source }
    }
}

impl Drop for ActiveBodyGuard {
    fn drop(&mut self) {
        self.shared.table().body_ended(self.source);
    }
}
