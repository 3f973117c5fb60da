//! What runs next, and until when nothing does.

use std::time::Duration;

use super::JobDispatcher;
use super::host_queue::HostList;
use super::options::{DispatchDecision, JobTicket, UnreachableHost};
use super::queued_job::QueuedJobStage;
use super::slab_list::{SlabKey, SlabList};

impl<T> JobDispatcher<T> {
    /// What to do now. A job that is given out runs until [`Self::ended`] or [`Self::retry_later`] is called with its ticket.
    pub fn next(&mut self, now: Duration) -> DispatchDecision<T> {
        self.wake(now);
        if let Some((job, why)) = self.refuse(now) {
            return DispatchDecision::Reject(job, why);
        }
        if let Some((host, stage)) = self.choose(now)
            && let Some((ticket, job)) = self.start(host, stage, now)
        {
            return DispatchDecision::Run(ticket, job);
        }
        if self.closed && self.jobs.len() == 0 {
            return DispatchDecision::Done;
        }
        DispatchDecision::Wait(self.until())
    }

    /// What waited for a time that has come, waits no longer.
    fn wake(&mut self, now: Duration) {
        while let Some((due, id)) = self.later.first().copied().filter(|(due, _)| *due <= now) {
            self.later.remove(&(due, id));
            let host = self.jobs[id].host;
            self.hosts[host].later.remove(&mut self.jobs, id);
            self.queue_again(id);
            self.file(host, false, now);
        }
        while let Some((until, id)) = self
            .resting
            .first()
            .copied()
            .filter(|(until, _)| *until <= now)
        {
            self.resting.remove(&(until, id));
            self.hosts[id].rest = Duration::ZERO;
            self.file(id, false, now);
        }
    }

    /// A job is due to be tried again.
    pub(super) fn queue_again(&mut self, id: SlabKey) {
        let host = self.jobs[id].host;
        self.jobs[id].stage = QueuedJobStage::Due;
        self.hosts[host].due.push_back(&mut self.jobs, id);
    }

    /// A job of a host that was given up.
    fn refuse(&mut self, now: Duration) -> Option<(T, UnreachableHost)> {
        let host = self.dead.front()?;
        let why = UnreachableHost {
            failures: self.hosts[host].standing.strikes(),
            retry_at: self.hosts[host].standing.until(),
        };
        let id = self.take(host)?;
        self.file(host, false, now);
        let load = self.drop_job(id, now)?.load?;
        Some((load, why))
    }

    /// Whose turn it is, and where its job begins.
    fn choose(&mut self, now: Duration) -> Option<(SlabKey, QueuedJobStage)> {
        if let Some(host) = self.suspect.front() {
            let alone = self.ready.is_empty() && self.unknown.is_empty();
            if let Some(stage) = self.places.for_probe(&mut self.jobs, alone, now) {
                return Some((host, stage));
            }
        }
        self.pass_over_silent(now);
        // Whoever is within his turn goes on with it.
        let warm = self
            .ready
            .front()
            .is_some_and(|host| self.hosts[host].goes_on());
        let known_first = warm || !self.unknown_next;
        let turns = [known_first, !known_first];
        let known = turns.into_iter().find(|known| {
            let some = !self.of(*known).is_empty();
            some && self.places.has_room(&mut self.jobs, *known, now)
        })?;
        let host = self.of(known).front()?;
        self.unknown_next = known;
        Some((host, QueuedJobStage::Connecting))
    }

    /// Hosts of which a job may run: those that have answered, or the others.
    fn of(&self, known: bool) -> &SlabList {
        if known { &self.ready } else { &self.unknown }
    }

    /// A host that has never answered, and is longer about it than others were, gets no further request until it does: it may be
    /// dead.
    fn pass_over_silent(&mut self, now: Duration) {
        let patience = self.places.patience();
        while let Some(id) = self.unknown.front()
            && self.hosts[id].is_slow_to_answer(patience, now)
        {
            self.hosts[id].silent = true;
            self.file(id, false, now);
        }
    }

    /// Begins the next job of a host.
    fn start(
        &mut self,
        host: SlabKey,
        stage: QueuedJobStage,
        now: Duration,
    ) -> Option<(JobTicket, T)> {
        let id = self.take(host)?;
        self.runs += 1;
        let known = &mut self.hosts[host];
        let job = &mut self.jobs[id];
        job.stage = stage;
        job.at = now;
        job.run = self.runs;
        job.cold = known.heard.is_none();
        job.probe = known.listed == Some(HostList::Suspect);
        let load = job.load.take()?;
        known.begins(now);
        let used = known.used();
        if let Some(control) = &mut known.control {
            control.started(self.runs, used, now);
        }
        self.places.begin(&mut self.jobs, id);
        self.unlist(host);
        self.file(host, true, now);
        let ticket = JobTicket {
            slot: id,
            run: self.runs,
        };
        Some((ticket, load))
    }

    /// Takes the next job out of a host's queues.
    fn take(&mut self, host: SlabKey) -> Option<SlabKey> {
        let host = &mut self.hosts[host];
        let due = host.due.pop_front(&mut self.jobs);
        due.or_else(|| host.fresh.pop_front(&mut self.jobs))
    }

    /// When something comes by itself.
    fn until(&self) -> Option<Duration> {
        let later = self.later.first().map(|(due, _)| *due);
        let rested = self.resting.first().map(|(until, _)| *until);
        let waiting = [true, false]
            .into_iter()
            .filter(|known| !self.of(*known).is_empty());
        let room = waiting.filter_map(|known| self.places.next_room(&self.jobs, known));
        let room = room.min();
        later.into_iter().chain(rested).chain(room).min()
    }
}
