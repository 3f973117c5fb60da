//! What the workers of one job do their bookkeeping in: one lock over the plan and all that must agree with it.
//!
//! Everything about a source that was dropped ends here: its claims are cut, and no byte that is at hand is reserved for it
//! any more.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::Duration;

use haul_plan::{Claim, ClaimId, ClaimRequest, PieceRetry, RangeSet, SegmentPlan, SourceSet};
use tokio_util::sync::CancellationToken;

use super::unsynced_ranges::UnsyncedRanges;
use crate::journal::SavedRange;

/// What is under the lock.
#[derive(Debug)]
pub(super) struct ClaimTable {
    /// Who fetches what.
    pub(super) plan: SegmentPlan,
    /// Which sources there are, and how they do.
    pub(super) sources: SourceSet,
    /// What was written since the last checkpoint.
    pub(super) unsynced: UnsyncedRanges,
    /// Whose claims there are.
    holders: HashMap<ClaimId, ClaimHolder>,
    /// Workers in the middle of a body, by source.
    active_bodies: HashMap<usize, usize>,
    /// What came from whom, where pieces are verified: a bad one has to be somebody's.
    received_from: Option<BTreeMap<usize, RangeSet>>,
    /// Ranges that only one source may bring.
    exclusive: Vec<(Range<u64>, usize)>,
}

/// Who holds a claim.
#[derive(Debug)]
struct ClaimHolder {
    /// The source that is asked.
    source: usize,
    /// Stops the worker.
    cancel: CancellationToken,
}

/// A claim and the means by which its holder learns that nothing is left of it.
#[derive(Debug)]
pub(super) struct HeldClaim {
    /// Which range, under which number.
    pub(super) claim: Claim,
    /// Cancelled when the whole rest was taken over, or the source was dropped.
    pub(super) cancelled: CancellationToken,
}

impl ClaimTable {
    /// A table in which nobody works yet. `blames`: pieces are verified.
    pub(super) fn new(plan: SegmentPlan, sources: SourceSet, blames: bool) -> Self {
        Self {
            plan,
            sources,
            unsynced: UnsyncedRanges::default(),
            holders: HashMap::new(),
            active_bodies: HashMap::new(),
            received_from: blames.then(BTreeMap::new),
            exclusive: Vec::new(),
        }
    }

    /// The next claim for an idle worker that asks this source; cuts a victim that is left with nothing.
    pub(super) fn claim(&mut self, source: usize, now: Duration) -> Option<HeldClaim> {
        if !self.sources.is_living(source) {
            return None;
        }
        let barred = self.barred_ranges(source);
        let claimer = ClaimRequest {
            rate: self.sources.rate(source),
            excluded: barred.as_ref(),
        };
        let claim = self.plan.claim_for(&claimer, now)?;
        if let Some(over) = claim.taken_from.as_ref().filter(|over| over.victim_emptied)
            && let Some(victim) = self.holders.get(&over.victim)
        {
            victim.cancel.cancel();
        }
        Some(self.hold(source, claim))
    }

    /// The claim that belongs to the job's first request, sent before there was a plan.
    pub(super) fn adopt(
        &mut self,
        source: usize,
        range: Range<u64>,
        now: Duration,
    ) -> Option<HeldClaim> {
        let claim = self.plan.claim_first_response(range, now)?;
        Some(self.hold(source, claim))
    }

    fn hold(&mut self, source: usize, claim: Claim) -> HeldClaim {
        let cut = CancellationToken::new();
        let holder = ClaimHolder {
            source,
            cancel: cut.clone(),
        };
        self.holders.insert(claim.id, holder);
        HeldClaim {
            claim,
            cancelled: cut,
        }
    }

    /// Whether a worker that asks this source would find something to claim.
    pub(super) fn has_work(&self, source: usize, now: Duration) -> bool {
        let barred = self.barred_ranges(source);
        let claimer = ClaimRequest {
            rate: self.sources.rate(source),
            excluded: barred.as_ref(),
        };
        self.plan.has_work_for(&claimer, now)
    }

    /// What a source may not bring.
    fn barred_ranges(&self, source: usize) -> Option<RangeSet> {
        let others = self.exclusive.iter().filter(|(_, only)| *only != source);
        let barred: RangeSet = others.map(|(range, _)| range.clone()).collect();
        (!barred.is_empty()).then_some(barred)
    }

    /// Bytes are at hand for a claim: how many of them may be written? None of a source that was dropped meanwhile.
    pub(super) fn reserve(&mut self, id: ClaimId, bytes: u64, now: Duration) -> u64 {
        let holder = self.holders.get(&id);
        if holder.is_none_or(|holder| !self.sources.is_living(holder.source)) {
            return 0;
        }
        self.plan.reserve(id, bytes, now)
    }

    /// A claim's next bytes are in the file.
    pub(super) fn wrote(&mut self, id: ClaimId, spans: Vec<SavedRange>) {
        for span in spans {
            self.wrote_one(id, span);
        }
    }

    fn wrote_one(&mut self, id: ClaimId, piece: SavedRange) {
        self.plan.mark_written(id, piece.end - piece.start);
        if let Some(ClaimHolder { source, .. }) = self.holders.get(&id) {
            self.sources.on_bytes(*source, piece.end - piece.start);
            if let Some(brought) = &mut self.received_from {
                let brought = brought.entry(*source).or_default();
                brought.insert(piece.start..piece.end);
            }
        }
        self.unsynced.add(piece);
    }

    /// A claim's holder is through with it, for whatever reason.
    pub(super) fn release(&mut self, id: ClaimId) {
        self.holders.remove(&id);
        self.plan.release(id);
    }

    /// A worker begins to read a body.
    pub(super) fn body_started(&mut self, source: usize) {
        *self.active_bodies.entry(source).or_default() += 1;
    }

    /// It has ended.
    pub(super) fn body_ended(&mut self, source: usize) {
        if let Some(count) = self.active_bodies.get_mut(&source) {
            *count = count.saturating_sub(1);
        }
    }

    /// Workers in the middle of a body.
    pub(super) fn flowing(&self) -> usize {
        self.active_bodies.values().sum()
    }

    /// The same, of those that ask one source.
    pub(super) fn flowing_from(&self, source: usize) -> usize {
        self.active_bodies.get(&source).copied().unwrap_or_default()
    }

    /// A source is asked no more: its workers are stopped, and what it alone was to bring is anybody's.
    pub(super) fn drop_source(&mut self, source: usize, why: &str) {
        self.sources.drop_source(source, why);
        self.exclusive.retain(|(_, only)| *only != source);
        let holders = self.holders.values();
        holders
            .filter(|holder| holder.source == source)
            .for_each(|holder| holder.cancel.cancel());
    }

    /// The sources that brought some of a range in this run, and whether there is no more of it: what an earlier run left may be
    /// what is bad.
    pub(super) fn sources_of(&self, range: &Range<u64>) -> (Vec<usize>, bool) {
        let all = self.received_from.iter().flatten();
        let some = all.filter(|(_, brought)| {
            let gap = brought.gaps(range.clone()).next();
            gap.as_ref() != Some(range)
        });
        let (by, brought): (Vec<usize>, Vec<&RangeSet>) =
            some.map(|(source, brought)| (*source, brought)).unzip();
        let whole = match brought[..] {
            [only] => only.covers(range),
            _ => true,
        };
        (by, whole)
    }

    /// A piece is bad for the `times`-th time: finds out whose it was, and says who brings it again. The bytes are voided later,
    /// when nothing claims them any more. `since` is the time since the job's beginning.
    pub(super) fn blame(
        &mut self,
        range: &Range<u64>,
        times: u32,
        since: Duration,
    ) -> BadPieceBlame {
        let (by, whole) = self.sources_of(range);
        let lived = |source: &usize| self.sources.is_living(*source);
        let living: Vec<usize> = by.iter().copied().filter(lived).collect();
        let again = self
            .sources
            .on_bad_piece(if whole { &by } else { &[] }, times, since);
        let dropped: Vec<usize> = living
            .into_iter()
            .filter(|source| !self.sources.is_living(*source))
            .collect();
        self.exclusive.retain(|(known, _)| known != range);
        if let PieceRetry::FromOne(source) = again {
            self.exclusive.push((range.clone(), source));
        }
        BadPieceBlame {
            sources: by,
            dropped,
            retry: again,
        }
    }

    /// Nobody works, and of the sources that could none may: what one alone was to bring is anybody's. Returns whether that helps.
    pub(super) fn lift_exclusive(&mut self, now: Duration, since: Duration) -> bool {
        let open = self.sources.order(since);
        let stuck = !self.exclusive.is_empty()
            && !open.is_empty()
            && !open.iter().any(|source| self.has_work(*source, now));
        if stuck {
            self.exclusive.clear();
        }
        stuck
    }

    /// A bad piece's bytes are to be fetched again from now on.
    pub(super) fn discard(&mut self, range: Range<u64>) {
        for brought in self.received_from.iter_mut().flat_map(BTreeMap::values_mut) {
            brought.remove(range.clone());
        }
        self.plan.invalidate(range);
    }

    /// A piece is right: nobody has to be blamed for it any more.
    pub(super) fn on_good_piece(&mut self, range: &Range<u64>) {
        self.exclusive.retain(|(known, _)| known != range);
        for brought in self.received_from.iter_mut().flat_map(BTreeMap::values_mut) {
            brought.remove(range.clone());
        }
    }
}

/// Whose a bad piece was, and what follows.
#[derive(Debug)]
pub(super) struct BadPieceBlame {
    /// The sources that brought some of it in this run.
    pub(super) sources: Vec<usize>,
    /// Those that were dropped for it.
    pub(super) dropped: Vec<usize>,
    /// Who brings it again.
    pub(super) retry: PieceRetry,
}

#[cfg(test)]
mod tests {
    use haul_plan::{
        IntegrityEvidence, ResourceVersion, SegmentOptions, SourceContent, SourceSetOptions,
    };

    use super::*;

    const NOW: Duration = Duration::from_secs(1);

    /// A file of a hundred bytes in claims of ten, and two sources that are both believed.
    fn table() -> ClaimTable {
        let options = SegmentOptions {
            fixed_size: Some(10),
            ..SegmentOptions::default()
        };
        let mut mirrors = SourceSet::new(SourceSetOptions::default());
        let version = ResourceVersion::default();
        let found = SourceContent {
            version: &version,
            digests: &[],
        };
        assert_eq!([mirrors.add(true), mirrors.add(true)], [0, 1]);
        let evidence = IntegrityEvidence {
            verified: true,
            pieces: true,
            told: true,
        };
        mirrors.begin(0, &found, evidence);
        mirrors.admit(1, &found).unwrap();
        ClaimTable::new(
            SegmentPlan::new(100, &RangeSet::new(), options),
            mirrors,
            true,
        )
    }

    /// The next claim of a source, written.
    fn write(table: &mut ClaimTable, source: usize) -> Range<u64> {
        let held = table.claim(source, NOW).unwrap();
        let (id, Range { start, end }) = (held.claim.id, held.claim.range);
        assert_eq!(table.reserve(id, end - start, NOW), end - start);
        table.wrote(id, vec![SavedRange { start, end, crc: 0 }]);
        table.release(id);
        start..end
    }

    #[test]
    fn no_byte_of_a_dropped_source_is_reserved_and_its_claims_are_cut() {
        let mut table = table();
        let (held, other) = (table.claim(0, NOW).unwrap(), table.claim(1, NOW).unwrap());
        assert_eq!(table.reserve(held.claim.id, 3, NOW), 3);
        table.drop_source(0, "gone");
        assert_eq!(table.reserve(held.claim.id, 3, NOW), 0);
        assert!(held.cancelled.is_cancelled() && !other.cancelled.is_cancelled());
        assert!(table.claim(0, NOW).is_none());
        assert_eq!(table.reserve(other.claim.id, 3, NOW), 3);
    }

    #[test]
    fn a_piece_of_two_sources_is_brought_again_by_one() {
        let mut table = table();
        let piece = write(&mut table, 0).start..write(&mut table, 1).end;
        let blame = table.blame(&piece, 1, NOW);
        assert_eq!((blame.sources.len(), &blame.dropped[..]), (2, &[][..]));
        let PieceRetry::FromOne(one) = blame.retry else {
            panic!("{blame:?}");
        };
        let other = 1 - one;
        table.discard(piece.clone());
        assert_eq!(table.claim(other, NOW).unwrap().claim.range, 20..30);
        assert!(table.has_work(other, NOW));
        assert_eq!(
            (write(&mut table, one), write(&mut table, one)),
            (0..10, 10..20)
        );
        // Bad again, it is that one's alone.
        let blame = table.blame(&piece, 2, NOW);
        assert_eq!((blame.sources, blame.dropped), (vec![one], vec![one]));
        table.discard(piece);
        assert_eq!(write(&mut table, other), 0..10);
    }

    #[test]
    fn what_one_alone_was_to_bring_is_anybodys_when_it_rests_and_nobody_works() {
        let mut table = table();
        let piece = write(&mut table, 0).start..write(&mut table, 1).end;
        let PieceRetry::FromOne(one) = table.blame(&piece, 1, NOW).retry else {
            panic!("nobody alone");
        };
        table.discard(piece.clone());
        while let Some(held) = table.claim(1 - one, NOW) {
            let Range { start, end } = held.claim.range;
            table.reserve(held.claim.id, end - start, NOW);
            table.wrote(held.claim.id, vec![SavedRange { start, end, crc: 0 }]);
            table.release(held.claim.id);
        }
        // The one can begin: it is waited for.
        assert!(!table.lift_exclusive(NOW, NOW));
        let place = haul_plan::SourceFailure {
            source: one,
            now: NOW,
            flowing: 0,
            redirected: false,
            why: "busy",
            jitter: 1.0,
        };
        let busy = haul_plan::RequestFailure::Busy {
            retry_after: Some(100 * NOW),
        };
        table.sources.on_trouble(busy, &place);
        assert!(!table.has_work(1 - one, NOW));
        assert!(table.lift_exclusive(NOW, NOW) && !table.lift_exclusive(NOW, NOW));
        assert_eq!(write(&mut table, 1 - one), 0..10);
    }

    #[test]
    fn a_piece_that_an_earlier_run_left_some_of_is_nobodys_fault() {
        let mut table = table();
        let piece = write(&mut table, 1);
        let blame = table.blame(&(piece.start..piece.end + 5), 1, NOW);
        assert_eq!((blame.sources, blame.dropped), (vec![1], vec![]));
        assert!(table.sources.is_living(1));
    }

    #[test]
    fn what_was_settled_is_nobodys_any_more() {
        let mut table = table();
        let piece = write(&mut table, 1);
        table.on_good_piece(&piece);
        assert!(table.blame(&piece, 1, NOW).sources.is_empty());
        assert!(table.sources.is_living(1));
    }
}
