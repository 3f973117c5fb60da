//! How many requests run in all, and which of them take no slot.
//!
//! A request that waits long for its response is *overdue*: it no longer takes a slot, so that the slot is free for a request
//! that may get a response. How long is long? A second, for a host that has responded before. For an untried host a little
//! more than the others took: with one host in twenty dead and a tenth of a second for each of the others, waiting a second
//! for the dead would cost half as much time as all the living together.
//!
//! An overdue request takes a slot again as soon as its response begins. So for a moment more slots may be in use than there
//! are, but never more than slots and overdue requests together, and nothing new begins until there are fewer.

use std::time::Duration;

use slab::Slab;

use super::job_entry::{JobEntry, JobStage};
use super::options::JobDispatcherOptions;
use super::slab_list::{SlabKey, SlabList};

/// The least time that a request to an untried host may wait in its slot: a busy moment on either side is nothing.
const MIN_WAIT: Duration = Duration::from_millis(10);

/// The longest time that any request may wait in its slot.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// A request to an untried host is overdue after this multiple of the usual time: a larger multiple costs much, and a request
/// that is overdue by mistake loses nothing.
const OVERDUE_FACTOR: f64 = 1.25;

/// Weight of a new measurement of the usual time.
const AVERAGE_WEIGHT: f64 = 1.0 / 16.0;

/// The slots, and the requests that take one.
#[derive(Debug)]
pub(super) struct RequestSlots {
    /// Slots in all.
    total: usize,
    /// The user's limit on jobs at once.
    max_jobs: Option<usize>,
    max_overdue: usize,
    /// Slots that requests to untried hosts may take.
    max_untried: usize,
    /// Requests that take a slot.
    used: usize,
    /// Requests that are overdue.
    overdue: usize,
    /// Requests that find out whether a half-open host can be reached.
    probes: usize,
    /// Requests to untried hosts that await their response in a slot, the oldest first.
    awaiting_untried: SlabList,
    /// How many those are.
    untried: usize,
    /// Requests to other hosts that await their response in a slot, the oldest first.
    awaiting_tried: SlabList,
    /// Seconds that untried hosts usually take to respond.
    typical_wait: Option<f64>,
}

impl RequestSlots {
    pub(super) fn new(options: &JobDispatcherOptions) -> Self {
        Self {
            total: options.request_slots.max(1),
            max_jobs: options.max_jobs.map(|jobs| jobs.max(1)),
            max_overdue: options.max_overdue,
            max_untried: options.untried_host_slots.max(1),
            used: 0,
            overdue: 0,
            probes: 0,
            awaiting_untried: SlabList::default(),
            untried: 0,
            awaiting_tried: SlabList::default(),
            typical_wait: None,
        }
    }

    pub(super) fn running(&self) -> usize {
        self.used + self.overdue
    }

    fn may_run_one_more(&self) -> bool {
        self.max_jobs.is_none_or(|jobs| self.running() < jobs)
    }

    /// Whether a slot is free for a request to a host that has been `tried`, or to one that has not. Takes the slots of
    /// overdue requests if need be.
    pub(super) fn make_room<T>(
        &mut self,
        jobs: &mut Slab<JobEntry<T>>,
        tried: bool,
        now: Duration,
    ) -> bool {
        if !self.may_run_one_more() {
            return false;
        }
        while self.is_full(tried) && self.release_overdue(jobs, now) {}
        !self.is_full(tried)
    }

    fn is_full(&self, tried: bool) -> bool {
        self.used >= self.total || (!tried && self.untried >= self.max_untried)
    }

    pub(super) fn has_free_slot(&self) -> bool {
        self.may_run_one_more() && self.used < self.total
    }

    /// The stage in which a job may try a half-open host now: overdue from the start where that is possible. `is_alone`: no
    /// other host has a job that may run.
    pub(super) fn stage_for_probe<T>(
        &mut self,
        jobs: &mut Slab<JobEntry<T>>,
        is_alone: bool,
        now: Duration,
    ) -> Option<JobStage> {
        if self.max_jobs.is_none() && self.max_overdue > 0 {
            let within_share =
                self.probes < self.max_overdue.div_ceil(8) || self.overdue < self.max_overdue / 2;
            let fits =
                self.overdue < self.max_overdue && self.running() < self.total + self.max_overdue;
            return (within_share && fits).then_some(JobStage::Overdue);
        }
        let slots = self.max_jobs.unwrap_or(usize::MAX).min(self.total);
        let share = if is_alone { slots / 2 } else { slots / 8 };
        let fits = self.probes < share.max(1) && self.make_room(jobs, true, now);
        fits.then_some(JobStage::AwaitingResponse)
    }

    /// Takes the slot of the request that has waited longest, if that is long enough. Returns whether it did.
    fn release_overdue<T>(&mut self, jobs: &mut Slab<JobEntry<T>>, now: Duration) -> bool {
        let Some((_, job)) = self.next_overdue(jobs).filter(|(due, _)| *due <= now) else {
            return false;
        };
        self.unlist(jobs, job);
        jobs[job].stage = JobStage::Overdue;
        self.used -= 1;
        self.overdue += 1;
        true
    }

    /// The request that is the next to be overdue, and when.
    fn next_overdue<T>(&self, jobs: &Slab<JobEntry<T>>) -> Option<(Duration, SlabKey)> {
        // The last eighth is for jobs that try half-open hosts.
        if self.overdue >= self.max_overdue - self.max_overdue / 8 {
            return None;
        }
        let oldest = |list: &SlabList, max_wait| {
            let job = list.front()?;
            Some((jobs[job].started_or_due.saturating_add(max_wait), job))
        };
        let untried = oldest(&self.awaiting_untried, self.max_untried_wait());
        let tried = oldest(&self.awaiting_tried, MAX_WAIT);
        untried.into_iter().chain(tried).min()
    }

    /// When a slot becomes free without an event, for a request to a host that has been `tried` or not.
    pub(super) fn next_room_at<T>(
        &self,
        jobs: &Slab<JobEntry<T>>,
        tried: bool,
    ) -> Option<Duration> {
        let would_help = self.may_run_one_more() && self.is_full(tried);
        self.next_overdue(jobs)
            .filter(|_| would_help)
            .map(|(due, _)| due)
    }

    /// How long a request to an untried host may wait in its slot.
    pub(super) fn max_untried_wait(&self) -> Duration {
        self.typical_wait.map_or(MAX_WAIT, |typical| {
            Duration::from_secs_f64(typical * OVERDUE_FACTOR).clamp(MIN_WAIT, MAX_WAIT)
        })
    }

    pub(super) fn job_started<T>(&mut self, jobs: &mut Slab<JobEntry<T>>, key: SlabKey) {
        let job = &jobs[key];
        self.probes += usize::from(job.is_probe);
        if job.stage == JobStage::Overdue {
            self.overdue += 1;
            return;
        }
        self.used += 1;
        let list = if job.host_untried {
            self.untried += 1;
            &mut self.awaiting_untried
        } else {
            &mut self.awaiting_tried
        };
        list.push_back(jobs, key);
    }

    /// The response to a job's request begins.
    pub(super) fn job_responded<T>(
        &mut self,
        jobs: &mut Slab<JobEntry<T>>,
        key: SlabKey,
        now: Duration,
    ) {
        if jobs[key].host_untried {
            let waited = now.saturating_sub(jobs[key].started_or_due);
            let seconds = waited.min(MAX_WAIT).as_secs_f64();
            let typical = self.typical_wait.unwrap_or(seconds);
            self.typical_wait = Some(typical + AVERAGE_WEIGHT * (seconds - typical));
        }
        self.job_finished(jobs, key);
        self.used += 1;
        jobs[key].stage = JobStage::Responding;
    }

    pub(super) fn job_finished<T>(&mut self, jobs: &mut Slab<JobEntry<T>>, key: SlabKey) {
        if std::mem::take(&mut jobs[key].is_probe) {
            self.probes -= 1;
        }
        match jobs[key].stage {
            JobStage::Overdue => self.overdue -= 1,
            JobStage::AwaitingResponse => {
                self.unlist(jobs, key);
                self.used -= 1;
            }
            _ => self.used -= 1,
        }
    }

    /// Takes a request that awaits its response in a slot out of its list.
    fn unlist<T>(&mut self, jobs: &mut Slab<JobEntry<T>>, key: SlabKey) {
        let list = if jobs[key].host_untried {
            self.untried -= 1;
            &mut self.awaiting_untried
        } else {
            &mut self.awaiting_tried
        };
        list.remove(jobs, key);
    }
}
