//! The limits of a download that goes on and on: the rate below which it is not worth its connections, and the longest that it may take
//! (row A48).
//!
//! A silent connection has the stall timeout. One that drips, a byte every few seconds, is never silent, and could hold a download, and
//! the end of a batch, for as long as the origin likes. [`DownloadLimitTracker`] gets a sample of the download now and then, and says when
//! a limit is exceeded.
//!
//! The rate is measured over windows. Each must bring the bytes of the minimum; as soon as it has, the next one begins. So a download that
//! is ended had fewer bytes in one whole window, and one that drips is ended after a window, counted from when it last was fast enough.
//! Only the time counts in which the origin is slow: not pauses that a host asked for, waits before retries and for a free connection,
//! times when the reader of the output or the user's own rate limit holds the download back, and a process that was stopped.

use std::fmt;
use std::time::Duration;

/// Samples in one window, unless it is long or very short.
const SAMPLES_PER_WINDOW: u32 = 50;

/// The shortest and the longest time between two samples.
const SAMPLE_INTERVALS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DownloadLimits {
    /// The lowest rate. `None`: [`MinRate::OF_BATCHES`] for a file of a batch, and no limit for other downloads.
    pub min_rate: Option<MinRate>,
    /// The longest time from the first request to the last byte, waits and retries included.
    pub max_time: Option<Duration>,
}

/// A rate that a download must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinRate {
    /// Bytes a second; 0 means no limit.
    pub bytes_per_second: u64,
    /// The time over which the rate is measured.
    pub window: Duration,
}

impl MinRate {
    /// The limit of a file of a batch. No link that anybody uses is as slow for so long, and a batch that waits for ever is a batch that
    /// failed.
    pub const OF_BATCHES: Self = Self {
        bytes_per_second: 100,
        window: Duration::from_secs(300),
    };

    /// The window of a rate without one: that of curl's `--speed-limit`.
    pub const DEFAULT_WINDOW: Duration = Duration::from_secs(30);

    /// The bytes that each window must bring.
    fn bytes_per_window(self) -> u64 {
        let nanos = self
            .window
            .as_nanos()
            .saturating_mul(self.bytes_per_second.into());
        u64::try_from(nanos.div_ceil(1_000_000_000)).unwrap_or(u64::MAX)
    }

    fn sample_interval(self) -> Duration {
        let (shortest, longest) = SAMPLE_INTERVALS;
        (self.window / SAMPLES_PER_WINDOW).clamp(shortest, longest)
    }
}

/// The state of a download at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DownloadSample {
    /// The time since any fixed moment.
    pub now: Duration,
    /// The time since the first request; zero before it, and when all bytes are there.
    pub elapsed: Duration,
    /// Bytes of bodies so far.
    pub received: u64,
    /// Whether the download waits for its origin to send more of a body, and nothing else holds it back.
    pub waits_for_bytes: bool,
}

/// The limit that ended a download. Printed, it follows the name of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExceededLimit {
    /// One window brought too few bytes.
    MinRate {
        limit: MinRate,
        /// The bytes that the window brought.
        received: u64,
    },
    /// The download took longer than this.
    MaxTime(Duration),
}

impl fmt::Display for ExceededLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MinRate { limit, received } => write!(
                f,
                "is too slow: {received} bytes in the last {}, where {} B/s is the minimum",
                ExactTime(limit.window),
                limit.bytes_per_second
            ),
            Self::MaxTime(time) => write!(f, "is not complete after {}", ExactTime(*time)),
        }
    }
}

/// Prints `5 min` or `1.5 s`.
struct ExactTime(Duration);

impl fmt::Display for ExactTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        if self.0.subsec_nanos() == 0 && seconds >= 120 && seconds.is_multiple_of(60) {
            write!(f, "{} min", seconds / 60)
        } else {
            write!(f, "{} s", self.0.as_secs_f64())
        }
    }
}

/// Tells when a download exceeds its limits.
#[derive(Debug)]
pub(crate) struct DownloadLimitTracker {
    min_rate: Option<MinRate>,
    max_time: Option<Duration>,
    last: DownloadSample,
    /// Bytes when the window began.
    window_start: u64,
    /// The time of the window that counts.
    counted: Duration,
}

impl DownloadLimitTracker {
    /// A tracker for a download, beginning with this sample.
    #[must_use]
    pub(crate) fn new(limits: DownloadLimits, first: DownloadSample) -> Self {
        Self {
            min_rate: limits.min_rate.filter(|min| min.bytes_per_second > 0),
            max_time: limits.max_time,
            last: first,
            window_start: first.received,
            counted: Duration::ZERO,
        }
    }

    /// The time until the next sample is due; `None` if none is ever needed.
    #[must_use]
    pub(crate) fn next_sample_in(&self) -> Option<Duration> {
        let rest = self
            .max_time
            .map(|max| max.saturating_sub(self.last.elapsed));
        let interval = self.min_rate.map(MinRate::sample_interval);
        rest.into_iter().chain(interval).min()
    }

    /// The limit that the download exceeds.
    pub(crate) fn on_sample(&mut self, sample: DownloadSample) -> Option<ExceededLimit> {
        let last = std::mem::replace(&mut self.last, sample);
        if let Some(max) = self.max_time.filter(|max| sample.elapsed >= *max) {
            return Some(ExceededLimit::MaxTime(max));
        }
        let limit = self.min_rate?;
        if last.waits_for_bytes && sample.waits_for_bytes {
            // A longer span was not watched: the process was stopped, or the machine was busy.
            let longest = limit.sample_interval() * 2;
            self.counted += sample.now.saturating_sub(last.now).min(longest);
        }
        let received = sample.received.saturating_sub(self.window_start);
        if received >= limit.bytes_per_window() {
            (self.window_start, self.counted) = (sample.received, Duration::ZERO);
            return None;
        }
        (self.counted >= limit.window).then_some(ExceededLimit::MinRate { limit, received })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIN: MinRate = MinRate {
        bytes_per_second: 100,
        window: Duration::from_secs(10),
    };

    fn tracker(min_rate: MinRate) -> DownloadLimitTracker {
        let limits = DownloadLimits {
            min_rate: Some(min_rate),
            max_time: None,
        };
        DownloadLimitTracker::new(limits, DownloadSample::default())
    }

    /// What one interval between two samples brings.
    #[derive(Debug, Clone, Copy)]
    struct Interval {
        bytes: u64,
        waits_for_bytes: bool,
    }

    /// Gives samples to a tracker until a limit is exceeded. Returns the number of the sample, and the limit.
    fn run(min_rate: MinRate, intervals: &[Interval]) -> Option<(usize, ExceededLimit)> {
        let (mut tracker, mut sample) = (tracker(min_rate), DownloadSample::default());
        sample.waits_for_bytes = true;
        tracker.on_sample(sample);
        intervals.iter().enumerate().find_map(|(number, interval)| {
            sample.now += tracker.next_sample_in().unwrap();
            sample.received += interval.bytes;
            sample.waits_for_bytes = interval.waits_for_bytes;
            Some((number, tracker.on_sample(sample)?))
        })
    }

    fn intervals(most: u64) -> impl Strategy<Value = Vec<Interval>> {
        let interval =
            (0..=most, prop::bool::weighted(0.9)).prop_map(|(bytes, waits_for_bytes)| Interval {
                bytes,
                waits_for_bytes,
            });
        prop::collection::vec(interval, 1..400)
    }

    proptest! {
        /// A sample is due every fifth of a second, so twenty bytes each are the minimum.
        #[test]
        fn a48_what_is_ended_had_a_window_with_too_few_bytes(intervals in intervals(40)) {
            if let Some((last, ExceededLimit::MinRate { received, .. })) = run(MIN, &intervals) {
                let waits = |number: usize| intervals[number].waits_for_bytes;
                let (mut window, mut bytes, mut next) = (Duration::ZERO, 0, last + 1);
                while window < MIN.window && next > 0 {
                    next -= 1;
                    if waits(next) && (next == 0 || waits(next - 1)) {
                        window += Duration::from_millis(200);
                    }
                    bytes += intervals[next].bytes;
                }
                prop_assert!(window >= MIN.window && bytes <= received && received < 1000);
            }
        }

        #[test]
        fn a48_a_download_that_is_always_fast_enough_goes_on(more in intervals(1000), is_held in any::<bool>()) {
            let intervals: Vec<_> = more.into_iter().map(|interval| Interval {
                bytes: interval.bytes.max(20),
                waits_for_bytes: interval.waits_for_bytes || !is_held,
            }).collect();
            prop_assert_eq!(run(MIN, &intervals), None);
        }

        #[test]
        fn a48_a_drip_is_ended_a_window_after_the_last_time_that_it_was_fast_enough(
            fast in prop::collection::vec(1000..10_000u64, 0..50), drip in 0..20u64,
        ) {
            let waiting = |bytes| Interval { bytes, waits_for_bytes: true };
            let drips = std::iter::repeat_n(waiting(drip), 60);
            let intervals: Vec<_> = fast.iter().copied().map(waiting).chain(drips).collect();
            let (ended, limit) = run(MIN, &intervals).unwrap();
            prop_assert_eq!(ended, fast.len() + 49);
            prop_assert_eq!(limit, ExceededLimit::MinRate { limit: MIN, received: drip * 50 });
        }

        #[test]
        fn a48_absurd_numbers_do_not_panic(rate: u64, window: u64, now: [u64; 3], received: [u64; 3]) {
            let mut tracker = tracker(MinRate { bytes_per_second: rate, window: Duration::from_nanos(window) });
            for (now, received) in now.into_iter().zip(received) {
                let now = Duration::from_nanos(now);
                let _ = tracker.next_sample_in();
                tracker.on_sample(DownloadSample { now, elapsed: now, received, waits_for_bytes: true });
            }
        }
    }

    #[test]
    fn a48_time_in_which_nothing_is_waited_for_does_not_count() {
        let held = Interval {
            bytes: 0,
            waits_for_bytes: false,
        };
        assert_eq!(run(MIN, &[held; 1000]), None);
        // The time that a process was stopped does not count either, however long it was.
        let (mut tracker, mut sample) = (tracker(MIN), DownloadSample::default());
        sample.waits_for_bytes = true;
        tracker.on_sample(sample);
        for _ in 0..20 {
            sample.now += Duration::from_secs(3600);
            assert_eq!(tracker.on_sample(sample), None);
        }
    }

    #[test]
    fn a48_no_limit_needs_no_samples_and_one_of_time_needs_few() {
        let off = MinRate {
            bytes_per_second: 0,
            ..MIN
        };
        assert_eq!(tracker(off).next_sample_in(), None);
        assert_eq!(
            tracker(MinRate::OF_BATCHES).next_sample_in(),
            Some(Duration::from_secs(1))
        );
        let max_time = Some(Duration::from_secs(90));
        let limits = DownloadLimits {
            min_rate: None,
            max_time,
        };
        let mut tracker = DownloadLimitTracker::new(limits, DownloadSample::default());
        assert_eq!(tracker.next_sample_in(), max_time);
        let at = |seconds| DownloadSample {
            elapsed: Duration::from_secs(seconds),
            ..DownloadSample::default()
        };
        assert_eq!(tracker.on_sample(at(60)), None);
        assert_eq!(tracker.next_sample_in(), Some(Duration::from_secs(30)));
        let exceeded = tracker.on_sample(at(90)).unwrap();
        assert_eq!(exceeded.to_string(), "is not complete after 90 s");
    }
}
