//! How many connections one download uses, found by measuring the rate at different numbers.
//!
//! More connections help where an origin or a path limits each one, and hurt where they only share. So the
//! control climbs while climbing pays and goes back when it does not: it *ramps* (1, 2, 4, 8 ...) as long as
//! the total rate rises, then *holds*, with a *probe* upwards or downwards now and then, and ramps again when
//! the rate changes by itself. Refusals set a ceiling that is lifted slowly (`ceiling.rs`).
//!
//! On a long path a ramp would measure how TCP comes up to speed, and each of its steps would take round trips:
//! there all connections that are worth it open with the first response
//! ([`ConnectionControl::on_first_response`]), and the hold judges them afterwards. A small file is worth one. If that one
//! still has much to fetch when others would have come up to speed, a ramp finds out whether more bring more.
//!
//! The hard part is that a rate over a short window often says nothing: an origin that paces each connection
//! in bursts (nginx's `limit_rate` sends 2 MiB at once and then nothing for half a second), a radio link, a
//! pause. Where windows are empty, or scatter so much that a gain cannot be ruled out, the ramp goes on: too
//! many connections cost a few percent, too few cost multiples. So a ramp proves nothing. The hold, whose
//! windows are longer, judges it: unless each connection brings as much as a single one did, it probes fewer,
//! and keeps them where nothing is lost.
//!
//! Surplus connections close when their claims end, so a probe of fewer begins while they drain, and ends at
//! once if that already costs. And a step up is larger where windows scatter, because a small one could not
//! be distinguished from noise. The simulations in `tests/it` assert what this achieves, on which links.
//!
//! Order of calls: [`ConnectionControl::on_first_response`], [`ConnectionControl::on_sample`] whenever the time of
//! [`ConnectionControl::next_sample_at`] has come, [`ConnectionControl::on_refused`] with each refusal; then
//! [`ConnectionControl::target`] says how many connections should be open.

mod ceiling;
mod probe;
mod probe_schedule;
mod rate_samples;

use std::time::Duration;

pub(crate) use ceiling::ConnectionRefusal;
use haul_plan::is_long_round_trip;

use ceiling::ConnectionCeiling;
use probe_schedule::{MAX_HOLD_WINDOW, ProbeSchedule};
use rate_samples::{
    MAX_WINDOWS, MIN_WINDOWS_FOR_SCATTER, RateSamples, SIGNIFICANT_ERRORS, SILENT_SHARE,
};

/// The share by which the total rate must rise for the next doubling in a ramp, once the scatter is known. A
/// doubling that helps gives much more than this, and noise between windows of a steady link stays below it.
const RAMP_GAIN: f64 = 0.08;

/// The share of the hoped-for gain that must be ruled out before a ramp ends, for a number that may bring
/// half of it is worth having. A first window must bring as much for the next doubling, for a single window
/// may well err by a tenth.
const RAMP_HOPE_SHARE: f64 = 0.5;

/// The share of a number's first window after which a ramp looks whether the gain is clear.
const EARLY_LOOK: f64 = 0.4;

/// The share of the full gain (twice the rate with twice the connections) that is clear at the early look.
const CLEAR_GAIN_SHARE: f64 = 0.85;

/// The longest that a number waits for all its connections to deliver, unless responses are known to take
/// longer: after that a connection that does not deliver is stalled, and the others suffice for a
/// measurement.
const MAX_SETTLE_TIME: Duration = Duration::from_secs(1);

/// The same while no latency is known: the origin may take seconds to its first byte.
const MAX_SETTLE_TIME_WITHOUT_LATENCY: Duration = Duration::from_secs(5);

/// How long a lowered number waits for surplus connections to finish their claims, which take about two
/// seconds each. Only claims of the least size on a slow link take longer, and a hold must not be blind for
/// ever.
const MAX_DRAIN_TIME: Duration = Duration::from_secs(30);

/// The interval of samples until all connections of a number deliver: a fifth of a ramp's window costs it
/// little.
const SETTLE_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Refusals that follow each other within this time, and the outage that they begin, are one event: the bytes that had arrived before
/// the origin went down are read within it.
const OUTAGE_WINDOW: Duration = Duration::from_secs(1);

/// The least share of what is left that is worth a connection of its own.
const MIN_SHARE: u64 = 512 << 10;

/// Up to this number of shares come sooner over the first connection: it is two round trips ahead, and may fill the link already.
const MIN_SHARES: u64 = 8;

/// Bytes of an upload that are worth a connection of their own: three parts of the least size, so that what a slow one has left over goes
/// to others.
const UPLOAD_SHARE: u64 = 16 << 20;

/// Round trips in which a new connection has come up to speed and has fetched as much as it costs.
const START_ROUND_TRIPS: u32 = 12;

/// Bytes in flight that a connection comes to on most paths.
const USUAL_WINDOW: u64 = 256 << 10;

/// Options of a [`ConnectionControl`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionControlOptions {
    /// The highest number.
    pub max: usize,
    /// The lowest number, unless refusals say otherwise: one for each source of the file.
    pub min: usize,
    /// The number is the user's: all connections are opened at once, and only refusals lower it.
    pub fixed: bool,
    /// The shortest window of a measurement.
    pub window: Duration,
}

impl Default for ConnectionControlOptions {
    fn default() -> Self {
        Self {
            max: 16,
            min: 1,
            fixed: false,
            // Long enough for a rate, short enough to reach sixteen connections within a third of a second.
            window: Duration::from_millis(50),
        }
    }
}

/// The progress of a running job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProgressSample {
    /// The time since the job began.
    pub now: Duration,
    /// Bytes received since the job began.
    pub bytes: u64,
    /// Connections that deliver bytes.
    pub delivering: usize,
    /// Bytes still to come.
    pub remaining: u64,
    /// The time from a request to its response, lately; zero while that is unknown.
    pub latency: Duration,
}

/// Why a download has no more connections than it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionCountLimit {
    /// The user asked for this number.
    UserNumber,
    /// The origin refused more.
    Refused,
    /// It is the highest number for one origin.
    Maximum,
    /// The file ends before more would pay.
    FileSize,
    /// More bring no higher rate.
    SharedRate,
    /// The user limits the rate, and it was reached.
    RateLimit,
}

/// What the control is doing.
#[derive(Debug)]
enum ControlPhase {
    /// Doubling the number; with the measurement of the number below.
    Ramp { below: Option<RateSamples> },
    /// Keeping the number.
    Hold,
    /// Trying another number. `base` is the measurement of the previous number.
    Probe { base: RateSamples },
}

/// The state that refusals change.
#[derive(Debug)]
struct StateBeforeRefusals {
    ceiling: ConnectionCeiling,
    target: usize,
    last_refusal: Duration,
}

/// Decides the number of connections of one job.
#[derive(Debug)]
pub(crate) struct ConnectionControl {
    options: ConnectionControlOptions,
    phase: ControlPhase,
    target: usize,
    /// The measurement of the present number.
    samples: RateSamples,
    /// The limit that refusals set.
    ceiling: ConnectionCeiling,
    /// The number before a refusal that may be an accident.
    before_refusal: Option<usize>,
    /// The state before the last refusals, in case they turn out to be the beginning of an outage.
    before_burst: Option<StateBeforeRefusals>,
    /// When to probe another number.
    schedule: ProbeSchedule,
    /// The latency of the last sample.
    latency: Duration,
    /// How long a round trip takes; zero as long as that is unknown.
    round_trip: Duration,
    /// The number that the file was worth when it began, where all begin at once.
    worthwhile: Option<usize>,
    /// From when on the only connection of a small file is slower than was expected, if the file has much left.
    late_after: Option<Duration>,
    /// The window of a hold, which depends on the remaining bytes.
    hold_window: Duration,
    /// When the next sample is due.
    next_sample_at: Duration,
}

impl ConnectionControl {
    /// The control at the start of a job.
    #[must_use]
    pub(crate) fn new(options: ConnectionControlOptions) -> Self {
        let max = options.max.max(1);
        let target = if options.fixed {
            max
        } else {
            options.min.clamp(1, max)
        };
        Self {
            options,
            phase: ControlPhase::Ramp { below: None },
            target,
            samples: RateSamples::new(target),
            ceiling: ConnectionCeiling::new(max),
            before_refusal: None,
            before_burst: None,
            schedule: ProbeSchedule::default(),
            latency: Duration::ZERO,
            round_trip: Duration::ZERO,
            worthwhile: None,
            late_after: None,
            hold_window: MAX_HOLD_WINDOW,
            // The first window begins with the first byte.
            next_sample_at: Duration::ZERO,
        }
    }

    /// Connections that should be open now.
    #[must_use]
    pub(crate) fn target(&self) -> usize {
        self.target
    }

    /// The number that the control has settled on, for a report: without a probe that runs.
    #[must_use]
    pub(crate) fn settled_target(&self) -> usize {
        match &self.phase {
            ControlPhase::Probe { base } => base.connections().min(self.ceiling.current()),
            _ => self.target,
        }
    }

    /// Why the number that the control has settled on is not higher, for a report. The control knows nothing of a rate limit.
    #[must_use]
    pub(crate) fn limit(&self) -> ConnectionCountLimit {
        let (settled, ceiling) = (self.settled_target(), self.ceiling.current());
        if ceiling < self.options.max.max(1) && settled >= ceiling {
            ConnectionCountLimit::Refused
        } else if self.options.fixed {
            ConnectionCountLimit::UserNumber
        } else if settled >= ceiling {
            ConnectionCountLimit::Maximum
        } else if self.worthwhile.is_some_and(|number| settled >= number)
            || matches!(self.phase, ControlPhase::Ramp { .. })
        {
            ConnectionCountLimit::FileSize
        } else {
            ConnectionCountLimit::SharedRate
        }
    }

    /// When the next sample is due.
    #[must_use]
    pub(crate) fn next_sample_at(&self) -> Duration {
        self.next_sample_at
    }

    /// The user chooses the number from now on. What refusals have shown is forgotten.
    pub(crate) fn set_number(&mut self, number: usize) {
        let options = ConnectionControlOptions {
            max: number.max(1),
            fixed: true,
            ..self.options
        };
        if options != self.options {
            *self = Self {
                latency: self.latency,
                round_trip: self.round_trip,
                next_sample_at: self.next_sample_at,
                ..Self::new(options)
            };
        }
    }

    /// Sets the lowest number: sources were dropped.
    pub(crate) fn set_min(&mut self, min: usize) {
        self.options.min = min.max(1);
    }

    /// A connection, or a request on one, was refused: allows no more than the open ones, or fewer where the
    /// origin is overloaded.
    pub(crate) fn on_refused(&mut self, refusal: ConnectionRefusal) {
        match &mut self.before_burst {
            // An origin that says that it is overloaded is there.
            before if refusal.overloaded => *before = None,
            Some(before) if refusal.now < before.last_refusal + OUTAGE_WINDOW => {
                before.last_refusal = refusal.now;
            }
            before => {
                *before = Some(StateBeforeRefusals {
                    ceiling: self.ceiling,
                    target: self.target,
                    last_refusal: refusal.now,
                });
            }
        }
        self.ceiling.on_refusal(refusal);
        if !self.ceiling.is_doubted() {
            self.before_refusal = None;
        }
        if self.target > self.ceiling.current() {
            if self.ceiling.is_doubted() {
                self.before_refusal.get_or_insert(self.target);
            }
            self.hold_at(self.ceiling.current(), refusal.now);
        }
    }

    /// A request failed for another reason than a refusal, and will be repeated. If no connection is `delivering`, the origin is down: then
    /// the refusals just before, while the last bytes of other connections were still being read, were no limit (row A34).
    pub(crate) fn on_failed(&mut self, now: Duration, delivering: usize) {
        if delivering == 0
            && let Some(before) = self.before_burst.take()
            && now < before.last_refusal + OUTAGE_WINDOW
        {
            self.ceiling = before.ceiling;
            self.before_refusal = None;
            self.hold_at(before.target, now);
        }
    }

    /// The first response to a download has begun, over a path with this round trip, and `remaining` bytes are still to come. Not more
    /// connections than a user's rate limit, in bytes a second, leaves work for.
    pub(crate) fn on_first_response(
        &mut self,
        remaining: u64,
        round_trip: Duration,
        rate_limit: Option<u64>,
        now: Duration,
    ) {
        let for_limit = rate_limit.map_or(u64::MAX, |limit| {
            let in_flight = u128::from(limit) * round_trip.as_millis() / 1000;
            u64::try_from(in_flight).unwrap_or(u64::MAX) / USUAL_WINDOW + 1
        });
        let shares = remaining / MIN_SHARE;
        let is_small = shares <= MIN_SHARES;
        let worthwhile = if is_small { 1 } else { shares.min(for_limit) };
        self.begin_together(worthwhile, round_trip, now);
        if is_small && is_long_round_trip(round_trip) && rate_limit.is_none() {
            self.late_after = Some(now.saturating_add(START_ROUND_TRIPS * round_trip));
            self.hold_window = self.options.window;
        }
    }

    /// The first response to an upload has come, and `remaining` bytes are still to be sent.
    pub(crate) fn on_first_upload_response(
        &mut self,
        remaining: u64,
        round_trip: Duration,
        now: Duration,
    ) {
        self.begin_together(remaining.div_ceil(UPLOAD_SHARE), round_trip, now);
    }

    /// On a long path a ramp would measure how TCP comes up to speed, in round trips for each step: all connections that are worth it begin
    /// at once, and are judged afterwards.
    fn begin_together(&mut self, worthwhile: u64, round_trip: Duration, now: Duration) {
        self.round_trip = round_trip;
        if is_long_round_trip(round_trip) && !self.options.fixed {
            let worthwhile = usize::try_from(worthwhile).unwrap_or(usize::MAX);
            self.worthwhile = Some(worthwhile);
            self.hold_at(worthwhile.max(self.target), now);
        }
    }

    /// Takes a sample and returns the target.
    pub(crate) fn on_sample(&mut self, sample: ProgressSample) -> usize {
        if self.ceiling.lift_if_due(sample.now) {
            self.restore_target(sample.now);
        }
        self.latency = sample.latency;
        self.next_sample_at = sample.now.saturating_add(self.window());
        if self.options.fixed {
            self.target = self.ceiling.current();
            return self.target;
        }
        if let ControlPhase::Ramp { below: Some(below) } = &mut self.phase
            && !self.samples.is_settled()
        {
            below.extend(&sample);
        }
        if let Some(window_end) = self.early_look(&sample) {
            self.next_sample_at = window_end;
            return self.target;
        }
        let is_ramp = matches!(self.phase, ControlPhase::Ramp { .. });
        if !is_ramp && self.samples.skip_silence(&sample, OUTAGE_WINDOW) {
            // The next window begins later, or lasts longer. What a single connection brought was a burst.
            self.schedule.forget_single();
        } else if let Some(rate) = self.samples.add(sample, self.max_settle_time()) {
            self.hold_window = probe_schedule::hold_window(sample.remaining, self.samples.mean())
                .max(self.options.window);
            match self.phase {
                ControlPhase::Ramp { .. } => self.ramp(rate, sample.now),
                ControlPhase::Hold => self.hold(sample),
                ControlPhase::Probe { .. } => self.judge_probe(sample.now),
            }
        }
        self.next_sample_at = sample.now.saturating_add(self.until_next_sample());
        self.target
    }

    /// Restores the number from before an accidental refusal.
    fn restore_target(&mut self, now: Duration) {
        if let Some(before) = self
            .before_refusal
            .take()
            .filter(|before| *before > self.target)
        {
            self.hold_at(before, now);
        }
    }

    /// How long a number may take until all its connections deliver, or surplus ones have ended.
    fn max_settle_time(&self) -> Duration {
        if self.samples.is_lowered() {
            MAX_DRAIN_TIME
        } else if self.latency.is_zero() {
            MAX_SETTLE_TIME_WITHOUT_LATENCY
        } else {
            MAX_SETTLE_TIME.max(self.latency * 4)
        }
    }

    /// Where a ramp looks into the first window of a number and does not climb yet: the window's end, until which it measures on.
    ///
    /// A gain that is clear after this share of the window is not waited for: noise is stronger in so short a time, but would have to
    /// bring nearly twice as much to be taken for such a gain. The number that a ramp begins with has nothing to show, and is measured on
    /// while the next connections are being made.
    fn early_look(&self, sample: &ProgressSample) -> Option<Duration> {
        let ControlPhase::Ramp { below } = &self.phase else {
            return None;
        };
        let (begin, rate) = self.samples.first_window_so_far(sample)?;
        let window_end = begin.saturating_add(self.window());
        let is_clear = match below {
            None => rate > 0.0,
            Some(below) => {
                let full_gain =
                    below.mean() * (self.target as f64 / below.connections() as f64 - 1.0);
                rate - below.mean() >= CLEAR_GAIN_SHARE * full_gain
            }
        };
        (sample.now < window_end && !is_clear).then_some(window_end)
    }

    /// The time until the next sample: a window, or less while connections are still being made.
    fn until_next_sample(&self) -> Duration {
        if self.samples.is_settled() {
            let is_first = self.samples.windows_seen() == 0;
            match self.phase {
                ControlPhase::Ramp { .. } if is_first => self.window().mul_f64(EARLY_LOOK),
                _ => self.window(),
            }
        } else if self.samples.is_lowered() {
            self.options.window.max(SETTLE_CHECK_INTERVAL)
        } else {
            self.window().min(SETTLE_CHECK_INTERVAL)
        }
    }

    /// The window of a measurement.
    fn window(&self) -> Duration {
        if matches!(self.phase, ControlPhase::Ramp { .. }) {
            self.options
                .window
                .max(self.latency / 2)
                .min(MAX_HOLD_WINDOW)
        } else {
            self.hold_window
        }
    }

    fn ramp(&mut self, rate: f64, now: Duration) {
        let ControlPhase::Ramp { below: Some(below) } = &self.phase else {
            return self.climb(now);
        };
        let (smaller, before) = (below.connections(), below.mean());
        let gain = self.samples.mean() - before;
        let hoped_gain = RAMP_HOPE_SHARE * before * (self.target as f64 / smaller as f64 - 1.0);
        let has_few_windows = self.samples.windows() < MIN_WINDOWS_FOR_SCATTER;
        let min_gain = if has_few_windows {
            hoped_gain
        } else {
            RAMP_GAIN * before
        };
        // A gain cannot be ruled out: a number that seems worse is measured for longer before that counts.
        let may_gain = gain + SIGNIFICANT_ERRORS * self.samples.standard_error(below) >= hoped_gain;
        let max_windows = if gain < 0.0 {
            2 * MAX_WINDOWS
        } else {
            MAX_WINDOWS
        };
        if rate <= SILENT_SHARE * before {
            self.climb(now);
            self.schedule.forget_single();
        } else if gain >= min_gain || (may_gain && self.samples.windows_seen() >= max_windows) {
            self.climb(now);
        } else if !may_gain && self.samples.windows_seen() >= MAX_WINDOWS {
            self.hold_at(smaller, now);
        }
    }

    /// Doubles the number, or holds at the ceiling.
    fn climb(&mut self, now: Duration) {
        self.schedule.left_level(&self.samples);
        let next = (self.target * 2).min(self.ceiling.current());
        if next <= self.target {
            self.hold_at(next, now);
            return;
        }
        let below = std::mem::replace(&mut self.samples, RateSamples::new(next));
        self.phase = ControlPhase::Ramp { below: Some(below) };
        self.target = next;
    }

    /// Holds at a number.
    fn hold_at(&mut self, connections: usize, now: Duration) {
        let was_probe = matches!(self.phase, ControlPhase::Probe { .. });
        let before = self.target;
        self.target = connections
            .max(self.options.min)
            .min(self.ceiling.current());
        if self.target < before {
            self.samples = RateSamples::lowered(self.target);
        } else if !was_probe || self.samples.connections() != self.target {
            // The short windows of a ramp cannot be compared with those of a hold; the windows of a probe can.
            self.samples = RateSamples::new(self.target);
        }
        self.phase = ControlPhase::Hold;
        self.schedule.schedule_next(now, self.hold_window);
    }
}

#[cfg(test)]
mod tests;
