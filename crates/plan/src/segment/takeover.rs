//! When and how much an idle worker takes of what another still holds.

use std::ops::Range;
use std::time::Duration;

use super::segment_size::{ConnectionPace, SegmentOptions};
use super::{ActiveClaim, ClaimId};

/// What must be won, in seconds, beyond the latency of asking: a take-over throws away a connection and what is in flight on it.
const MIN_GAIN_SECONDS: f64 = 0.02;

/// A connection counts as silent after this long without a byte, plus [`SILENT_LATENCIES`]: a second hiccup is common,
/// and the stall timeout proper is much longer.
const SILENT_SECONDS: f64 = 1.0;

/// See [`SILENT_SECONDS`].
const SILENT_LATENCIES: f64 = 4.0;

/// A connection that gives less than this share of what others give drips.
const TRICKLE_SHARE: f64 = 0.01;

/// Whose rest a claim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimTakeover {
    /// The claim that was cut.
    pub victim: ClaimId,
    /// Nothing is left to it but what is being written: its connection can go.
    pub victim_emptied: bool,
}

/// A take-over that pays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TakeoverSplit {
    /// Whose.
    pub(super) victim: ClaimId,
    /// From here to the claim's end.
    pub(super) from: u64,
    /// What it wins, in seconds.
    gain: f64,
}

/// The take-over that wins most of those that are allowed, if any pays.
pub(super) fn best_takeover(
    held: &[ActiveClaim],
    options: &SegmentOptions,
    pace: &ConnectionPace,
    now: Duration,
    may_fetch: impl Fn(Range<u64>) -> bool,
) -> Option<TakeoverSplit> {
    let cuts = held.iter().filter_map(|holding| {
        let cut = take_all_of_silent(holding, pace, now).or_else(|| {
            let piece = options
                .allows_splitting()
                .then(|| split_slow(holding, pace, now))?;
            piece.filter(|cut| holding.end - cut.from >= options.min_takeover)
        });
        cut.filter(|cut| may_fetch(cut.from..holding.end))
    });
    cuts.max_by(|a, b| a.gain.total_cmp(&b.gain))
}

/// All the rest of a worker that has been silent for too long, or as good as.
fn take_all_of_silent(
    holding: &ActiveClaim,
    pace: &ConnectionPace,
    now: Duration,
) -> Option<TakeoverSplit> {
    let silence = now.saturating_sub(holding.last_bytes_at).as_secs_f64();
    let left = holding.end - holding.reserved;
    let silent = silence > max_silence(holding, pace) || is_trickling(holding, pace, now);
    (left > 0 && silent).then_some(TakeoverSplit {
        victim: holding.id,
        from: holding.reserved,
        // How long it would stay silent nobody knows: such a cut is always the best.
        gain: f64::MAX,
    })
}

/// So much of a slow worker's rest that both end together.
fn split_slow(
    holding: &ActiveClaim,
    pace: &ConnectionPace,
    now: Duration,
) -> Option<TakeoverSplit> {
    let left = holding.end - holding.reserved;
    if left == 0 {
        return None;
    }
    let slow = holding.rate(now)?;
    let fast = pace.expected_rate(slow);
    if slow <= 0.0 || fast <= 0.0 {
        return None;
    }
    let kept = left as f64 * slow / (slow + fast);
    let piece = left as f64 - kept;
    let gain = left as f64 / slow - (kept / slow).max(pace.latency() + piece / fast);
    let from = holding.end - bytes_floor(piece).min(left);
    (gain > pace.latency() + MIN_GAIN_SECONDS).then_some(TakeoverSplit {
        victim: holding.id,
        from,
        gain,
    })
}

/// Whether a worker's connection gives next to nothing: it is never silent and may go on so for ever, and however small its
/// rest is and whatever the limits are, that rest would take hours.
fn is_trickling(holding: &ActiveClaim, pace: &ConnectionPace, now: Duration) -> bool {
    let seconds = holding
        .response_at
        .map_or(0.0, |then| now.saturating_sub(then).as_secs_f64());
    let slow = holding.rate(now).unwrap_or(f64::INFINITY);
    // Longer than silence is given, so that a connection that only rests is told from it.
    seconds > 2.0 * max_silence(holding, pace)
        && pace.rate().is_some_and(|rate| slow < TRICKLE_SHARE * rate)
}

/// How many seconds a worker may be silent. A rest that was taken from a silent worker before is given twice as long: where
/// an origin needs longer than any estimate to answer, idle workers that take the rest from each other for ever would
/// keep it from ever being fetched.
fn max_silence(holding: &ActiveClaim, pace: &ConnectionPace) -> f64 {
    let doublings = i32::try_from(holding.silent_predecessors).unwrap_or(i32::MAX);
    (SILENT_SECONDS + SILENT_LATENCIES * pace.latency()) * 2f64.powi(doublings)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float casts saturate, which is meant"
)]
fn bytes_floor(bytes: f64) -> u64 {
    bytes as u64
}
