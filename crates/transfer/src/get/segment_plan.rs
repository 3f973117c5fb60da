//! Which worker fetches which bytes next.
//!
//! A [`SegmentPlan`] owns the map of one file: which bytes are done, which worker claims which, and which are
//! unclaimed. Workers claim from front to back, so that the beginning of the file is whole as early as
//! possible. Claims are large at first and smaller towards the end, so that all connections finish together
//! (guided self-scheduling, Polychronopoulos and Kuck 1987); on a long path, where each request costs a round
//! trip, they are larger. When nothing is left to claim, an idle
//! worker takes over a part of the slowest worker's remaining bytes; but hardly while the link is full, since
//! the bytes in flight on a connection that is cut are lost.
//!
//! Order of calls, for a worker: [`SegmentPlan::claim_for`] (or [`SegmentPlan::claim_first_response`]),
//! [`SegmentPlan::response_started`], then for all bytes that arrive [`SegmentPlan::reserve`] *before* and
//! [`SegmentPlan::mark_written`] *after* the write, and [`SegmentPlan::release`] at the end, also after a failure. Because a reservation is never taken over, no two workers ever write the same byte; because only
//! written bytes are done, none is ever left out.

mod segment_size;
mod takeover;

use std::ops::Range;
use std::time::Duration;

use haul_plan::is_long_round_trip;
use segment_size::ConnectionPace;

use crate::range_set::RangeSet;
pub(super) use segment_size::SegmentOptions;
pub(super) use takeover::ClaimTakeover;
use takeover::TakeoverSplit;

/// How long a rate is measured: twice as long as origins that pace in bursts pause.
const RATE_WINDOW: Duration = Duration::from_secs(1);

/// The shortest window of the rate of all connections.
const MIN_TOTAL_WINDOW: Duration = Duration::from_millis(250);

/// The share of the best rate from which on a link counts as full.
const FULL_SHARE: f64 = 0.85;

/// A claim's number, never used twice in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ClaimId(u64);

/// Permission to fetch a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    /// The claim's number.
    pub id: ClaimId,
    /// The claimed bytes; the end may move towards the start later, see [`SegmentPlan::reserve`].
    pub range: Range<u64>,
    /// The claim that these bytes were taken over from, if any.
    pub taken_from: Option<ClaimTakeover>,
}

/// A worker's request for a claim, where workers differ because they fetch from different sources.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClaimRequest<'a> {
    /// The rate of the worker's connection in bytes a second, if it differs from that of the others.
    pub rate: Option<f64>,
    /// Bytes that the worker may not fetch.
    pub excluded: Option<&'a RangeSet>,
}

impl ClaimRequest<'_> {
    /// The first bytes of a range that the worker may fetch.
    fn first_fetchable(&self, range: Range<u64>) -> Option<Range<u64>> {
        match self.excluded {
            Some(excluded) => excluded.gaps(range).next(),
            None => Some(range),
        }
    }

    /// Whether the worker may fetch all of a range.
    fn may_fetch(&self, range: Range<u64>) -> bool {
        self.first_fetchable(range.clone()) == Some(range)
    }
}

/// How far a worker has come with its claim.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ClaimProgress {
    pub id: ClaimId,
    /// The bytes that are the worker's now.
    pub range: Range<u64>,
    /// Bytes of the claim before this are in the file.
    pub position: u64,
    /// Bytes a second lately; `None` before the response.
    pub rate: Option<f64>,
}

/// A claim of a working worker.
#[derive(Debug, Clone)]
struct ActiveClaim {
    id: ClaimId,
    /// Where the claim begins.
    start: u64,
    /// Bytes before this are in the file.
    written: u64,
    /// Bytes before this are written or about to be; they are never taken over.
    reserved: u64,
    /// Where the claim ends now.
    end: u64,
    /// Whether the response goes on after it: another worker has the rest.
    is_cut: bool,
    /// When the range was claimed.
    claimed_at: Duration,
    /// When the response began.
    response_at: Option<Duration>,
    /// When bytes last arrived.
    last_bytes_at: Duration,
    /// The longest pause between bytes.
    longest_pause: Duration,
    /// When the present window of its rate began, and the bytes before it.
    window_begin: (Duration, u64),
    /// The rate in the window before.
    window_rate: Option<f64>,
    /// How many silent workers in a row lost these bytes, the last one to this claim: each doubles how long the
    /// next may be silent.
    silent_predecessors: u32,
}

impl ActiveClaim {
    /// Bytes a second lately; since the response began, where that is not long ago.
    fn rate(&self, now: Duration) -> Option<f64> {
        let response_at = self.response_at?;
        let (begin, before) = match self.window_rate {
            Some(rate) if now < self.window_begin.0 + RATE_WINDOW => return Some(rate),
            Some(_) => self.window_begin,
            None => (response_at, self.start),
        };
        let seconds = now.saturating_sub(begin).as_secs_f64();
        Some((self.reserved - before) as f64 / seconds.max(1e-3))
    }

    /// The number of bytes that arrived.
    fn add(&mut self, bytes: u64, now: Duration) {
        let pause = now.saturating_sub(self.last_bytes_at);
        self.longest_pause = self.longest_pause.max(pause);
        self.last_bytes_at = now;
        self.reserved += bytes;
        let (begin, before) = self.window_begin;
        let elapsed = now.saturating_sub(begin);
        if elapsed >= RATE_WINDOW {
            self.window_rate = Some((self.reserved - before) as f64 / elapsed.as_secs_f64());
            self.window_begin = (now, self.reserved);
        }
    }
}

/// How fast all connections are together, and were at best.
#[derive(Debug, Clone, Default)]
struct CombinedRate {
    /// When the present window began, and the bytes in it.
    begin: Duration,
    bytes: u64,
    /// Bytes a second in the window before.
    last: f64,
    /// The best of them.
    best: f64,
}

impl CombinedRate {
    fn add(&mut self, bytes: u64, window: Duration, now: Duration) {
        self.bytes += bytes;
        let elapsed = now.saturating_sub(self.begin);
        if elapsed >= window {
            self.last = self.bytes as f64 / elapsed.as_secs_f64();
            self.best = self.best.max(self.last);
            (self.begin, self.bytes) = (now, 0);
        }
    }

    /// Whether the connections together bring about as much as ever: then one more would only take its part.
    fn is_full(&self) -> bool {
        self.last >= FULL_SHARE * self.best
    }
}

/// The map of one file.
#[derive(Debug)]
pub(super) struct SegmentPlan {
    /// Bytes in the file.
    length: u64,
    /// Limits on sizes.
    options: SegmentOptions,
    /// Bytes in the file already.
    done: RangeSet,
    /// Bytes that are neither done nor claimed.
    unclaimed: RangeSet,
    /// As many claims as there are workers.
    active_claims: Vec<ActiveClaim>,
    /// The next claim's number.
    next_id: u64,
    /// How fast connections and responses are.
    pace: ConnectionPace,
    /// How fast all connections are together.
    total: CombinedRate,
    /// Connections that brought a whole response, and that no claim uses. A response that was cut costs its connection.
    idle_connections: usize,
}

impl SegmentPlan {
    /// A plan for a file of `length` bytes of which some are `done`.
    #[must_use]
    pub(super) fn new(length: u64, done: &RangeSet, options: SegmentOptions) -> Self {
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
            total: CombinedRate::default(),
            idle_connections: 0,
        }
    }

    /// The range of a job's first request over a path with this round trip, with or without TLS, when only the bytes of an earlier run
    /// are known.
    #[must_use]
    pub(super) fn first_range(
        options: &SegmentOptions,
        done: &RangeSet,
        length: Option<u64>,
        round_trip: Duration,
        has_tls: bool,
    ) -> Range<u64> {
        let gap = done
            .gaps(0..length.unwrap_or(u64::MAX))
            .next()
            .unwrap_or(0..u64::MAX);
        let size = options.first_request_size(is_long_round_trip(round_trip), has_tls);
        gap.start..gap.start.saturating_add(size).min(gap.end)
    }

    /// Claims the bytes of the first response, as far as they are needed; `None` if the first byte is not.
    pub(super) fn claim_first_response(
        &mut self,
        range: Range<u64>,
        now: Duration,
    ) -> Option<Claim> {
        let gap = self.unclaimed.range_at(range.start)?;
        let end = gap.end.min(range.end);
        let share = self.options.first_share(&self.pace, self.remaining());
        let is_cut = share < range.end - range.start;
        let range = range.start..end.min(range.start.saturating_add(share));
        if range.is_empty() {
            return None;
        }
        let claim = self.add_claim(range, None, now);
        // The request is older than the plan, so the response time is unknown.
        if let Some(active) = self.active_claims.last_mut() {
            active.is_cut = is_cut;
            active.response_at = Some(now);
            active.window_begin = (now, active.start);
        }
        Some(claim)
    }

    /// A round trip took this long before there was a plan. To be called before the first claim.
    pub(super) fn set_round_trip(&mut self, round_trip: Duration) {
        self.pace.response_took(round_trip);
        self.pace.is_long_path = is_long_round_trip(round_trip);
    }

    /// Whether this rate, in bytes a second, is about what the user allows.
    #[must_use]
    pub(super) fn is_at_rate_limit(&self, rate: f64) -> bool {
        self.options.is_at_rate_limit(rate)
    }

    /// The next range for an idle worker: the first unclaimed bytes, else a part of a slow worker's remaining bytes.
    pub(super) fn claim_for(&mut self, request: &ClaimRequest<'_>, now: Duration) -> Option<Claim> {
        if let Some(gap) = self.unclaimed_gap_for(request) {
            let size = self.next_claim_size(gap.end - gap.start, request, now);
            return Some(self.add_claim(gap.start..gap.start + size, None, now));
        }
        let split = self.takeover_for(request, now)?;
        let victim = self
            .active_claims
            .iter_mut()
            .find(|active| active.id == split.victim)?;
        let range = split.from..victim.end;
        victim.end = split.from;
        victim.is_cut = true;
        let victim_emptied = victim.reserved == victim.end;
        let silent_predecessors = if victim_emptied {
            victim.silent_predecessors + 1
        } else {
            0
        };
        self.unclaimed.insert(range.clone());
        let taken = ClaimTakeover {
            victim: split.victim,
            victim_emptied,
        };
        let claim = self.add_claim(range, Some(taken), now);
        if let Some(active) = self.active_claims.last_mut() {
            active.silent_predecessors = silent_predecessors;
        }
        Some(claim)
    }

    /// Whether [`SegmentPlan::claim_for`] would return a claim.
    #[must_use]
    pub(super) fn has_work_for(&self, request: &ClaimRequest<'_>, now: Duration) -> bool {
        self.unclaimed_gap_for(request).is_some() || self.takeover_for(request, now).is_some()
    }

    /// The first unclaimed bytes that the worker may fetch.
    fn unclaimed_gap_for(&self, request: &ClaimRequest<'_>) -> Option<Range<u64>> {
        self.unclaimed
            .iter()
            .find_map(|gap| request.first_fetchable(gap))
    }

    /// The best take-over that the worker may make.
    fn takeover_for(&self, request: &ClaimRequest<'_>, now: Duration) -> Option<TakeoverSplit> {
        let pace = self.pace.with_rate(request.rate);
        takeover::best_takeover(
            &self.active_claims,
            &self.options,
            &pace,
            &self.total,
            // On a short path a new one costs next to nothing.
            self.idle_connections > 0 || !pace.is_long_path,
            now,
            |range| request.may_fetch(range),
        )
    }

    /// The head of the response to a claim arrived.
    pub(super) fn response_started(&mut self, id: ClaimId, now: Duration) {
        if let Some(active) = self.active_claims.iter_mut().find(|active| active.id == id) {
            active.last_bytes_at = now;
            if active.response_at.is_none() {
                active.response_at = Some(now);
                active.window_begin = (now, active.start);
                self.pace
                    .response_took(now.saturating_sub(active.claimed_at));
            }
        }
    }

    /// `wanted` bytes of a claim arrived. Returns how many of them may be written. The others belong to
    /// another worker by now, or are beyond the claim.
    pub(super) fn reserve(&mut self, id: ClaimId, wanted: u64, now: Duration) -> u64 {
        let Some(active) = self.active_claims.iter_mut().find(|active| active.id == id) else {
            return 0;
        };
        let granted = wanted.min(active.end - active.reserved);
        let had_begun = active.has_begun();
        active.add(granted, now);
        if let Some(response_at) = active.response_at
            && !had_begun
            && active.has_begun()
        {
            self.pace.response_began(now.saturating_sub(response_at));
        }
        let window = MIN_TOTAL_WINDOW.max(Duration::from_secs_f64(4.0 * self.pace.latency()));
        self.total.add(granted, window, now);
        granted
    }

    /// The next `bytes` reserved bytes of a claim are in the file.
    pub(super) fn mark_written(&mut self, id: ClaimId, bytes: u64) {
        if let Some(active) = self.active_claims.iter_mut().find(|active| active.id == id) {
            let end = active.written.saturating_add(bytes).min(active.reserved);
            self.done.insert(active.written..end);
            active.written = end;
        }
    }

    /// Where a claim ends now; 0 for one that was released.
    #[must_use]
    pub(super) fn claim_end(&self, id: ClaimId) -> u64 {
        self.active_claims
            .iter()
            .find(|active| active.id == id)
            .map_or(0, |active| active.end)
    }

    /// A worker has finished a claim, for whatever reason: the bytes that it did not write are unclaimed
    /// again.
    pub(super) fn release(&mut self, id: ClaimId) {
        let Some(at) = self.active_claims.iter().position(|active| active.id == id) else {
            return;
        };
        let active = self.active_claims.swap_remove(at);
        if active.written == active.end && !active.is_cut {
            self.idle_connections += 1;
        }
        self.pace.claim_finished(
            active.written - active.start,
            active
                .response_at
                .map(|then| active.last_bytes_at.saturating_sub(then)),
        );
        self.unclaimed.insert(active.written..active.end);
    }

    /// Bytes in the file are wrong and must be fetched again. Unwritten bytes stay as they are.
    pub(super) fn invalidate(&mut self, range: Range<u64>) {
        let overlap = |done: Range<u64>| done.start.max(range.start)..done.end.min(range.end);
        let invalid: Vec<_> = self
            .done
            .iter()
            .map(overlap)
            .filter(|range| !range.is_empty())
            .collect();
        for range in invalid {
            self.done.remove(range.clone());
            self.unclaimed.insert(range);
        }
    }

    /// The claims of working workers, in no order.
    pub(super) fn active_claims(&self, now: Duration) -> impl Iterator<Item = ClaimProgress> {
        self.active_claims.iter().map(move |claim| ClaimProgress {
            id: claim.id,
            range: claim.start..claim.end,
            position: claim.written,
            rate: claim.rate(now),
        })
    }

    /// Bytes in the file already.
    #[must_use]
    pub(super) fn done(&self) -> &RangeSet {
        &self.done
    }

    /// Bytes in the whole file.
    #[must_use]
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Bytes that are not in the file yet.
    #[must_use]
    pub(super) fn remaining(&self) -> u64 {
        self.length - self.done.total_bytes()
    }

    /// Bytes that are neither done nor claimed.
    #[must_use]
    #[cfg(test)]
    pub(super) fn unclaimed(&self) -> u64 {
        self.unclaimed.total_bytes()
    }

    /// The time from a request to its response, lately; zero while that is unknown.
    #[must_use]
    pub(super) fn latency(&self) -> Duration {
        Duration::from_secs_f64(self.pace.latency())
    }

    /// Whether every byte is in the file.
    #[must_use]
    pub(super) fn is_complete(&self) -> bool {
        self.done.covers(&(0..self.length))
    }

    fn next_claim_size(&self, gap: u64, request: &ClaimRequest<'_>, now: Duration) -> u64 {
        let workers = self.active_claims.len() as u64 + 1;
        let pace = self.pace.with_rate(request.rate);
        let rate = pace.rate().or_else(|| self.mean_active_rate(now));
        let (unclaimed, remaining) = (self.unclaimed.total_bytes(), self.remaining());
        let size = self
            .options
            .size(&pace, rate, unclaimed, remaining, workers)
            .clamp(1, gap);
        size.max(self.options.whole_gap_if_small(&pace, gap))
    }

    /// The mean rate of the claims at work that have come up to speed, in bytes a second; `None` if none has.
    fn mean_active_rate(&self, now: Duration) -> Option<f64> {
        let min_age = if self.pace.is_long_path {
            Duration::from_secs_f64(takeover::SLOW_START_LATENCIES * self.pace.latency())
        } else {
            Duration::ZERO
        };
        let rates = self.active_claims.iter().filter_map(|active| {
            let age = now.saturating_sub(active.response_at?);
            active.rate(now).filter(|_| age >= min_age)
        });
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
        self.idle_connections = self.idle_connections.saturating_sub(1);
        let Range { start, end } = range;
        self.active_claims.push(ActiveClaim {
            id,
            start,
            written: start,
            reserved: start,
            end,
            is_cut: false,
            claimed_at: now,
            response_at: None,
            last_bytes_at: now,
            longest_pause: Duration::ZERO,
            window_begin: (now, start),
            window_rate: None,
            silent_predecessors: 0,
        });
        Claim {
            id,
            range,
            taken_from,
        }
    }
}
