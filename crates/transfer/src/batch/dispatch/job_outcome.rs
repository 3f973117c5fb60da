//! Reports of the driver about running jobs, and their effects on the hosts.

use std::sync::Arc;
use std::time::Duration;

use haul_plan::MIN_NOTED_WAIT;

use super::JobDispatcher;
use super::host_health::{HostFailure, HostFailureEffect};
use super::host_refusals::HostRefusalAction;
use super::job_entry::JobStage;
use super::options::{JobRunReport, JobRunResult, JobTicket, RequestedPause};
use super::slab_list::SlabKey;

/// Jobs of hosts that failed and never responded may take this share of the window (one part in so many). Beyond it, further
/// such hosts get a single try: their jobs wait for seconds each, and the living need the rest of the window.
const UNREACHED_SHARE: usize = 4;

/// A run that has ended.
#[derive(Debug, Clone, Copy)]
struct FinishedJobRun {
    host: SlabKey,
    run: u64,
    started_at: Duration,
    is_large: bool,
    /// Bytes of the response.
    bytes: u64,
}

impl<T> JobDispatcher<T> {
    /// A connection was made for the job, which took about a round trip. On a long path the host gets as many requests as fill it at once.
    pub(crate) fn on_connected(&mut self, ticket: JobTicket, round_trip: Duration, now: Duration) {
        let Some(host) = self.running_host(ticket) else {
            return;
        };
        if let Some(control) = &mut self.hosts[host].control {
            control.on_connected(round_trip, now);
        }
        self.update_list(host, false, now);
    }

    /// The head of a response arrived, so the host works. `max_streams`: how many streams the host allows on the
    /// connection, if it multiplexes.
    pub(crate) fn on_response_head(
        &mut self,
        ticket: JobTicket,
        max_streams: Option<usize>,
        now: Duration,
    ) {
        let Some(host) = self.running_host(ticket) else {
            return;
        };
        if self.jobs[ticket.key].stage.awaits_response() {
            self.slots.job_responded(&mut self.jobs, ticket.key, now);
        }
        self.on_reached(host, now);
        self.hosts[host].set_max_streams(max_streams, &self.options, now);
        if let Some(control) = &mut self.hosts[host].control {
            control.job_responded(ticket.run, now);
        }
        self.update_list(host, false, now);
    }

    /// The job's file is large: it goes on over connections of its own, while small files of its host go on. Several large
    /// files share one request of their host; among all requests each counts as one.
    pub(crate) fn on_large_file(&mut self, ticket: JobTicket, now: Duration) {
        self.ensure_response_head(ticket, now);
        let Some(host_key) = self.running_host(ticket) else {
            return;
        };
        if self.jobs[ticket.key].stage == JobStage::LargeFile {
            return;
        }
        self.jobs[ticket.key].stage = JobStage::LargeFile;
        let host = &mut self.hosts[host_key];
        host.large_files += 1;
        let used = host.used_slots();
        if let Some(control) = &mut host.control {
            control.job_finished(ticket.run, None, used, now);
        }
        self.update_list(host_key, false, now);
    }

    /// The job has ended for good.
    pub(crate) fn on_finished(&mut self, ticket: JobTicket, report: JobRunReport, now: Duration) {
        let Some(run) = self.leave_slot(ticket, report.bytes) else {
            return;
        };
        self.record_result(run, report.result, now);
        self.update_list(run.host, true, now);
        self.remove_job(ticket.key, now);
    }

    /// The job will be tried again, not before `wait` has passed. Until then it takes no slot, though it is held.
    pub(crate) fn retry_later(
        &mut self,
        ticket: JobTicket,
        job: T,
        wait: Duration,
        result: JobRunResult,
        now: Duration,
    ) {
        let Some(run) = self.leave_slot(ticket, 0) else {
            return;
        };
        let key = ticket.key;
        self.jobs[key].payload = Some(job);
        let due = now.saturating_add(wait);
        if wait.is_zero() {
            self.queue_retry(key);
        } else {
            self.jobs[key].stage = JobStage::RetryWaiting;
            self.jobs[key].started_or_due = due;
            self.waiting_retries.insert((due, key));
            self.hosts[run.host]
                .waiting_retries
                .push_back(&mut self.jobs, key);
        }
        self.record_result(run, result, now);
        if self.hosts[run.host].health.is_open() {
            self.make_retries_due(run.host);
        }
        self.update_list(run.host, true, now);
    }

    /// The host of a running job; `None` for a ticket whose run is over.
    fn running_host(&self, ticket: JobTicket) -> Option<SlabKey> {
        let job = self.jobs.get(ticket.key)?;
        (job.run == ticket.run && job.stage.is_running()).then_some(job.host)
    }

    /// A large file has a response, even if the driver has not reported its head.
    fn ensure_response_head(&mut self, ticket: JobTicket, now: Duration) {
        if let Some(host) = self.running_host(ticket)
            && self.jobs[ticket.key].stage.awaits_response()
        {
            let max_streams = self.hosts[host].max_streams;
            let max_streams = (max_streams > 0).then_some(max_streams as usize);
            self.on_response_head(ticket, max_streams, now);
        }
    }

    /// Frees the slot of a job whose run has ended.
    fn leave_slot(&mut self, ticket: JobTicket, bytes: u64) -> Option<FinishedJobRun> {
        let host = self.running_host(ticket)?;
        self.slots.job_finished(&mut self.jobs, ticket.key);
        let job = &self.jobs[ticket.key];
        let is_large = job.stage == JobStage::LargeFile;
        self.hosts[host].job_finished();
        self.hosts[host].large_files -= u32::from(is_large);
        Some(FinishedJobRun {
            host,
            run: job.run,
            started_at: job.started_or_due,
            is_large,
            bytes,
        })
    }

    fn record_result(&mut self, run: FinishedJobRun, result: JobRunResult, now: Duration) {
        let host = &mut self.hosts[run.host];
        let responded_since = host.last_response.is_some_and(|at| at > run.started_at);
        let response_bytes =
            matches!(result, JobRunResult::Done | JobRunResult::Failed).then_some(run.bytes);
        let used = host.used_slots();
        if let Some(control) = host.control.as_mut().filter(|_| !run.is_large) {
            control.job_finished(run.run, response_bytes, used, now);
        }
        match result {
            JobRunResult::Done | JobRunResult::Failed => self.on_reached(run.host, now),
            JobRunResult::Refused { retry_after } => {
                self.on_any_response(run.host, now);
                self.on_refused(run, retry_after, now);
            }
            JobRunResult::RefusedAgain if host.health.is_half_open() => {
                self.on_any_response(run.host, now);
                self.on_everything_refused(run, now);
            }
            JobRunResult::RefusedAgain | JobRunResult::Inconclusive => {}
            // Other requests got responses meanwhile: this one met the host's limit. It does not count as a response.
            JobRunResult::Unreachable if responded_since => self.on_refused(run, None, now),
            JobRunResult::Unreachable => self.on_unreachable(run, now),
        }
    }

    /// The host responded as it should.
    fn on_reached(&mut self, key: SlabKey, now: Duration) {
        self.on_any_response(key, now);
        let host = &mut self.hosts[key];
        host.has_granted = true;
        if host.health.is_healthy() {
            return;
        }
        host.health.on_reached();
        self.pause_host(key, Duration::ZERO);
        self.delay_early_retries(key, now);
    }

    /// The host responded, perhaps with a refusal.
    fn on_any_response(&mut self, key: SlabKey, now: Duration) {
        let host = &mut self.hosts[key];
        if host.is_unreached() {
            self.unreached_jobs -= host.held_jobs as usize;
        }
        host.last_response = Some(now);
        host.unresponsive = false;
    }

    fn on_refused(&mut self, run: FinishedJobRun, retry_after: Option<Duration>, now: Duration) {
        let options = self.options;
        let host = &mut self.hosts[run.host];
        // If this was the only request, the refusal says nothing about their number, but a pause may help.
        let open = host.running_jobs as usize;
        let control = host.get_or_create_control(&options, now);
        control.on_refused(run.started_at, now, open);
        match control.effect_of_refusal(open, retry_after, options.max_retry_after) {
            HostRefusalAction::None => {}
            HostRefusalAction::Pause(wait) => self.pause_as_requested(run.host, wait, now),
            HostRefusalAction::HostFailed(wait) => {
                self.on_everything_refused(run, now);
                if let Some(wait) = wait.filter(|_| !self.hosts[run.host].health.is_open()) {
                    self.pause_as_requested(run.host, wait, now);
                }
            }
            HostRefusalAction::RejectJobs(wait) => {
                self.hosts[run.host].health.open_for(wait, now);
                self.pause_host(run.host, Duration::ZERO);
                self.make_retries_due(run.host);
            }
        }
    }

    /// Pauses a host as it asks, and notes that for the user if the pause is longer than the one that the host is in.
    fn pause_as_requested(&mut self, key: SlabKey, wait: Duration, now: Duration) {
        let host = &self.hosts[key];
        let paused_until = host.paused_until;
        if wait >= MIN_NOTED_WAIT && paused_until.saturating_sub(now) < wait / 2 {
            let host = Arc::clone(&host.name);
            self.requested_pauses.push(RequestedPause { host, wait });
        }
        self.pause_host(key, paused_until.max(now.saturating_add(wait)));
    }

    fn on_unreachable(&mut self, run: FinishedJobRun, now: Duration) {
        let host = &mut self.hosts[run.host];
        let held = host.held_jobs as usize;
        let counted = if host.is_unreached() { held } else { 0 };
        let others = self.unreached_jobs - counted;
        let one_try = others > self.options.window / UNREACHED_SHARE;
        let failure = match host.last_response {
            Some(_) => HostFailure::Unreachable,
            None => HostFailure::NeverReached { one_try },
        };
        self.on_host_failure(run, failure, now);
        let is_unreached = self.hosts[run.host].is_unreached();
        self.unreached_jobs = others + if is_unreached { held } else { 0 };
    }

    fn on_everything_refused(&mut self, run: FinishedJobRun, now: Duration) {
        let failure = HostFailure::RefusesEverything {
            retries: self.options.retries,
            has_granted: self.hosts[run.host].has_granted,
        };
        self.on_host_failure(run, failure, now);
    }

    fn on_host_failure(&mut self, run: FinishedJobRun, failure: HostFailure, now: Duration) {
        let health = &mut self.hosts[run.host].health;
        match health.on_failure(failure, run.started_at, now) {
            HostFailureEffect::AlreadyCounted => {}
            HostFailureEffect::RetryAfter(pause) => {
                let until = now.saturating_add(pause);
                self.pause_host(run.host, until.max(self.hosts[run.host].paused_until));
            }
            HostFailureEffect::CircuitOpened => {
                self.pause_host(run.host, Duration::ZERO);
                self.make_retries_due(run.host);
            }
        }
    }

    /// Gives a host no request until then, nor before its rate allows one; zero ends a pause.
    pub(super) fn pause_host(&mut self, key: SlabKey, until: Duration) {
        let host = &mut self.hosts[key];
        let rate = host.request_rate.as_ref();
        let until = rate.map_or(until, |rate| until.max(rate.next_request()));
        let before = std::mem::replace(&mut host.paused_until, until);
        self.paused_hosts.remove(&(before, key));
        if !until.is_zero() {
            self.paused_hosts.insert((until, key));
        }
    }

    /// Retries that were queued to be rejected wait again until they are due: their host has responded after all.
    fn delay_early_retries(&mut self, host: SlabKey, now: Duration) {
        let mut queued = std::mem::take(&mut self.hosts[host].due_retries);
        while let Some(job) = queued.pop_front(&mut self.jobs) {
            let due = self.jobs[job].started_or_due;
            if due > now {
                self.jobs[job].stage = JobStage::RetryWaiting;
                self.waiting_retries.insert((due, job));
                self.hosts[host]
                    .waiting_retries
                    .push_back(&mut self.jobs, job);
            } else {
                self.queue_retry(job);
            }
        }
    }

    /// Queues the waiting retries of a host whose circuit breaker has opened, so that they are rejected now.
    fn make_retries_due(&mut self, host: SlabKey) {
        while let Some(job) = self.hosts[host].waiting_retries.pop_front(&mut self.jobs) {
            self.waiting_retries
                .remove(&(self.jobs[job].started_or_due, job));
            self.queue_retry(job);
        }
    }
}
