//! When to try another number of connections, and which smaller one.

use std::time::Duration;

use super::rate_samples::RateSamples;

/// A window while holding, at most: long enough to average bursts of half a second.
pub(super) const MAX_HOLD_WINDOW: Duration = Duration::from_secs(1);

/// The shortest, twice that of a ramp: with less than a second to go nothing that is found pays any more.
const MIN_HOLD_WINDOW: Duration = Duration::from_millis(100);

/// Between them a window is this share of the time that the job still takes: a trial that is clearly a loss ends with its
/// first window, so at half the rate it costs a twentieth; and shorter windows scatter more than they save.
const WINDOW_SHARE: f64 = 0.1;

/// Windows between trials: at first, and at most. One more connection for two windows in ten costs next to nothing, and a
/// link that has become wider without becoming faster for those who are there is noticed in no other way.
const EVERY: (u32, u32) = (4, 10);

/// Each connection brings this share of what a single one brought: then hardly anything is shared, and fewer would bring
/// less. The ramp's short windows are not more exact than this.
const UNSHARED_RATE: f64 = 0.7;

/// Each connection brings so many times what a single one brought: then that was still coming up to speed, and proves
/// nothing.
const SLOW_START_RATE: f64 = 1.2;

/// How long a number counts as too small after a trial of it brought less: a trial can be misled by a link that scatters,
/// and half the connections for a second in a minute cost less than a percent.
const TOO_FEW_VALID_FOR: Duration = Duration::from_secs(60);

/// A window while holding, when so many bytes are still to come at this rate.
pub(super) fn hold_window(remaining: u64, rate: f64) -> Duration {
    let seconds = WINDOW_SHARE * remaining as f64 / rate.max(1.0);
    Duration::from_secs_f64(
        seconds.clamp(MIN_HOLD_WINDOW.as_secs_f64(), MAX_HOLD_WINDOW.as_secs_f64()),
    )
}

/// When the next trial is due, and what is known of smaller numbers.
#[derive(Debug)]
pub(super) struct ProbeSchedule {
    /// When the next trial is due.
    next_probe: Duration,
    /// How many windows after a settling that is.
    windows_between: u32,
    /// So many brought less, and until when that is believed.
    too_few: (usize, Duration),
    /// What a single connection brought, in bytes a second, since the link last changed; 0 if that is unknown.
    single_rate: f64,
}

impl Default for ProbeSchedule {
    fn default() -> Self {
        Self {
            next_probe: Duration::MAX,
            windows_between: EVERY.0,
            too_few: (0, Duration::ZERO),
            single_rate: 0.0,
        }
    }
}

impl ProbeSchedule {
    /// The ramp left a level behind.
    pub(super) fn left_level(&mut self, level: &RateSamples) {
        if level.connections() == 1 {
            self.single_rate = level.mean();
        }
    }

    /// What a single connection brought says nothing about this link.
    pub(super) fn forget_single(&mut self) {
        self.single_rate = 0.0;
    }

    /// A number was settled on: not yet another.
    pub(super) fn schedule_next(&mut self, now: Duration, window: Duration) {
        self.next_probe = now.saturating_add(window * self.windows_between);
    }

    pub(super) fn is_due(&self, now: Duration) -> bool {
        now >= self.next_probe
    }

    /// A trial has ended: what paid may pay again soon, what did not is asked more seldom.
    pub(super) fn probe_finished(&mut self, paid: bool) {
        self.windows_between = if paid {
            1
        } else {
            (self.windows_between.max(EVERY.0) * 2).min(EVERY.1)
        };
    }

    /// So few brought less than there was before.
    pub(super) fn lower_probe_failed(&mut self, connections: usize, now: Duration) {
        self.too_few = (connections, now.saturating_add(TOO_FEW_VALID_FOR));
        self.windows_between = EVERY.0;
    }

    /// A number below a level's that might bring as much: half, or at first what would be enough if nothing were shared.
    pub(super) fn lower_candidate(
        &self,
        level: &RateSamples,
        ceiling: usize,
        now: Duration,
    ) -> Option<usize> {
        let half = level.connections() / 2;
        let (few, until) = self.too_few;
        let few = if now < until { few } else { 0 };
        let each = level.mean() / level.connections() as f64;
        let untrue = each > SLOW_START_RATE * self.single_rate && level.connections() < ceiling;
        let unshared =
            self.single_rate > 0.0 && each >= UNSHARED_RATE * self.single_rate && !untrue;
        // As long as no step up has failed, one tells more: it costs less, and a ramp that noise has ended is set right.
        let up_first = self.windows_between == EVERY.0 && few == 0 && level.connections() < ceiling;
        if half <= few || unshared || up_first {
            return None;
        }
        let enough = (1..half).find(|count| *count as f64 * self.single_rate >= level.mean());
        Some(enough.filter(|_| few == 0).unwrap_or(half))
    }
}
