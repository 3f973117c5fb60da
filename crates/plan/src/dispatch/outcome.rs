//! What the end of a job's run means for its host and for what comes next.

use std::time::Duration;

use super::JobDispatcher;
use super::host_health::HostFailureEffect;
use super::options::{JobRunReport, JobRunResult, JobTicket};
use super::queued_job::QueuedJobStage;
use super::slab_list::SlabKey;

/// The share of the window that jobs of hosts which nobody has reached may take, before another such host gets fewer tries: they
/// wait for seconds each, and the living need the rest.
const DOUBTFUL: usize = 4;

/// A run that has ended.
#[derive(Debug, Clone, Copy)]
struct FinishedRun {
    host: SlabKey,
    /// Which one, and when it began.
    run: u64,
    at: Duration,
    /// Whether it was a large file.
    large: bool,
    /// Bytes of its answer.
    bytes: u64,
}

impl<T> JobDispatcher<T> {
    /// The head of an answer came that says that the host is well. `multiplexed`: how many streams it allows on the connection, if it
    /// multiplexes.
    pub fn on_response_head(
        &mut self,
        ticket: JobTicket,
        multiplexed: Option<usize>,
        now: Duration,
    ) {
        let Some(host) = self.host_of(ticket) else {
            return;
        };
        let stage = self.jobs[ticket.slot].stage;
        if matches!(stage, QueuedJobStage::Connecting | QueuedJobStage::Limbo) {
            self.places.answer(&mut self.jobs, ticket.slot, now);
        }
        self.reached(host, now);
        self.hosts[host].set_streams(multiplexed, &self.options, now);
        if let Some(control) = &mut self.hosts[host].control {
            control.headed(ticket.run, now);
        }
        self.file(host, false, now);
    }

    /// The job's file is large: it goes on over connections of its own, and small jobs of its host go on beside it. Several large
    /// ones share one place of their host; in the total each counts as one.
    pub fn on_large_file(&mut self, ticket: JobTicket, now: Duration) {
        self.delivering_if_silent(ticket, now);
        let Some(host) = self.host_of(ticket) else {
            return;
        };
        if self.jobs[ticket.slot].stage == QueuedJobStage::Large {
            return;
        }
        self.jobs[ticket.slot].stage = QueuedJobStage::Large;
        let known = &mut self.hosts[host];
        known.large += 1;
        let used = known.used();
        if let Some(control) = &mut known.control {
            control.ended(ticket.run, None, used, now);
        }
        self.file(host, false, now);
    }

    /// The job has ended for good.
    pub fn on_finished(&mut self, ticket: JobTicket, ended: JobRunReport, now: Duration) {
        let Some(run) = self.leave(ticket, ended.bytes) else {
            return;
        };
        self.learn(run, ended.result, now);
        self.file(run.host, true, now);
        self.drop_job(ticket.slot, now);
    }

    /// The job will be tried again, not before `wait` has passed. Until then it takes no place, though it is held.
    pub fn retry_later(
        &mut self,
        ticket: JobTicket,
        job: T,
        wait: Duration,
        how: JobRunResult,
        now: Duration,
    ) {
        let Some(run) = self.leave(ticket, 0) else {
            return;
        };
        let id = ticket.slot;
        self.jobs[id].load = Some(job);
        let due = now.saturating_add(wait);
        if wait.is_zero() {
            self.queue_again(id);
        } else {
            self.jobs[id].stage = QueuedJobStage::Later;
            self.jobs[id].at = due;
            self.later.insert((due, id));
            self.hosts[run.host].later.push_back(&mut self.jobs, id);
        }
        self.learn(run, how, now);
        if self.hosts[run.host].standing.is_dead() {
            self.bring_forward(run.host);
        }
        self.file(run.host, true, now);
    }

    /// The host of a job that runs.
    fn host_of(&self, ticket: JobTicket) -> Option<SlabKey> {
        let job = self.jobs.get(ticket.slot)?;
        (job.run == ticket.run && job.stage.is_running()).then_some(job.host)
    }

    /// A job of which no head was told has one if it is large.
    fn delivering_if_silent(&mut self, ticket: JobTicket, now: Duration) {
        if let Some(host) = self.host_of(ticket)
            && matches!(
                self.jobs[ticket.slot].stage,
                QueuedJobStage::Connecting | QueuedJobStage::Limbo
            )
        {
            let streams = self.hosts[host].streams;
            let multiplexed = (streams > 0).then_some(streams as usize);
            self.on_response_head(ticket, multiplexed, now);
        }
    }

    /// A job leaves its place.
    fn leave(&mut self, ticket: JobTicket, bytes: u64) -> Option<FinishedRun> {
        let host = self.host_of(ticket)?;
        self.places.leave(&mut self.jobs, ticket.slot);
        let job = &self.jobs[ticket.slot];
        let large = job.stage == QueuedJobStage::Large;
        self.hosts[host].leaves();
        self.hosts[host].large -= u32::from(large);
        Some(FinishedRun {
            host,
            run: job.run,
            at: job.at,
            large,
            bytes,
        })
    }

    /// What a run says about its host.
    fn learn(&mut self, run: FinishedRun, how: JobRunResult, now: Duration) {
        let known = &mut self.hosts[run.host];
        let vouched = known.heard.is_some_and(|heard| heard > run.at);
        let answered =
            matches!(how, JobRunResult::Done | JobRunResult::Failed).then_some(run.bytes);
        let used = known.used();
        if let Some(control) = known.control.as_mut().filter(|_| !run.large) {
            control.ended(run.run, answered, used, now);
        }
        match how {
            JobRunResult::Done | JobRunResult::Failed => self.reached(run.host, now),
            JobRunResult::Refused {
                retry_after: wait, ..
            } => {
                self.reached(run.host, now);
                self.refused(run, wait, now);
            }
            // Others were answered meanwhile: it is the host's limit that this one met. It vouches for nobody itself.
            JobRunResult::Unreachable if vouched => self.refused(run, None, now),
            JobRunResult::Unreachable => self.strike(run, now),
        }
    }

    /// A host was heard of.
    fn reached(&mut self, id: SlabKey, now: Duration) {
        let host = &mut self.hosts[id];
        if host.is_doubtful() {
            self.doubtful -= host.held as usize;
        }
        host.heard = Some(now);
        host.silent = false;
        if host.standing.is_good() {
            return;
        }
        host.standing.reached();
        self.rest(id, Duration::ZERO);
    }

    fn refused(&mut self, run: FinishedRun, wait: Option<Duration>, now: Duration) {
        let options = self.options;
        let host = &mut self.hosts[run.host];
        // What a host refuses that was asked for one thing at a time says nothing about a number, but a rest may help.
        let open = host.running as usize;
        let control = host.controlled(&options, now);
        control.refused((run.at, now), open);
        if let Some(rest) = control.rest(open, wait) {
            self.rest(run.host, now.saturating_add(rest));
        }
    }

    fn strike(&mut self, run: FinishedRun, now: Duration) {
        let host = &mut self.hosts[run.host];
        let held = host.held as usize;
        let counted = if host.is_doubtful() { held } else { 0 };
        let others = self.doubtful - counted;
        let pressed = others > self.options.window / DOUBTFUL;
        let answered = host.heard.is_some();
        let strike = host.standing.strike((run.at, now), answered, pressed);
        self.doubtful = others + if host.is_doubtful() { held } else { 0 };
        match strike {
            HostFailureEffect::Known => {}
            HostFailureEffect::Rest(rest) => self.rest(run.host, now.saturating_add(rest)),
            HostFailureEffect::GivenUp => {
                self.rest(run.host, Duration::ZERO);
                self.bring_forward(run.host);
            }
        }
    }

    /// Asks nothing of a host until then; zero ends a rest.
    fn rest(&mut self, id: SlabKey, until: Duration) {
        let before = std::mem::replace(&mut self.hosts[id].rest, until);
        self.resting.remove(&(before, id));
        if !until.is_zero() {
            self.resting.insert((until, id));
        }
    }

    /// What a host that was given up would try again later is refused now.
    fn bring_forward(&mut self, id: SlabKey) {
        while let Some(job) = self.hosts[id].later.pop_front(&mut self.jobs) {
            self.later.remove(&(self.jobs[job].at, job));
            self.queue_again(job);
        }
    }
}
