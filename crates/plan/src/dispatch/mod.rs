//! Which job of a batch runs next.
//!
//! A [`JobDispatcher`] holds a window of a list that may be endless: jobs that are queued, that wait to be tried again, and that
//! run. It says which one is next, so that
//!
//! - hosts take turns: neither a list sorted by host nor one huge host keeps others from theirs. A turn is some jobs long, and a
//!   place that a job leaves goes to the next one of the same host within the turn, because its connection is warm. Within a
//!   host, jobs are tried again when they are due, before new ones, and new ones in their order;
//! - each host gets its number of requests at once, found by watching what they bring (`control.rs`), and fewer where it
//!   refuses (`refusals.rs`);
//! - a host that cannot be reached is asked one job at a time, then given up: its jobs come out refused (`health.rs`);
//! - what waits for long for a connection takes no place of those that could be answered (`slots.rs`);
//! - a host that is merely slow fills its own places and no others. In the window it could fill all, so the feeder asks
//!   [`JobDispatcher::is_crowding`].
//!
//! Nothing is found by searching: hosts stand in the list of those whose turn may come, or in none; jobs stand in their
//! host's queues. Every call costs the same whatever is held, but for the logarithm of what waits for a time. Of a host without
//! jobs nothing is left, unless it is worth remembering (`idle_hosts.rs`).
//!
//! # Order of calls
//!
//! The *feeder*: while [`JobDispatcher::has_room`], [`JobDispatcher::add`]; at the list's end [`JobDispatcher::close`]. Before it adds, it may
//! ask [`JobDispatcher::is_crowding`]. If so, then it
//!
//! - asks [`JobDispatcher::may_spill`]. If not, what is held keeps the places busy, or enough was read ahead: it waits until something has
//!   ended, or some milliseconds;
//! - else puts the job aside, with all later ones of that host, behind each other (a temporary file, in which each record of a host
//!   leads to the next, needs memory for the host's first and last only), and reads on;
//! - when something has ended, offers what lies aside first: for each host that has something aside and would no longer crowd,
//!   in turn, as long as there is room. At the list's end it goes on with that until nothing lies aside, and only then closes.
//!
//! The *driver*: after every call that changes anything, and when the time has come that it named, [`JobDispatcher::next`] until that
//! says to wait. For each job that runs: [`JobDispatcher::delivering`] when the head of an answer came, [`JobDispatcher::large`] if it goes
//! on over connections of its own, and then either [`JobDispatcher::ended`] or [`JobDispatcher::again`]. A ticket that is no longer good is
//! ignored.

mod choose;
mod host_control;
mod host_health;
mod host_queue;
mod host_refusals;
mod idle_hosts;
mod job_entry;
mod job_outcome;
mod options;
mod rate_window;
mod request_slots;
mod slab_list;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

pub use options::{
    DispatchDecision, HostRequestLimit, JobDispatcherOptions, JobRunReport, JobRunResult,
    JobTicket, UnreachableHost,
};

use crate::token_bucket::TokenBucket;
use host_queue::{HostList, HostQueue};
use idle_hosts::IdleHosts;
use job_entry::JobEntry;
use request_slots::RequestSlots;
use slab_list::{Slab, SlabKey, SlabList};

/// How many times the window may be read in a second, if not all of it is for hosts that have room: past a slow host's million jobs
/// within a minute.
const SPILL_WINDOWS_PER_SECOND: u64 = 4;

/// How far those that had room may be ahead of that pace, and so the longest that reading ahead waits for them.
const MAX_SPILL_DEBT: Duration = Duration::from_secs(1);

/// Holds jobs and says which one is next. `T` is what the driver knows of a job.
#[derive(Debug)]
pub struct JobDispatcher<T> {
    options: JobDispatcherOptions,
    /// All jobs that are held.
    jobs: Slab<JobEntry<T>>,
    /// All hosts that have jobs.
    hosts: Slab<HostQueue>,
    /// Them by name.
    host_keys: HashMap<Arc<str>, SlabKey>,
    /// Hosts without jobs that are worth it.
    idle_hosts: IdleHosts,
    /// Hosts of which a job may run, in the order of their turns: those that have answered.
    ready: SlabList,
    /// And those of which nobody has heard.
    untried: SlabList,
    /// Whether it is their turn, where both may.
    untried_next: bool,
    /// Hosts of which a job may try whether they can be reached.
    half_open: SlabList,
    /// Hosts whose jobs are refused.
    circuit_open: SlabList,
    /// Jobs to be tried again, by when.
    waiting_retries: BTreeSet<(Duration, SlabKey)>,
    /// Hosts of which nothing should be asked, by until when.
    paused_hosts: BTreeSet<(Duration, SlabKey)>,
    /// How many run.
    slots: RequestSlots,
    /// How fast is read past hosts that crowd: where those that do not take as much, others are found soon enough.
    spill_rate: TokenBucket,
    /// Jobs of suspect hosts that have never answered.
    unreached_jobs: usize,
    /// Runs so far.
    run_count: u64,
    /// Whether the list has ended.
    closed: bool,
}

impl<T> JobDispatcher<T> {
    /// Nothing is held yet.
    #[must_use]
    pub fn new(options: JobDispatcherOptions) -> Self {
        let window = options.window.max(1) as u64;
        Self {
            spill_rate: TokenBucket::new(window.saturating_mul(SPILL_WINDOWS_PER_SECOND), window),
            jobs: Slab::new(),
            hosts: Slab::new(),
            host_keys: HashMap::new(),
            idle_hosts: IdleHosts::default(),
            ready: SlabList::default(),
            untried: SlabList::default(),
            untried_next: false,
            half_open: SlabList::default(),
            circuit_open: SlabList::default(),
            waiting_retries: BTreeSet::new(),
            paused_hosts: BTreeSet::new(),
            slots: RequestSlots::new(&options),
            unreached_jobs: 0,
            run_count: 0,
            closed: false,
            options,
        }
    }

    /// Whether one more may be added. What is added all the same is held beyond the window.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.jobs.len() < self.options.window.max(1)
    }

    /// Whether a host holds as much of the window as is still free: half of it if it is alone, and the less the more hosts crowd.
    /// A host that was given up never crowds: its jobs do not stay.
    #[must_use]
    pub fn is_crowding(&self, host: &str) -> bool {
        let free = self.options.window.saturating_sub(self.jobs.len()).max(1);
        self.host_keys.get(host).is_some_and(|id| {
            let host = &self.hosts[*id];
            host.held_jobs as usize >= free && !host.health.is_open()
        })
    }

    /// Leave to put a job aside whose host would crowd, and to read on: places are free that none of the jobs held may take, so
    /// other hosts would help. Whether the list names others nobody knows, and most lists name one alone; so they are looked for at
    /// a measured pace, lest a list of millions is copied for nothing.
    pub fn may_spill(&mut self, now: Duration) -> bool {
        let waiting = !(self.ready.is_empty() && self.untried.is_empty());
        let hungry = !waiting && self.slots.has_free_slot();
        if !hungry || !self.spill_rate.take(now, 0).is_zero() {
            return false;
        }
        self.spill_rate.take(now, 1);
        true
    }

    /// Looks at the hosts of which nothing has been heard for a while, though all their places are taken and more jobs wait. To be
    /// called now and then: without it a host whose first jobs stand still would get no more.
    pub fn widen_stalled_hosts(&mut self, now: Duration) {
        let ids: Vec<SlabKey> = self.host_keys.values().copied().collect();
        for id in ids {
            let host = &mut self.hosts[id];
            let waits = host.eligible_list(&self.options, now).is_none()
                && !(host.new_jobs.is_empty() && host.due_retries.is_empty());
            let small = host.has_few_large_files();
            let more = host.control.as_mut().filter(|_| waits && small);
            if more.is_some_and(|control| control.widen_if_stalled(now)) {
                self.update_list(id, false, now);
            }
        }
    }

    /// Takes a job for a host: `scheme://name:port`, or whatever else tells origins apart.
    pub fn add(&mut self, host: &str, job: T, now: Duration) {
        if self.spill_rate.take(now, 0) < MAX_SPILL_DEBT {
            self.spill_rate.take(now, 1);
        }
        let host = match self.host_keys.get(host) {
            Some(id) => *id,
            None => self.add_host(host, now),
        };
        let id = self.jobs.insert(JobEntry::new(host, job));
        let known = &mut self.hosts[host];
        known.new_jobs.push_back(&mut self.jobs, id);
        known.held_jobs += 1;
        let was_doubtful = known.is_unreached();
        known.health.half_open_if_due(now);
        if known.is_unreached() {
            // One that has just been let try again was not counted before.
            self.unreached_jobs += if was_doubtful {
                1
            } else {
                known.held_jobs as usize
            };
        }
        self.update_list(host, false, now);
    }

    /// No more will be added.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Whether no more will be added.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Jobs that run.
    #[must_use]
    pub fn running_jobs(&self) -> usize {
        self.slots.running()
    }

    /// Jobs that are queued, wait to be tried again, or run.
    #[must_use]
    pub fn held_jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Hosts of which jobs are held.
    #[must_use]
    pub fn host_count(&self) -> usize {
        self.hosts.len()
    }

    /// Hosts of which no jobs are held, but which are remembered.
    #[must_use]
    pub fn idle_host_count(&self) -> usize {
        self.idle_hosts.len()
    }

    /// Requests that a host gets at once at present, for a report; `None` if nothing of it is held.
    #[must_use]
    pub fn request_limit(&self, host: &str) -> Option<usize> {
        let id = self.host_keys.get(host)?;
        Some(self.hosts[*id].limit(&self.options))
    }

    /// A host has its first job here.
    fn add_host(&mut self, name: &str, now: Duration) -> SlabKey {
        let known = self.idle_hosts.take(name);
        let name: Arc<str> = name.into();
        let rest = known.paused_until;
        let id = self.hosts.insert(HostQueue::new(Arc::clone(&name), known));
        self.host_keys.insert(name, id);
        if rest > now {
            self.paused_hosts.insert((rest, id));
        } else {
            self.hosts[id].paused_until = Duration::ZERO;
        }
        id
    }

    /// A job is no longer held.
    fn remove_job(&mut self, id: SlabKey, now: Duration) -> Option<JobEntry<T>> {
        let job = self.jobs.remove(id)?;
        let host = &mut self.hosts[job.host];
        host.held_jobs -= 1;
        let left = host.held_jobs;
        if host.is_unreached() {
            self.unreached_jobs -= 1;
        }
        if left == 0 {
            self.remove_host(job.host, now);
        }
        Some(job)
    }

    /// A host's last job has gone.
    fn remove_host(&mut self, id: SlabKey, now: Duration) {
        self.unlist(id);
        let Some(mut host) = self.hosts.remove(id) else {
            return;
        };
        self.host_keys.remove(&host.name);
        self.paused_hosts.remove(&(host.paused_until, id));
        if let Some(known) = host.to_idle(now) {
            self.idle_hosts.insert(host.name, known);
        }
    }

    /// Puts a host into the list that it belongs to now; in front, if it goes on with a place that it has just left.
    fn update_list(&mut self, id: SlabKey, goes_on: bool, now: Duration) {
        let host = &mut self.hosts[id];
        if host.needs_control(&self.options) {
            host.get_or_create_control(&self.options, now);
        }
        let wanted = host.eligible_list(&self.options, now);
        let front = goes_on && host.continues_turn();
        if wanted == host.list && !front {
            return;
        }
        self.unlist(id);
        self.hosts[id].list = wanted;
        let Some(wanted) = wanted else {
            return;
        };
        let list = match wanted {
            HostList::Ready => &mut self.ready,
            HostList::Untried => &mut self.untried,
            HostList::HalfOpen => &mut self.half_open,
            HostList::CircuitOpen => &mut self.circuit_open,
        };
        if front {
            list.push_front(&mut self.hosts, id);
        } else {
            list.push_back(&mut self.hosts, id);
        }
    }

    /// Takes a host out of the list that it stands in.
    fn unlist(&mut self, id: SlabKey) {
        let list = match self.hosts[id].list.take() {
            Some(HostList::Ready) => &mut self.ready,
            Some(HostList::Untried) => &mut self.untried,
            Some(HostList::HalfOpen) => &mut self.half_open,
            Some(HostList::CircuitOpen) => &mut self.circuit_open,
            None => return,
        };
        list.remove(&mut self.hosts, id);
    }
}

#[cfg(test)]
mod tests;
