//! What one number of connections brings.

use std::time::Duration;

use super::ProgressSample;

/// Windows that are remembered: eight halve the error of two, and older ones say nothing about now.
pub(super) const MAX_WINDOWS: usize = 8;

/// Windows from which a scatter can be told at all: two that happen to agree would look like certainty.
pub(super) const MIN_WINDOWS_FOR_SCATTER: usize = 3;

/// A difference counts as seen when it is this many standard errors: nine times in ten it is then no accident, and
/// waiting for more certainty costs more than the rare mistake, which the next probe corrects.
pub(super) const SIGNIFICANT_ERRORS: f64 = 1.5;

/// The rates that one number of connections brought, window by window.
#[derive(Debug, Clone)]
pub(super) struct RateSamples {
    /// The number.
    connections: usize,
    /// Whether more connections were flowing before: then those too many are waited for, not those missing.
    is_lowered: bool,
    /// When this level was first looked at.
    started_at: Option<Duration>,
    /// Whether all connections deliver and none too many, or were waited for long enough.
    is_settled: bool,
    /// The end of the last window: its time and its bytes.
    window_end: Option<(Duration, u64)>,
    /// Bytes a second, the latest last.
    rates: Vec<f64>,
    /// Windows, forgotten ones too.
    windows_seen: usize,
    /// What this level brought when it was new, to notice that the link has changed.
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
            rates: Vec::new(),
            windows_seen: 0,
            first_mean: None,
        }
    }

    /// A level below the present one: it begins when those too many have ended.
    pub(super) fn lowered(connections: usize) -> Self {
        Self {
            is_lowered: true,
            ..Self::new(connections)
        }
    }

    pub(super) fn connections(&self) -> usize {
        self.connections
    }

    /// Takes a look; the rate of the window that it ends. `None` while connections are still being made, for at most
    /// `settle`. While surplus connections end, only the latest window is kept.
    pub(super) fn add(&mut self, sample: ProgressSample, settle: Duration) -> Option<f64> {
        let begun = *self.started_at.get_or_insert(sample.now);
        let (then, bytes) = self.window_end.unwrap_or((sample.now, sample.bytes));
        if !self.is_settled {
            let reached = if self.is_lowered {
                sample.delivering <= self.connections
            } else {
                sample.delivering >= self.connections
            };
            self.is_settled = reached || sample.now.saturating_sub(begun) >= settle;
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
        self.window_end = Some((sample.now, sample.bytes));
        let rate = sample.bytes.saturating_sub(bytes) as f64 / seconds;
        if self.rates.len() == MAX_WINDOWS {
            self.rates.remove(0);
        }
        self.rates.push(rate);
        self.windows_seen += 1;
        Some(rate)
    }

    /// Whether it is one below what was there before.
    pub(super) fn is_lowered(&self) -> bool {
        self.is_lowered
    }

    /// Whether all connections deliver, or were waited for long enough.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Windows seen, as far as they are remembered.
    pub(super) fn windows(&self) -> usize {
        self.rates.len()
    }

    /// Windows seen, forgotten ones too.
    pub(super) fn windows_seen(&self) -> usize {
        self.windows_seen
    }

    /// Bytes a second over what is remembered.
    pub(super) fn mean(&self) -> f64 {
        mean(&self.rates)
    }

    /// How far the windows scatter around their mean, as a share of it; `None` from too few of them.
    pub(super) fn scatter(&self) -> Option<f64> {
        let mean = self.mean();
        if self.rates.len() < MIN_WINDOWS_FOR_SCATTER || mean <= 0.0 {
            return None;
        }
        let squares: f64 = self.rates.iter().map(|rate| (rate - mean).powi(2)).sum();
        Some((squares / (self.rates.len() - 1) as f64).sqrt() / mean)
    }

    /// The standard error of the difference between this level's mean and another's, in bytes a second. The larger of
    /// their scatters is taken for both: a level of few windows says little about its own.
    pub(super) fn standard_error(&self, other: &Self) -> f64 {
        let scatters = [self.scatter(), other.scatter()];
        let scatter = scatters.into_iter().flatten().fold(0.0, f64::max);
        let share = |level: &Self| level.mean().powi(2) / level.rates.len().max(1) as f64;
        scatter * (share(self) + share(other)).sqrt()
    }

    /// Whether the last windows all lie this far from what the level first brought, to the same side.
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
