//! The bookkeeping of a job's workers: one lock over the plan, the sources and all that must agree with them.
//!
//! A source that is dropped ends here: its claims are cancelled, and none of its bytes may be written any more.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::get::download_sources::DownloadSources;
use crate::get::segment_plan::{Claim, ClaimId, ClaimRequest, SegmentPlan};
use crate::get::snapshot::{DownloadSnapshot, RequestSnapshot};
use crate::get::unsynced_ranges::UnsyncedRanges;
use crate::journal::SavedRange;
use crate::range_set::RangeSet;
use crate::recovery::PieceRetry;
use crate::sources::SourceSet;

/// The state under the lock.
#[derive(Debug)]
pub(super) struct ClaimTable {
    /// Which worker fetches which bytes.
    pub(super) plan: SegmentPlan,
    pub(super) sources: DownloadSources,
    /// Bytes written since the last checkpoint.
    pub(super) unsynced: UnsyncedRanges,
    /// The holder of each claim.
    holders: HashMap<ClaimId, ClaimHolder>,
    /// Workers in the middle of a body, by source.
    active_bodies: HashMap<usize, usize>,
    /// The bytes of each source, where pieces are verified: a bad piece must be traced to its senders.
    received_from: Option<BTreeMap<usize, RangeSet>>,
    /// Ranges that only one source may fetch.
    exclusive: Vec<(Range<u64>, usize)>,
}

#[derive(Debug)]
struct ClaimHolder {
    worker: usize,
    source: usize,
    /// Stops the worker.
    cancel: CancellationToken,
}

/// A claim, and a token that is cancelled when nothing is left of it.
#[derive(Debug)]
pub(super) struct HeldClaim {
    pub(super) claim: Claim,
    /// Cancelled when another worker took over the whole rest, or the source was dropped.
    pub(super) cancelled: CancellationToken,
}

/// The senders of a bad piece, and what follows.
#[derive(Debug)]
pub(super) struct BadPieceSenders {
    /// The sources that sent some of it in this run.
    pub(super) senders: Vec<usize>,
    /// The sources that were dropped for it.
    pub(super) dropped: Vec<usize>,
    /// Which source sends it again.
    pub(super) retry: PieceRetry,
}

impl ClaimTable {
    /// A table without workers. `traces_pieces`: pieces are verified.
    pub(super) fn new(plan: SegmentPlan, sources: DownloadSources, traces_pieces: bool) -> Self {
        Self {
            plan,
            sources,
            unsynced: UnsyncedRanges::default(),
            holders: HashMap::new(),
            active_bodies: HashMap::new(),
            received_from: traces_pieces.then(BTreeMap::new),
            exclusive: Vec::new(),
        }
    }

    /// The state of the sources.
    pub(super) fn source_set(&self) -> &SourceSet {
        self.sources.recovery.sources()
    }

    /// The next claim for an idle worker of this source. Cancels a victim that is left with nothing.
    pub(super) fn claim(
        &mut self,
        worker: usize,
        source: usize,
        now: Duration,
    ) -> Option<HeldClaim> {
        if !self.source_set().is_live(source) {
            return None;
        }
        let excluded = self.excluded_ranges(source);
        let request = ClaimRequest {
            rate: self.source_set().connection_rate(source),
            excluded: excluded.as_ref(),
        };
        let claim = self.plan.claim_for(&request, now)?;
        if let Some(over) = claim.taken_from.as_ref().filter(|over| over.victim_emptied)
            && let Some(victim) = self.holders.get(&over.victim)
        {
            victim.cancel.cancel();
        }
        Some(self.register_holder(worker, source, claim))
    }

    /// The claim of the job's first response, which was requested before there was a plan.
    pub(super) fn claim_first_response(
        &mut self,
        worker: usize,
        source: usize,
        range: Range<u64>,
        now: Duration,
    ) -> Option<HeldClaim> {
        let claim = self.plan.claim_first_response(range, now)?;
        Some(self.register_holder(worker, source, claim))
    }

    fn register_holder(&mut self, worker: usize, source: usize, claim: Claim) -> HeldClaim {
        let cancel = CancellationToken::new();
        let cancelled = cancel.clone();
        let holder = ClaimHolder {
            worker,
            source,
            cancel,
        };
        self.holders.insert(claim.id, holder);
        HeldClaim { claim, cancelled }
    }

    /// Whether a worker of this source would find something to claim.
    pub(super) fn has_work(&self, source: usize, now: Duration) -> bool {
        let excluded = self.excluded_ranges(source);
        let request = ClaimRequest {
            rate: self.source_set().connection_rate(source),
            excluded: excluded.as_ref(),
        };
        self.plan.has_work_for(&request, now)
    }

    /// Ranges that other sources alone may fetch.
    fn excluded_ranges(&self, source: usize) -> Option<RangeSet> {
        let others = self.exclusive.iter().filter(|(_, only)| *only != source);
        let excluded: RangeSet = others.map(|(range, _)| range.clone()).collect();
        (!excluded.is_empty()).then_some(excluded)
    }

    /// How many of the bytes at hand for a claim may be written: none of a source that was dropped meanwhile.
    pub(super) fn reserve(&mut self, id: ClaimId, bytes: u64, now: Duration) -> u64 {
        let holder = self.holders.get(&id);
        if holder.is_none_or(|holder| !self.source_set().is_live(holder.source)) {
            return 0;
        }
        self.plan.reserve(id, bytes, now)
    }

    /// A claim's next bytes are in the file.
    pub(super) fn on_written(&mut self, id: ClaimId, ranges: Vec<SavedRange>) {
        for range in ranges {
            let bytes = range.end - range.start;
            self.plan.mark_written(id, bytes);
            if let Some(ClaimHolder { source, .. }) = self.holders.get(&id) {
                self.sources.recovery.on_bytes(*source, bytes);
                if let Some(received) = &mut self.received_from {
                    let received = received.entry(*source).or_default();
                    received.insert(range.start..range.end);
                }
            }
            self.unsynced.add(range);
        }
    }

    /// A claim's holder is finished with it, for whatever reason.
    pub(super) fn release(&mut self, id: ClaimId) {
        self.holders.remove(&id);
        self.plan.release(id);
    }

    /// Adds the requests that run, and the bytes of each source.
    pub(super) fn fill_snapshot(&self, snapshot: &mut DownloadSnapshot, now: Duration) {
        snapshot.length = Some(self.plan.length());
        snapshot.on_disk = self.plan.done().clone();
        let requests = self.plan.active_claims(now).filter_map(|active| {
            let holder = self.holders.get(&active.id)?;
            Some(RequestSnapshot {
                connection: holder.worker,
                source: holder.source,
                range: active.range,
                position: active.position,
                rate: active.rate,
                address: None,
                protocol: http::Version::HTTP_11,
            })
        });
        snapshot.requests = requests.collect();
        snapshot.requests.sort_by_key(|request| request.connection);
        snapshot.sources = self.sources.snapshot();
    }

    /// A worker begins to read a body.
    pub(super) fn body_started(&mut self, source: usize) {
        *self.active_bodies.entry(source).or_default() += 1;
    }

    /// A worker stops reading a body.
    pub(super) fn body_ended(&mut self, source: usize) {
        if let Some(count) = self.active_bodies.get_mut(&source) {
            *count = count.saturating_sub(1);
        }
    }

    /// Workers in the middle of a body.
    pub(super) fn active_bodies(&self) -> usize {
        self.active_bodies.values().sum()
    }

    /// Workers in the middle of a body of one source.
    pub(super) fn active_bodies_of(&self, source: usize) -> usize {
        self.active_bodies.get(&source).copied().unwrap_or_default()
    }

    /// A source is dropped: its workers are stopped, and any source may fetch the ranges that it alone was to send.
    pub(super) fn drop_source(&mut self, source: usize, reason: &str) {
        let sources = self.sources.recovery.sources_mut();
        sources.drop_source(source, reason);
        self.exclusive.retain(|(_, only)| *only != source);
        let holders = self.holders.values();
        holders
            .filter(|holder| holder.source == source)
            .for_each(|holder| holder.cancel.cancel());
    }

    /// The sources that sent some of a range in this run, and whether they sent all of it: bytes of an earlier run may be what is bad.
    pub(super) fn senders(&self, range: &Range<u64>) -> (Vec<usize>, bool) {
        let received = self.received_from.iter().flatten();
        let some = received.filter(|(_, received)| {
            let gap = received.gaps(range.clone()).next();
            gap.as_ref() != Some(range)
        });
        let (senders, received): (Vec<usize>, Vec<&RangeSet>) =
            some.map(|(source, received)| (*source, received)).unzip();
        let is_all = match received[..] {
            [only] => only.covers(range),
            _ => true,
        };
        (senders, is_all)
    }

    /// A piece is bad for the `times`-th time: finds its senders, and which source sends it again. Its bytes are discarded later, when
    /// the journal no longer claims them. `now` is the time since the job began.
    pub(super) fn blame(
        &mut self,
        range: &Range<u64>,
        times: u32,
        now: Duration,
    ) -> BadPieceSenders {
        let (senders, is_all) = self.senders(range);
        let is_live = |table: &Self, source: &usize| table.source_set().is_live(*source);
        let live = senders.iter().filter(|source| is_live(self, source));
        let mut dropped: Vec<usize> = live.copied().collect();
        let to_blame = if is_all { &senders[..] } else { &[] };
        let retry = self.sources.recovery.on_bad_piece(to_blame, times, now);
        dropped.retain(|source| !is_live(self, source));
        self.exclusive.retain(|(known, _)| known != range);
        if let PieceRetry::FromOne(source) = retry {
            self.exclusive.push((range.clone(), source));
        }
        BadPieceSenders {
            senders,
            dropped,
            retry,
        }
    }

    /// Where no worker runs, and no candidate may fetch anything: lets any source fetch the ranges that one alone was to send. Returns
    /// whether that helps. `now` is the plan's time, `job_now` that since the job began.
    pub(super) fn lift_exclusive(&mut self, now: Duration, job_now: Duration) -> bool {
        let candidates = self.source_set().candidates(job_now);
        let is_stuck = !self.exclusive.is_empty()
            && !candidates.is_empty()
            && !candidates.iter().any(|source| self.has_work(*source, now));
        if is_stuck {
            self.exclusive.clear();
        }
        is_stuck
    }

    /// A bad piece's bytes are to be fetched again from now on.
    pub(super) fn discard(&mut self, range: Range<u64>) {
        self.forget_senders(&range);
        self.plan.invalidate(range);
    }

    /// A piece is right: its senders need not be known any more.
    pub(super) fn on_good_piece(&mut self, range: &Range<u64>) {
        self.exclusive.retain(|(known, _)| known != range);
        self.forget_senders(range);
    }

    fn forget_senders(&mut self, range: &Range<u64>) {
        for received in self.received_from.iter_mut().flat_map(BTreeMap::values_mut) {
            received.remove(range.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::get::segment_plan::SegmentOptions;
    use crate::recovery::{FailureContext, RecoveryAction, RecoveryPolicy, RetryOptions};
    use crate::response::RequestFailure;
    use crate::sources::{IntegrityEvidence, SourceContent};
    use haul_plan::ResourceVersion;

    use super::*;

    const NOW: Duration = Duration::from_secs(1);

    /// A file of a hundred bytes in claims of ten, and two sources that both have it.
    fn table() -> ClaimTable {
        let options = SegmentOptions {
            fixed_size: Some(10),
            ..SegmentOptions::default()
        };
        let mut recovery = RecoveryPolicy::new(RetryOptions::default());
        let content = SourceContent {
            version: &ResourceVersion::default(),
            digests: &[],
        };
        assert_eq!(
            [recovery.add_source(true), recovery.add_source(true)],
            [0, 1]
        );
        let evidence = IntegrityEvidence {
            verified: true,
            piece_digests: true,
            user_allows_joining: true,
        };
        recovery.sources_mut().begin(0, &content, evidence);
        recovery.sources_mut().admit(1, &content).unwrap();
        let sources = DownloadSources::with_policy(recovery);
        ClaimTable::new(
            SegmentPlan::new(100, &RangeSet::new(), options),
            sources,
            true,
        )
    }

    /// The next claim of a source, written.
    fn write(table: &mut ClaimTable, source: usize) -> Range<u64> {
        let held = table.claim(0, source, NOW).unwrap();
        let (id, Range { start, end }) = (held.claim.id, held.claim.range);
        assert_eq!(table.reserve(id, end - start, NOW), end - start);
        table.on_written(id, vec![SavedRange { start, end, crc: 0 }]);
        table.release(id);
        start..end
    }

    #[test]
    fn no_byte_of_a_dropped_source_is_reserved_and_its_claims_are_cancelled() {
        let mut table = table();
        let (held, other) = (
            table.claim(0, 0, NOW).unwrap(),
            table.claim(0, 1, NOW).unwrap(),
        );
        assert_eq!(table.reserve(held.claim.id, 3, NOW), 3);
        table.drop_source(0, "gone");
        assert_eq!(table.reserve(held.claim.id, 3, NOW), 0);
        assert!(held.cancelled.is_cancelled() && !other.cancelled.is_cancelled());
        assert!(table.claim(0, 0, NOW).is_none());
        assert_eq!(table.reserve(other.claim.id, 3, NOW), 3);
    }

    #[test]
    fn a_bad_piece_of_two_sources_is_sent_again_by_one() {
        let mut table = table();
        let piece = write(&mut table, 0).start..write(&mut table, 1).end;
        let blame = table.blame(&piece, 1, NOW);
        assert_eq!((blame.senders.len(), &blame.dropped[..]), (2, &[][..]));
        let PieceRetry::FromOne(one) = blame.retry else {
            panic!("{blame:?}");
        };
        let other = 1 - one;
        table.discard(piece.clone());
        assert_eq!(table.claim(0, other, NOW).unwrap().claim.range, 20..30);
        assert!(table.has_work(other, NOW));
        assert_eq!(
            (write(&mut table, one), write(&mut table, one)),
            (0..10, 10..20)
        );
        // Bad again, it is that source's fault alone.
        let blame = table.blame(&piece, 2, NOW);
        assert_eq!((blame.senders, blame.dropped), (vec![one], vec![one]));
        table.discard(piece);
        assert_eq!(write(&mut table, other), 0..10);
    }

    #[test]
    fn any_source_may_fetch_an_exclusive_range_when_its_source_rests_and_no_worker_runs() {
        let mut table = table();
        let piece = write(&mut table, 0).start..write(&mut table, 1).end;
        let PieceRetry::FromOne(one) = table.blame(&piece, 1, NOW).retry else {
            panic!("no source alone");
        };
        table.discard(piece.clone());
        while let Some(held) = table.claim(0, 1 - one, NOW) {
            let Range { start, end } = held.claim.range;
            table.reserve(held.claim.id, end - start, NOW);
            table.on_written(held.claim.id, vec![SavedRange { start, end, crc: 0 }]);
            table.release(held.claim.id);
        }
        // The one source can begin: it is waited for.
        assert!(!table.lift_exclusive(NOW, NOW));
        let context = FailureContext {
            source: one,
            now: NOW,
            requested_at: NOW,
            received: 0,
            lost_body: None,
            host_has_answered: false,
            delivering: 0,
            redirected: false,
            keeps_source: false,
            forbidden_may_mean_overload: false,
            jitter: 0.5,
            reason: "it failed",
        };
        let failure = RequestFailure::Disconnected { answered: true };
        let action = table.sources.recovery.on_failure(&failure, &context);
        assert!(matches!(action, RecoveryAction::UseOtherSources(_)));
        assert!(!table.has_work(1 - one, NOW));
        assert!(table.lift_exclusive(NOW, NOW) && !table.lift_exclusive(NOW, NOW));
        assert_eq!(write(&mut table, 1 - one), 0..10);
    }

    #[test]
    fn no_source_is_blamed_for_a_piece_with_bytes_of_an_earlier_run() {
        let mut table = table();
        let piece = write(&mut table, 1);
        let blame = table.blame(&(piece.start..piece.end + 5), 1, NOW);
        assert_eq!((blame.senders, blame.dropped), (vec![1], vec![]));
        assert!(table.source_set().is_live(1));
    }

    #[test]
    fn the_senders_of_a_good_piece_are_forgotten() {
        let mut table = table();
        let piece = write(&mut table, 1);
        table.on_good_piece(&piece);
        assert!(table.blame(&piece, 1, NOW).senders.is_empty());
        assert!(table.source_set().is_live(1));
    }
}
