//! One host: its queued jobs, its running requests, and whether its turn may come.
//!
//! A host that is merely queued needs this struct and its name, and no more. A [`HostControl`] is made only for a host with
//! more jobs than the few requests that every host gets.

use std::sync::Arc;
use std::time::Duration;

use super::host_control::{HostControl, INITIAL_REQUESTS};
use super::host_health::HostHealth;
use super::idle_hosts::IdleHost;
use super::options::{HostRequestLimit, JobDispatcherOptions};
use super::request_rate::HostRequestRate;
use super::slab_list::{ListLinks, ListNode, SlabList};

/// Jobs in a row that a host runs before the turn of other hosts comes: its connections are warm, and making one costs about
/// as much as three small files.
const TURN_JOBS: u16 = 16;

/// Large files of a host that share one of its requests: they have connections of their own, and small files go on
/// meanwhile. Each large file beyond this number counts as a request: more of them at once only make each of them late.
const LARGE_FILES_PER_SLOT: u32 = 4;

/// The list that a host is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostList {
    /// One of its jobs may run, and the host has responded before.
    Ready,
    /// One of its jobs may run, and the host has never responded.
    Untried,
    /// One of its jobs may find out whether the host can be reached.
    HalfOpen,
    /// Its jobs are rejected.
    CircuitOpen,
}

/// A host with jobs.
#[derive(Debug)]
pub(super) struct HostQueue {
    pub(super) name: Arc<str>,
    links: ListLinks,
    /// The list that the host is in.
    pub(super) list: Option<HostList>,
    /// Jobs that were never tried.
    pub(super) new_jobs: SlabList,
    /// Jobs whose next try is due.
    pub(super) due_retries: SlabList,
    /// Jobs whose next try is not due yet.
    pub(super) waiting_retries: SlabList,
    /// All jobs, running or not.
    pub(super) held_jobs: u32,
    pub(super) running_jobs: u32,
    /// How many of the running jobs are large files.
    pub(super) large_files: u32,
    /// Streams that the host allows on a connection; 0 where it does not multiplex.
    pub(super) max_streams: u32,
    /// When the host last responded.
    pub(super) last_response: Option<Duration>,
    /// Whether the host has ever responded with anything but a refusal.
    pub(super) has_granted: bool,
    /// When the host's jobs began to run; at least one has been running since.
    busy_since: Duration,
    /// Whether the host has never responded and takes longer than untried hosts usually do.
    pub(super) unresponsive: bool,
    pub(super) health: HostHealth,
    /// Until when the host gets no request; zero if it may get one.
    pub(super) paused_until: Duration,
    /// Finds the number of requests; `None` while that is the same as for every host.
    pub(super) control: Option<Box<HostControl>>,
    /// Counts requests a second, if their number is limited.
    pub(super) request_rate: Option<Box<HostRequestRate>>,
    /// Jobs begun in this turn.
    jobs_this_turn: u16,
    /// Requests that have ended and whose connections are free for the next job.
    freed_slots: u16,
}

impl ListNode for HostQueue {
    fn links(&mut self) -> &mut ListLinks {
        &mut self.links
    }
}

impl HostQueue {
    pub(super) fn new(name: Arc<str>, idle: IdleHost, options: &JobDispatcherOptions) -> Self {
        let request_rate = options.rate_per_host.map(|rate| {
            let counted = idle.request_rate.filter(|counted| counted.rate() == rate);
            counted.unwrap_or_else(|| Box::new(HostRequestRate::new(rate)))
        });
        Self {
            name,
            links: ListLinks::default(),
            list: None,
            new_jobs: SlabList::default(),
            due_retries: SlabList::default(),
            waiting_retries: SlabList::default(),
            held_jobs: 0,
            running_jobs: 0,
            large_files: 0,
            max_streams: idle.max_streams,
            last_response: None,
            has_granted: false,
            busy_since: Duration::ZERO,
            unresponsive: false,
            health: idle.health,
            paused_until: idle.paused_until,
            control: idle.control,
            request_rate,
            jobs_this_turn: 0,
            freed_slots: 0,
        }
    }

    /// The state to remember after the last job, if any is worth it. `for_next_batch`: the number of
    /// requests is, too.
    pub(super) fn take_idle_state(
        &mut self,
        for_next_batch: bool,
        now: Duration,
    ) -> Option<IdleHost> {
        let control = self.control.take().filter(|control| {
            control.is_limited_by_refusals() || (for_next_batch && control.has_learned())
        });
        let max_streams = control.as_ref().map_or(0, |_| self.max_streams);
        let idle = IdleHost {
            health: self.health,
            control,
            max_streams,
            paused_until: if self.paused_until > now {
                self.paused_until
            } else {
                Duration::ZERO
            },
            request_rate: self.request_rate.take().filter(|rate| !rate.is_full(now)),
        };
        let is_worth_keeping = !idle.health.is_healthy()
            || idle.control.is_some()
            || idle.request_rate.is_some()
            || !idle.paused_until.is_zero();
        is_worth_keeping.then_some(idle)
    }

    /// Requests that the host may have at once.
    pub(super) fn limit(&self, options: &JobDispatcherOptions) -> usize {
        match (&self.control, options.per_host) {
            (Some(control), _) => control.target(),
            (None, HostRequestLimit::Fixed(number)) => number.max(1),
            (None, HostRequestLimit::Auto { .. }) => self.max_limit(options).min(INITIAL_REQUESTS),
        }
    }

    /// The highest number that [`limit`](Self::limit) can become.
    fn max_limit(&self, options: &JobDispatcherOptions) -> usize {
        match options.per_host {
            HostRequestLimit::Auto { .. } if self.max_streams > 0 => {
                options.max_streams.min(self.max_streams as usize).max(1)
            }
            limit => limit.max(),
        }
    }

    /// How much of [`limit`](Self::limit) is in use.
    pub(super) fn used_slots(&self) -> usize {
        let large = self.large_files.min(1) + self.large_files.saturating_sub(LARGE_FILES_PER_SLOT);
        (self.running_jobs - self.large_files + large) as usize
    }

    /// Whether the host has failed and never responded, so that its jobs may wait in vain. A host that has responded may come back.
    pub(super) fn is_unreached(&self) -> bool {
        self.health.is_half_open() && self.last_response.is_none()
    }

    /// The list that the host should be in.
    pub(super) fn eligible_list(
        &self,
        options: &JobDispatcherOptions,
        now: Duration,
    ) -> Option<HostList> {
        if self.unresponsive || (self.new_jobs.is_empty() && self.due_retries.is_empty()) {
            None
        } else if self.health.is_open() {
            Some(HostList::CircuitOpen)
        } else if self.paused_until > now {
            None
        } else if self.health.is_half_open() {
            let list = if self.health.refuses_everything() {
                // Its response comes soon, so it need not queue behind hosts whose connections may time out.
                HostList::Ready
            } else {
                HostList::HalfOpen
            };
            (self.running_jobs == 0).then_some(list)
        } else {
            let list = match self.last_response {
                Some(_) => HostList::Ready,
                None => HostList::Untried,
            };
            (self.used_slots() < self.limit(options)).then_some(list)
        }
    }

    /// Whether slow ends of jobs say something about the number of requests: large files end late anyway.
    pub(super) fn has_few_large_files(&self) -> bool {
        self.large_files <= LARGE_FILES_PER_SLOT
    }

    pub(super) fn get_or_create_control(
        &mut self,
        options: &JobDispatcherOptions,
        now: Duration,
    ) -> &mut HostControl {
        let max = self.max_limit(options);
        let is_fixed = matches!(options.per_host, HostRequestLimit::Fixed(_));
        let multiplexes = self.max_streams > 0;
        self.control.get_or_insert_with(|| {
            let mut control = HostControl::new(max, is_fixed, now);
            if multiplexes {
                control.jump_to_max(now);
            }
            Box::new(control)
        })
    }

    /// Whether more jobs wait than every host gets requests, so that the host's own number is worth finding.
    pub(super) fn needs_control(&self, options: &JobDispatcherOptions) -> bool {
        matches!(options.per_host, HostRequestLimit::Auto { .. })
            && self.control.is_none()
            && self.held_jobs as usize > INITIAL_REQUESTS
            && self.health.is_healthy()
    }

    /// Takes the number of streams that the connection of a response allows; `None` if it does not multiplex.
    pub(super) fn set_max_streams(
        &mut self,
        max_streams: Option<usize>,
        options: &JobDispatcherOptions,
        now: Duration,
    ) {
        let max_streams = max_streams.map_or(0, |streams| {
            u32::try_from(streams).unwrap_or(u32::MAX).max(1)
        });
        if max_streams == self.max_streams {
            return;
        }
        let is_new = self.max_streams == 0;
        self.max_streams = max_streams;
        let max = self.max_limit(options);
        if let Some(control) = &mut self.control {
            control.set_max(max, now);
            if is_new {
                control.jump_to_max(now);
            } else if max_streams == 0 {
                // A number of streams says nothing about the number of connections.
                control.restart(now);
            }
        }
    }

    /// Whether the host has never responded and has had a request for longer than `max_wait`.
    pub(super) fn is_slow_to_respond(&self, max_wait: Duration, now: Duration) -> bool {
        let awaits_first = self.running_jobs > 0 && self.last_response.is_none();
        awaits_first && now.saturating_sub(self.busy_since) > max_wait
    }

    pub(super) fn job_started(&mut self, now: Duration) {
        if self.running_jobs == 0 {
            self.busy_since = now;
        }
        self.running_jobs += 1;
        self.jobs_this_turn = self.jobs_this_turn.saturating_add(1);
        self.freed_slots = self.freed_slots.saturating_sub(1);
    }

    /// Frees the connection of a job for the next job of this host, unless the turn is over.
    pub(super) fn job_finished(&mut self) {
        self.running_jobs -= 1;
        self.unresponsive &= self.running_jobs > 0;
        if self.jobs_this_turn >= TURN_JOBS {
            (self.jobs_this_turn, self.freed_slots) = (0, 0);
        } else {
            self.freed_slots = self.freed_slots.saturating_add(1);
        }
    }

    /// Whether the host's turn goes on before those of others: it has free connections.
    pub(super) fn continues_turn(&self) -> bool {
        self.freed_slots > 0 && self.jobs_this_turn < TURN_JOBS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(running_jobs: u32, large_files: u32) -> HostQueue {
        let options = JobDispatcherOptions::default();
        let mut host = HostQueue::new("http://a.test:80".into(), IdleHost::default(), &options);
        (host.running_jobs, host.large_files) = (running_jobs, large_files);
        host
    }

    #[test]
    fn four_large_files_share_a_slot() {
        let used = |running, large| host(running, large).used_slots();
        assert_eq!(used(3, 0), 3);
        assert_eq!(used(3, 1), 3);
        assert_eq!(used(3, 2), 2);
        assert_eq!(used(4, 4), 1);
        assert_eq!(used(6, 6), 3);
    }

    #[test]
    fn a_host_that_is_merely_queued_is_small() {
        assert!(size_of::<HostQueue>() < 200, "{}", size_of::<HostQueue>());
    }

    #[test]
    fn the_limit_follows_the_protocol_unless_the_user_fixed_it() {
        let options = JobDispatcherOptions::default();
        let mut host = host(0, 0);
        assert_eq!((host.limit(&options), host.max_limit(&options)), (4, 128));
        host.set_max_streams(Some(30), &options, Duration::ZERO);
        assert_eq!(host.max_limit(&options), 30);
        host.set_max_streams(Some(1000), &options, Duration::ZERO);
        assert_eq!(host.max_limit(&options), 256);
        host.set_max_streams(Some(0), &options, Duration::ZERO);
        assert_eq!((host.limit(&options), host.max_limit(&options)), (1, 1));
        let fixed = JobDispatcherOptions {
            per_host: HostRequestLimit::Fixed(7),
            ..options
        };
        assert_eq!((host.limit(&fixed), host.max_limit(&fixed)), (7, 7));
    }
}
