//! What the end of a job's run means for its host and for what comes next.

use std::time::Duration;

use super::JobDispatcher;
use super::host_health::HostFailureEffect;
use super::job_entry::JobStage;
use super::options::{JobRunReport, JobRunResult, JobTicket};
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
    started_at: Duration,
    /// Whether it was a large file.
    is_large: bool,
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
        let Some(host) = self.running_host(ticket) else {
            return;
        };
        let stage = self.jobs[ticket.slot].stage;
        if matches!(stage, JobStage::AwaitingResponse | JobStage::Overdue) {
            self.slots.job_responded(&mut self.jobs, ticket.slot, now);
        }
        self.on_reached(host, now);
        self.hosts[host].set_max_streams(multiplexed, &self.options, now);
        if let Some(control) = &mut self.hosts[host].control {
            control.job_responded(ticket.run, now);
        }
        self.update_list(host, false, now);
    }

    /// The job's file is large: it goes on over connections of its own, and small jobs of its host go on beside it. Several large
    /// ones share one place of their host; in the total each counts as one.
    pub fn on_large_file(&mut self, ticket: JobTicket, now: Duration) {
        self.ensure_response_head(ticket, now);
        let Some(host) = self.running_host(ticket) else {
            return;
        };
        if self.jobs[ticket.slot].stage == JobStage::LargeFile {
            return;
        }
        self.jobs[ticket.slot].stage = JobStage::LargeFile;
        let known = &mut self.hosts[host];
        known.large_files += 1;
        let used = known.used_slots();
        if let Some(control) = &mut known.control {
            control.job_finished(ticket.run, None, used, now);
        }
        self.update_list(host, false, now);
    }

    /// The job has ended for good.
    pub fn on_finished(&mut self, ticket: JobTicket, ended: JobRunReport, now: Duration) {
        let Some(run) = self.leave_slot(ticket, ended.bytes) else {
            return;
        };
        self.record_result(run, ended.result, now);
        self.update_list(run.host, true, now);
        self.remove_job(ticket.slot, now);
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
        let Some(run) = self.leave_slot(ticket, 0) else {
            return;
        };
        let id = ticket.slot;
        self.jobs[id].payload = Some(job);
        let due = now.saturating_add(wait);
        if wait.is_zero() {
            self.queue_retry(id);
        } else {
            self.jobs[id].stage = JobStage::RetryWaiting;
            self.jobs[id].started_or_due = due;
            self.waiting_retries.insert((due, id));
            self.hosts[run.host]
                .waiting_retries
                .push_back(&mut self.jobs, id);
        }
        self.record_result(run, how, now);
        if self.hosts[run.host].health.is_open() {
            self.make_retries_due(run.host);
        }
        self.update_list(run.host, true, now);
    }

    /// The host of a job that runs.
    fn running_host(&self, ticket: JobTicket) -> Option<SlabKey> {
        let job = self.jobs.get(ticket.slot)?;
        (job.run == ticket.run && job.stage.is_running()).then_some(job.host)
    }

    /// A job of which no head was told has one if it is large.
    fn ensure_response_head(&mut self, ticket: JobTicket, now: Duration) {
        if let Some(host) = self.running_host(ticket)
            && matches!(
                self.jobs[ticket.slot].stage,
                JobStage::AwaitingResponse | JobStage::Overdue
            )
        {
            let streams = self.hosts[host].max_streams;
            let multiplexed = (streams > 0).then_some(streams as usize);
            self.on_response_head(ticket, multiplexed, now);
        }
    }

    /// A job leaves its place.
    fn leave_slot(&mut self, ticket: JobTicket, bytes: u64) -> Option<FinishedRun> {
        let host = self.running_host(ticket)?;
        self.slots.job_finished(&mut self.jobs, ticket.slot);
        let job = &self.jobs[ticket.slot];
        let large = job.stage == JobStage::LargeFile;
        self.hosts[host].job_finished();
        self.hosts[host].large_files -= u32::from(large);
        Some(FinishedRun {
            host,
            run: job.run,
            started_at: job.started_or_due,
            is_large: large,
            bytes,
        })
    }

    /// What a run says about its host.
    fn record_result(&mut self, run: FinishedRun, how: JobRunResult, now: Duration) {
        let known = &mut self.hosts[run.host];
        let vouched = known
            .last_response
            .is_some_and(|heard| heard > run.started_at);
        let answered =
            matches!(how, JobRunResult::Done | JobRunResult::Failed).then_some(run.bytes);
        let used = known.used_slots();
        if let Some(control) = known.control.as_mut().filter(|_| !run.is_large) {
            control.job_finished(run.run, answered, used, now);
        }
        match how {
            JobRunResult::Done | JobRunResult::Failed => self.on_reached(run.host, now),
            JobRunResult::Refused {
                retry_after: wait, ..
            } => {
                self.on_reached(run.host, now);
                self.on_refused(run, wait, now);
            }
            // Others were answered meanwhile: it is the host's limit that this one met. It vouches for nobody itself.
            JobRunResult::Unreachable if vouched => self.on_refused(run, None, now),
            JobRunResult::Unreachable => self.on_unreachable(run, now),
        }
    }

    /// A host was heard of.
    fn on_reached(&mut self, id: SlabKey, now: Duration) {
        let host = &mut self.hosts[id];
        if host.is_unreached() {
            self.unreached_jobs -= host.held_jobs as usize;
        }
        host.last_response = Some(now);
        host.unresponsive = false;
        if host.health.is_healthy() {
            return;
        }
        host.health.on_reached();
        self.pause_host(id, Duration::ZERO);
    }

    fn on_refused(&mut self, run: FinishedRun, wait: Option<Duration>, now: Duration) {
        let options = self.options;
        let host = &mut self.hosts[run.host];
        // What a host refuses that was asked for one thing at a time says nothing about a number, but a rest may help.
        let open = host.running_jobs as usize;
        let control = host.get_or_create_control(&options, now);
        control.on_refused((run.started_at, now), open);
        if let Some(rest) = control.pause_after_refusal(open, wait) {
            self.pause_host(run.host, now.saturating_add(rest));
        }
    }

    fn on_unreachable(&mut self, run: FinishedRun, now: Duration) {
        let host = &mut self.hosts[run.host];
        let held = host.held_jobs as usize;
        let counted = if host.is_unreached() { held } else { 0 };
        let others = self.unreached_jobs - counted;
        let pressed = others > self.options.window / DOUBTFUL;
        let answered = host.last_response.is_some();
        let strike = host
            .health
            .on_failure((run.started_at, now), answered, pressed);
        self.unreached_jobs = others + if host.is_unreached() { held } else { 0 };
        match strike {
            HostFailureEffect::AlreadyCounted => {}
            HostFailureEffect::RetryAfter(rest) => {
                self.pause_host(run.host, now.saturating_add(rest))
            }
            HostFailureEffect::CircuitOpened => {
                self.pause_host(run.host, Duration::ZERO);
                self.make_retries_due(run.host);
            }
        }
    }

    /// Asks nothing of a host until then; zero ends a rest.
    fn pause_host(&mut self, id: SlabKey, until: Duration) {
        let before = std::mem::replace(&mut self.hosts[id].paused_until, until);
        self.paused_hosts.remove(&(before, id));
        if !until.is_zero() {
            self.paused_hosts.insert((until, id));
        }
    }

    /// What a host that was given up would try again later is refused now.
    fn make_retries_due(&mut self, id: SlabKey) {
        while let Some(job) = self.hosts[id].waiting_retries.pop_front(&mut self.jobs) {
            self.waiting_retries
                .remove(&(self.jobs[job].started_or_due, job));
            self.queue_retry(job);
        }
    }
}
