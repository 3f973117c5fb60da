//! The hold at a number of connections: detects that the link has changed, and probes another number.

use std::time::Duration;

use super::probe_schedule::ProbeSchedule;
use super::rate_samples::{MAX_WINDOWS, RateSamples, SIGNIFICANT_ERRORS};
use super::{
    ConnectionControl, ControlPhase, ProgressSample, START_ROUND_TRIPS, is_long_round_trip,
};

/// A step up is kept if the rate rises by this, a step down if it does not fall by it: less is not worth a
/// connection, and says nothing about a link that scatters at all.
const MIN_GAIN: f64 = 0.05;

/// A step down costs something if the rate certainly falls by this.
const LEAST_COST: f64 = 2.0 * MIN_GAIN;

/// A step up that brings this share of what it would bring if nothing were shared leads back to a ramp; one
/// that scatters too much to judge is kept from this share on. It is half way between "nothing is shared" and
/// "all is".
const LARGE_GAIN_SHARE: f64 = 0.5;

/// The least windows of a probe, unless it is clearly a loss: in the first one new connections still come up
/// to speed.
const MIN_PROBE_WINDOWS: usize = 2;

/// The least windows before a probe: fewer do not show the scatter, which says how far to trust a difference.
const MIN_BASE_WINDOWS: usize = 4;

/// A step up should bring this factor of the scatter if nothing is shared. The windows of a probe then distinguish
/// it from noise: the difference of two and four of them may err by 1.3 scatters, and half of the gain must be
/// seen.
const MIN_STEP_SCATTERS: f64 = 3.0;

/// A change of the rate by this share, for this number of windows, is a change of the link: three windows in a row
/// that are 30 % off to one side are rare even where windows scatter by as much.
const SHIFT: (f64, usize) = (0.3, 3);

/// On a long path nothing that a probe may find pays for it in the last seconds.
const MIN_SECONDS_LEFT: f64 = 10.0;

/// While surplus connections end, which takes many windows, a loss must be this factor more certain than in one
/// judgement.
const DRAINING_CERTAINTY: f64 = 2.0;

impl ConnectionControl {
    /// Checks whether the link has changed, or whether it is time to probe another number.
    pub(super) fn hold(&mut self, sample: ProgressSample) {
        let seconds_left = sample.remaining as f64 / self.samples.mean().max(1.0);
        if self.samples.has_shifted(SHIFT.0, SHIFT.1) || self.is_late(sample.now, seconds_left) {
            // The link has changed, or is slower than was expected: the earlier measurements do not apply to it.
            (self.worthwhile, self.late_after) = (None, None);
            self.samples = RateSamples::new(self.target);
            self.phase = ControlPhase::Ramp { below: None };
            self.schedule = ProbeSchedule::default();
            return;
        }
        if !self.schedule.is_due(sample.now) || self.samples.windows() < MIN_BASE_WINDOWS {
            return;
        }
        if is_long_round_trip(self.round_trip) && seconds_left < MIN_SECONDS_LEFT {
            return;
        }
        let up = (self.target + self.step_up()).min(self.ceiling.current());
        if let Some(fewer) = self
            .schedule
            .lower_candidate(&self.samples, self.ceiling.current(), sample.now)
            .filter(|fewer| *fewer >= self.options.min && self.would_notice_loss(*fewer))
        {
            self.start_probe(RateSamples::lowered(fewer));
        } else if up > self.target {
            self.start_probe(RateSamples::new(up));
        }
    }

    /// Whether the only connection of a small file takes so long that another one would come up to speed meanwhile.
    fn is_late(&self, now: Duration, seconds_left: f64) -> bool {
        let start = START_ROUND_TRIPS * self.round_trip;
        self.late_after.is_some_and(|after| now >= after) && seconds_left > start.as_secs_f64()
    }

    /// How many more connections to try: a quarter, or as many more as the scatter requires, up to twice as
    /// many.
    fn step_up(&self) -> usize {
        let scatter = self.samples.scatter().unwrap_or(0.0);
        let visible_step = (1..self.target)
            .find(|more| *more as f64 >= MIN_STEP_SCATTERS * scatter * self.target as f64);
        visible_step.unwrap_or(self.target).max(self.target / 4)
    }

    /// Whether windows scatter so little that a probe of fewer connections would show what they cost, if nothing is shared. The bursts of an
    /// origin may hide that for many seconds.
    fn would_notice_loss(&self, fewer: usize) -> bool {
        let loss = 1.0 - fewer as f64 / self.target as f64;
        let error = SIGNIFICANT_ERRORS * self.samples.relative_error();
        loss - error >= LEAST_COST
    }

    fn start_probe(&mut self, level: RateSamples) {
        self.target = level.connections();
        let base = std::mem::replace(&mut self.samples, level);
        self.phase = ControlPhase::Probe { base };
    }

    /// Judges the number in the probe, as soon as that is possible.
    pub(super) fn judge_probe(&mut self, now: Duration) {
        let ControlPhase::Probe { base } = &self.phase else {
            return;
        };
        let before = base.mean();
        let (base_connections, error) = (
            base.connections(),
            SIGNIFICANT_ERRORS * self.samples.standard_error(base),
        );
        let change = self.samples.mean() - before;
        let result = ProbeResult {
            change: change / before.max(1.0),
            error: error / before.max(1.0),
            hoped_change: self.target as f64 / base_connections as f64 - 1.0,
            windows: if self.samples.is_settled() {
                self.samples.windows()
            } else {
                0
            },
        };
        if self.samples.is_lowered() {
            self.judge_lower(result, base_connections, now);
        } else {
            self.judge_higher(result, base_connections, now);
        }
    }

    fn judge_higher(&mut self, result: ProbeResult, base: usize, now: Duration) {
        let Some(paid) = result.pays() else {
            return;
        };
        if result.change + result.error < -MIN_GAIN {
            // Connections that hurt are shared ones, whatever a single one brought.
            self.schedule.forget_single();
        }
        self.schedule.probe_finished(paid);
        if paid && result.change >= LARGE_GAIN_SHARE * result.hoped_change {
            // Nothing is shared any more: doubling finds the limit sooner than steps do.
            self.climb(now);
            return;
        }
        let keep = if paid { self.target } else { base };
        self.hold_at(keep, now);
    }

    fn judge_lower(&mut self, result: ProbeResult, base: usize, now: Duration) {
        let Some(costs) = result.costs() else {
            return;
        };
        let keep = if costs {
            self.schedule.lower_probe_failed(self.target, now);
            base
        } else {
            self.schedule.probe_finished(true);
            self.target
        };
        self.hold_at(keep, now);
    }
}

/// How the number in a probe compares with the number before, in shares of the rate before.
#[derive(Debug, Clone, Copy)]
struct ProbeResult {
    /// The gain; negative for a loss.
    change: f64,
    /// The standard error of the gain.
    error: f64,
    /// The gain if nothing were shared; negative for fewer connections.
    hoped_change: f64,
    /// Windows measured; none while surplus connections have not ended.
    windows: usize,
}

impl ProbeResult {
    /// Whether more connections pay; `None` if that is not known yet.
    fn pays(&self) -> Option<bool> {
        if self.change + self.error < -MIN_GAIN {
            // So clear that not even a second window is needed.
            Some(false)
        } else if self.windows < MIN_PROBE_WINDOWS {
            None
        } else if self.change >= MIN_GAIN.max(self.error) {
            Some(true)
        } else if self.change + self.error < MIN_GAIN {
            Some(false)
        } else {
            self.has_all_windows()
                .then_some(self.change >= (LARGE_GAIN_SHARE * self.hoped_change).max(MIN_GAIN))
        }
    }

    /// Whether fewer connections cost something; `None` if that is not known yet.
    fn costs(&self) -> Option<bool> {
        let certainty = if self.windows == 0 {
            DRAINING_CERTAINTY
        } else {
            1.0
        };
        if self.change + certainty * self.error < -LEAST_COST {
            // So clear that not even a second window is needed.
            Some(true)
        } else if self.windows < MIN_PROBE_WINDOWS {
            None
        } else if self.change >= -MIN_GAIN {
            Some(false)
        } else if self.change + self.error < -MIN_GAIN {
            Some(true)
        } else {
            self.has_all_windows()
                .then_some(self.change < LARGE_GAIN_SHARE * self.hoped_change)
        }
    }

    fn has_all_windows(&self) -> bool {
        self.windows >= MAX_WINDOWS
    }
}
