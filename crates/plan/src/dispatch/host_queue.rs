//! One host: its queue, its places, and whether its turn may come.
//!
//! A host that is merely queued is this and its name, and no more; a [`HostControl`] is made for those that have more jobs
//! than the few places that everybody gets.

use std::sync::Arc;
use std::time::Duration;

use super::host_control::{HostControl, INITIAL_REQUESTS};
use super::host_health::HostHealth;
use super::idle_hosts::IdleHost;
use super::options::{HostRequestLimit, JobDispatcherOptions};
use super::slab_list::{ListLinks, ListNode, SlabList};

/// Jobs in a row that a host keeps its places for before others' turn comes: its connections are warm, and making one costs about
/// as much as three small files.
const TURN_JOBS: u16 = 16;

/// Large jobs of a host that share one of its places: they bring their own connections, and whatever they are, small ones
/// go on beside them. Each one beyond takes a place: more files at once than this only make each of them late.
const LARGE_FILES_PER_SLOT: u32 = 4;

/// The list that a host stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostList {
    /// One of its jobs may run, and it has answered.
    Ready,
    /// One of its jobs may run, and nobody has heard of it.
    Untried,
    /// One of its jobs may try whether it can be reached.
    HalfOpen,
    /// Its jobs are refused.
    CircuitOpen,
}

/// What is known of a host with jobs.
#[derive(Debug)]
pub(super) struct HostQueue {
    /// What the driver calls it.
    pub(super) name: Arc<str>,
    /// Its neighbours in the list that it stands in.
    links: ListLinks,
    /// Which list that is.
    pub(super) list: Option<HostList>,
    /// Jobs that were never tried.
    pub(super) new_jobs: SlabList,
    /// Jobs that are due to be tried again.
    pub(super) due_retries: SlabList,
    /// Jobs that will be.
    pub(super) waiting_retries: SlabList,
    /// Jobs in all, running or not.
    pub(super) held_jobs: u32,
    /// Jobs under way.
    pub(super) running_jobs: u32,
    /// How many of those are large.
    pub(super) large_files: u32,
    /// Streams that it allows on a connection; 0 where it does not multiplex.
    pub(super) max_streams: u32,
    /// When it was last heard of.
    pub(super) last_response: Option<Duration>,
    /// When the first of the jobs under way began.
    busy_since: Duration,
    /// Whether it has never answered, and is longer about it than usual.
    pub(super) unresponsive: bool,
    /// Whether it can be reached.
    pub(super) health: HostHealth,
    /// Until when nothing should be asked; zero if anything may.
    pub(super) paused_until: Duration,
    /// How many at once; none while that is the same as for everybody.
    pub(super) control: Option<Box<HostControl>>,
    /// Jobs begun in this turn.
    jobs_this_turn: u16,
    /// Places that a job of its own has just left.
    freed_slots: u16,
}

impl ListNode for HostQueue {
    fn links(&mut self) -> &mut ListLinks {
        &mut self.links
    }
}

impl HostQueue {
    pub(super) fn new(name: Arc<str>, known: IdleHost) -> Self {
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
            max_streams: 0,
            last_response: None,
            busy_since: Duration::ZERO,
            unresponsive: false,
            health: known.health,
            paused_until: known.paused_until,
            control: known.control,
            jobs_this_turn: 0,
            freed_slots: 0,
        }
    }

    /// What outlasts its last job, if anything does.
    pub(super) fn to_idle(&mut self, now: Duration) -> Option<IdleHost> {
        let control = self.control.take();
        let known = IdleHost {
            health: self.health,
            control: control.filter(|control| control.is_worth_keeping()),
            paused_until: if self.paused_until > now {
                self.paused_until
            } else {
                Duration::ZERO
            },
        };
        let any =
            !known.health.is_healthy() || known.control.is_some() || !known.paused_until.is_zero();
        any.then_some(known)
    }

    /// Requests that it may have at once.
    pub(super) fn limit(&self, options: &JobDispatcherOptions) -> usize {
        match (&self.control, options.per_host) {
            (Some(control), _) => control.target(),
            (None, HostRequestLimit::Fixed(number)) => number.max(1),
            (None, HostRequestLimit::Auto { .. }) => self.max_limit(options).min(INITIAL_REQUESTS),
        }
    }

    /// The most that this can become.
    fn max_limit(&self, options: &JobDispatcherOptions) -> usize {
        match options.per_host {
            HostRequestLimit::Auto { .. } if self.max_streams > 0 => {
                options.max_streams.min(self.max_streams as usize).max(1)
            }
            limit => limit.max(),
        }
    }

    /// Places in use.
    pub(super) fn used_slots(&self) -> usize {
        let shared =
            self.large_files.min(1) + self.large_files.saturating_sub(LARGE_FILES_PER_SLOT);
        (self.running_jobs - self.large_files + shared) as usize
    }

    /// Whether its jobs may all be waiting for nothing: nobody has ever reached it. One that has answered may come back.
    pub(super) fn is_unreached(&self) -> bool {
        self.health.is_half_open() && self.last_response.is_none()
    }

    /// Which list it should stand in.
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
            (self.running_jobs == 0).then_some(HostList::HalfOpen)
        } else {
            let ready = match self.last_response {
                Some(_) => HostList::Ready,
                None => HostList::Untried,
            };
            (self.used_slots() < self.limit(options)).then_some(ready)
        }
    }

    /// Whether a number that is never met may be one of slow answers: large files end late, and say nothing of it.
    pub(super) fn has_few_large_files(&self) -> bool {
        self.large_files <= LARGE_FILES_PER_SLOT
    }

    /// The control, made when it is first of use.
    pub(super) fn get_or_create_control(
        &mut self,
        options: &JobDispatcherOptions,
        now: Duration,
    ) -> &mut HostControl {
        let most = self.max_limit(options);
        let fixed = matches!(options.per_host, HostRequestLimit::Fixed(_));
        let multiplexes = self.max_streams > 0;
        self.control.get_or_insert_with(|| {
            let mut control = HostControl::new(most, fixed, now);
            if multiplexes {
                control.jump_to_max(now);
            }
            Box::new(control)
        })
    }

    /// More jobs wait than a host gets places unasked: what it can do is worth finding out.
    pub(super) fn needs_control(&self, options: &JobDispatcherOptions) -> bool {
        matches!(options.per_host, HostRequestLimit::Auto { .. })
            && self.control.is_none()
            && self.held_jobs as usize > INITIAL_REQUESTS
            && self.health.is_healthy()
    }

    /// It answered over so many streams on one connection.
    pub(super) fn set_max_streams(
        &mut self,
        streams: Option<usize>,
        options: &JobDispatcherOptions,
        now: Duration,
    ) {
        let streams = streams.map_or(0, |streams| {
            u32::try_from(streams).unwrap_or(u32::MAX).max(1)
        });
        if streams == self.max_streams {
            return;
        }
        let news = self.max_streams == 0;
        self.max_streams = streams;
        let most = self.max_limit(options);
        if let Some(control) = &mut self.control {
            control.set_max(most, now);
            if news {
                control.jump_to_max(now);
            } else if streams == 0 {
                // As many connections would be another thing.
                control.restart(now);
            }
        }
    }

    /// Whether it has never answered, and has been asked for longer than that should take.
    pub(super) fn is_slow_to_respond(&self, patience: Duration, now: Duration) -> bool {
        let asked = self.running_jobs > 0 && self.last_response.is_none();
        asked && now.saturating_sub(self.busy_since) > patience
    }

    /// One of its jobs begins.
    pub(super) fn job_started(&mut self, now: Duration) {
        if self.running_jobs == 0 {
            self.busy_since = now;
        }
        self.running_jobs += 1;
        self.jobs_this_turn = self.jobs_this_turn.saturating_add(1);
        self.freed_slots = self.freed_slots.saturating_sub(1);
    }

    /// One of its jobs has left its place: to the next of its own, unless the turn is over.
    pub(super) fn job_finished(&mut self) {
        self.running_jobs -= 1;
        self.unresponsive &= self.running_jobs > 0;
        if self.jobs_this_turn >= TURN_JOBS {
            (self.jobs_this_turn, self.freed_slots) = (0, 0);
        } else {
            self.freed_slots = self.freed_slots.saturating_add(1);
        }
    }

    /// Whether it goes on before others.
    pub(super) fn continues_turn(&self) -> bool {
        self.freed_slots > 0 && self.jobs_this_turn < TURN_JOBS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(running: u32, large: u32) -> HostQueue {
        let mut host = HostQueue::new("http://a.test:80".into(), IdleHost::default());
        (host.running_jobs, host.large_files) = (running, large);
        host
    }

    #[test]
    fn four_large_jobs_share_a_place() {
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
    fn the_limit_is_what_the_protocol_allows_and_a_number_of_the_user_stays() {
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
