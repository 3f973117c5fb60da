//! How many requests at once one host gets, found by measuring the rate at different numbers.
//!
//! The idea is that of [`ConnectionControl`](crate::connection_control::ConnectionControl): climb while climbing pays, go back when it does not,
//! try another number now and then. Small files need another control, though. That one measures bytes in windows of time while
//! each connection delivers. Here a connection is silent for a round trip between two responses; a window shorter than that
//! holds bursts and gaps, and a window long enough for an ocean is longer than a whole batch on loopback. So the windows here
//! are [a number of responses](super::rate_window). The control has no timer: it decides whenever a job ends. And a
//! batch may have thousands of hosts, where a download has one control: this one keeps only a mean of past windows.
//!
//! A number is judged by one window if it pays, and by three before it counts as not paying: too many requests at once cost a
//! few percent, too few cost multiples. Refusals are counted [separately](super::host_refusals).

use std::time::Duration;

use haul_plan::is_long_round_trip;

use super::host_refusals::{HostRefusalAction, HostRefusals};
use super::rate_window::{RateWindow, WindowLength};

/// The requests of every host before anything is measured: no more than a browser makes.
pub(super) const INITIAL_REQUESTS: usize = 4;

/// The requests that fill a long path, for each millisecond of its round trip. A link of some hundred Mbit/s carries as many files of 24 KB;
/// more would overflow its queue, and what is lost there is sent again after a timeout.
const REQUESTS_PER_MILLISECOND: usize = 3;

/// A connection that took longer was sent for twice, which says nothing about the path.
const MAX_ROUND_TRIP: Duration = Duration::from_secs(1);

/// The factor of each step of the climb: from 4 to 128 in two steps, so that a link of long round trips is filled after few of
/// them.
const CLIMB_FACTOR: usize = 6;

/// The same where the last step brought less than it could: what the requests share is nearly full, and many more would overflow its queue.
const SHARED_CLIMB_FACTOR: usize = 2;

/// The share of the hoped-for gain that a step of the climb must bring for the next one. At half of it, the
/// middle between "nothing is shared" and "all is", a step of four would already be too large by half, and one of six by two
/// thirds.
const CLIMB_GAIN_SHARE: f64 = 0.25;

/// The gain for which a number is kept although the climb ends, and that a trial of more requests must bring.
const MIN_GAIN: f64 = 0.05;

/// The loss that a trial of fewer requests may bring.
const MAX_LOSS: f64 = 0.03;

/// A trial with this loss ends with its first window.
const CLEAR_LOSS: f64 = 0.1;

/// All requests are in use and none ends for this long: then the running ones are not waited for.
const STALL_TIME: Duration = Duration::from_secs(1);

/// Windows before a number counts as not paying, and of a trial.
const TRIAL_WINDOWS: u32 = 3;

/// Windows between trials: at first, and at most.
const TRIAL_PAUSE: (u32, u32) = (8, 64);

/// If each request brings this share of the rate that it brought at the lowest number, nothing is shared, and fewer requests
/// would bring less.
const UNSHARED_RATE: f64 = 0.8;

/// Windows over which the mean of a hold is taken.
const MEAN_WINDOWS: f64 = 8.0;

/// The mean rate of some windows.
#[derive(Debug, Clone, Copy, Default)]
struct MeanRate {
    rate: f64,
    windows: u32,
}

impl MeanRate {
    fn add(&mut self, rate: f64) {
        self.windows = self.windows.saturating_add(1);
        self.rate += (rate - self.rate) / f64::from(self.windows).min(MEAN_WINDOWS);
    }
}

/// A number of requests and the rate that it brought.
#[derive(Debug, Clone, Copy)]
struct RequestNumberRate {
    requests: usize,
    rate: f64,
}

/// What the control is doing.
#[derive(Debug, Clone, Copy)]
enum HostControlPhase {
    /// Climbing, from the number below if there is one.
    Climb { below: Option<RequestNumberRate> },
    /// Keeping the number.
    Hold,
    /// Trying another number than the one before.
    Trial { before: RequestNumberRate },
}

/// Finds the number of requests for one host.
#[derive(Debug, Clone)]
pub(super) struct HostControl {
    /// The highest number.
    max: usize,
    /// The number is the user's: only refusals lower it.
    is_fixed: bool,
    /// The number, not yet lowered by refusals.
    desired: usize,
    phase: HostControlPhase,
    window: RateWindow,
    /// The rate at the present number.
    mean: MeanRate,
    /// The rate of each request at the lowest number; 0 while that is unknown.
    rate_per_slot: f64,
    /// Windows until the next trial.
    windows_until_trial: u32,
    /// Whether the next trial is of more requests.
    try_more_next: bool,
    refusals: HostRefusals,
    /// When a job last ended, or the number was last raised because none did.
    last_finished: Duration,
}

impl HostControl {
    pub(super) fn new(max: usize, is_fixed: bool, now: Duration) -> Self {
        let max = max.max(1);
        Self {
            max,
            is_fixed,
            desired: if is_fixed {
                max
            } else {
                max.min(INITIAL_REQUESTS)
            },
            phase: HostControlPhase::Climb { below: None },
            window: RateWindow::new(now),
            mean: MeanRate::default(),
            rate_per_slot: 0.0,
            windows_until_trial: TRIAL_PAUSE.0,
            try_more_next: true,
            refusals: HostRefusals::new(),
            last_finished: now,
        }
    }

    /// Requests that the host may have at once.
    pub(super) fn target(&self) -> usize {
        self.desired
            .min(self.refusals.limit().unwrap_or(usize::MAX))
    }

    /// Whether refusals limit the number, which is worth remembering after the host's last job.
    pub(super) fn is_limited_by_refusals(&self) -> bool {
        self.refusals.limit().is_some()
    }

    /// Whether the rate of a number is known, or requests were refused lately: worth remembering for the next batch.
    pub(super) fn has_learned(&self) -> bool {
        !matches!(self.phase, HostControlPhase::Climb { below: None })
            || self.refusals.has_unforgiven()
    }

    /// The host has a job again. Times and runs from before say nothing about the rate.
    pub(super) fn resume(&mut self, now: Duration) {
        self.last_finished = now;
        self.mean = MeanRate::default();
        self.window = RateWindow::new(now);
    }

    /// The host allows another number, by its protocol.
    pub(super) fn set_max(&mut self, max: usize, now: Duration) {
        let max = max.max(1);
        if self.is_fixed || max == self.max {
            return;
        }
        let at_old_max = matches!(self.phase, HostControlPhase::Hold) && self.desired == self.max;
        self.max = max;
        if self.desired > max {
            self.hold(max, now);
        } else if at_old_max {
            // The old limit ended the climb.
            self.phase = HostControlPhase::Climb { below: None };
        }
    }

    /// A connection took about a round trip. A climb over a long path would measure how connections come up to speed, in round trips for each
    /// step: there the number that fills the path is used at once, and judged afterwards.
    pub(super) fn on_connected(&mut self, round_trip: Duration, now: Duration) {
        let is_at_start = matches!(self.phase, HostControlPhase::Climb { below: None });
        let is_long_path = is_long_round_trip(round_trip) && round_trip < MAX_ROUND_TRIP;
        let milliseconds = usize::try_from(round_trip.as_millis()).unwrap_or(usize::MAX);
        let number = milliseconds
            .saturating_mul(REQUESTS_PER_MILLISECOND)
            .min(self.max);
        if is_at_start && is_long_path && number > self.desired && !self.is_fixed {
            self.hold(number, now);
        }
    }

    /// Goes to the highest number at once.
    pub(super) fn jump_to_max(&mut self, now: Duration) {
        if !self.is_fixed && self.desired < self.max {
            self.hold(self.max, now);
        }
    }

    /// Climbs from the start again.
    pub(super) fn restart(&mut self, now: Duration) {
        if !self.is_fixed {
            self.desired = self.max.min(INITIAL_REQUESTS);
            self.phase = HostControlPhase::Climb { below: None };
            self.restart_measurement(now);
        }
    }

    /// A run began as the `running`-th at once.
    pub(super) fn job_started(&mut self, run: u64, running: usize, now: Duration) {
        let target = self.target();
        self.window.job_started(run, running, target, now);
    }

    /// The head of a run's response arrived.
    pub(super) fn job_responded(&mut self, run: u64, now: Duration) {
        self.window.job_responded(run, now);
    }

    /// A run ended and left `running` others; `response_bytes` if there was a response.
    pub(super) fn job_finished(
        &mut self,
        run: u64,
        response_bytes: Option<u64>,
        running: usize,
        now: Duration,
    ) {
        self.last_finished = now;
        if response_bytes.is_some() {
            self.refusals.on_response();
            if self.refusals.lift_if_due(now, self.max) {
                self.restart_measurement(now);
            }
        }
        let (target, length) = (self.target(), self.window_length());
        let rate = self
            .window
            .job_finished(run, response_bytes, running, target, length, now);
        if let Some(rate) = rate.filter(|_| !self.is_fixed) {
            self.window_finished(rate, now);
        }
    }

    /// Doubles the number if none of the requests has ended for [`STALL_TIME`], to be called while all of them are in use and
    /// more jobs wait: the running ones are slow or stand still, which says nothing about others. Returns whether the number
    /// has risen.
    pub(super) fn widen_if_stalled(&mut self, now: Duration) -> bool {
        if self.is_fixed
            || self.desired >= self.max
            || now.saturating_sub(self.last_finished) < STALL_TIME
        {
            return false;
        }
        self.last_finished = now;
        self.desired = (self.desired * 2).min(self.max);
        self.phase = HostControlPhase::Climb { below: None };
        self.restart_measurement(now);
        true
    }

    /// A request that was made at `requested_at` was refused; `open` others are under way.
    pub(super) fn on_refused(&mut self, requested_at: Duration, now: Duration, open: usize) {
        let target = self.target();
        if self.refusals.on_refused(requested_at, now, open, target) {
            // The rate of a higher number is of no use; the climb goes on from where refusals end.
            self.phase = HostControlPhase::Hold;
            self.restart_measurement(now);
        }
    }

    /// What follows a refusal while `open` other requests are under way.
    pub(super) fn effect_of_refusal(
        &mut self,
        open: usize,
        retry_after: Option<Duration>,
        max_retry_after: Duration,
    ) -> HostRefusalAction {
        self.refusals
            .effect_of_refusal(open, retry_after, max_retry_after)
    }

    /// The length of the next window: short in a climb, where a mistake costs little, and in a trial, which may be a loss;
    /// long in a hold, where nothing is urgent.
    fn window_length(&self) -> WindowLength {
        let target = self.target() as u64;
        match self.phase {
            HostControlPhase::Climb { .. } => WindowLength {
                responses: target.max(4),
                min_time: Duration::from_millis(2),
            },
            HostControlPhase::Hold => WindowLength {
                responses: (4 * target).max(16),
                min_time: Duration::from_millis(20),
            },
            HostControlPhase::Trial { .. } => WindowLength {
                responses: (4 * target).max(16),
                min_time: Duration::from_millis(5),
            },
        }
    }

    fn window_finished(&mut self, rate: f64, now: Duration) {
        self.mean.add(rate);
        if self.rate_per_slot == 0.0 {
            self.rate_per_slot = rate / self.target() as f64;
        }
        match self.phase {
            HostControlPhase::Climb { below: None } => self.climb(CLIMB_FACTOR, now),
            HostControlPhase::Climb { below: Some(below) } => self.judge_climb(below, now),
            HostControlPhase::Hold => self.consider_trial(now),
            HostControlPhase::Trial { before } => self.judge_trial(before, now),
        }
    }

    fn judge_climb(&mut self, below: RequestNumberRate, now: Duration) {
        let target = self.target();
        let gain = self.mean.rate / below.rate.max(1.0) - 1.0;
        let hoped_gain = target as f64 / below.requests.max(1) as f64 - 1.0;
        if gain >= CLIMB_GAIN_SHARE * hoped_gain {
            let factor = if gain >= UNSHARED_RATE * hoped_gain {
                CLIMB_FACTOR
            } else {
                SHARED_CLIMB_FACTOR
            };
            self.climb(factor, now);
        } else if self.mean.windows >= TRIAL_WINDOWS {
            self.hold(
                if gain >= MIN_GAIN {
                    target
                } else {
                    below.requests
                },
                now,
            );
        }
    }

    /// Takes the next step, or stays at the top.
    fn climb(&mut self, factor: usize, now: Duration) {
        let target = self.target();
        let next = target.saturating_mul(factor).min(self.max);
        self.phase = HostControlPhase::Climb {
            below: Some(self.measured()),
        };
        self.desired = next;
        if self.target() <= target {
            self.hold(target, now);
        } else {
            self.restart_measurement(now);
        }
    }

    /// The present number and its rate.
    fn measured(&self) -> RequestNumberRate {
        RequestNumberRate {
            requests: self.target(),
            rate: self.mean.rate,
        }
    }

    fn hold(&mut self, number: usize, now: Duration) {
        self.phase = HostControlPhase::Hold;
        self.desired = number;
        // The short windows of a climb cannot be compared with the long ones of a hold.
        self.restart_measurement(now);
    }

    /// The number changed: its rate is measured from now on.
    fn restart_measurement(&mut self, now: Duration) {
        self.mean = MeanRate::default();
        self.window = self.window.restarted(now);
    }

    /// Begins a trial of another number when it is time.
    fn consider_trial(&mut self, now: Duration) {
        if self.mean.windows < self.windows_until_trial {
            return;
        }
        let target = self.target();
        let more = (target + (target / 2).max(1)).min(self.max);
        let is_shared = self.mean.rate < UNSHARED_RATE * self.rate_per_slot * target as f64;
        let fewer = if is_shared { target / 2 } else { 0 };
        let at_top = self.refusals.limit().is_some_and(|limit| target >= limit) || more <= target;
        let other = match (self.try_more_next, at_top, fewer) {
            (_, true, 0) => return,
            (true, false, _) | (false, false, 0) => more,
            (false, ..) | (true, true, _) => fewer,
        };
        self.phase = HostControlPhase::Trial {
            before: self.measured(),
        };
        self.desired = other;
        self.restart_measurement(now);
    }

    fn judge_trial(&mut self, before: RequestNumberRate, now: Duration) {
        let change = self.mean.rate / before.rate.max(1.0) - 1.0;
        if self.mean.windows < TRIAL_WINDOWS && change > -CLEAR_LOSS {
            return;
        }
        let target = self.target();
        let min_change = if target > before.requests {
            MIN_GAIN
        } else {
            -MAX_LOSS
        };
        let paid = change >= min_change;
        if paid {
            self.windows_until_trial = TRIAL_PAUSE.0;
        } else {
            self.windows_until_trial = (self.windows_until_trial * 2).min(TRIAL_PAUSE.1);
            self.try_more_next = !self.try_more_next;
        }
        self.hold(if paid { target } else { before.requests }, now);
    }
}
