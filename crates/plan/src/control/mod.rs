//! How many connections, found by watching what they bring.
//!
//! More connections help where an origin or a path limits each one, and hurt where they only share. So the control
//! climbs while climbing pays and comes back when it does not: it *ramps* (1, 2, 4, 8 ...) as long as the total rate
//! rises, then *holds*, looking upwards now and then with a *probe*, and ramps again when the rate changes by itself.
//! Refusals set a ceiling that is lifted slowly.
//!
//! The hard part is an origin that paces each connection in bursts (nginx's `limit_rate` sends 2 MiB at once and then
//! nothing for half a second): its rate over a short window says nothing. Where windows are empty, or differ so much that
//! no gain could be told from noise, the ramp goes on: connections that wait for the origin hurt nobody, and the hold,
//! whose windows are longer, judges later.
//!
//! Order of calls: [`ConnectionControl::on_sample`] whenever [`ConnectionControl::next_sample`] has come, the other
//! `on_` calls when their thing happens; then [`ConnectionControl::target`] says how many connections should be open.

mod level;

use std::time::Duration;

use level::Level;

/// What the total rate must rise by for the next doubling in a ramp. Doubling what helps gives much more than this,
/// and noise between windows of a steady link stays below it.
const RAMP_GAIN: f64 = 1.10;

/// Steady windows without gain after which a ramp ends.
const PATIENCE: usize = 3;

/// The longest that a level waits for all its connections to deliver.
const SETTLE: Duration = Duration::from_secs(1);

/// A window while holding: long enough to average bursts of half a second.
const HOLD_WINDOW: Duration = Duration::from_secs(1);

/// A step up while holding is kept if the rate rises by this.
const PROBE_GAIN: f64 = 1.05;

/// A probe that gains this share of what its connections would bring if nothing were shared leads back to a ramp.
const PROBE_LEAP: f64 = 0.5;

/// How soon to look again whether the connections of a level all deliver.
const SETTLING: Duration = Duration::from_millis(10);

/// Windows of a probe, and of the comparison before it.
const PROBE_WINDOWS: usize = 2;

/// Time between probes: the first, and the longest. One more connection for two seconds in ten costs next to nothing, and a
/// link that has become wider without becoming faster for those who are there is noticed in no other way.
const PROBE_EVERY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(10));

/// A change of the rate by this, for [`PATIENCE`] windows, is a change of the link.
const SHIFT: f64 = 0.3;

/// How long a ceiling learned from refusals stands: at first, and at most.
const CEILING_STANDS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

/// Settings of a [`ConnectionControl`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlOptions {
    /// Never more than this.
    pub max: usize,
    /// The user's number: open it at once, only refusals lower it.
    pub fixed: bool,
    /// The shortest window over which a rate is taken.
    pub window: Duration,
}

impl Default for ControlOptions {
    fn default() -> Self {
        Self {
            max: 16,
            fixed: false,
            // Long enough for a rate, short enough to reach sixteen connections within a third of a second.
            window: Duration::from_millis(50),
        }
    }
}

/// A look at a running job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Since the job began.
    pub now: Duration,
    /// Bytes since the job began.
    pub bytes: u64,
    /// Connections that deliver.
    pub flowing: usize,
    /// Bytes still to come.
    pub remaining: u64,
    /// From a request to its answer, of late; zero as long as that is unknown.
    pub latency: Duration,
}

/// What the control is doing.
#[derive(Debug)]
enum Phase {
    /// Doubling; holds what the level below brought.
    Ramp { below: Option<Level> },
    /// Keeping the number.
    Hold,
    /// Trying a larger number; holds what the smaller one brings.
    Probe { base: usize, rate: f64 },
}

/// Decides the number of connections of one job.
#[derive(Debug)]
pub struct ConnectionControl {
    options: ControlOptions,
    phase: Phase,
    /// Connections wanted.
    target: usize,
    /// What the present number brings.
    level: Level,
    /// No more than this, learned from refusals.
    ceiling: usize,
    /// When the ceiling is lifted by one, and how long the next one will stand.
    lift: (Duration, Duration),
    /// When the next probe is due, and how long after it the one that follows.
    probe: (Duration, Duration),
    /// From a request to its answer, as the last sample has it.
    latency: Duration,
    /// When the next sample is wanted.
    next: Duration,
}

impl ConnectionControl {
    /// A control at the start of a job.
    #[must_use]
    pub fn new(options: ControlOptions) -> Self {
        let max = options.max.max(1);
        let target = if options.fixed { max } else { 1 };
        Self {
            options,
            phase: Phase::Ramp { below: None },
            target,
            level: Level::new(target),
            ceiling: max,
            lift: (Duration::MAX, CEILING_STANDS.0),
            probe: (Duration::MAX, PROBE_EVERY.0),
            latency: Duration::ZERO,
            next: options.window,
        }
    }

    /// Connections that should be open now.
    #[must_use]
    pub fn target(&self) -> usize {
        self.target
    }

    /// The number that it settled on, for a report: a probe that runs is not counted.
    #[must_use]
    pub fn settled(&self) -> usize {
        match self.phase {
            Phase::Probe { base, .. } => base,
            _ => self.target,
        }
    }

    /// When the next sample is wanted.
    #[must_use]
    pub fn next_sample(&self) -> Duration {
        self.next
    }

    /// A connection was refused while `open` others were up: no more than those.
    pub fn on_refused(&mut self, now: Duration, open: usize) {
        self.ceiling = open.clamp(1, self.ceiling);
        self.lift = (
            now.saturating_add(self.lift.1),
            (self.lift.1 * 2).min(CEILING_STANDS.1),
        );
        if self.target > self.ceiling {
            self.settle(self.ceiling, now);
        }
    }

    /// The origin is overloaded (429, 503) while `open` connections are up: half of them.
    pub fn on_busy(&mut self, now: Duration, open: usize) {
        self.on_refused(now, open.div_ceil(2));
    }

    /// Takes a look and returns the target.
    pub fn on_sample(&mut self, sample: Sample) -> usize {
        self.lift_ceiling(sample.now);
        self.latency = sample.latency;
        self.next = sample.now.saturating_add(self.window());
        if self.options.fixed {
            self.target = self.ceiling;
            return self.target;
        }
        let settle = SETTLE.max(self.latency * 4);
        let Some(rate) = self.level.take(sample, settle) else {
            self.next = sample.now.saturating_add(self.pause());
            return self.target;
        };
        match self.phase {
            Phase::Ramp { .. } => self.ramp(rate, sample),
            Phase::Hold => self.hold(sample),
            Phase::Probe { base, rate: before } => self.judge_probe(base, before, sample.now),
        }
        self.next = sample.now.saturating_add(self.pause());
        self.target
    }

    /// How long until the next sample: a window, or less while a new level's connections are still being made.
    fn pause(&self) -> Duration {
        if self.level.is_settled() {
            self.window()
        } else {
            self.window().min(SETTLING)
        }
    }

    /// How long to watch before the next sample.
    fn window(&self) -> Duration {
        let short = self.options.window.max(self.latency * 2).min(HOLD_WINDOW);
        if matches!(self.phase, Phase::Ramp { .. }) {
            short
        } else {
            HOLD_WINDOW
        }
    }

    fn ramp(&mut self, rate: f64, sample: Sample) {
        let Phase::Ramp { below } = &self.phase else {
            return;
        };
        let gained = below
            .as_ref()
            .is_none_or(|below| self.level.mean() >= below.mean() * RAMP_GAIN);
        let idle = rate <= 0.0;
        let unclear = self.level.is_spiky() || below.as_ref().is_some_and(Level::is_spiky);
        let patient = self.level.windows() < PATIENCE;
        if gained || idle || (unclear && !patient) {
            self.climb(sample.now);
        } else if !patient {
            let smaller = below.as_ref().map_or(self.target, Level::connections);
            self.settle(smaller, sample.now);
        }
    }

    /// Doubles, or holds at the ceiling.
    fn climb(&mut self, now: Duration) {
        let next = (self.target * 2).min(self.ceiling);
        if next == self.target {
            self.settle(next, now);
            return;
        }
        let below = std::mem::replace(&mut self.level, Level::new(next));
        self.phase = Phase::Ramp { below: Some(below) };
        self.target = next;
    }

    /// Holds a number.
    fn settle(&mut self, connections: usize, now: Duration) {
        self.phase = Phase::Hold;
        self.target = connections;
        self.level = Level::new(connections);
        self.probe.0 = now.saturating_add(self.probe.1);
    }

    fn hold(&mut self, sample: Sample) {
        if self.level.shifted(SHIFT, PATIENCE) {
            // The link is another one than before: what was learned is of no use.
            self.level = Level::new(self.target);
            self.phase = Phase::Ramp { below: None };
            self.probe.1 = PROBE_EVERY.0;
            return;
        }
        let up = (self.target + (self.target / 4).max(1)).min(self.ceiling);
        if sample.now >= self.probe.0 && up > self.target && self.level.windows() >= PROBE_WINDOWS {
            self.phase = Phase::Probe {
                base: self.target,
                rate: self.level.recent(PROBE_WINDOWS),
            };
            self.target = up;
            self.level = Level::new(up);
        }
    }

    fn judge_probe(&mut self, base: usize, before: f64, now: Duration) {
        if self.level.windows() < PROBE_WINDOWS {
            return;
        }
        let paid = self.level.mean() >= before * PROBE_GAIN;
        // What paid may pay again soon; what did not is asked more and more seldom.
        self.probe.1 = if paid {
            HOLD_WINDOW
        } else {
            (self.probe.1.max(PROBE_EVERY.0) * 2).min(PROBE_EVERY.1)
        };
        let leap = 1.0 + PROBE_LEAP * (self.target - base) as f64 / base as f64;
        if self.level.mean() >= before * leap {
            // Nothing is shared any more: doubling finds the limit sooner than steps do.
            self.climb(now);
            return;
        }
        let keep = if paid { self.target } else { base };
        self.settle(keep, now);
    }

    fn lift_ceiling(&mut self, now: Duration) {
        if now >= self.lift.0 && self.ceiling < self.options.max.max(1) {
            self.ceiling += 1;
            self.lift.0 = now.saturating_add(self.lift.1);
        }
    }
}

#[cfg(test)]
mod tests;
