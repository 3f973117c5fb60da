//! A segmented download from its first response to its last byte: the journal, the room on the disk, the workers, and their end.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use haul_net::FetchResponse;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::claim_table::ClaimTable;
use super::coordinator::{SegmentCoordinator, SegmentedEnd, WorkerConnection};
use super::piece_check::PieceCheck;
use super::retry_report::RetryReports;
use super::state::{SegmentedState, WorkerCounts};
use crate::connection_control::{ConnectionControl, ConnectionControlOptions};
use crate::disk::blocking;
use crate::error::{GetError, LocalError};
use crate::get::checkpoint::Checkpointer;
use crate::get::context::JobContext;
use crate::get::download_sources::DownloadSources;
use crate::get::download_totals::DownloadTotals;
use crate::get::expectations::FileExpectations;
use crate::get::host_limits::HostPermit;
use crate::get::partial_claim::PartialClaim;
use crate::get::segment_plan::SegmentPlan;
use crate::get::snapshot::SnapshotSource;
use crate::get::strategy::{DownloadedFile, StrategyOutcome, UnsavedRanges, start_follower};
use crate::journal::{Journal, JournalHeader};
use crate::options::ConnectionCount;
use crate::range_set::RangeSet;
use crate::sources::SourceContent;
use crate::warning::TransferWarning;

/// The shortest time between two samples of the rate: long enough for a rate, short enough to ramp up within a blink.
const SAMPLE_WINDOW: Duration = Duration::from_millis(50);

/// A first response that brings a part of the file.
#[derive(Debug)]
pub(in crate::get) struct SegmentedStart {
    /// The response; its body is not read yet.
    pub(in crate::get) response: FetchResponse,
    /// The range of its body.
    pub(in crate::get) range: Range<u64>,
    /// Bytes in the whole file.
    pub(in crate::get) total: u64,
    pub(in crate::get) permit: HostPermit,
}

/// Downloads into a file over several connections.
///
/// # Errors
/// The error that ends the strategy; where it is the source's, another source may do better.
pub(in crate::get) async fn download(
    context: &JobContext<'_>,
    expectations: &FileExpectations<'_>,
    sources: &mut DownloadSources,
    totals: &mut DownloadTotals,
    mut claim: PartialClaim,
    start: SegmentedStart,
) -> Result<StrategyOutcome, GetError> {
    if !claim.version.has_validator() && !claim.digests.verifies() {
        context.warn(TransferWarning::UnnoticedChange).await;
    }
    let total = start.total;
    let journal = reserve_space(context, sources, &mut claim, total)?;
    let resumed = claim.partial.resumed.as_ref();
    let done = resumed.map_or_else(RangeSet::new, |resumed| resumed.done.clone());
    // What an earlier attempt fetched is not counted as an earlier run's.
    totals.resumed = done.total_bytes().saturating_sub(totals.fetched);
    let first = WorkerConnection {
        response: Some((start.response, start.range)),
        source: sources.current_number(),
        permit: start.permit,
    };
    let mut coordinator = coordinator(
        context,
        expectations,
        sources,
        &claim,
        &done,
        total,
        journal,
    );
    if let Some(steering) = context.steering {
        let segments: Arc<dyn SnapshotSource> = Arc::clone(&coordinator.shared) as _;
        steering.note_segments(&segments);
    }
    let end = coordinator.run(first).await;
    if let Some(steering) = context.steering {
        let done = coordinator.shared.table().plan.done().clone();
        steering.note_on_disk(done);
        steering.note_sources(&coordinator.shared.table().sources);
    }
    add_totals(totals, &coordinator);
    *sources = std::mem::take(&mut coordinator.shared.table().sources);
    let current = sources.current_number();
    if !sources.recovery.sources().is_live(current) {
        let _ = sources.advance(context.elapsed(), &context.engine.host_limits);
    }
    let header = journal_header(context, sources, &claim, total);
    finish(coordinator, end, claim, header).await
}

fn add_totals(totals: &mut DownloadTotals, coordinator: &SegmentCoordinator<'_>) {
    let settled = coordinator.control.settled_target();
    totals.connections = totals.connections.max(settled);
    totals.fetched += coordinator.shared.fetched();
    totals.segments += coordinator.shared.segments.load(Ordering::Relaxed);
}

/// Makes the end of the workers the outcome of the strategy.
async fn finish(
    coordinator: SegmentCoordinator<'_>,
    end: Result<SegmentedEnd, GetError>,
    mut claim: PartialClaim,
    header: JournalHeader,
) -> Result<StrategyOutcome, GetError> {
    let SegmentCoordinator {
        shared,
        follower,
        mut checkpointer,
        ..
    } = coordinator;
    let length = header.length;
    match end {
        Ok(SegmentedEnd::Complete) => {
            let ranges = shared.table().unsynced.take();
            let unsaved = UnsavedRanges {
                checkpointer,
                ranges,
            };
            Ok(StrategyOutcome::Complete(Box::new(DownloadedFile {
                claim,
                length,
                follower,
                unsaved: Some(unsaved),
            })))
        }
        Ok(SegmentedEnd::Restart(reason)) => {
            let (unsynced, done) = {
                let mut table = shared.table();
                (table.unsynced.take(), table.plan.done().clone())
            };
            let closed = checkpointer.close(unsynced).await;
            closed.map_err(|e| GetError::io("sync", shared.path.clone(), e))?;
            if let Some(journal) = checkpointer.into_journal() {
                claim.partial.return_journal(journal, header, done);
            }
            Ok(StrategyOutcome::restart(claim.partial, reason))
        }
        Err(error) => {
            if let Some(follower) = follower {
                follower.close().await;
            }
            Err(error)
        }
    }
}

/// Begins the journal and gives the file its full length, after a look whether the disk has the space: better now than after an hour.
fn reserve_space(
    context: &JobContext<'_>,
    sources: &DownloadSources,
    claim: &mut PartialClaim,
    total: u64,
) -> Result<Option<Journal>, GetError> {
    let path = claim.partial.paths.path().to_owned();
    let resumed = claim.partial.resumed.as_ref();
    let needed = total - resumed.map_or(0, |resumed| resumed.done.total_bytes());
    let directory = claim.partial.paths.directory();
    if let Some(free) = blocking(|| free_space(directory)).filter(|free| *free < needed) {
        return Err(GetError::local(path, LocalError::NoSpace { needed, free }));
    }
    let header = journal_header(context, sources, claim, total);
    // Bytes that no later run could trust are not claimed for one.
    let is_resumable = claim.version.is_resumable(claim.digests.verifies());
    let header = Some(&header).filter(|_| context.options().resume && is_resumable);
    let partial = &mut claim.partial;
    let journal = partial.open_journal(header)?;
    blocking(|| partial.storage().set_len(total))
        .map_err(|source| GetError::io("extend", path, source))?;
    Ok(journal)
}

/// Bytes that this user may still write beneath a directory, if the system says.
fn free_space(directory: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(directory).ok()?;
    stat.f_bavail.checked_mul(stat.f_frsize)
}

/// The journal's header from now on: for bytes of an earlier run, it says what holds of all of them.
fn journal_header(
    context: &JobContext<'_>,
    sources: &DownloadSources,
    claim: &PartialClaim,
    total: u64,
) -> JournalHeader {
    let announced = &claim.digests.announced;
    let pinned = claim.digests.pinned(&claim.version);
    let source_url = &sources.current().url;
    let header = match &claim.partial.resumed {
        Some(resumed) => resumed.header.clone().with_announced(announced),
        None => {
            JournalHeader::new(&context.job.url, total, &pinned, announced).with_source(source_url)
        }
    };
    // The validators are one host's, and say nothing about another's bytes.
    if sources.is_single() && header.has_validators_of(source_url) {
        header
    } else {
        header.with_join_evidence(claim.digests.join_evidence())
    }
}

fn coordinator<'a>(
    context: &'a JobContext<'_>,
    expectations: &FileExpectations<'_>,
    sources: &mut DownloadSources,
    claim: &PartialClaim,
    done: &RangeSet,
    total: u64,
    journal: Option<Journal>,
) -> SegmentCoordinator<'a> {
    let options = context.options();
    let connections = context.connections();
    let max_connections = context.max_connections(sources);
    let content = SourceContent {
        version: &claim.digests.pinned(&claim.version),
        digests: &claim.digests.announced,
    };
    let evidence = expectations.evidence(&claim.digests);
    let (current, listed) = (sources.current_number(), sources.listed());
    let source_set = sources.recovery.sources_mut();
    source_set.begin(current, &content, evidence);
    let control = ConnectionControl::new(ConnectionControlOptions {
        max: max_connections,
        min: source_set.active_count(),
        fixed: matches!(connections, ConnectionCount::Fixed(_)),
        window: SAMPLE_WINDOW,
    });
    let storage = claim.partial.storage();
    let verifier = expectations.verifier(Arc::clone(&storage), total);
    let trusted_sources = expectations.has_document_pieces().then_some(listed);
    let piece_length = expectations
        .piece_digests()
        .map(crate::get::PieceDigests::length);
    let segments = context.engine.segment_options(max_connections);
    let plan = SegmentPlan::new(total, done, segments);
    let table = ClaimTable::new(plan, std::mem::take(sources), verifier.is_some());
    SegmentCoordinator {
        retry_reports: RetryReports::default(),
        context,
        checkpointer: Checkpointer::new(Arc::clone(&storage), journal, options.checkpoint.clone())
            .with_piece_length(piece_length),
        shared: Arc::new(SegmentedState {
            client: context.engine.client.clone(),
            host_limits: context.engine.host_limits.clone(),
            headers: context.job.headers.clone(),
            robots_tag: context.options().robots_tag,
            storage,
            path: claim.partial.paths.path().to_owned(),
            epoch: Instant::now(),
            job_started: context.started,
            table: Mutex::new(table),
            piece_length,
            counts: WorkerCounts::default(),
            received_before: context.meter.received(),
            meter: Arc::clone(&context.meter),
            segments: AtomicU64::new(0),
            worker_bytes: Mutex::default(),
            peers: Mutex::default(),
        }),
        control,
        follower: start_follower(claim),
        pieces: PieceCheck::new(verifier, trusted_sources),
        workers: JoinSet::new(),
        numbers: Vec::new(),
        round_trip: None,
        last_permit: None,
    }
}
