//! Who may fetch which bytes next.
//!
//! A [`SegmentPlan`] owns the map of one file: what is done, what is claimed and by whom, what nobody has yet. Workers
//! claim from front to back, so that the file is whole from its beginning as early as can be; claims are large at first
//! and smaller towards the end, so that all connections finish together (guided self-scheduling, Polychronopoulos and
//! Kuck 1987). When nothing is left to claim, an idle worker takes over part of what the slowest one still holds.
//!
//! Order of calls, for a worker: [`SegmentPlan::claim`] (or [`SegmentPlan::claim_first_response`]), [`SegmentPlan::response_started`], then
//! for every piece that comes [`SegmentPlan::reserve`] *before* and [`SegmentPlan::mark_written`] *after* the write, and
//! [`SegmentPlan::release`] at the end, whatever the end was. Because a reservation is never taken over, no two workers
//! ever write the same byte; because only written bytes are done, none is ever left out.

mod segment_size;
mod takeover;

use std::ops::Range;
use std::time::Duration;

use crate::range_set::RangeSet;
use segment_size::ConnectionPace;
pub use segment_size::SegmentOptions;
pub use takeover::ClaimTakeover;
use takeover::TakeoverSplit;

/// A claim's number, never used twice in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimId(u64);

/// Leave to fetch a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Its number.
    pub id: ClaimId,
    /// Which bytes; the end may move towards the start later, see [`SegmentPlan::reserve`].
    pub range: Range<u64>,
    /// Whose rest it is, if it was taken over.
    pub taken_from: Option<ClaimTakeover>,
}

/// Who asks for a claim, where workers are not alike because they fetch from different sources.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClaimRequest<'a> {
    /// Bytes a second that its connection brings, where that is another rate than that of the others.
    pub rate: Option<f64>,
    /// Bytes that it may not fetch.
    pub excluded: Option<&'a RangeSet>,
}

impl ClaimRequest<'_> {
    /// What of a stretch it may fetch first.
    fn first_fetchable(&self, stretch: Range<u64>) -> Option<Range<u64>> {
        match self.excluded {
            Some(barred) => barred.gaps(stretch).next(),
            None => Some(stretch),
        }
    }

    /// Whether it may fetch all of a range.
    fn may_fetch(&self, range: Range<u64>) -> bool {
        self.first_fetchable(range.clone()) == Some(range)
    }
}

/// What is known about a claim in hand.
#[derive(Debug, Clone)]
struct ActiveClaim {
    id: ClaimId,
    /// Where it begins.
    start: u64,
    /// Bytes before this are in the file.
    written: u64,
    /// Bytes before this are written or about to be; never taken over.
    reserved: u64,
    /// Where it ends now.
    end: u64,
    /// When it was claimed.
    claimed_at: Duration,
    /// When its answer began.
    response_at: Option<Duration>,
    /// When bytes last came.
    last_bytes_at: Duration,
    /// How many silent workers in a row lost this rest, the last one to this claim: each doubles what the next is given.
    silent_predecessors: u32,
}

impl ActiveClaim {
    /// Bytes a second since its answer began.
    fn rate(&self, now: Duration) -> Option<f64> {
        let seconds = now.saturating_sub(self.response_at?).as_secs_f64();
        Some((self.reserved - self.start) as f64 / seconds.max(1e-3))
    }
}

/// The map of one file.
#[derive(Debug)]
pub struct SegmentPlan {
    /// Bytes in the file.
    length: u64,
    /// Limits on sizes.
    options: SegmentOptions,
    /// In the file.
    done: RangeSet,
    /// Nobody's yet.
    unclaimed: RangeSet,
    /// Claims in hand, as many as there are workers.
    active_claims: Vec<ActiveClaim>,
    /// The next claim's number.
    next_id: u64,
    /// How fast connections are and how long answers take.
    pace: ConnectionPace,
}

impl SegmentPlan {
    /// A plan for a file of `length` bytes of which some are `done`.
    #[must_use]
    pub fn new(length: u64, done: &RangeSet, options: SegmentOptions) -> Self {
        let mut done = done.clone();
        done.remove(length..u64::MAX);
        let unclaimed = done.gaps(0..length).collect();
        Self {
            length,
            options,
            done,
            unclaimed,
            active_claims: Vec::new(),
            next_id: 0,
            pace: ConnectionPace::default(),
        }
    }

    /// What a job's first request asks for, before anything is known but what an earlier run left.
    #[must_use]
    pub fn first_range(
        options: &SegmentOptions,
        done: &RangeSet,
        length: Option<u64>,
    ) -> Range<u64> {
        let gap = done
            .gaps(0..length.unwrap_or(u64::MAX))
            .next()
            .unwrap_or(0..u64::MAX);
        let size = options.fixed_size.unwrap_or(options.first_request).max(1);
        gap.start..gap.start.saturating_add(size).min(gap.end)
    }

    /// Claims what the first request's answer brings, as far as it is needed; `None` if its first byte is not.
    pub fn claim_first_response(&mut self, range: Range<u64>, now: Duration) -> Option<Claim> {
        let gap = self.unclaimed.range_at(range.start)?;
        let range = range.start..gap.end.min(range.end);
        if range.is_empty() {
            return None;
        }
        let claim = self.add_claim(range, None, now);
        // Its request is older than the plan: how long the answer took cannot be told from here.
        if let Some(holding) = self.active_claims.last_mut() {
            holding.response_at = Some(now);
        }
        Some(claim)
    }

    /// The next range for an idle worker: from the front of what nobody has, else part of a slow worker's rest.
    pub fn claim(&mut self, now: Duration) -> Option<Claim> {
        self.claim_for(&ClaimRequest::default(), now)
    }

    /// The same for a worker that is not like the others.
    pub fn claim_for(&mut self, claimer: &ClaimRequest<'_>, now: Duration) -> Option<Claim> {
        if let Some(gap) = self.unclaimed_gap_for(claimer) {
            let size = self.next_claim_size(gap.end - gap.start, claimer, now);
            return Some(self.add_claim(gap.start..gap.start + size, None, now));
        }
        let over = self.takeover_for(claimer, now)?;
        let victim = self
            .active_claims
            .iter_mut()
            .find(|holding| holding.id == over.victim)?;
        let range = over.from..victim.end;
        victim.end = over.from;
        let voided = victim.reserved == victim.end;
        let silences = if voided {
            victim.silent_predecessors + 1
        } else {
            0
        };
        self.unclaimed.insert(range.clone());
        let taken = ClaimTakeover {
            victim: over.victim,
            victim_emptied: voided,
        };
        let claim = self.add_claim(range, Some(taken), now);
        if let Some(holding) = self.active_claims.last_mut() {
            holding.silent_predecessors = silences;
        }
        Some(claim)
    }

    /// Whether [`SegmentPlan::claim`] would give something.
    #[must_use]
    pub fn has_work(&self, now: Duration) -> bool {
        self.has_work_for(&ClaimRequest::default(), now)
    }

    /// Whether [`SegmentPlan::claim_for`] would.
    #[must_use]
    pub fn has_work_for(&self, claimer: &ClaimRequest<'_>, now: Duration) -> bool {
        self.unclaimed_gap_for(claimer).is_some() || self.takeover_for(claimer, now).is_some()
    }

    /// The first stretch that nobody has and that it may fetch.
    fn unclaimed_gap_for(&self, claimer: &ClaimRequest<'_>) -> Option<Range<u64>> {
        self.unclaimed
            .iter()
            .find_map(|gap| claimer.first_fetchable(gap))
    }

    /// What it may best take of another's rest.
    fn takeover_for(&self, claimer: &ClaimRequest<'_>, now: Duration) -> Option<TakeoverSplit> {
        let pace = self.pace.with_rate(claimer.rate);
        takeover::best_takeover(&self.active_claims, &self.options, &pace, now, |range| {
            claimer.may_fetch(range)
        })
    }

    /// The head of a claim's answer came.
    pub fn response_started(&mut self, id: ClaimId, now: Duration) {
        if let Some(holding) = self
            .active_claims
            .iter_mut()
            .find(|holding| holding.id == id)
        {
            holding.last_bytes_at = now;
            if holding.response_at.is_none() {
                holding.response_at = Some(now);
                self.pace
                    .response_took(now.saturating_sub(holding.claimed_at));
            }
        }
    }

    /// `wanted` bytes are at hand for a claim: how many of them may be written? What is not granted belongs to another
    /// worker by now, or lies beyond the claim.
    pub fn reserve(&mut self, id: ClaimId, wanted: u64, now: Duration) -> u64 {
        let Some(holding) = self
            .active_claims
            .iter_mut()
            .find(|holding| holding.id == id)
        else {
            return 0;
        };
        holding.last_bytes_at = now;
        let granted = wanted.min(holding.end - holding.reserved);
        holding.reserved += granted;
        granted
    }

    /// The next `bytes` reserved bytes of a claim are in the file.
    pub fn mark_written(&mut self, id: ClaimId, bytes: u64) {
        if let Some(holding) = self
            .active_claims
            .iter_mut()
            .find(|holding| holding.id == id)
        {
            let end = holding.written.saturating_add(bytes).min(holding.reserved);
            self.done.insert(holding.written..end);
            holding.written = end;
        }
    }

    /// Where a claim ends now; 0 for one that was released.
    #[must_use]
    pub fn claim_end(&self, id: ClaimId) -> u64 {
        self.active_claims
            .iter()
            .find(|holding| holding.id == id)
            .map_or(0, |holding| holding.end)
    }

    /// A worker is through with a claim, for whatever reason: what it did not write is anybody's again.
    pub fn release(&mut self, id: ClaimId) {
        let Some(at) = self
            .active_claims
            .iter()
            .position(|holding| holding.id == id)
        else {
            return;
        };
        let holding = self.active_claims.swap_remove(at);
        self.pace.claim_finished(
            holding.written - holding.start,
            holding
                .response_at
                .map(|then| holding.last_bytes_at.saturating_sub(then)),
        );
        self.unclaimed.insert(holding.written..holding.end);
    }

    /// Bytes that are in the file turned out to be wrong: they are to be fetched again. What was not written is left as it is.
    pub fn invalidate(&mut self, range: Range<u64>) {
        let within =
            |stretch: Range<u64>| stretch.start.max(range.start)..stretch.end.min(range.end);
        let wrong: Vec<_> = self
            .done
            .iter()
            .map(within)
            .filter(|r| !r.is_empty())
            .collect();
        for range in wrong {
            self.done.remove(range.clone());
            self.unclaimed.insert(range);
        }
    }

    /// What is in the file.
    #[must_use]
    pub fn done(&self) -> &RangeSet {
        &self.done
    }

    /// Bytes in the file when it is whole.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Bytes that are not in the file yet.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.length - self.done.total_bytes()
    }

    /// Bytes that nobody has claimed.
    #[must_use]
    pub fn unclaimed(&self) -> u64 {
        self.unclaimed.total_bytes()
    }

    /// From a request to its answer, of late; zero as long as that is unknown.
    #[must_use]
    pub fn latency(&self) -> Duration {
        Duration::from_secs_f64(self.pace.latency())
    }

    /// Whether every byte is in the file.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.done.covers(&(0..self.length))
    }

    fn next_claim_size(&self, gap: u64, claimer: &ClaimRequest<'_>, now: Duration) -> u64 {
        let workers = self.active_claims.len() as u64 + 1;
        let pace = self.pace.with_rate(claimer.rate);
        let rate = pace.rate().or_else(|| self.mean_active_rate(now));
        self.options
            .size(&pace, rate, self.unclaimed.total_bytes(), workers)
            .clamp(1, gap)
            .max(self.options.whole_gap_if_small(gap))
    }

    /// Bytes a second that a claim in hand brings, on average; `None` if none has brought any.
    fn mean_active_rate(&self, now: Duration) -> Option<f64> {
        let rates = self
            .active_claims
            .iter()
            .filter_map(|holding| holding.rate(now));
        let (count, sum) = rates.fold((0u32, 0.0), |(count, sum), rate| (count + 1, sum + rate));
        (sum > 0.0).then(|| sum / f64::from(count))
    }

    fn add_claim(
        &mut self,
        range: Range<u64>,
        taken_from: Option<ClaimTakeover>,
        now: Duration,
    ) -> Claim {
        self.unclaimed.remove(range.clone());
        let id = ClaimId(self.next_id);
        self.next_id += 1;
        let Range { start, end } = range;
        self.active_claims.push(ActiveClaim {
            id,
            start,
            written: start,
            reserved: start,
            end,
            claimed_at: now,
            response_at: None,
            last_bytes_at: now,
            silent_predecessors: 0,
        });
        Claim {
            id,
            range,
            taken_from,
        }
    }
}
