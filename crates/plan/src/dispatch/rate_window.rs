//! What one number of requests at once brings, measured by answers.
//!
//! A window begins when the number is reached: when the job that filled the last place has had its answer, for only then do
//! the connections that were made for it carry something. It ends after so many answers, so that on loopback it takes
//! milliseconds and over an ocean a few round trips, without anybody knowing which it is. It never ends before a job has that
//! began in it: what was under way before may come all in one moment. A window in which places stood empty,
//! since there was nothing queued or the total was reached, says nothing about the number and is thrown away.

use std::time::Duration;

/// What an answer is worth beside its bytes: at a thousand requests a second a link carries 16 MB/s of such work, about where
/// small files turn from a matter of requests to a matter of bytes.
const RESPONSE_WORK: u64 = 16 << 10;

/// The share of the number that must have been in use on average. The rest is the time from an answer to the next request.
const MIN_SLOT_USE: f64 = 0.7;

/// After so many answers for each place a number counts as reached, though the job that filled it still waits.
const MAX_RESPONSES_BEFORE_OPEN: u64 = 4;

/// Where a number stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WindowStage {
    /// There are fewer jobs than that, or more.
    Filling,
    /// This job was the one that reached it.
    AwaitingResponse(u64),
    /// The window is open.
    Open,
}

/// How long a window is.
#[derive(Debug, Clone, Copy)]
pub(super) struct WindowLength {
    /// In answers.
    pub(super) responses: u64,
    /// And in time: in less than this a machine's own scheduling is what is measured.
    pub(super) min_time: Duration,
}

/// The window in progress.
#[derive(Debug, Clone)]
pub(super) struct RateWindow {
    stage: WindowStage,
    /// When it began, or the number was last changed.
    started_at: Duration,
    /// When a job last began or ended.
    last_change: Duration,
    /// Seconds that places were in use, added up.
    slot_seconds: f64,
    /// Answers and work so far.
    responses: u64,
    work: u64,
    /// The last job that began before it did.
    last_job_before: u64,
    /// Whether a later one has ended.
    later_job_finished: bool,
    /// The last job that began.
    latest_job: u64,
}

impl RateWindow {
    /// A number of places was chosen.
    pub(super) fn new(now: Duration) -> Self {
        Self {
            stage: WindowStage::Filling,
            started_at: now,
            last_change: now,
            slot_seconds: 0.0,
            responses: 0,
            work: 0,
            last_job_before: 0,
            later_job_finished: false,
            latest_job: 0,
        }
    }

    /// Another number was chosen.
    pub(super) fn restarted(&self, now: Duration) -> Self {
        Self {
            last_job_before: self.latest_job,
            latest_job: self.latest_job,
            ..Self::new(now)
        }
    }

    /// A job began as the `running`-th. Jobs are numbered in the order they begin.
    pub(super) fn job_started(
        &mut self,
        job: u64,
        (running, target): (usize, usize),
        now: Duration,
    ) {
        self.add_slot_time(running.saturating_sub(1), now);
        self.latest_job = job;
        if self.stage == WindowStage::Filling && running == target {
            self.stage = WindowStage::AwaitingResponse(job);
        }
    }

    /// The head of a job's answer came.
    pub(super) fn job_responded(&mut self, job: u64, now: Duration) {
        if self.stage == WindowStage::AwaitingResponse(job) {
            self.open(now);
        }
    }

    /// A job ended and left `running`; `bytes` if it was answered. Returns the rate, in work a second, if that closes the
    /// window.
    pub(super) fn job_finished(
        &mut self,
        (job, bytes): (u64, Option<u64>),
        (running, target): (usize, usize),
        length: WindowLength,
        now: Duration,
    ) -> Option<f64> {
        self.add_slot_time(running + 1, now);
        if let Some(bytes) = bytes {
            self.responses += 1;
            self.work = self
                .work
                .saturating_add(bytes.saturating_add(RESPONSE_WORK));
        }
        if self.stage != WindowStage::Open {
            let late = self.responses >= MAX_RESPONSES_BEFORE_OPEN * target as u64;
            // An end that leaves just the number leaves it from above.
            let drained = self.stage == WindowStage::Filling && running == target;
            if late || drained || self.stage == WindowStage::AwaitingResponse(job) {
                self.open(now);
            }
            return None;
        }
        self.later_job_finished |= job > self.last_job_before;
        let seconds = now.saturating_sub(self.started_at).as_secs_f64();
        let long = self.responses >= length.responses && seconds >= length.min_time.as_secs_f64();
        if !(long && self.later_job_finished) {
            return None;
        }
        let (in_use, rate) = (self.slot_seconds / seconds, self.work as f64 / seconds);
        self.open(now);
        (in_use >= MIN_SLOT_USE * target as f64).then_some(rate)
    }

    /// A window begins.
    fn open(&mut self, now: Duration) {
        *self = Self {
            stage: WindowStage::Open,
            ..self.restarted(now)
        };
    }

    /// Time passed with so many running.
    fn add_slot_time(&mut self, running: usize, now: Duration) {
        self.slot_seconds += running as f64 * now.saturating_sub(self.last_change).as_secs_f64();
        self.last_change = self.last_change.max(now);
    }
}
