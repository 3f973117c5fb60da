//! Which job of a batch runs next.
//!
//! A [`JobDispatcher`] holds a window of a list that may be endless: jobs that are queued, that wait for a retry, and that run.
//! It decides which job is next, so that
//!
//! - hosts take turns: neither a list sorted by host nor one host with many jobs blocks the others. A turn is some jobs long, and the
//!   connection that a job frees goes to the next job of the same host within the turn, because it is warm. Within a host,
//!   due retries run before new jobs, and new jobs in their order;
//! - each host gets a number of requests at once that is found by measuring the rate (`host_control.rs`), and fewer if it refuses
//!   requests (`host_refusals.rs`);
//! - each host gets at most the user's number of requests a second (`request_rate.rs`);
//! - a host that cannot be reached gets one job at a time, then its jobs are rejected: a circuit breaker (`host_health.rs`);
//! - a request that waits long for a connection takes no slot of requests that could get a response (`request_slots.rs`);
//! - a host that is merely slow fills its own requests and no others. It could fill the whole window, so the window grows, within
//!   bounds, while slots are free that none of the held jobs may take.
//!
//! No call searches: a host is in the list of hosts whose turn may come, or in none; jobs are in their host's queues. Every call takes
//! constant time, apart from the logarithm of the number of jobs and hosts that wait for a time. A host without jobs is forgotten, unless
//! it is worth remembering (`idle_hosts.rs`).
//!
//! # Order of calls
//!
//! The *feeder* reads the list: while [`JobDispatcher::make_room`] succeeds, it calls [`JobDispatcher::add`]; at the list's end
//! [`JobDispatcher::close`]. Without room it waits until a job has ended, or some milliseconds.
//!
//! The *driver* runs jobs: after every call that changes anything, and when the moment of the last
//! [`DispatchDecision::Wait`] has come, it calls [`JobDispatcher::next`] until that returns [`DispatchDecision::Wait`], or not at all while
//! [`JobDispatcher::has_candidates`] says no. For each running job it
//! calls [`JobDispatcher::on_response_head`] when the head of a response arrived, [`JobDispatcher::on_large_file`] if the file goes
//! on over connections of its own, and then either [`JobDispatcher::on_finished`] or [`JobDispatcher::retry_later`]. A ticket
//! whose run is over is ignored.

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
mod request_rate;
mod request_slots;
mod slab_list;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub(super) use idle_hosts::IdleHosts;
pub(super) use options::{
    DispatchDecision, FailedHost, HostFailureCause, JobRunReport, JobRunResult, JobTicket,
    RequestedPause,
};
pub use options::{HostRequestLimit, JobDispatcherOptions};
pub use request_rate::{RequestRate, RequestRateError};

use host_queue::{HostList, HostQueue};
use job_entry::JobEntry;
use request_slots::RequestSlots;
use slab::Slab;
use slab_list::{SlabKey, SlabList};

/// Holds jobs and decides which one is next. `T` is the driver's description of a job.
#[derive(Debug)]
pub(super) struct JobDispatcher<T> {
    options: JobDispatcherOptions,
    /// Jobs that may be held. It begins as [`JobDispatcherOptions::window`].
    window: usize,
    jobs: Slab<JobEntry<T>>,
    /// Hosts that have jobs.
    hosts: Slab<HostQueue>,
    /// The keys of those hosts, by name.
    host_keys: foldhash::HashMap<Arc<str>, SlabKey>,
    /// Hosts without jobs that are worth remembering.
    idle_hosts: IdleHosts,
    /// Hosts that have responded and may start a job, in the order of their turns.
    ready: SlabList,
    /// Hosts that have never responded and may start a job, in the order of their turns.
    untried: SlabList,
    /// Whether it is the turn of an untried host, if both lists have hosts.
    untried_next: bool,
    /// Half-open hosts: their next job shows whether they can be reached.
    half_open: SlabList,
    /// Hosts whose jobs are rejected.
    circuit_open: SlabList,
    /// Jobs that wait for a retry, by when it is due.
    waiting_retries: BTreeSet<(Duration, SlabKey)>,
    /// Hosts that get no request, by until when.
    paused_hosts: BTreeSet<(Duration, SlabKey)>,
    /// Pauses that hosts have asked for, until the driver takes them.
    requested_pauses: Vec<RequestedPause>,
    slots: RequestSlots,
    /// Jobs of hosts that failed and never responded.
    unreached_jobs: usize,
    /// Runs so far.
    run_count: u64,
    /// Whether the list has ended.
    closed: bool,
}

impl<T> JobDispatcher<T> {
    /// A dispatcher without jobs.
    #[must_use]
    pub(super) fn new(options: JobDispatcherOptions) -> Self {
        Self {
            window: options.window.max(1),
            jobs: Slab::new(),
            hosts: Slab::new(),
            host_keys: foldhash::HashMap::default(),
            idle_hosts: IdleHosts::default(),
            ready: SlabList::default(),
            untried: SlabList::default(),
            untried_next: false,
            half_open: SlabList::default(),
            circuit_open: SlabList::default(),
            waiting_retries: BTreeSet::new(),
            paused_hosts: BTreeSet::new(),
            requested_pauses: Vec::new(),
            slots: RequestSlots::new(&options),
            unreached_jobs: 0,
            run_count: 0,
            closed: false,
            options,
        }
    }

    /// A dispatcher without jobs that knows what the one before it did ([`take_idle_hosts`](Self::take_idle_hosts)). Times count
    /// from the same moment for both.
    #[must_use]
    pub(super) fn with_idle_hosts(
        options: JobDispatcherOptions,
        mut idle_hosts: IdleHosts,
    ) -> Self {
        idle_hosts.remember_for_next_batch(&options);
        Self {
            idle_hosts,
            ..Self::new(options)
        }
    }

    /// Takes out what is known of all hosts. To be called when the batch has ended, or was stopped.
    #[must_use]
    pub(super) fn take_idle_hosts(&mut self, now: Duration) -> IdleHosts {
        let for_next_batch = self.idle_hosts.is_for_next_batch();
        for (_, host) in &mut self.hosts {
            if let Some(idle) = host.take_idle_state(for_next_batch, now) {
                self.idle_hosts.insert(Arc::clone(&host.name), idle);
            }
        }
        std::mem::take(&mut self.idle_hosts)
    }

    /// Takes out the pauses for which hosts have asked since the last call and that are long enough for the user to wonder.
    #[must_use]
    pub(super) fn take_requested_pauses(&mut self) -> Vec<RequestedPause> {
        std::mem::take(&mut self.requested_pauses)
    }

    /// Makes room for a job; false if there is none. A full window is doubled, up to `max_window`, if slots are free that none of the held jobs may
    /// take: other hosts would help, and the list may have some. A job that is added without room is held beyond the window.
    pub(super) fn make_room(&mut self, max_window: usize) -> bool {
        let max_window = max_window.max(self.options.window).max(1);
        let has_runnable_job = !(self.ready.is_empty() && self.untried.is_empty());
        if self.jobs.len() >= self.window && !has_runnable_job && self.slots.has_free_slot() {
            self.window = self.window.saturating_mul(2);
        }
        self.window = self.window.min(max_window);
        self.jobs.len() < self.window
    }

    /// Whether half of the window has just become free.
    pub(super) fn is_half_empty(&self) -> bool {
        self.jobs.len() == self.window / 2
    }

    /// Raises the number of requests of hosts that use all of theirs and have more jobs, but none that ended for a while. To be called about
    /// once a second: without it a host whose first jobs make no progress would get no more requests.
    pub(super) fn widen_stalled_hosts(&mut self, now: Duration) {
        let keys: Vec<SlabKey> = self.host_keys.values().copied().collect();
        for key in keys {
            let host = &mut self.hosts[key];
            let has_queued_jobs = !(host.new_jobs.is_empty() && host.due_retries.is_empty());
            let may_widen = has_queued_jobs
                && host.paused_until <= now
                && host.eligible_list(&self.options, now).is_none()
                && host.has_few_large_files();
            let control = host.control.as_mut().filter(|_| may_widen);
            if control.is_some_and(|control| control.widen_if_stalled(now)) {
                self.update_list(key, false, now);
            }
        }
    }

    /// Adds a job for a host: `scheme://name:port`, or another unique name of the origin.
    pub(super) fn add(&mut self, host: &str, job: T, now: Duration) {
        let host_key = match self.host_keys.get(host) {
            Some(key) => *key,
            None => self.add_host(host, now),
        };
        let key = self.jobs.insert(JobEntry::new(host_key, job));
        let host = &mut self.hosts[host_key];
        host.new_jobs.push_back(&mut self.jobs, key);
        host.held_jobs += 1;
        let was_unreached = host.is_unreached();
        host.health.half_open_if_due(now);
        if host.is_unreached() {
            // The jobs of a host that has just become half-open were not counted before.
            self.unreached_jobs += if was_unreached {
                1
            } else {
                host.held_jobs as usize
            };
        }
        self.update_list(host_key, false, now);
    }

    /// No more jobs will be added.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether [`close`](Self::close) was called.
    #[must_use]
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Jobs that run now.
    #[must_use]
    pub(super) fn running_jobs(&self) -> usize {
        self.slots.running()
    }

    /// Jobs that are queued, wait for a retry, or run.
    #[must_use]
    pub(super) fn held_jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Hosts with jobs.
    #[must_use]
    #[cfg(test)]
    pub(super) fn host_count(&self) -> usize {
        self.hosts.len()
    }

    /// Hosts without jobs that are remembered.
    #[must_use]
    #[cfg(test)]
    pub(super) fn idle_host_count(&self) -> usize {
        self.idle_hosts.len()
    }

    /// Requests that a host may have at once now, for a report; `None` if it has no jobs.
    #[must_use]
    #[cfg(test)]
    pub(super) fn request_limit(&self, host: &str) -> Option<usize> {
        let key = self.host_keys.get(host)?;
        Some(self.hosts[*key].limit(&self.options))
    }

    /// Whether a host that has jobs ever responded.
    #[must_use]
    pub(super) fn host_has_answered(&self, host: &str) -> bool {
        self.host_keys
            .get(host)
            .is_some_and(|key| self.hosts[*key].last_response.is_some())
    }

    /// Adds a host that gets its first job.
    fn add_host(&mut self, name: &str, now: Duration) -> SlabKey {
        let mut idle = self.idle_hosts.take(name);
        if let Some(control) = &mut idle.control {
            control.resume(now);
        }
        let name: Arc<str> = name.into();
        let paused_until = idle.paused_until;
        let host = HostQueue::new(Arc::clone(&name), idle, &self.options);
        let key = self.hosts.insert(host);
        self.host_keys.insert(name, key);
        if paused_until > now {
            self.paused_hosts.insert((paused_until, key));
        } else {
            self.hosts[key].paused_until = Duration::ZERO;
        }
        key
    }

    /// Removes a job that has ended.
    fn remove_job(&mut self, key: SlabKey, now: Duration) -> Option<JobEntry<T>> {
        let job = self.jobs.try_remove(key)?;
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

    /// Removes a host whose last job has ended.
    fn remove_host(&mut self, key: SlabKey, now: Duration) {
        self.unlist(key);
        let Some(mut host) = self.hosts.try_remove(key) else {
            return;
        };
        self.host_keys.remove(&host.name);
        self.paused_hosts.remove(&(host.paused_until, key));
        let for_next_batch = self.idle_hosts.is_for_next_batch();
        if let Some(idle) = host.take_idle_state(for_next_batch, now) {
            self.idle_hosts.insert(host.name, idle);
        }
    }

    /// Moves a host to the list in which it should be now; `after_own_job`: to the front, if its turn goes on.
    fn update_list(&mut self, key: SlabKey, after_own_job: bool, now: Duration) {
        let host = &mut self.hosts[key];
        if host.needs_control(&self.options) {
            host.get_or_create_control(&self.options, now);
        }
        let list = host.eligible_list(&self.options, now);
        let to_front = after_own_job && host.continues_turn();
        if list == host.list && !to_front {
            return;
        }
        self.unlist(key);
        self.hosts[key].list = list;
        let Some(list) = list else {
            return;
        };
        let hosts = match list {
            HostList::Ready => &mut self.ready,
            HostList::Untried => &mut self.untried,
            HostList::HalfOpen => &mut self.half_open,
            HostList::CircuitOpen => &mut self.circuit_open,
        };
        if to_front {
            hosts.push_front(&mut self.hosts, key);
        } else {
            hosts.push_back(&mut self.hosts, key);
        }
    }

    /// Takes a host out of the list that it is in.
    fn unlist(&mut self, key: SlabKey) {
        let list = match self.hosts[key].list.take() {
            Some(HostList::Ready) => &mut self.ready,
            Some(HostList::Untried) => &mut self.untried,
            Some(HostList::HalfOpen) => &mut self.half_open,
            Some(HostList::CircuitOpen) => &mut self.circuit_open,
            None => return,
        };
        list.remove(&mut self.hosts, key);
    }
}

#[cfg(test)]
mod tests;
