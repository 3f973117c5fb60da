//! How many requests at once one host gets, found by watching what they bring.
//!
//! The same idea as [`ConnectionControl`](crate::ConnectionControl): climb while climbing pays, come back when it does not, try
//! another number now and then. It is another one because small files ask for something else. That control looks at bytes in
//! windows of time while each connection delivers; here a connection is silent for a round trip between two answers, a window
//! shorter than that holds bursts and gaps, and one that is long enough for an ocean is longer than a whole batch on loopback.
//! So the windows here are [so many answers](super::window). It has no tick: every decision falls where a job ends. And there
//! may be thousands of hosts at once, where a download has one control: this one has no history but a mean.
//!
//! A level is judged by one window if it pays, and by three before it is said not to: too many requests at once cost a few
//! percent, too few cost multiples. Refusals are counted [beside it](super::refusals).

use std::time::Duration;

use super::host_refusals::HostRefusals;
use super::rate_window::{RateWindow, WindowLength};

/// What every host gets before anything is known: no more than a browser takes.
pub(super) const INITIAL_REQUESTS: usize = 4;

/// Each step of the climb: from 4 to 128 in two steps, so that a link of long round trips is filled after few of them.
const CLIMB_FACTOR: usize = 6;

/// The share of the hoped-for gain that a step of the climb must bring for the next: half way between "nothing is shared" and
/// "all is" a step of four would already be too large by half, and one of six by two thirds.
const CLIMB_GAIN_SHARE: f64 = 0.25;

/// A level is kept for this gain, though it does not lead higher; and a trial of more must bring it.
const MIN_GAIN: f64 = 0.05;

/// A trial of fewer may cost this.
const MAX_LOSS: f64 = 0.03;

/// A trial that brings this much less ends with its first window.
const CLEAR_LOSS: f64 = 0.1;

/// How long nothing ends before the places that are taken are not waited for.
const STALL_TIME: Duration = Duration::from_secs(1);

/// Windows before a level is said not to pay, and those of a trial.
const TRIAL_WINDOWS: u32 = 3;

/// Windows between trials: at first, and at most.
const PAUSE: (u32, u32) = (8, 64);

/// Where each place brings this share of what it brought on the lowest level, nothing is shared, and fewer would bring less.
const UNSHARED_RATE: f64 = 0.8;

/// Windows that the mean of a hold is taken over.
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

/// What the control is doing.
#[derive(Debug, Clone, Copy)]
enum HostControlPhase {
    /// Climbing; a number below, and what it brought.
    Climb(Option<(usize, f64)>),
    /// Keeping the number.
    Hold,
    /// Trying another number; the one before, and what it brought.
    Trial(usize, f64),
}

/// The number for one host.
#[derive(Debug, Clone)]
pub(super) struct HostControl {
    /// Never more than this.
    max: usize,
    /// The user's number: only refusals lower it.
    fixed: bool,
    /// The number without what refusals take.
    desired: usize,
    phase: HostControlPhase,
    window: RateWindow,
    /// What the present number brings.
    mean: MeanRate,
    /// What each place brought on the lowest level; 0 while that is unknown.
    rate_per_slot: f64,
    /// Windows until the next trial.
    windows_until_trial: u32,
    /// Whether the next trial is of more.
    try_more_next: bool,
    refusals: HostRefusals,
    /// When a job last ended, or the number was last raised because none did.
    last_finished: Duration,
}

impl HostControl {
    pub(super) fn new(max: usize, fixed: bool, now: Duration) -> Self {
        let max = max.max(1);
        Self {
            max,
            fixed,
            desired: if fixed {
                max
            } else {
                max.min(INITIAL_REQUESTS)
            },
            phase: HostControlPhase::Climb(None),
            window: RateWindow::new(now),
            mean: MeanRate::default(),
            rate_per_slot: 0.0,
            windows_until_trial: PAUSE.0,
            try_more_next: true,
            refusals: HostRefusals::new(),
            last_finished: now,
        }
    }

    /// Requests that may be under way at once.
    pub(super) fn target(&self) -> usize {
        self.desired
            .min(self.refusals.limit().unwrap_or(usize::MAX))
    }

    /// Whether it knows something that outlasts the host's last job.
    pub(super) fn is_worth_keeping(&self) -> bool {
        self.refusals.limit().is_some()
    }

    /// The host turned out to allow another number, by its protocol.
    pub(super) fn set_max(&mut self, max: usize, now: Duration) {
        let max = max.max(1);
        if self.fixed || max == self.max {
            return;
        }
        let held = matches!(self.phase, HostControlPhase::Hold) && self.desired == self.max;
        self.max = max;
        if self.desired > max {
            self.hold(max, now);
        } else if held {
            // It was the old limit that ended the climb.
            self.phase = HostControlPhase::Climb(None);
        }
    }

    /// As many as there may be, at once.
    pub(super) fn jump_to_max(&mut self, now: Duration) {
        if !self.fixed && self.desired < self.max {
            self.hold(self.max, now);
        }
    }

    /// From the start again.
    pub(super) fn restart(&mut self, now: Duration) {
        if !self.fixed {
            self.desired = self.max.min(INITIAL_REQUESTS);
            self.phase = HostControlPhase::Climb(None);
            self.restart_measurement(now);
        }
    }

    /// A job began as the `running`-th.
    pub(super) fn job_started(&mut self, job: u64, running: usize, now: Duration) {
        let target = self.target();
        self.window.job_started(job, (running, target), now);
    }

    /// The head of its answer came.
    pub(super) fn job_responded(&mut self, job: u64, now: Duration) {
        self.window.job_responded(job, now);
    }

    /// A job ended and left `running`; `bytes` if it was answered.
    pub(super) fn job_finished(
        &mut self,
        job: u64,
        bytes: Option<u64>,
        running: usize,
        now: Duration,
    ) {
        self.last_finished = now;
        if bytes.is_some() {
            self.refusals.on_response();
            if self.refusals.lift_if_due(now, self.max) {
                self.restart_measurement(now);
            }
        }
        let (target, length) = (self.target(), self.window_length());
        let rate = self
            .window
            .job_finished((job, bytes), (running, target), length, now);
        if let Some(rate) = rate.filter(|_| !self.fixed) {
            self.window_finished(rate, now);
        }
    }

    /// All places are taken, more jobs wait, and none has ended for [`STALL_TIME`]: those that run are slow or stand still, and say
    /// nothing about others. Twice as many are asked for then. Returns whether that is more than it was.
    pub(super) fn widen_if_stalled(&mut self, now: Duration) -> bool {
        if self.fixed
            || self.desired >= self.max
            || now.saturating_sub(self.last_finished) < STALL_TIME
        {
            return false;
        }
        self.last_finished = now;
        self.desired = (self.desired * 2).min(self.max);
        self.phase = HostControlPhase::Climb(None);
        self.restart_measurement(now);
        true
    }

    /// What was asked for at `asked` was refused; `open` others are under way.
    pub(super) fn on_refused(&mut self, (asked, now): (Duration, Duration), open: usize) {
        let target = self.target();
        if self.refusals.on_refused((asked, now), open, target) {
            // What a higher number brought is of no use; where refusals end, the climb goes on from.
            self.phase = HostControlPhase::Hold;
            self.restart_measurement(now);
        }
    }

    /// How long nothing should be asked, after a refusal.
    pub(super) fn pause_after_refusal(
        &self,
        open: usize,
        asked: Option<Duration>,
    ) -> Option<Duration> {
        self.refusals.pause_after_refusal(open, asked)
    }

    /// How long the next window is: short in a climb, where an error costs little, and in a trial, which may be a loss; long where
    /// nothing is urgent.
    fn window_length(&self) -> WindowLength {
        let target = self.target() as u64;
        match self.phase {
            HostControlPhase::Climb(_) => WindowLength {
                responses: target.max(4),
                min_time: Duration::from_millis(2),
            },
            HostControlPhase::Hold => WindowLength {
                responses: (4 * target).max(16),
                min_time: Duration::from_millis(20),
            },
            HostControlPhase::Trial(..) => WindowLength {
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
            HostControlPhase::Climb(None) => self.climb(now),
            HostControlPhase::Climb(Some(below)) => self.judge_climb(below, now),
            HostControlPhase::Hold => self.consider_trial(now),
            HostControlPhase::Trial(before, brought) => self.judge_trial(before, brought, now),
        }
    }

    fn judge_climb(&mut self, (below, brought): (usize, f64), now: Duration) {
        let target = self.target();
        let gain = self.mean.rate / brought.max(1.0) - 1.0;
        let hope = target as f64 / below.max(1) as f64 - 1.0;
        if gain >= CLIMB_GAIN_SHARE * hope {
            self.climb(now);
        } else if self.mean.windows >= TRIAL_WINDOWS {
            self.hold(if gain >= MIN_GAIN { target } else { below }, now);
        }
    }

    /// Takes the next step, or stays at the top.
    fn climb(&mut self, now: Duration) {
        let target = self.target();
        let next = target.saturating_mul(CLIMB_FACTOR).min(self.max);
        self.phase = HostControlPhase::Climb(Some((target, self.mean.rate)));
        self.desired = next;
        if self.target() <= target {
            self.hold(target, now);
        } else {
            self.restart_measurement(now);
        }
    }

    /// Keeps a number.
    fn hold(&mut self, number: usize, now: Duration) {
        self.phase = HostControlPhase::Hold;
        self.desired = number;
        // What the short windows of a climb showed is no measure for those of a hold.
        self.restart_measurement(now);
    }

    /// The number changed: what it brings is seen from now on.
    fn restart_measurement(&mut self, now: Duration) {
        self.mean = MeanRate::default();
        self.window = self.window.restarted(now);
    }

    /// Whether it is time to try another number, and which.
    fn consider_trial(&mut self, now: Duration) {
        if self.mean.windows < self.windows_until_trial {
            return;
        }
        let target = self.target();
        let more = (target + (target / 2).max(1)).min(self.max);
        let shared = self.mean.rate < UNSHARED_RATE * self.rate_per_slot * target as f64;
        let fewer = if shared { target / 2 } else { 0 };
        let top = self.refusals.limit().is_some_and(|limit| target >= limit) || more <= target;
        let other = match (self.try_more_next, top, fewer) {
            (_, true, 0) => return,
            (true, false, _) | (false, false, 0) => more,
            (false, ..) | (true, true, _) => fewer,
        };
        self.phase = HostControlPhase::Trial(target, self.mean.rate);
        self.desired = other;
        self.restart_measurement(now);
    }

    fn judge_trial(&mut self, before: usize, brought: f64, now: Duration) {
        let change = self.mean.rate / brought.max(1.0) - 1.0;
        if self.mean.windows < TRIAL_WINDOWS && change > -CLEAR_LOSS {
            return;
        }
        let target = self.target();
        let paid = change >= if target > before { MIN_GAIN } else { -MAX_LOSS };
        if paid {
            self.windows_until_trial = PAUSE.0;
        } else {
            self.windows_until_trial = (self.windows_until_trial * 2).min(PAUSE.1);
            self.try_more_next = !self.try_more_next;
        }
        self.hold(if paid { target } else { before }, now);
    }
}
