//! When an idle worker takes over bytes of another worker's claim, and how many.

use std::ops::Range;
use std::time::Duration;

use super::segment_size::{ConnectionPace, SegmentOptions};
use super::{ActiveClaim, ClaimId, CombinedRate};

/// The least gain of a take-over, in seconds, beyond the latency of the request: a take-over throws away a
/// connection and the bytes in flight on it.
const MIN_GAIN_SECONDS: f64 = 0.02;

/// The gain, in seconds, that is worth a request for few bytes.
const CLEAR_GAIN_SECONDS: f64 = 0.5;

/// The same for many bytes that do not pay to be shared. Less may come from a connection that is only slow for now.
const LARGE_REST_GAIN_SECONDS: f64 = 4.0;

/// How many latencies a connection takes to come up to speed.
pub(super) const SLOW_START_LATENCIES: f64 = 8.0;

/// The same for a response of an origin that lets all of them begin slowly.
const YOUNG_SECONDS: f64 = 1.5;

/// Where the link is full, the remaining connections become up to this factor faster when others end.
const FULL_LINK_LENIENCY: f64 = 4.0;

/// The same on a long path, where TCP takes its time to become faster.
const LONG_PATH_LENIENCY: f64 = 1.5;

/// Fewer connections than these may not suffice to fill a short path. On a long one a wrong guess costs more: the connection that is cut.
const MIN_SHARERS: usize = 4;

/// How many latencies pass until a connection shows its rate on a short path, and where others are up to speed.
const YOUNG_LATENCIES: f64 = 2.0;

/// Bytes that TCP sends at first, before any are acknowledged (RFC 6928).
const INITIAL_WINDOW: f64 = 14_600.0;

/// A connection counts as silent after this long without a byte, plus [`SILENT_LATENCIES`]: a second hiccup
/// is common, and the stall timeout proper is much longer.
const SILENT_SECONDS: f64 = 1.0;

/// See [`SILENT_SECONDS`].
const SILENT_LATENCIES: f64 = 4.0;

/// A connection has begun when it has delivered this number of bytes.
const MIN_BEGUN: u64 = 64 << 10;

/// A connection that has not begun after this time, or this number of latencies, is at an origin that lets each response begin slowly: TCP has brought
/// more by then. Where others begin sooner, it is a slow connection.
const LATE_BEGIN: (f64, f64) = (0.1, 4.0);

/// A connection that has begun counts as silent after so long, plus twice its longest pause and a latency, if that is sooner.
const MIN_PAUSE_SECONDS: f64 = 0.2;

/// A connection with less than this share of the rate of the others trickles.
const TRICKLE_SHARE: f64 = 0.01;

/// The origin of a claim that was taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClaimTakeover {
    /// The claim that lost its rest.
    pub victim: ClaimId,
    /// The victim keeps nothing but the bytes being written: its connection can be closed.
    pub victim_emptied: bool,
}

/// A take-over that pays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TakeoverSplit {
    pub(super) victim: ClaimId,
    /// The take-over is from here to the claim's end.
    pub(super) from: u64,
    /// The gain, in seconds.
    gain: f64,
}

/// The allowed take-over with the largest gain, if any pays.
pub(super) fn best_takeover(
    held: &[ActiveClaim],
    options: &SegmentOptions,
    pace: &ConnectionPace,
    total: &CombinedRate,
    // An idle connection takes over, or a new one costs next to nothing.
    begins_at_once: bool,
    now: Duration,
    may_fetch: impl Fn(Range<u64>) -> bool,
) -> Option<TakeoverSplit> {
    let rates = held.iter().filter_map(|claim| claim.rate(now));
    let (count, total_rate) = rates.fold((0u32, 0.0), |(count, sum), rate| (count + 1, sum + rate));
    let mean_rate = total_rate / f64::from(count.max(1));
    let may_split = options.allows_splitting(total_rate);
    let rest: u64 = held.iter().map(|claim| claim.end - claim.reserved).sum();
    let is_full = (pace.is_long_path || held.len() >= MIN_SHARERS) && total.is_full();
    let even_end = rest as f64 / total_rate.max(1.0);
    // What is left is not too small for connections that are up to speed.
    let is_small_rest = !is_up_to_speed(pace) && options.is_too_small_to_share(pace, rest);
    let takeovers = held.iter().filter_map(|claim| {
        let takeover = take_all_of_silent(claim, pace, now).or_else(|| {
            if !may_split {
                return None;
            }
            let is_large = |split: &TakeoverSplit| claim.end - split.from >= options.min_takeover;
            if claim.has_late_begin(pace, now) {
                return split_in_half(claim, now).filter(is_large);
            }
            let age = now.saturating_sub(claim.claimed_at).as_secs_f64();
            if is_small_rest && age < young_seconds(pace) {
                return None;
            }
            let begins_after = |rate: f64| {
                if begins_at_once {
                    pace.latency()
                } else {
                    new_connection_delay(rate, pace.latency())
                }
            };
            // What is taken ends with everything else.
            let max_taken = |rate: f64| {
                let until_then = rate * (even_end + pace.latency());
                until_then.max(options.min_takeover as f64)
            };
            let split = split_slow(claim, pace, mean_rate, begins_after, max_taken, now);
            let ends_in_time = || {
                let leniency = if pace.is_long_path {
                    LONG_PATH_LENIENCY
                } else {
                    FULL_LINK_LENIENCY
                };
                let faster = leniency * claim.rate(now).unwrap_or(0.0);
                let own_end = (claim.end - claim.reserved) as f64 / faster.max(1.0);
                own_end <= even_end + 2.0 * pace.latency()
            };
            split
                .filter(is_large)
                .or_else(|| take_all_of_slow(claim, options, pace, mean_rate, begins_after, now))
                .filter(|_| !is_full || begins_at_once && !ends_in_time())
        });
        takeover.filter(|takeover| may_fetch(takeover.from..claim.end))
    });
    takeovers.max_by(|a, b| a.gain.total_cmp(&b.gain))
}

/// Takes all remaining bytes of a worker that has been silent for too long, or nearly so.
fn take_all_of_silent(
    claim: &ActiveClaim,
    pace: &ConnectionPace,
    now: Duration,
) -> Option<TakeoverSplit> {
    let silence = now.saturating_sub(claim.last_bytes_at).as_secs_f64();
    let rest = claim.end - claim.reserved;
    let has_begun = claim.response_at.is_some() && claim.has_begun();
    let max_pause = MIN_PAUSE_SECONDS
        + 2.0 * (pace.latency() + claim.longest_pause.as_secs_f64()) * patience(claim);
    let silent = silence > max_silence(claim, pace)
        || has_begun && silence > max_pause
        || is_trickling(claim, pace, now);
    (rest > 0 && silent).then_some(TakeoverSplit {
        victim: claim.id,
        from: claim.reserved,
        // It may stay silent for any time: such a take-over is always the best.
        gain: f64::MAX,
    })
}

impl ActiveClaim {
    pub(super) fn has_begun(&self) -> bool {
        self.reserved - self.start >= MIN_BEGUN
    }

    /// Whether the response should have begun by now.
    fn has_late_begin(&self, pace: &ConnectionPace, now: Duration) -> bool {
        let late = late_begin(pace);
        let is_late = |then| now.saturating_sub(then).as_secs_f64() >= late;
        // A worker that knows its own rate judges by that.
        !pace.is_of_claimer()
            && pace.begins().is_none_or(|others| others >= late / 2.0)
            && !self.has_begun()
            && self.response_at.is_some_and(is_late)
    }
}

/// Takes half of the rest of a worker whose response has not begun. The next response will begin as slowly, so that to take more only moves
/// the wait, and the next idle worker would do the same again.
fn split_in_half(claim: &ActiveClaim, now: Duration) -> Option<TakeoverSplit> {
    let half = (claim.end - claim.reserved) / 2;
    Some(TakeoverSplit {
        victim: claim.id,
        from: claim.end - half,
        gain: half as f64 / claim.rate(now)?.max(1.0),
    })
}

/// Takes a part of a slow worker's remaining bytes, so that both end together. A connection that has only just begun is not slow: it has
/// not come up to speed.
fn split_slow(
    claim: &ActiveClaim,
    pace: &ConnectionPace,
    mean_rate: f64,
    begins_after: impl Fn(f64) -> f64,
    max_taken: impl Fn(f64) -> f64,
    now: Duration,
) -> Option<TakeoverSplit> {
    let rest = (claim.end - claim.reserved) as f64;
    let latency = pace.latency();
    let age = now.saturating_sub(claim.response_at?).as_secs_f64();
    let own_rate = claim.rate(now)?;
    let is_young = age < young_seconds(pace);
    let slow = if is_young {
        own_rate.max(mean_rate)
    } else {
        own_rate
    };
    let fast = pace.expected_rate(slow).max(mean_rate);
    let shows_rate = is_up_to_speed(pace) && claim.has_begun();
    let min_age = if pace.is_long_path && !shows_rate {
        SLOW_START_LATENCIES
    } else {
        YOUNG_LATENCIES
    };
    if rest <= 0.0 || slow <= 0.0 || age < min_age * latency {
        return None;
    }
    // The other one begins so much later.
    let delay = begins_after(fast);
    let both_take = (rest + fast * delay) / (slow + fast);
    let taken = (fast * (both_take - delay)).min(max_taken(fast));
    let gain = rest / slow - both_take;
    let pays = gain > latency + MIN_GAIN_SECONDS && both_take > delay + latency;
    pays.then_some(TakeoverSplit {
        victim: claim.id,
        from: claim.end - bytes_floor(taken).min(claim.end - claim.reserved),
        gain,
    })
}

/// Takes a rest that does not pay to be shared, where the connection that has it is so slow that the file would wait for it.
fn take_all_of_slow(
    claim: &ActiveClaim,
    options: &SegmentOptions,
    pace: &ConnectionPace,
    mean_rate: f64,
    begins_after: impl Fn(f64) -> f64,
    now: Duration,
) -> Option<TakeoverSplit> {
    let rest = claim.end - claim.reserved;
    let age = now.saturating_sub(claim.response_at?).as_secs_f64();
    let slow = claim.rate(now)?.max(1.0);
    let fast = pace.expected_rate(slow).max(mean_rate);
    let gain = rest as f64 / slow - begins_after(fast) - rest as f64 / fast;
    // A connection that brings nothing loses its rest twice as late each time, until its own timeout comes first: else workers without work
    // would take it from each other for ever.
    let is_young = age < young_seconds(pace) * patience(claim);
    let min_gain = if rest < options.min_takeover {
        CLEAR_GAIN_SECONDS
    } else {
        LARGE_REST_GAIN_SECONDS
    };
    let takes_all = !is_young && rest > 0 && gain >= min_gain;
    takes_all.then_some(TakeoverSplit {
        victim: claim.id,
        from: claim.reserved,
        gain,
    })
}

/// The time after which a response that has not begun is late, in seconds.
fn late_begin(pace: &ConnectionPace) -> f64 {
    LATE_BEGIN.0.max(LATE_BEGIN.1 * pace.latency())
}

/// Whether connections have come up to speed: claims have ended, and responses begin soon.
fn is_up_to_speed(pace: &ConnectionPace) -> bool {
    pace.rate().is_some() && pace.begins().is_some_and(|begin| begin < late_begin(pace))
}

/// How many seconds from now on a new connection loses until it brings `rate` bytes a second: it is made, it requests, and its window doubles
/// each latency until it suffices.
fn new_connection_delay(rate: f64, latency: f64) -> f64 {
    latency * (2.0 + (rate * latency / INITIAL_WINDOW).max(1.0).log2())
}

/// How long a connection comes up to speed.
fn young_seconds(pace: &ConnectionPace) -> f64 {
    YOUNG_SECONDS.max(SLOW_START_LATENCIES * pace.latency())
}

/// Whether a worker's connection brings next to nothing: it is never silent and may go on so for ever, and
/// however small its rest is and whatever the limits are, that rest would take hours.
fn is_trickling(claim: &ActiveClaim, pace: &ConnectionPace, now: Duration) -> bool {
    let seconds = claim
        .response_at
        .map_or(0.0, |then| now.saturating_sub(then).as_secs_f64());
    let slow = claim.rate(now).unwrap_or(f64::INFINITY);
    // Longer than a silence may be, to distinguish a trickle from a connection that only pauses.
    seconds > 2.0 * max_silence(claim, pace)
        && pace.rate().is_some_and(|rate| slow < TRICKLE_SHARE * rate)
}

/// How many seconds a worker may be silent. A rest that was taken from a silent worker before is given twice
/// as long: where an origin takes longer than any estimate to respond, idle workers that take the rest from
/// each other for ever would keep it from ever being fetched.
fn max_silence(claim: &ActiveClaim, pace: &ConnectionPace) -> f64 {
    (SILENT_SECONDS + SILENT_LATENCIES * pace.latency()) * patience(claim)
}

/// How many times as long as usual a worker may be silent.
fn patience(claim: &ActiveClaim) -> f64 {
    2f64.powi(i32::try_from(claim.silent_predecessors).unwrap_or(i32::MAX))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float casts saturate, as intended"
)]
fn bytes_floor(bytes: f64) -> u64 {
    bytes as u64
}
