//! Decides which job runs next, or how long to wait.

use std::collections::BTreeSet;
use std::time::Duration;

use super::JobDispatcher;
use super::host_queue::HostList;
use super::job_entry::JobStage;
use super::options::{DispatchDecision, FailedHost, JobTicket};
use super::slab_list::{SlabKey, SlabList};

impl<T> JobDispatcher<T> {
    /// Decides what the driver does now. A returned job runs until [`Self::on_finished`] or [`Self::retry_later`] is called with
    /// its ticket.
    pub(crate) fn next(&mut self, now: Duration) -> DispatchDecision<T> {
        self.wake_due(now);
        if let Some((job, host)) = self.reject_job(now) {
            return DispatchDecision::Reject(job, host);
        }
        if let Some((host, stage)) = self.choose_host(now)
            && let Some((ticket, job)) = self.start_job(host, stage, now)
        {
            return DispatchDecision::Run(ticket, job);
        }
        if self.closed && self.jobs.is_empty() {
            return DispatchDecision::Done;
        }
        DispatchDecision::Wait(self.next_wake())
    }

    /// Whether any job may be run or rejected now; if not, [`Self::next`] does neither. Quicker than to ask it: drivers ask after each
    /// event.
    #[must_use]
    pub(crate) fn has_candidates(&self, now: Duration) -> bool {
        let hosts = [
            &self.ready,
            &self.untried,
            &self.half_open,
            &self.circuit_open,
        ];
        let times = [&self.waiting_retries, &self.paused_hosts];
        hosts.into_iter().any(|hosts| !hosts.is_empty())
            || times
                .into_iter()
                .any(|times| times.first().is_some_and(|(time, _)| *time <= now))
    }

    /// Queues the retries whose time has come, and ends the pauses of hosts that are over.
    fn wake_due(&mut self, now: Duration) {
        while let Some(job) = pop_if_due(&mut self.waiting_retries, now) {
            let host = self.jobs[job].host;
            self.hosts[host].waiting_retries.remove(&mut self.jobs, job);
            self.queue_retry(job);
            self.update_list(host, false, now);
        }
        while let Some(host) = pop_if_due(&mut self.paused_hosts, now) {
            self.hosts[host].paused_until = Duration::ZERO;
            self.update_list(host, false, now);
        }
    }

    /// Queues a job whose next try is due.
    pub(super) fn queue_retry(&mut self, job: SlabKey) {
        let host = self.jobs[job].host;
        self.jobs[job].stage = JobStage::RetryDue;
        self.hosts[host].due_retries.push_back(&mut self.jobs, job);
    }

    /// Removes a job of a host whose circuit breaker is open.
    fn reject_job(&mut self, now: Duration) -> Option<(T, FailedHost)> {
        let host = self.circuit_open.front()?;
        let health = &self.hosts[host].health;
        let failed_host = FailedHost {
            failures: health.failures(),
            retry_at: health.open_until(),
            cause: health.cause(),
        };
        let job = self.pop_job(host)?;
        self.update_list(host, false, now);
        let payload = self.remove_job(job, now)?.payload?;
        Some((payload, failed_host))
    }

    /// Chooses the host whose turn it is, and the stage in which its job begins.
    fn choose_host(&mut self, now: Duration) -> Option<(SlabKey, JobStage)> {
        if let Some(host) = self.half_open.front() {
            let is_alone = self.ready.is_empty() && self.untried.is_empty();
            if let Some(stage) = self.slots.stage_for_probe(&mut self.jobs, is_alone, now) {
                return Some((host, stage));
            }
        }
        self.skip_unresponsive_hosts(now);
        // A host within its turn goes first.
        let within_turn = self
            .ready
            .front()
            .is_some_and(|host| self.hosts[host].continues_turn());
        let tried_first = within_turn || !self.untried_next;
        let tried = [tried_first, !tried_first].into_iter().find(|tried| {
            !self.runnable_hosts(*tried).is_empty()
                && self.slots.make_room(&mut self.jobs, *tried, now)
        })?;
        let host = self.runnable_hosts(tried).front()?;
        self.untried_next = tried;
        Some((host, JobStage::AwaitingResponse))
    }

    /// Hosts that may start a job: those that have been `tried`, or the others.
    fn runnable_hosts(&self, tried: bool) -> &SlabList {
        if tried { &self.ready } else { &self.untried }
    }

    /// Removes hosts from the turns that have never responded and take longer than others did: they may be dead. Such a host gets no further
    /// request until it responds.
    fn skip_unresponsive_hosts(&mut self, now: Duration) {
        let max_wait = self.slots.max_untried_wait();
        while let Some(host) = self.untried.front()
            && self.hosts[host].is_slow_to_respond(max_wait, now)
        {
            self.hosts[host].unresponsive = true;
            self.update_list(host, false, now);
        }
    }

    /// Begins the next job of a host.
    fn start_job(
        &mut self,
        host_key: SlabKey,
        stage: JobStage,
        now: Duration,
    ) -> Option<(JobTicket, T)> {
        let key = self.pop_job(host_key)?;
        self.run_count += 1;
        let run = self.run_count;
        let host = &mut self.hosts[host_key];
        let job = &mut self.jobs[key];
        job.stage = stage;
        job.started_or_due = now;
        job.run = run;
        job.host_untried = host.last_response.is_none();
        job.is_probe = host.list == Some(HostList::HalfOpen);
        let payload = job.payload.take()?;
        host.job_started(now);
        let used = host.used_slots();
        if let Some(control) = &mut host.control {
            control.job_started(run, used, now);
        }
        if let Some(rate) = &mut host.request_rate {
            rate.count_request(now);
            if rate.next_request() > now {
                self.pause_host(host_key, Duration::ZERO);
            }
        }
        self.slots.job_started(&mut self.jobs, key);
        self.unlist(host_key);
        self.update_list(host_key, true, now);
        Some((JobTicket { key, run }, payload))
    }

    /// Takes the next job out of a host's queues: retries first. A host that refuses everything gets the same job again, as if it had no
    /// other, and then jobs that it has not refused yet: perhaps it refuses only some files.
    fn pop_job(&mut self, host: SlabKey) -> Option<SlabKey> {
        let (host, jobs) = (&mut self.hosts[host], &mut self.jobs);
        let (new, due) = (&mut host.new_jobs, &mut host.due_retries);
        if !host.health.refuses_everything() {
            return due.pop_front(jobs).or_else(|| new.pop_front(jobs));
        }
        if host.health.is_half_way_to_open() {
            new.pop_front(jobs).or_else(|| due.pop_back(jobs))
        } else {
            due.pop_back(jobs).or_else(|| new.pop_front(jobs))
        }
    }

    /// The next moment at which something changes without an event.
    fn next_wake(&self) -> Option<Duration> {
        let retry = self.waiting_retries.first().map(|(due, _)| *due);
        let pause = self.paused_hosts.first().map(|(until, _)| *until);
        let waiting = [true, false]
            .into_iter()
            .filter(|tried| !self.runnable_hosts(*tried).is_empty());
        let room = waiting.filter_map(|tried| self.slots.next_room_at(&self.jobs, tried));
        retry.into_iter().chain(pause).chain(room).min()
    }
}

/// Takes out the key with the earliest time, if that has come.
fn pop_if_due(times: &mut BTreeSet<(Duration, SlabKey)>, now: Duration) -> Option<SlabKey> {
    let first = *times.first().filter(|(time, _)| *time <= now)?;
    times.remove(&first);
    Some(first.1)
}
