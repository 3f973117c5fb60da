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

use super::options::JobDispatcherOptions;
use super::queued_job::{QueuedJob, QueuedJobStage};
use super::slab_list::{Slab, SlabKey, SlabList};

/// How long a job may be without an answer and keep its place: at least, for a busy moment on either side is nothing; and at most.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// So many times what unknown hosts usually take: much more costs much, and whoever is in limbo by mistake loses nothing.
const UNUSUAL: f64 = 1.25;

/// Weight of a new measurement of what is usual.
const WEIGHT: f64 = 1.0 / 16.0;

/// The places.
#[derive(Debug)]
pub(super) struct RequestSlots {
    /// Jobs that are answered, or may be soon.
    total: usize,
    /// Jobs in all, if the user said so.
    jobs: Option<usize>,
    /// Jobs in limbo at most.
    limbo: usize,
    /// Places at most of jobs whose host has never answered.
    unknown: usize,
    /// Jobs that have a place.
    placed: usize,
    /// Jobs in limbo.
    waiting: usize,
    /// Jobs that try whether a suspect host can be reached.
    probes: usize,
    /// Jobs with a place whose host has never answered, the oldest first; and how many.
    cold: SlabList,
    strangers: usize,
    /// Those whose host has.
    warm: SlabList,
    /// Seconds that unknown hosts take to answer.
    usual: Option<f64>,
}

impl RequestSlots {
    pub(super) fn new(options: &JobDispatcherOptions) -> Self {
        Self {
            total: options.request_slots.max(1),
            jobs: options.max_jobs.map(|jobs| jobs.max(1)),
            limbo: options.max_overdue,
            unknown: options.untried_host_slots.max(1),
            placed: 0,
            waiting: 0,
            probes: 0,
            cold: SlabList::default(),
            strangers: 0,
            warm: SlabList::default(),
            usual: None,
        }
    }

    pub(super) fn running(&self) -> usize {
        self.placed + self.waiting
    }

    fn is_allowed_one_more(&self) -> bool {
        self.jobs.is_none_or(|jobs| self.running() < jobs)
    }

    /// Whether a place is free for a job whose host is `known`, or is not. Where only these limits are in the way, one that has
    /// waited for long leaves its own.
    pub(super) fn has_room<T>(
        &mut self,
        jobs: &mut Slab<QueuedJob<T>>,
        known: bool,
        now: Duration,
    ) -> bool {
        if !self.is_allowed_one_more() {
            return false;
        }
        while self.is_full(known) && self.part(jobs, now) {}
        !self.is_full(known)
    }

    fn is_full(&self, known: bool) -> bool {
        self.placed >= self.total || (!known && self.strangers >= self.unknown)
    }

    /// Whether places are free as it is.
    pub(super) fn is_idle(&self) -> bool {
        self.is_allowed_one_more() && self.placed < self.total
    }

    /// Whether, and where, a job may try a suspect host: in limbo from the start if that is possible. `alone`: nothing else is
    /// there to run.
    pub(super) fn for_probe<T>(
        &mut self,
        jobs: &mut Slab<QueuedJob<T>>,
        alone: bool,
        now: Duration,
    ) -> Option<QueuedJobStage> {
        if self.jobs.is_none() && self.limbo > 0 {
            let own = self.probes < self.limbo.div_ceil(8) || self.waiting < self.limbo / 2;
            let fits = self.waiting < self.limbo && self.running() < self.total + self.limbo;
            return (own && fits).then_some(QueuedJobStage::Limbo);
        }
        let most = self.jobs.unwrap_or(usize::MAX).min(self.total);
        let share = if alone { most / 2 } else { most / 8 };
        let fits = self.probes < share.max(1) && self.has_room(jobs, true, now);
        fits.then_some(QueuedJobStage::Connecting)
    }

    /// Lets the job that has waited longest for its answer part with its place, if it has waited for long.
    fn part<T>(&mut self, jobs: &mut Slab<QueuedJob<T>>, now: Duration) -> bool {
        let Some((_, id)) = self.overdue(jobs).filter(|(due, _)| *due <= now) else {
            return false;
        };
        self.unlist(jobs, id);
        jobs[id].stage = QueuedJobStage::Limbo;
        self.placed -= 1;
        self.waiting += 1;
        true
    }

    /// The job that is next to go into limbo, and when.
    fn overdue<T>(&self, jobs: &Slab<QueuedJob<T>>) -> Option<(Duration, SlabKey)> {
        // The rest is for jobs that try suspect hosts.
        if self.waiting >= self.limbo - self.limbo / 8 {
            return None;
        }
        let due = |list: &SlabList, patience| {
            let id = list.front()?;
            Some((jobs[id].at.saturating_add(patience), id))
        };
        let cold = due(&self.cold, self.patience());
        let warm = due(&self.warm, PATIENCE.1);
        cold.into_iter().chain(warm).min()
    }

    /// When a place comes free by itself for a job whose host is `known`, or is not.
    pub(super) fn next_room<T>(&self, jobs: &Slab<QueuedJob<T>>, known: bool) -> Option<Duration> {
        let full = self.is_allowed_one_more() && self.is_full(known);
        self.overdue(jobs).filter(|_| full).map(|(due, _)| due)
    }

    /// How long a job may be without an answer, if its host has never given one, until that is unusual.
    pub(super) fn patience(&self) -> Duration {
        let (least, most) = PATIENCE;
        self.usual.map_or(most, |usual| {
            Duration::from_secs_f64(usual * UNUSUAL).clamp(least, most)
        })
    }

    /// A job begins.
    pub(super) fn begin<T>(&mut self, jobs: &mut Slab<QueuedJob<T>>, id: SlabKey) {
        let job = &jobs[id];
        self.probes += usize::from(job.probe);
        if job.stage == QueuedJobStage::Limbo {
            self.waiting += 1;
            return;
        }
        self.placed += 1;
        let list = if job.cold {
            self.strangers += 1;
            &mut self.cold
        } else {
            &mut self.warm
        };
        list.push_back(jobs, id);
    }

    /// A job is answered.
    pub(super) fn answer<T>(&mut self, jobs: &mut Slab<QueuedJob<T>>, id: SlabKey, now: Duration) {
        if jobs[id].cold {
            let took = now.saturating_sub(jobs[id].at).as_secs_f64();
            let took = took.min(PATIENCE.1.as_secs_f64());
            let usual = self.usual.unwrap_or(took);
            self.usual = Some(usual + WEIGHT * (took - usual));
        }
        self.leave(jobs, id);
        self.placed += 1;
        jobs[id].stage = QueuedJobStage::Answered;
    }

    /// A job ends.
    pub(super) fn leave<T>(&mut self, jobs: &mut Slab<QueuedJob<T>>, id: SlabKey) {
        if std::mem::take(&mut jobs[id].probe) {
            self.probes -= 1;
        }
        match jobs[id].stage {
            QueuedJobStage::Limbo => self.waiting -= 1,
            QueuedJobStage::Connecting => {
                self.unlist(jobs, id);
                self.placed -= 1;
            }
            _ => self.placed -= 1,
        }
    }

    /// Takes a connecting job out of its list.
    fn unlist<T>(&mut self, jobs: &mut Slab<QueuedJob<T>>, id: SlabKey) {
        let list = if jobs[id].cold {
            self.strangers -= 1;
            &mut self.cold
        } else {
            &mut self.warm
        };
        list.remove(jobs, id);
    }
}
