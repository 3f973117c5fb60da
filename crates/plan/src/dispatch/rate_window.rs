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
const ANSWER: u64 = 16 << 10;

/// The share of the number that must have been in use on average. The rest is the time from an answer to the next request.
const IN_USE: f64 = 0.7;

/// After so many answers for each place a number counts as reached, though the job that filled it still waits.
const LATE: u64 = 4;

/// Where a number stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WindowStage {
    /// There are fewer jobs than that, or more.
    Moving,
    /// This job was the one that reached it.
    Awaits(u64),
    /// The window is open.
    Open,
}

/// How long a window is.
#[derive(Debug, Clone, Copy)]
pub(super) struct WindowLength {
    /// In answers.
    pub(super) answers: u64,
    /// And in time: in less than this a machine's own scheduling is what is measured.
    pub(super) least: Duration,
}

/// The window in progress.
#[derive(Debug, Clone)]
pub(super) struct RateWindow {
    stage: WindowStage,
    /// When it began, or the number was last changed.
    begun: Duration,
    /// When a job last began or ended.
    last: Duration,
    /// Seconds that places were in use, added up.
    used: f64,
    /// Answers and work so far.
    answers: u64,
    work: u64,
    /// The last job that began before it did.
    before: u64,
    /// Whether a later one has ended.
    whole: bool,
    /// The last job that began.
    latest: u64,
}

impl RateWindow {
    /// A number of places was chosen.
    pub(super) fn new(now: Duration) -> Self {
        Self {
            stage: WindowStage::Moving,
            begun: now,
            last: now,
            used: 0.0,
            answers: 0,
            work: 0,
            before: 0,
            whole: false,
            latest: 0,
        }
    }

    /// Another number was chosen.
    pub(super) fn renewed(&self, now: Duration) -> Self {
        Self {
            before: self.latest,
            latest: self.latest,
            ..Self::new(now)
        }
    }

    /// A job began as the `running`-th. Jobs are numbered in the order they begin.
    pub(super) fn started(&mut self, job: u64, (running, target): (usize, usize), now: Duration) {
        self.pass(running.saturating_sub(1), now);
        self.latest = job;
        if self.stage == WindowStage::Moving && running == target {
            self.stage = WindowStage::Awaits(job);
        }
    }

    /// The head of a job's answer came.
    pub(super) fn headed(&mut self, job: u64, now: Duration) {
        if self.stage == WindowStage::Awaits(job) {
            self.open(now);
        }
    }

    /// A job ended and left `running`; `bytes` if it was answered. Returns the rate, in work a second, if that closes the
    /// window.
    pub(super) fn ended(
        &mut self,
        (job, bytes): (u64, Option<u64>),
        (running, target): (usize, usize),
        length: WindowLength,
        now: Duration,
    ) -> Option<f64> {
        self.pass(running + 1, now);
        if let Some(bytes) = bytes {
            self.answers += 1;
            self.work = self.work.saturating_add(bytes.saturating_add(ANSWER));
        }
        if self.stage != WindowStage::Open {
            let late = self.answers >= LATE * target as u64;
            // An end that leaves just the number leaves it from above.
            let drained = self.stage == WindowStage::Moving && running == target;
            if late || drained || self.stage == WindowStage::Awaits(job) {
                self.open(now);
            }
            return None;
        }
        self.whole |= job > self.before;
        let seconds = now.saturating_sub(self.begun).as_secs_f64();
        let long = self.answers >= length.answers && seconds >= length.least.as_secs_f64();
        if !(long && self.whole) {
            return None;
        }
        let (in_use, rate) = (self.used / seconds, self.work as f64 / seconds);
        self.open(now);
        (in_use >= IN_USE * target as f64).then_some(rate)
    }

    /// A window begins.
    fn open(&mut self, now: Duration) {
        *self = Self {
            stage: WindowStage::Open,
            ..self.renewed(now)
        };
    }

    /// Time passed with so many running.
    fn pass(&mut self, running: usize, now: Duration) {
        self.used += running as f64 * now.saturating_sub(self.last).as_secs_f64();
        self.last = self.last.max(now);
    }
}
