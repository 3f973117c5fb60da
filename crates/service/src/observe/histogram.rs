//! A histogram of durations, of requests above all.

use std::time::Duration;

use super::{MetricKind, MetricsText, ShardedCounters};

/// The upper bounds of the buckets, inclusive, in nanoseconds: 50 us to a minute, two or three a decade. A small file from the cache takes
/// about 50 us; only large bodies take more than a minute, and their time says nothing.
const BOUNDS: [u64; 20] = [
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    20_000_000_000,
    30_000_000_000,
    60_000_000_000,
];

/// The counter of durations above all bounds.
const OVERFLOW: usize = BOUNDS.len();

/// The counter of the sum, in microseconds: nanoseconds would wrap within weeks of thousands of bodies at a time.
const SUM_MICROS: usize = OVERFLOW + 1;

/// Counts durations in buckets.
#[derive(Debug, Default)]
pub struct DurationHistogram {
    /// A counter for each bucket, for durations above all bounds, and for the sum.
    counters: ShardedCounters<{ SUM_MICROS + 1 }>,
}

impl DurationHistogram {
    /// Counts a duration: two relaxed additions.
    #[inline]
    pub fn observe(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counters.add(bucket(nanos), 1);
        // Rounded: truncated, small responses would seem a few percent faster than they are.
        self.counters
            .add(SUM_MICROS, nanos.saturating_add(500) / 1_000);
    }

    /// Writes the histogram as one family.
    pub fn write_metrics(&self, name: &str, help: &str, out: &mut MetricsText) {
        let mut family = out.family(name, MetricKind::Histogram, help);
        let mut count = 0;
        for (at, bound) in BOUNDS.iter().enumerate() {
            count += self.counters.sum(at);
            let bound = seconds(bound / 1_000).to_string();
            family.suffixed("_bucket", &[("le", &bound)], count);
        }
        count += self.counters.sum(OVERFLOW);
        family.suffixed("_bucket", &[("le", "+Inf")], count);
        family.suffixed("_sum", &[], seconds(self.counters.sum(SUM_MICROS)));
        // Equal to the last bucket, whatever was counted meanwhile.
        family.suffixed("_count", &[], count);
    }
}

fn bucket(nanos: u64) -> usize {
    BOUNDS.partition_point(|bound| *bound < nanos)
}

fn seconds(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive_and_rise() {
        assert!(BOUNDS.is_sorted());
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(50_000), 0);
        assert_eq!(bucket(50_001), 1);
        assert_eq!(bucket(60_000_000_000), OVERFLOW - 1);
        assert_eq!(bucket(60_000_000_001), OVERFLOW);
        assert_eq!(bucket(u64::MAX), OVERFLOW);
    }

    #[test]
    fn buckets_are_cumulative_and_the_last_has_all() {
        let histogram = DurationHistogram::default();
        for micros in [50, 51, 100, 59_999_999, 60_000_001] {
            histogram.observe(Duration::from_micros(micros));
        }
        let mut out = MetricsText::default();
        histogram.write_metrics("t_seconds", "Time.", &mut out);
        let text = out.into_text();
        assert!(text.starts_with("# HELP t_seconds Time.\n# TYPE t_seconds histogram\n"));
        for line in [
            "t_seconds_bucket{le=\"0.00005\"} 1",
            "t_seconds_bucket{le=\"0.0001\"} 3",
            "t_seconds_bucket{le=\"0.00025\"} 3",
            "t_seconds_bucket{le=\"2.5\"} 3",
            "t_seconds_bucket{le=\"30\"} 3",
            "t_seconds_bucket{le=\"60\"} 4",
            "t_seconds_bucket{le=\"+Inf\"} 5",
            "t_seconds_sum 120.000201",
            "t_seconds_count 5",
        ] {
            assert!(
                text.lines().any(|written| written == line),
                "{line} in {text}"
            );
        }
    }

    #[test]
    fn sums_are_rounded_to_microseconds_and_never_overflow() {
        let histogram = DurationHistogram::default();
        histogram.observe(Duration::from_nanos(1_499));
        histogram.observe(Duration::from_nanos(1_500));
        assert_eq!(histogram.counters.sum(SUM_MICROS), 3);
        histogram.observe(Duration::MAX);
        assert_eq!(histogram.counters.sum(OVERFLOW), 1);
    }
}
