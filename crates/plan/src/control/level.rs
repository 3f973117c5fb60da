//! What one number of connections brings.

use std::time::Duration;

use super::Sample;

/// Windows that are remembered; older ones say nothing about now.
const REMEMBERED: usize = 8;

/// A coefficient of variation above this makes a comparison of means worthless.
const SPIKY: f64 = 0.5;

/// The rates that one number of connections brought, window by window.
#[derive(Debug, Clone)]
pub(super) struct Level {
    /// The number.
    connections: usize,
    /// When this level was first looked at.
    begun: Option<Duration>,
    /// The end of the last window, once all connections delivered: its time and its bytes.
    mark: Option<(Duration, u64)>,
    /// Bytes a second, the latest last.
    rates: Vec<f64>,
    /// What this level brought when it was new, to notice that the link has changed.
    first: Option<f64>,
}

impl Level {
    pub(super) fn new(connections: usize) -> Self {
        Self {
            connections,
            begun: None,
            mark: None,
            rates: Vec::new(),
            first: None,
        }
    }

    pub(super) fn connections(&self) -> usize {
        self.connections
    }

    /// Takes a look; the rate of the window that it ends. `None` while connections are still being made, for at most `settle`.
    pub(super) fn take(&mut self, sample: Sample, settle: Duration) -> Option<f64> {
        let begun = *self.begun.get_or_insert(sample.now);
        let Some((then, bytes)) = self.mark else {
            let settled =
                sample.flowing >= self.connections || sample.now.saturating_sub(begun) >= settle;
            self.mark = settled.then_some((sample.now, sample.bytes));
            return None;
        };
        let seconds = sample.now.saturating_sub(then).as_secs_f64();
        if seconds <= 0.0 {
            return None;
        }
        self.mark = Some((sample.now, sample.bytes));
        let rate = sample.bytes.saturating_sub(bytes) as f64 / seconds;
        if self.rates.len() == REMEMBERED {
            self.rates.remove(0);
        }
        self.rates.push(rate);
        Some(rate)
    }

    /// Whether all connections deliver, or were waited for long enough.
    pub(super) fn is_settled(&self) -> bool {
        self.mark.is_some()
    }

    /// Windows seen, as far as they are remembered.
    pub(super) fn windows(&self) -> usize {
        self.rates.len()
    }

    /// Bytes a second over what is remembered.
    pub(super) fn mean(&self) -> f64 {
        mean(&self.rates)
    }

    /// Bytes a second over the last windows.
    pub(super) fn recent(&self, windows: usize) -> f64 {
        mean(&self.rates[self.rates.len().saturating_sub(windows)..])
    }

    /// Whether the windows differ so much that their mean says nothing.
    pub(super) fn is_spiky(&self) -> bool {
        let mean = self.mean();
        if self.rates.len() < 2 || mean <= 0.0 {
            return false;
        }
        let squares = self
            .rates
            .iter()
            .map(|rate| (rate - mean).powi(2))
            .sum::<f64>();
        (squares / self.rates.len() as f64).sqrt() > SPIKY * mean
    }

    /// Whether the last windows all lie this far from what the level first brought, to the same side.
    pub(super) fn shifted(&mut self, by: f64, windows: usize) -> bool {
        if self.rates.len() < windows {
            return false;
        }
        let first = *self.first.get_or_insert_with(|| mean(&self.rates));
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
