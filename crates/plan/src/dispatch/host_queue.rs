//! One host: its queue, its places, and whether its turn may come.
//!
//! A host that is merely queued is this and its name, and no more; a [`HostControl`] is made for those that have more jobs
//! than the few places that everybody gets.

use std::sync::Arc;
use std::time::Duration;

use super::host_control::{HostControl, START};
use super::host_health::HostHealth;
use super::idle_hosts::IdleHost;
use super::options::{HostRequestLimit, JobDispatcherOptions};
use super::slab_list::{ListLinks, ListNode, SlabList};

/// Jobs in a row that a host keeps its places for before others' turn comes: its connections are warm, and making one costs about
/// as much as three small files.
const TURN: u16 = 16;

/// Large jobs of a host that share one of its places: they bring their own connections, and whatever they are, small ones
/// go on beside them. Each one beyond takes a place: more files at once than this only make each of them late.
const SHARE: u32 = 4;

/// The list that a host stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostList {
    /// One of its jobs may run, and it has answered.
    Ready,
    /// One of its jobs may run, and nobody has heard of it.
    Unknown,
    /// One of its jobs may try whether it can be reached.
    Suspect,
    /// Its jobs are refused.
    Dead,
}

/// What is known of a host with jobs.
#[derive(Debug)]
pub(super) struct HostQueue {
    /// What the driver calls it.
    pub(super) name: Arc<str>,
    /// Its neighbours in the list that it stands in.
    links: ListLinks,
    /// Which list that is.
    pub(super) listed: Option<HostList>,
    /// Jobs that were never tried.
    pub(super) fresh: SlabList,
    /// Jobs that are due to be tried again.
    pub(super) due: SlabList,
    /// Jobs that will be.
    pub(super) later: SlabList,
    /// Jobs in all, running or not.
    pub(super) held: u32,
    /// Jobs under way.
    pub(super) running: u32,
    /// How many of those are large.
    pub(super) large: u32,
    /// Streams that it allows on a connection; 0 where it does not multiplex.
    pub(super) streams: u32,
    /// When it was last heard of.
    pub(super) heard: Option<Duration>,
    /// When the first of the jobs under way began.
    asked: Duration,
    /// Whether it has never answered, and is longer about it than usual.
    pub(super) silent: bool,
    /// Whether it can be reached.
    pub(super) standing: HostHealth,
    /// Until when nothing should be asked; zero if anything may.
    pub(super) rest: Duration,
    /// How many at once; none while that is the same as for everybody.
    pub(super) control: Option<Box<HostControl>>,
    /// Jobs begun in this turn.
    turn: u16,
    /// Places that a job of its own has just left.
    warm: u16,
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
            listed: None,
            fresh: SlabList::default(),
            due: SlabList::default(),
            later: SlabList::default(),
            held: 0,
            running: 0,
            large: 0,
            streams: 0,
            heard: None,
            asked: Duration::ZERO,
            silent: false,
            standing: known.standing,
            rest: known.rest,
            control: known.control,
            turn: 0,
            warm: 0,
        }
    }

    /// What outlasts its last job, if anything does.
    pub(super) fn remembered(&mut self, now: Duration) -> Option<IdleHost> {
        let control = self.control.take();
        let known = IdleHost {
            standing: self.standing,
            control: control.filter(|control| control.is_worth_keeping()),
            rest: if self.rest > now {
                self.rest
            } else {
                Duration::ZERO
            },
        };
        let any = !known.standing.is_good() || known.control.is_some() || !known.rest.is_zero();
        any.then_some(known)
    }

    /// Requests that it may have at once.
    pub(super) fn limit(&self, options: &JobDispatcherOptions) -> usize {
        match (&self.control, options.per_host) {
            (Some(control), _) => control.target(),
            (None, HostRequestLimit::Fixed(number)) => number.max(1),
            (None, HostRequestLimit::Auto { .. }) => self.most(options).min(START),
        }
    }

    /// The most that this can become.
    fn most(&self, options: &JobDispatcherOptions) -> usize {
        match options.per_host {
            HostRequestLimit::Auto { .. } if self.streams > 0 => {
                options.max_streams.min(self.streams as usize).max(1)
            }
            limit => limit.max(),
        }
    }

    /// Places in use.
    pub(super) fn used(&self) -> usize {
        let shared = self.large.min(1) + self.large.saturating_sub(SHARE);
        (self.running - self.large + shared) as usize
    }

    /// Whether its jobs may all be waiting for nothing: nobody has ever reached it. One that has answered may come back.
    pub(super) fn is_doubtful(&self) -> bool {
        self.standing.is_suspect() && self.heard.is_none()
    }

    /// Which list it should stand in.
    pub(super) fn wants(&self, options: &JobDispatcherOptions, now: Duration) -> Option<HostList> {
        if self.silent || (self.fresh.is_empty() && self.due.is_empty()) {
            None
        } else if self.standing.is_dead() {
            Some(HostList::Dead)
        } else if self.rest > now {
            None
        } else if self.standing.is_suspect() {
            (self.running == 0).then_some(HostList::Suspect)
        } else {
            let ready = match self.heard {
                Some(_) => HostList::Ready,
                None => HostList::Unknown,
            };
            (self.used() < self.limit(options)).then_some(ready)
        }
    }

    /// Whether a number that is never met may be one of slow answers: large files end late, and say nothing of it.
    pub(super) fn is_of_small_files(&self) -> bool {
        self.large <= SHARE
    }

    /// The control, made when it is first of use.
    pub(super) fn controlled(
        &mut self,
        options: &JobDispatcherOptions,
        now: Duration,
    ) -> &mut HostControl {
        let most = self.most(options);
        let fixed = matches!(options.per_host, HostRequestLimit::Fixed(_));
        let multiplexes = self.streams > 0;
        self.control.get_or_insert_with(|| {
            let mut control = HostControl::new(most, fixed, now);
            if multiplexes {
                control.leap(now);
            }
            Box::new(control)
        })
    }

    /// More jobs wait than a host gets places unasked: what it can do is worth finding out.
    pub(super) fn is_worth_controlling(&self, options: &JobDispatcherOptions) -> bool {
        matches!(options.per_host, HostRequestLimit::Auto { .. })
            && self.control.is_none()
            && self.held as usize > START
            && self.standing.is_good()
    }

    /// It answered over so many streams on one connection.
    pub(super) fn set_streams(
        &mut self,
        streams: Option<usize>,
        options: &JobDispatcherOptions,
        now: Duration,
    ) {
        let streams = streams.map_or(0, |streams| {
            u32::try_from(streams).unwrap_or(u32::MAX).max(1)
        });
        if streams == self.streams {
            return;
        }
        let news = self.streams == 0;
        self.streams = streams;
        let most = self.most(options);
        if let Some(control) = &mut self.control {
            control.set_max(most, now);
            if news {
                control.leap(now);
            } else if streams == 0 {
                // As many connections would be another thing.
                control.restart(now);
            }
        }
    }

    /// Whether it has never answered, and has been asked for longer than that should take.
    pub(super) fn is_slow_to_answer(&self, patience: Duration, now: Duration) -> bool {
        let asked = self.running > 0 && self.heard.is_none();
        asked && now.saturating_sub(self.asked) > patience
    }

    /// One of its jobs begins.
    pub(super) fn begins(&mut self, now: Duration) {
        if self.running == 0 {
            self.asked = now;
        }
        self.running += 1;
        self.turn = self.turn.saturating_add(1);
        self.warm = self.warm.saturating_sub(1);
    }

    /// One of its jobs has left its place: to the next of its own, unless the turn is over.
    pub(super) fn leaves(&mut self) {
        self.running -= 1;
        self.silent &= self.running > 0;
        if self.turn >= TURN {
            (self.turn, self.warm) = (0, 0);
        } else {
            self.warm = self.warm.saturating_add(1);
        }
    }

    /// Whether it goes on before others.
    pub(super) fn goes_on(&self) -> bool {
        self.warm > 0 && self.turn < TURN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(running: u32, large: u32) -> HostQueue {
        let mut host = HostQueue::new("http://a.test:80".into(), IdleHost::default());
        (host.running, host.large) = (running, large);
        host
    }

    #[test]
    fn four_large_jobs_share_a_place() {
        let used = |running, large| host(running, large).used();
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
        assert_eq!((host.limit(&options), host.most(&options)), (4, 128));
        host.set_streams(Some(30), &options, Duration::ZERO);
        assert_eq!(host.most(&options), 30);
        host.set_streams(Some(1000), &options, Duration::ZERO);
        assert_eq!(host.most(&options), 256);
        host.set_streams(Some(0), &options, Duration::ZERO);
        assert_eq!((host.limit(&options), host.most(&options)), (1, 1));
        let fixed = JobDispatcherOptions {
            per_host: HostRequestLimit::Fixed(7),
            ..options
        };
        assert_eq!((host.limit(&fixed), host.most(&fixed)), (7, 7));
    }
}
