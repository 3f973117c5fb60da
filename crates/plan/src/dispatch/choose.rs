//! What runs next, and until when nothing does.

use std::time::Duration;

use super::JobDispatcher;
use super::host_queue::HostList;
use super::job_entry::JobStage;
use super::options::{DispatchDecision, JobTicket, UnreachableHost};
use super::slab_list::{SlabKey, SlabList};

impl<T> JobDispatcher<T> {
    /// What to do now. A job that is given out runs until [`Self::ended`] or [`Self::retry_later`] is called with its ticket.
    pub fn next(&mut self, now: Duration) -> DispatchDecision<T> {
        self.wake_due(now);
        if let Some((job, why)) = self.reject_unreachable(now) {
            return DispatchDecision::Reject(job, why);
        }
        if let Some((host, stage)) = self.choose_host(now)
            && let Some((ticket, job)) = self.start_job(host, stage, now)
        {
            return DispatchDecision::Run(ticket, job);
        }
        if self.closed && self.jobs.len() == 0 {
            return DispatchDecision::Done;
        }
        DispatchDecision::Wait(self.next_wake())
    }

    /// What waited for a time that has come, waits no longer.
    fn wake_due(&mut self, now: Duration) {
        while let Some((due, id)) = self
            .waiting_retries
            .first()
            .copied()
            .filter(|(due, _)| *due <= now)
        {
            self.waiting_retries.remove(&(due, id));
            let host = self.jobs[id].host;
            self.hosts[host].waiting_retries.remove(&mut self.jobs, id);
            self.queue_retry(id);
            self.update_list(host, false, now);
        }
        while let Some((until, id)) = self
            .paused_hosts
            .first()
            .copied()
            .filter(|(until, _)| *until <= now)
        {
            self.paused_hosts.remove(&(until, id));
            self.hosts[id].paused_until = Duration::ZERO;
            self.update_list(id, false, now);
        }
    }

    /// A job is due to be tried again.
    pub(super) fn queue_retry(&mut self, id: SlabKey) {
        let host = self.jobs[id].host;
        self.jobs[id].stage = JobStage::RetryDue;
        self.hosts[host].due_retries.push_back(&mut self.jobs, id);
    }

    /// A job of a host that was given up.
    fn reject_unreachable(&mut self, now: Duration) -> Option<(T, UnreachableHost)> {
        let host = self.circuit_open.front()?;
        let why = UnreachableHost {
            failures: self.hosts[host].health.failures(),
            retry_at: self.hosts[host].health.open_until(),
        };
        let id = self.pop_job(host)?;
        self.update_list(host, false, now);
        let load = self.remove_job(id, now)?.payload?;
        Some((load, why))
    }

    /// Whose turn it is, and where its job begins.
    fn choose_host(&mut self, now: Duration) -> Option<(SlabKey, JobStage)> {
        if let Some(host) = self.half_open.front() {
            let alone = self.ready.is_empty() && self.untried.is_empty();
            if let Some(stage) = self.slots.stage_for_probe(&mut self.jobs, alone, now) {
                return Some((host, stage));
            }
        }
        self.skip_unresponsive_hosts(now);
        // Whoever is within his turn goes on with it.
        let warm = self
            .ready
            .front()
            .is_some_and(|host| self.hosts[host].continues_turn());
        let known_first = warm || !self.untried_next;
        let turns = [known_first, !known_first];
        let known = turns.into_iter().find(|known| {
            let some = !self.list_of_hosts(*known).is_empty();
            some && self.slots.make_room(&mut self.jobs, *known, now)
        })?;
        let host = self.list_of_hosts(known).front()?;
        self.untried_next = known;
        Some((host, JobStage::AwaitingResponse))
    }

    /// Hosts of which a job may run: those that have answered, or the others.
    fn list_of_hosts(&self, known: bool) -> &SlabList {
        if known { &self.ready } else { &self.untried }
    }

    /// A host that has never answered, and is longer about it than others were, gets no further request until it does: it may be
    /// dead.
    fn skip_unresponsive_hosts(&mut self, now: Duration) {
        let patience = self.slots.max_untried_wait();
        while let Some(id) = self.untried.front()
            && self.hosts[id].is_slow_to_respond(patience, now)
        {
            self.hosts[id].unresponsive = true;
            self.update_list(id, false, now);
        }
    }

    /// Begins the next job of a host.
    fn start_job(
        &mut self,
        host: SlabKey,
        stage: JobStage,
        now: Duration,
    ) -> Option<(JobTicket, T)> {
        let id = self.pop_job(host)?;
        self.run_count += 1;
        let known = &mut self.hosts[host];
        let job = &mut self.jobs[id];
        job.stage = stage;
        job.started_or_due = now;
        job.run = self.run_count;
        job.host_untried = known.last_response.is_none();
        job.is_probe = known.list == Some(HostList::HalfOpen);
        let load = job.payload.take()?;
        known.job_started(now);
        let used = known.used_slots();
        if let Some(control) = &mut known.control {
            control.job_started(self.run_count, used, now);
        }
        self.slots.job_started(&mut self.jobs, id);
        self.unlist(host);
        self.update_list(host, true, now);
        let ticket = JobTicket {
            slot: id,
            run: self.run_count,
        };
        Some((ticket, load))
    }

    /// Takes the next job out of a host's queues.
    fn pop_job(&mut self, host: SlabKey) -> Option<SlabKey> {
        let host = &mut self.hosts[host];
        let due = host.due_retries.pop_front(&mut self.jobs);
        due.or_else(|| host.new_jobs.pop_front(&mut self.jobs))
    }

    /// When something comes by itself.
    fn next_wake(&self) -> Option<Duration> {
        let later = self.waiting_retries.first().map(|(due, _)| *due);
        let rested = self.paused_hosts.first().map(|(until, _)| *until);
        let waiting = [true, false]
            .into_iter()
            .filter(|known| !self.list_of_hosts(*known).is_empty());
        let room = waiting.filter_map(|known| self.slots.next_room_at(&self.jobs, known));
        let room = room.min();
        later.into_iter().chain(rested).chain(room).min()
    }
}
