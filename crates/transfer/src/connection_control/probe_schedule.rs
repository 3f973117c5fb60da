//! When to probe another number of connections, and which lower one.

use std::time::Duration;

use super::rate_samples::RateSamples;

/// The longest window of a hold: long enough to average bursts of half a second.
pub(super) const MAX_HOLD_WINDOW: Duration = Duration::from_secs(1);

/// The shortest window of a hold, twice that of a ramp: with less than a second to go no finding pays any
/// more.
const MIN_HOLD_WINDOW: Duration = Duration::from_millis(100);

/// Between those, a window is this share of the time that the job still takes: a probe that is clearly a loss
/// ends with its first window, so at half the rate it costs a twentieth; and shorter windows scatter more
/// than they save.
const WINDOW_SHARE: f64 = 0.1;

/// Windows between probes: at first, and at most. One more connection for two windows in ten costs next to
/// nothing, and nothing else shows that a link has become wider without becoming faster for the present
/// connections.
const WINDOWS_BETWEEN: (u32, u32) = (4, 10);

/// If each connection brings this share of the rate of a single one, hardly anything is shared, and fewer
/// would bring less. The ramp's short windows are not more exact than this.
const UNSHARED_RATE: f64 = 0.7;

/// If each connection brings this factor of the rate of a single one, that one was still coming up to speed,
/// and proves nothing.
const SLOW_START_RATE: f64 = 1.2;

/// How long a number counts as too small after a probe of it brought less: noise can mislead a probe, and
/// half the connections for a second in a minute cost less than a percent.
const TOO_FEW_VALID_FOR: Duration = Duration::from_secs(60);

/// The window of a hold, with `remaining` bytes still to come at this rate.
pub(super) fn hold_window(remaining: u64, rate: f64) -> Duration {
    let seconds = WINDOW_SHARE * remaining as f64 / rate.max(1.0);
    Duration::from_secs_f64(
        seconds.clamp(MIN_HOLD_WINDOW.as_secs_f64(), MAX_HOLD_WINDOW.as_secs_f64()),
    )
}

/// When the next probe is due, and what is known of lower numbers.
#[derive(Debug)]
pub(super) struct ProbeSchedule {
    next_probe: Duration,
    /// Windows from the last settling to the next probe.
    windows_between: u32,
    /// The highest number that brought less, and until when that counts.
    too_few: (usize, Duration),
    /// The rate of a single connection, in bytes a second, since the link last changed; 0 if unknown.
    single_rate: f64,
}

impl Default for ProbeSchedule {
    fn default() -> Self {
        Self {
            next_probe: Duration::MAX,
            windows_between: WINDOWS_BETWEEN.0,
            too_few: (0, Duration::ZERO),
            single_rate: 0.0,
        }
    }
}

impl ProbeSchedule {
    /// The ramp climbed from this number.
    pub(super) fn left_level(&mut self, level: &RateSamples) {
        if level.connections() == 1 {
            self.single_rate = level.mean();
        }
    }

    /// The rate of a single connection says nothing about this link.
    pub(super) fn forget_single(&mut self) {
        self.single_rate = 0.0;
    }

    /// The control has settled on a number: schedules the next probe.
    pub(super) fn schedule_next(&mut self, now: Duration, window: Duration) {
        self.next_probe = now.saturating_add(window * self.windows_between);
    }

    pub(super) fn is_due(&self, now: Duration) -> bool {
        now >= self.next_probe
    }

    /// A probe has ended: the next one comes soon if it paid, else later than before.
    pub(super) fn probe_finished(&mut self, paid: bool) {
        self.windows_between = if paid {
            1
        } else {
            (self.windows_between.max(WINDOWS_BETWEEN.0) * 2).min(WINDOWS_BETWEEN.1)
        };
    }

    /// A probe of so few connections brought less.
    pub(super) fn lower_probe_failed(&mut self, connections: usize, now: Duration) {
        self.too_few = (connections, now.saturating_add(TOO_FEW_VALID_FOR));
        self.windows_between = WINDOWS_BETWEEN.0;
    }

    /// A lower number that might bring as much: half, or at first the number that would suffice if nothing
    /// were shared.
    pub(super) fn lower_candidate(
        &self,
        level: &RateSamples,
        ceiling: usize,
        now: Duration,
    ) -> Option<usize> {
        let half = level.connections() / 2;
        let (too_few, until) = self.too_few;
        let too_few = if now < until { too_few } else { 0 };
        let each = level.mean() / level.connections() as f64;
        let single_was_slow =
            each > SLOW_START_RATE * self.single_rate && level.connections() < ceiling;
        let is_unshared =
            self.single_rate > 0.0 && each >= UNSHARED_RATE * self.single_rate && !single_was_slow;
        // As long as no step up has failed, a step up says more: it costs less, and corrects a ramp that
        // noise has ended.
        let up_first = self.windows_between == WINDOWS_BETWEEN.0
            && too_few == 0
            && level.connections() < ceiling;
        if half <= too_few || is_unshared || up_first {
            return None;
        }
        let enough = (1..half).find(|count| *count as f64 * self.single_rate >= level.mean());
        Some(enough.filter(|_| too_few == 0).unwrap_or(half))
    }
}
