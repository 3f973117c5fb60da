//! The rate that one number of requests at once brings, measured over a number of responses.
//!
//! A window begins when the number is reached: when the job that filled the last slot has its response, for only then do the
//! connections that were made for it carry something. It ends after a number of responses, so that on loopback it takes
//! milliseconds and over an ocean a few round trips, without a setting for either. It never ends before a job that
//! began in it has ended: jobs that were under way before may all end in one moment, and look like a rate that no higher number
//! can exceed (2,000 files over a slow link then took 11 s instead of 1.4 s). A window in which slots stood empty,
//! because nothing was queued or all slots of the batch were taken, says nothing about the number and is thrown away.

use std::time::Duration;

/// The work of a response in addition to its bytes: at a thousand requests a second a link carries 16 MB/s of such work, which is about
/// where small files turn from a matter of requests to a matter of bytes.
const RESPONSE_WORK: u64 = 16 << 10;

/// The share of the slots that must have been in use on average. The rest is the time from a response to the next request.
const MIN_SLOT_USE: f64 = 0.7;

/// After this number of responses for each slot the number counts as reached, even if the job that filled it still waits.
const RESPONSES_PER_SLOT: u64 = 4;

/// Whether the number has been reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RateWindowStage {
    /// Fewer jobs run than the number, or more.
    Filling,
    /// This run reached the number and has no response yet.
    AwaitingResponse(u64),
    /// The window has begun.
    Measuring,
}

/// The length of a window.
#[derive(Debug, Clone, Copy)]
pub(super) struct WindowLength {
    pub(super) responses: u64,
    /// The least time: in less than this, the measurement is of the machine's own scheduling.
    pub(super) min_time: Duration,
}

/// A window in progress.
#[derive(Debug, Clone)]
pub(super) struct RateWindow {
    stage: RateWindowStage,
    /// When the window began, or the number last changed.
    started_at: Duration,
    /// When a job last began or ended.
    last_change: Duration,
    /// Seconds that slots were in use, added up over the slots.
    slot_seconds: f64,
    responses: u64,
    work: u64,
    /// The last run that began before the window.
    last_run_before: u64,
    /// Whether a later run has ended.
    later_run_finished: bool,
    /// The last run that began.
    latest_run: u64,
}

impl RateWindow {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            stage: RateWindowStage::Filling,
            started_at: now,
            last_change: now,
            slot_seconds: 0.0,
            responses: 0,
            work: 0,
            last_run_before: 0,
            later_run_finished: false,
            latest_run: 0,
        }
    }

    /// A window for another number of requests.
    pub(super) fn restarted(&self, now: Duration) -> Self {
        Self {
            last_run_before: self.latest_run,
            latest_run: self.latest_run,
            ..Self::new(now)
        }
    }

    /// A run began as the `running`-th at once. Runs are numbered in the order in which they begin.
    pub(super) fn job_started(&mut self, run: u64, running: usize, target: usize, now: Duration) {
        self.add_slot_time(running.saturating_sub(1), now);
        self.latest_run = run;
        if self.stage == RateWindowStage::Filling && running == target {
            self.stage = RateWindowStage::AwaitingResponse(run);
        }
    }

    /// The head of a run's response arrived.
    pub(super) fn job_responded(&mut self, run: u64, now: Duration) {
        if self.stage == RateWindowStage::AwaitingResponse(run) {
            self.open(now);
        }
    }

    /// A run ended and left `running` others; `response_bytes` if there was a response. Returns the rate, in work a second, if
    /// that ends the window.
    pub(super) fn job_finished(
        &mut self,
        run: u64,
        response_bytes: Option<u64>,
        running: usize,
        target: usize,
        length: WindowLength,
        now: Duration,
    ) -> Option<f64> {
        self.add_slot_time(running + 1, now);
        if let Some(bytes) = response_bytes {
            self.responses += 1;
            self.work = self
                .work
                .saturating_add(bytes.saturating_add(RESPONSE_WORK));
        }
        if self.stage != RateWindowStage::Measuring {
            let waited_long = self.responses >= RESPONSES_PER_SLOT * target as u64;
            // The number was reached from above.
            let drained = self.stage == RateWindowStage::Filling && running == target;
            if waited_long || drained || self.stage == RateWindowStage::AwaitingResponse(run) {
                self.open(now);
            }
            return None;
        }
        self.later_run_finished |= run > self.last_run_before;
        let time = now.saturating_sub(self.started_at);
        let is_long = self.responses >= length.responses && time >= length.min_time;
        if !(is_long && self.later_run_finished) {
            return None;
        }
        let seconds = time.as_secs_f64();
        let (slot_use, rate) = (self.slot_seconds / seconds, self.work as f64 / seconds);
        self.open(now);
        (slot_use >= MIN_SLOT_USE * target as f64).then_some(rate)
    }

    /// Begins to measure.
    fn open(&mut self, now: Duration) {
        *self = Self {
            stage: RateWindowStage::Measuring,
            ..self.restarted(now)
        };
    }

    /// Counts the time since the last change, during which `running` jobs ran.
    fn add_slot_time(&mut self, running: usize, now: Duration) {
        self.slot_seconds += running as f64 * now.saturating_sub(self.last_change).as_secs_f64();
        self.last_change = self.last_change.max(now);
    }
}
