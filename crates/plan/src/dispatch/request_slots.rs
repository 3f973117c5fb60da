//! How many jobs run in all, and which of them have no place.
//!
//! A job that connects for long is in *limbo*: it takes no place any more, so that a place comes free for one that may be
//! answered. How long is long? A second, for a host that has answered before. For one that nobody knows it is a little more
//! than what the others took: with one host in twenty dead and a tenth of a second for each of the others, a second of
//! patience would cost half as much as all the living together.
//!
//! A job in limbo that is answered takes a place again, at once. So the places in use may for a moment be more than the
//! total, but never more than total and limbo together, and nothing new begins until they are fewer.

use std::time::Duration;

use super::job_entry::{JobEntry, JobStage};
use super::options::JobDispatcherOptions;
use super::slab_list::{Slab, SlabKey, SlabList};

/// How long a job may be without an answer and keep its place: at least, for a busy moment on either side is nothing; and at most.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// So many times what unknown hosts usually take: much more costs much, and whoever is in limbo by mistake loses nothing.
const OVERDUE_FACTOR: f64 = 1.25;

/// Weight of a new measurement of what is usual.
const WEIGHT: f64 = 1.0 / 16.0;

/// The places.
#[derive(Debug)]
pub(super) struct RequestSlots {
    /// Jobs that are answered, or may be soon.
    total: usize,
    /// Jobs in all, if the user said so.
    max_jobs: Option<usize>,
    /// Jobs in limbo at most.
    max_overdue: usize,
    /// Places at most of jobs whose host has never answered.
    max_untried: usize,
    /// Jobs that have a place.
    used: usize,
    /// Jobs in limbo.
    overdue: usize,
    /// Jobs that try whether a suspect host can be reached.
    probes: usize,
    /// Jobs with a place whose host has never answered, the oldest first; and how many.
    awaiting_untried: SlabList,
    untried: usize,
    /// Those whose host has.
    awaiting_tried: SlabList,
    /// Seconds that unknown hosts take to answer.
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

    /// Whether a place is free for a job whose host is `known`, or is not. Where only these limits are in the way, one that has
    /// waited for long leaves its own.
    pub(super) fn make_room<T>(
        &mut self,
        jobs: &mut Slab<JobEntry<T>>,
        known: bool,
        now: Duration,
    ) -> bool {
        if !self.may_run_one_more() {
            return false;
        }
        while self.is_full(known) && self.release_overdue(jobs, now) {}
        !self.is_full(known)
    }

    fn is_full(&self, known: bool) -> bool {
        self.used >= self.total || (!known && self.untried >= self.max_untried)
    }

    /// Whether places are free as it is.
    pub(super) fn has_free_slot(&self) -> bool {
        self.may_run_one_more() && self.used < self.total
    }

    /// Whether, and where, a job may try a suspect host: in limbo from the start if that is possible. `alone`: nothing else is
    /// there to run.
    pub(super) fn stage_for_probe<T>(
        &mut self,
        jobs: &mut Slab<JobEntry<T>>,
        alone: bool,
        now: Duration,
    ) -> Option<JobStage> {
        if self.max_jobs.is_none() && self.max_overdue > 0 {
            let own =
                self.probes < self.max_overdue.div_ceil(8) || self.overdue < self.max_overdue / 2;
            let fits =
                self.overdue < self.max_overdue && self.running() < self.total + self.max_overdue;
            return (own && fits).then_some(JobStage::Overdue);
        }
        let most = self.max_jobs.unwrap_or(usize::MAX).min(self.total);
        let share = if alone { most / 2 } else { most / 8 };
        let fits = self.probes < share.max(1) && self.make_room(jobs, true, now);
        fits.then_some(JobStage::AwaitingResponse)
    }

    /// Lets the job that has waited longest for its answer part with its place, if it has waited for long.
    fn release_overdue<T>(&mut self, jobs: &mut Slab<JobEntry<T>>, now: Duration) -> bool {
        let Some((_, id)) = self.next_overdue(jobs).filter(|(due, _)| *due <= now) else {
            return false;
        };
        self.unlist(jobs, id);
        jobs[id].stage = JobStage::Overdue;
        self.used -= 1;
        self.overdue += 1;
        true
    }

    /// The job that is next to go into limbo, and when.
    fn next_overdue<T>(&self, jobs: &Slab<JobEntry<T>>) -> Option<(Duration, SlabKey)> {
        // The rest is for jobs that try suspect hosts.
        if self.overdue >= self.max_overdue - self.max_overdue / 8 {
            return None;
        }
        let due = |list: &SlabList, patience| {
            let id = list.front()?;
            Some((jobs[id].started_or_due.saturating_add(patience), id))
        };
        let cold = due(&self.awaiting_untried, self.max_untried_wait());
        let warm = due(&self.awaiting_tried, PATIENCE.1);
        cold.into_iter().chain(warm).min()
    }

    /// When a place comes free by itself for a job whose host is `known`, or is not.
    pub(super) fn next_room_at<T>(
        &self,
        jobs: &Slab<JobEntry<T>>,
        known: bool,
    ) -> Option<Duration> {
        let full = self.may_run_one_more() && self.is_full(known);
        self.next_overdue(jobs).filter(|_| full).map(|(due, _)| due)
    }

    /// How long a job may be without an answer, if its host has never given one, until that is unusual.
    pub(super) fn max_untried_wait(&self) -> Duration {
        let (least, most) = PATIENCE;
        self.typical_wait.map_or(most, |usual| {
            Duration::from_secs_f64(usual * OVERDUE_FACTOR).clamp(least, most)
        })
    }

    /// A job begins.
    pub(super) fn job_started<T>(&mut self, jobs: &mut Slab<JobEntry<T>>, id: SlabKey) {
        let job = &jobs[id];
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
        list.push_back(jobs, id);
    }

    /// A job is answered.
    pub(super) fn job_responded<T>(
        &mut self,
        jobs: &mut Slab<JobEntry<T>>,
        id: SlabKey,
        now: Duration,
    ) {
        if jobs[id].host_untried {
            let took = now.saturating_sub(jobs[id].started_or_due).as_secs_f64();
            let took = took.min(PATIENCE.1.as_secs_f64());
            let usual = self.typical_wait.unwrap_or(took);
            self.typical_wait = Some(usual + WEIGHT * (took - usual));
        }
        self.job_finished(jobs, id);
        self.used += 1;
        jobs[id].stage = JobStage::Responding;
    }

    /// A job ends.
    pub(super) fn job_finished<T>(&mut self, jobs: &mut Slab<JobEntry<T>>, id: SlabKey) {
        if std::mem::take(&mut jobs[id].is_probe) {
            self.probes -= 1;
        }
        match jobs[id].stage {
            JobStage::Overdue => self.overdue -= 1,
            JobStage::AwaitingResponse => {
                self.unlist(jobs, id);
                self.used -= 1;
            }
            _ => self.used -= 1,
        }
    }

    /// Takes a connecting job out of its list.
    fn unlist<T>(&mut self, jobs: &mut Slab<JobEntry<T>>, id: SlabKey) {
        let list = if jobs[id].host_untried {
            self.untried -= 1;
            &mut self.awaiting_untried
        } else {
            &mut self.awaiting_tried
        };
        list.remove(jobs, id);
    }
}
