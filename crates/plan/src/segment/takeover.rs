//! When an idle worker takes over bytes of another worker's claim, and how many.

use std::ops::Range;
use std::time::Duration;

use super::segment_size::{ConnectionPace, SegmentOptions};
use super::{ActiveClaim, ClaimId};

/// The least gain of a take-over, in seconds, beyond the latency of the request: a take-over throws away a
/// connection and the bytes in flight on it.
const MIN_GAIN_SECONDS: f64 = 0.02;

/// A connection counts as silent after this long without a byte, plus [`SILENT_LATENCIES`]: a second hiccup
/// is common, and the stall timeout proper is much longer.
const SILENT_SECONDS: f64 = 1.0;

/// See [`SILENT_SECONDS`].
const SILENT_LATENCIES: f64 = 4.0;

/// A connection with less than this share of the rate of the others trickles.
const TRICKLE_SHARE: f64 = 0.01;

/// The origin of a claim that was taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimTakeover {
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
    now: Duration,
    may_fetch: impl Fn(Range<u64>) -> bool,
) -> Option<TakeoverSplit> {
    let total_rate = held.iter().filter_map(|claim| claim.rate(now)).sum();
    let may_split = options.allows_splitting(total_rate);
    let takeovers = held.iter().filter_map(|claim| {
        let takeover = take_all_of_silent(claim, pace, now).or_else(|| {
            let split = may_split.then(|| split_slow(claim, pace, now))?;
            split.filter(|takeover| claim.end - takeover.from >= options.min_takeover)
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
    let silent = silence > max_silence(claim, pace) || is_trickling(claim, pace, now);
    (rest > 0 && silent).then_some(TakeoverSplit {
        victim: claim.id,
        from: claim.reserved,
        // It may stay silent for any time: such a take-over is always the best.
        gain: f64::MAX,
    })
}

/// Takes a part of a slow worker's remaining bytes, so that both end together.
fn split_slow(claim: &ActiveClaim, pace: &ConnectionPace, now: Duration) -> Option<TakeoverSplit> {
    let rest = claim.end - claim.reserved;
    if rest == 0 {
        return None;
    }
    let slow = claim.rate(now)?;
    let fast = pace.expected_rate(slow);
    if slow <= 0.0 || fast <= 0.0 {
        return None;
    }
    let kept = rest as f64 * slow / (slow + fast);
    let taken = rest as f64 - kept;
    let gain = rest as f64 / slow - (kept / slow).max(pace.latency() + taken / fast);
    let from = claim.end - bytes_floor(taken).min(rest);
    (gain > pace.latency() + MIN_GAIN_SECONDS).then_some(TakeoverSplit {
        victim: claim.id,
        from,
        gain,
    })
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
    let doublings = i32::try_from(claim.silent_predecessors).unwrap_or(i32::MAX);
    (SILENT_SECONDS + SILENT_LATENCIES * pace.latency()) * 2f64.powi(doublings)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float casts saturate, as intended"
)]
fn bytes_floor(bytes: f64) -> u64 {
    bytes as u64
}
