//! The remaining time of a batch: steady while nothing changes, and unknown where it cannot be estimated.
//!
//! Files do not end evenly. While jobs wait for a retry, or for a slow host, nothing ends for some seconds, and a rate over the last
//! seconds would make the estimate jump. So the rate covers tens of seconds and is updated only when files have ended; a silence longer
//! than usual has no estimate. Files that ended before the lists were read completely do not count: thousands of existing files pass in a
//! moment, and the rest has none of them.

use std::time::Duration;

use haul_transfer::batch::BatchSummary;

use super::meter::RateMeter;
use crate::report::ended_files;

/// How long the past counts, at least and at most: half of the time passed in between. The longer a batch has run, the less a moment says
/// about it.
const MEMORY: (f64, f64) = (10.0, 60.0);

/// A silence in seconds that means nothing: a wait before a retry, or a group of files being synced.
const QUIET: f64 = 3.0;

/// Nor does a silence as long as this number of files usually takes.
const FILES: f64 = 4.0;

#[derive(Debug, Default)]
pub(super) struct RemainingTime {
    files: RemainingCount,
    /// Of the bytes, where all sizes are known: after a thousand small files one large file may be most of the work.
    bytes: RemainingCount,
    remaining: Option<Duration>,
}

/// The time until all of a number have ended.
#[derive(Debug, Default)]
struct RemainingCount {
    /// Since the lists were read completely.
    estimate: Option<RemainingEstimate>,
}

#[derive(Debug)]
struct RemainingEstimate {
    since: Duration,
    /// How many end, a second.
    rate: RateMeter,
    /// How many had ended, and when the last of them did.
    last: (u64, Duration),
}

impl RemainingCount {
    /// The time until the missing ones have ended, if it can be estimated. `usual`: how many usually end in a silence.
    fn observe(&mut self, now: Duration, ended: u64, missing: u64, usual: f64) -> Option<Duration> {
        let known = self.estimate.get_or_insert_with(|| RemainingEstimate {
            since: now,
            rate: RateMeter::new(now, ended),
            last: (ended, now),
        });
        if ended != known.last.0 {
            let half = now.saturating_sub(known.since).as_secs_f64() / 2.0;
            known.rate.set_memory(half.clamp(MEMORY.0, MEMORY.1));
            known.rate.observe(now, ended);
            known.last = (ended, now);
        }
        let silence = now.saturating_sub(known.last.1).as_secs_f64();
        let is_usual = silence <= QUIET.max(usual / known.rate.per_second());
        is_usual.then(|| known.rate.time_for(missing)).flatten()
    }
}

impl RemainingTime {
    /// Takes new counts in.
    pub(super) fn observe(&mut self, now: Duration, summary: &BatchSummary) {
        if !summary.list_complete {
            return;
        }
        let ended = ended_files(summary);
        let missing = summary.listed.saturating_sub(ended);
        let files = self.files.observe(now, ended, missing, FILES);
        let bytes = summary.planned_bytes.and_then(|planned| {
            let missing = planned.saturating_sub(summary.ended_bytes);
            self.bytes.observe(now, summary.ended_bytes, missing, 0.0)
        });
        // Small files wait for responses, large ones for bytes: the slower of the two is the one that matters.
        self.remaining = match summary.planned_bytes {
            Some(planned) if planned > 0 => files.max(bytes),
            _ => files,
        };
    }

    /// The remaining time, if it can be estimated.
    pub(super) fn remaining(&self) -> Option<Duration> {
        self.remaining
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observes a batch of `listed` files ten times a second; `ended` is the number of ended files at each tenth.
    fn observed(listed: u64, tenths: u64, ended: impl Fn(u64) -> u64) -> Vec<Option<f64>> {
        let mut remaining = RemainingTime::default();
        let looks = (0..=tenths).map(|tenth| {
            let summary = BatchSummary {
                listed,
                list_complete: true,
                done: ended(tenth),
                ..BatchSummary::default()
            };
            remaining.observe(Duration::from_millis(tenth * 100), &summary);
            remaining.remaining().map(|left| left.as_secs_f64())
        });
        looks.collect()
    }

    #[test]
    fn an_even_batch_counts_down() {
        let left = observed(1000, 99, |tenth| tenth * 10);
        assert_eq!(left[0], None);
        for (tenth, left) in left.iter().enumerate().skip(1) {
            let expected = 10.0 - tenth as f64 / 10.0;
            assert!((left.unwrap() - expected).abs() < 0.1, "{tenth}: {left:?}");
        }
    }

    #[test]
    fn a_wait_before_another_try_does_not_send_it_up_and_down() {
        // A hundred a second, with two seconds in every ten in which nothing ends.
        let ended = |tenth: u64| tenth / 100 * 800 + (tenth % 100).min(80) * 10;
        let left = observed(100_000, 600, ended);
        let rates: Vec<f64> = (200..600)
            .map(|tenth| (100_000 - ended(tenth as u64)) as f64 / left[tenth].unwrap())
            .collect();
        let (low, high) = rates.iter().fold((f64::MAX, 0f64), |(low, high), rate| {
            (low.min(*rate), high.max(*rate))
        });
        assert!(low > 70.0 && high < 95.0, "{low} to {high} files a second");
    }

    #[test]
    fn a_long_silence_has_no_estimate_and_what_follows_it_has_one() {
        // The last ten wait for a host for twenty seconds.
        let left = observed(1000, 400, |tenth| match tenth {
            0..=99 => tenth * 10,
            100..=300 => 990,
            _ => 995,
        });
        assert!(left[120].is_some() && left[135].is_none() && left[300].is_none());
        assert!(left[301].is_some_and(|left| left < 2.0), "{:?}", left[301]);
        // Of large files each takes its minute, and that is no silence.
        let left = observed(20, 6000, |tenth| tenth / 600);
        assert!(left[700..].iter().all(Option::is_some));
        assert!(
            (left[3000].unwrap() - 900.0).abs() < 30.0,
            "{:?}",
            left[3000]
        );
    }

    #[test]
    fn a_large_file_behind_small_ones_is_not_forgotten() {
        let mut remaining = RemainingTime::default();
        let mut look = |tenth: u64| {
            // A hundred files of 10 kB in two seconds, then one of 100 MB at 1 MB a second, and nothing else ends.
            let summary = BatchSummary {
                listed: 101,
                list_complete: true,
                done: (tenth * 5).min(100),
                planned_bytes: Some(101_000_000),
                ended_bytes: (tenth * 50_000).min(1_000_000) + tenth.saturating_sub(20) * 100_000,
                ..BatchSummary::default()
            };
            remaining.observe(Duration::from_millis(tenth * 100), &summary);
            remaining.remaining().map(|left| left.as_secs_f64())
        };
        let left: Vec<Option<f64>> = (0..=900).map(&mut look).collect();
        for (tenth, left) in left.iter().enumerate().skip(200) {
            let expected = 102.0 - tenth as f64 / 10.0;
            let left = left.expect("bytes arrive all the time");
            assert!((left - expected).abs() < 0.2 * expected, "{tenth}: {left}");
        }
    }

    #[test]
    fn what_passed_before_the_lists_were_read_does_not_count() {
        let mut remaining = RemainingTime::default();
        let mut look = |seconds, earlier, done, complete| {
            let summary = BatchSummary {
                listed: 200_000,
                list_complete: complete,
                done_earlier: earlier,
                done,
                ..BatchSummary::default()
            };
            remaining.observe(Duration::from_secs(seconds), &summary);
            remaining.remaining()
        };
        assert_eq!(look(1, 100_000, 10, false), None);
        assert_eq!(look(2, 199_000, 20, true), None);
        assert_eq!(look(3, 199_000, 30, true), Some(Duration::from_secs(97)));
    }
}
