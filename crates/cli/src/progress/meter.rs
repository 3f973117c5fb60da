//! A rate for people: steady at a megabyte and at a gigabyte a second, and correct soon after a change.

use std::time::Duration;

/// Default memory in seconds: after this time two thirds of the rate come from newer observations.
const MEMORY: f64 = 2.0;

/// Observations closer together than this count as one: over a shorter time a rate is mostly noise.
const SHORTEST: Duration = Duration::from_millis(50);

/// The exponentially weighted mean of a counter's rate.
#[derive(Debug, Clone)]
pub(super) struct RateMeter {
    /// The last observation that counted: its time and the counter.
    last: (Duration, u64),
    /// Weighted sums of rates and of weights: their quotient is unbiased from the first observation on.
    sum: f64,
    weight: f64,
    /// How long observations count, in seconds.
    memory: f64,
}

impl RateMeter {
    /// A counter that is at `count` now.
    pub(super) fn new(now: Duration, count: u64) -> Self {
        Self {
            last: (now, count),
            sum: 0.0,
            weight: 0.0,
            memory: MEMORY,
        }
    }

    /// Sets how long observations count from now on.
    pub(super) fn set_memory(&mut self, seconds: f64) {
        self.memory = seconds;
    }

    /// Observes the counter. One that went back - the job started over - starts a new rate.
    pub(super) fn observe(&mut self, now: Duration, count: u64) {
        let (then, before) = self.last;
        if count < before {
            *self = Self {
                memory: self.memory,
                ..Self::new(now, count)
            };
            return;
        }
        let passed = now.saturating_sub(then);
        if passed < SHORTEST {
            return;
        }
        let seconds = passed.as_secs_f64();
        let keep = (-seconds / self.memory).exp();
        self.sum = self
            .sum
            .mul_add(keep, (count - before) as f64 / seconds * (1.0 - keep));
        self.weight = self.weight.mul_add(keep, 1.0 - keep);
        self.last = (now, count);
    }

    /// The rate a second; zero before the second observation.
    pub(super) fn per_second(&self) -> f64 {
        if self.weight > 0.0 {
            self.sum / self.weight
        } else {
            0.0
        }
    }

    /// How long `missing` more will take at this rate, if that is known.
    pub(super) fn time_for(&self, missing: u64) -> Option<Duration> {
        /// A longer time is not an estimate.
        const LONGEST: f64 = 1000.0 * 3600.0;
        let seconds = missing as f64 / self.per_second();
        (seconds.is_finite() && seconds < LONGEST).then(|| Duration::from_secs_f64(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(looks: impl IntoIterator<Item = (u64, u64)>) -> RateMeter {
        let mut meter = RateMeter::new(Duration::ZERO, 0);
        looks
            .into_iter()
            .for_each(|(ms, count)| meter.observe(Duration::from_millis(ms), count));
        meter
    }

    #[test]
    fn a_steady_rate_is_right_from_the_first_observation() {
        for per_second in [1_000u64, 5_000_000_000] {
            let first = observed([(100, per_second / 10)]).per_second();
            let later = observed((1..100).map(|n| (n * 100, n * per_second / 10))).per_second();
            assert!(
                (first / per_second as f64 - 1.0).abs() < 0.01
                    && (later / per_second as f64 - 1.0).abs() < 0.01
            );
        }
    }

    #[test]
    fn bursts_are_smoothed_and_silence_is_seen() {
        // Two mebibytes every half second, as nginx's limit_rate sends them.
        let bursts = (1..=40u64).map(|n| (n * 100, n / 5 * 1_000_000));
        let rates: Vec<f64> = (20..=40)
            .map(|n| observed(bursts.clone().take(n)).per_second())
            .collect();
        assert!(
            rates.iter().all(|rate| (1.4e6..2.7e6).contains(rate)),
            "{rates:?}"
        );
        let silent = observed(bursts.chain((41..=140).map(|n| (n * 100, 8_000_000)))).per_second();
        assert!(silent < 2e4, "{silent}");
    }

    #[test]
    fn a_job_that_starts_over_has_no_rate_yet() {
        let mut meter = observed([(1000, 500)]);
        meter.observe(Duration::from_secs(2), 100);
        assert_eq!((meter.per_second(), meter.time_for(1)), (0.0, None));
    }

    #[test]
    fn time_left_is_told_where_it_can_be() {
        let meter = observed([(1000, 1000)]);
        assert_eq!(meter.time_for(5000), Some(Duration::from_secs(5)));
        assert_eq!(meter.time_for(u64::MAX), None);
    }
}
