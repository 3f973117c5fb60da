//! The measured rates of one number of connections.

use std::time::Duration;

use super::ProgressSample;

/// Windows that are kept: eight halve the error of two, and older ones say nothing about now.
pub(super) const MAX_WINDOWS: usize = 8;

/// Windows that a scatter needs at least: two that happen to agree would look like certainty.
pub(super) const MIN_WINDOWS_FOR_SCATTER: usize = 3;

/// A difference is significant when it is this many standard errors: nine times in ten it is then no
/// accident, and waiting for more certainty costs more than the rare mistake, which the next probe corrects.
pub(super) const SIGNIFICANT_ERRORS: f64 = 1.5;

/// At this share of the usual rate nothing is sent: the last bytes in the kernel's buffers trickle in.
pub(super) const SILENT_SHARE: f64 = 0.02;

/// The measured rates of one number of connections, window by window.
#[derive(Debug, Clone)]
pub(super) struct RateSamples {
    connections: usize,
    /// Whether more connections delivered before: then the measurement waits until the surplus ones have
    /// ended, not until the missing ones deliver.
    is_lowered: bool,
    /// When the first sample arrived.
    started_at: Option<Duration>,
    /// Whether exactly this many connections deliver, or were waited for long enough.
    is_settled: bool,
    /// The end of the last window: its time and its bytes.
    window_end: Option<(Duration, u64)>,
    /// The begin of that window.
    window_begin: Option<(Duration, u64)>,
    /// Bytes a second, the latest window last.
    rates: Vec<f64>,
    /// Windows measured, including those no longer kept.
    windows_seen: usize,
    /// The mean of the first windows, to notice that the link has changed.
    first_mean: Option<f64>,
}

impl RateSamples {
    pub(super) fn new(connections: usize) -> Self {
        Self {
            connections,
            is_lowered: false,
            started_at: None,
            is_settled: false,
            window_end: None,
            window_begin: None,
            rates: Vec::new(),
            windows_seen: 0,
            first_mean: None,
        }
    }

    /// The measurement of a lower number than before: it begins when surplus connections have ended.
    pub(super) fn lowered(connections: usize) -> Self {
        Self {
            is_lowered: true,
            ..Self::new(connections)
        }
    }

    pub(super) fn connections(&self) -> usize {
        self.connections
    }

    /// Takes a sample and returns the rate of the window that it ends. `None` while connections are still
    /// being made, for at most `max_settle_time`. While surplus connections end, only the latest window is
    /// kept.
    pub(super) fn add(&mut self, sample: ProgressSample, max_settle_time: Duration) -> Option<f64> {
        let begun = *self.started_at.get_or_insert(sample.now);
        let (then, bytes) = self.window_end.unwrap_or((sample.now, sample.bytes));
        if !self.is_settled {
            let reached = if self.is_lowered {
                sample.delivering <= self.connections
            } else {
                sample.delivering >= self.connections
            };
            self.is_settled = reached || sample.now.saturating_sub(begun) >= max_settle_time;
            self.rates.clear();
            if self.is_settled || self.window_end.is_none() || !self.is_lowered {
                self.window_end = Some((sample.now, sample.bytes));
                return None;
            }
        }
        let seconds = sample.now.saturating_sub(then).as_secs_f64();
        if seconds <= 0.0 {
            return None;
        }
        self.window_begin = Some((then, bytes));
        self.window_end = Some((sample.now, sample.bytes));
        let rate = sample.bytes.saturating_sub(bytes) as f64 / seconds;
        if self.rates.len() == MAX_WINDOWS {
            self.rates.remove(0);
        }
        self.rates.push(rate);
        self.windows_seen += 1;
        Some(rate)
    }

    /// Whether next to nothing has arrived since the last window. The next one then lasts until something has, since an origin that paces in
    /// bursts pauses between them. After an outage it begins anew: while a link is away, no number is better than another.
    pub(super) fn skip_silence(&mut self, sample: &ProgressSample, outage: Duration) -> bool {
        let mean = self.mean();
        let Some((then, bytes)) = &mut self.window_end else {
            return false;
        };
        let elapsed = sample.now.saturating_sub(*then);
        let arrived = sample.bytes.saturating_sub(*bytes);
        if arrived == 0 && elapsed >= outage {
            *then = sample.now;
            return true;
        }
        arrived as f64 <= SILENT_SHARE * mean * elapsed.as_secs_f64() && elapsed < outage
    }

    /// Makes the last window longer, as long as no more connections deliver than in it: the longer, the more exact.
    pub(super) fn extend(&mut self, sample: &ProgressSample) {
        let (Some(rate), Some((begin, bytes))) = (self.rates.last_mut(), self.window_begin) else {
            return;
        };
        let seconds = sample.now.saturating_sub(begin).as_secs_f64();
        if sample.delivering == self.connections && seconds > 0.0 {
            *rate = sample.bytes.saturating_sub(bytes) as f64 / seconds;
        }
    }

    /// The begin of the first window, and the rate in it until now. `None` before and after it.
    pub(super) fn first_window_so_far(&self, sample: &ProgressSample) -> Option<(Duration, f64)> {
        if !self.is_settled || self.windows_seen > 0 {
            return None;
        }
        let (begin, bytes) = self.window_end?;
        let seconds = sample.now.saturating_sub(begin).as_secs_f64();
        (seconds > 0.0).then(|| (begin, sample.bytes.saturating_sub(bytes) as f64 / seconds))
    }

    /// Whether the number before was higher.
    pub(super) fn is_lowered(&self) -> bool {
        self.is_lowered
    }

    /// Whether exactly this many connections deliver, or were waited for long enough.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Windows that are kept.
    pub(super) fn windows(&self) -> usize {
        self.rates.len()
    }

    /// Windows measured, including those no longer kept.
    pub(super) fn windows_seen(&self) -> usize {
        self.windows_seen
    }

    /// The mean of the kept windows, in bytes a second.
    pub(super) fn mean(&self) -> f64 {
        mean(&self.rates)
    }

    /// The standard deviation of the windows, as a share of their mean; `None` from too few of them.
    pub(super) fn scatter(&self) -> Option<f64> {
        let mean = self.mean();
        if self.rates.len() < MIN_WINDOWS_FOR_SCATTER || mean <= 0.0 {
            return None;
        }
        let squares: f64 = self.rates.iter().map(|rate| (rate - mean).powi(2)).sum();
        Some((squares / (self.rates.len() - 1) as f64).sqrt() / mean)
    }

    /// The standard error of the mean as a share of it; none where the scatter is not known.
    pub(super) fn relative_error(&self) -> f64 {
        self.scatter().unwrap_or(0.0) / (self.rates.len().max(1) as f64).sqrt()
    }

    /// The standard error of the difference between this mean and another's, in bytes a second. The larger
    /// scatter is taken for both: few windows say little about their own.
    pub(super) fn standard_error(&self, other: &Self) -> f64 {
        let scatters = [self.scatter(), other.scatter()];
        let scatter = scatters.into_iter().flatten().fold(0.0, f64::max);
        let share = |samples: &Self| samples.mean().powi(2) / samples.rates.len().max(1) as f64;
        scatter * (share(self) + share(other)).sqrt()
    }

    /// Whether the last windows are all this share off the first mean, to the same side.
    pub(super) fn has_shifted(&mut self, by: f64, windows: usize) -> bool {
        if self.rates.len() < windows {
            return false;
        }
        let first = *self.first_mean.get_or_insert_with(|| mean(&self.rates));
        let recent = &self.rates[self.rates.len() - windows..];
        recent.iter().all(|rate| *rate > first * (1.0 + by))
            || recent.iter().all(|rate| *rate < first * (1.0 - by))
    }
}

fn mean(rates: &[f64]) -> f64 {
    if rates.is_empty() {
        0.0
    } else {
        rates.iter().sum::<f64>() / rates.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTAGE: Duration = Duration::from_secs(1);

    /// The rates that samples every 100 ms have, of an origin that sends 2 MB every half second.
    #[test]
    fn pauses_between_bursts_count_and_an_outage_does_not() {
        let sample = |millis: u64, bytes: u64| ProgressSample {
            now: Duration::from_millis(millis),
            bytes,
            delivering: 1,
            remaining: u64::MAX,
            latency: Duration::ZERO,
        };
        let mut samples = RateSamples::new(1);
        let mut take = |millis, bytes| {
            let sample = sample(millis, bytes);
            if samples.skip_silence(&sample, OUTAGE) {
                None
            } else {
                samples.add(sample, Duration::ZERO)
            }
        };
        let sent = |millis: u64| millis / 500 * 2_000_000;
        assert_eq!(take(0, 0), None);
        let rates: Vec<_> = (1..=30)
            .filter_map(|n| take(n * 100, sent(n * 100)))
            .collect();
        assert!(
            !rates.is_empty() && rates.iter().all(|rate| (*rate - 4e6).abs() < 1.0),
            "{rates:?}"
        );
        // The link is away for five seconds, and then as fast as ever.
        assert_eq!((31..=80).find_map(|n| take(n * 100, sent(3000))), None);
        let rate = take(8100, sent(3000) + 400_000).unwrap();
        assert!(
            rate > 4e5,
            "no more than a second of the outage counts: {rate}"
        );
    }
}
