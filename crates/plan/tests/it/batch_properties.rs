//! Whatever a driver tells the dispatcher, and in whatever order: limits are kept, no job is lost, none comes twice, and it ends.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use haul_plan::dispatch::{
    DispatchDecision, HostRequestLimit, JobDispatcher, JobDispatcherOptions, JobRunReport,
    JobRunResult, JobTicket,
};
use proptest::prelude::*;

use crate::batch_world::ms;

#[derive(Debug, Clone)]
enum DispatcherStep {
    Add(u8),
    Next,
    Delivering(prop::sample::Index, Option<usize>),
    Large(prop::sample::Index),
    Ended(prop::sample::Index, JobRunResult),
    Again(prop::sample::Index, JobRunResult, u64),
    Pass(u64),
}

fn any_how() -> impl Strategy<Value = JobRunResult> {
    prop_oneof![
        4 => Just(JobRunResult::Done),
        1 => Just(JobRunResult::Failed),
        3 => Just(JobRunResult::Unreachable),
        2 => (any::<bool>(), prop::option::of(0u64..5_000))
            .prop_map(|(busy, wait)| JobRunResult::Refused { overloaded: busy, retry_after: wait.map(ms) }),
    ]
}

fn any_step() -> impl Strategy<Value = DispatcherStep> {
    let which = any::<prop::sample::Index>;
    prop_oneof![
        6 => (0u8..5).prop_map(DispatcherStep::Add),
        8 => Just(DispatcherStep::Next),
        3 => (which(), prop::option::of(0usize..20)).prop_map(|(at, streams)| DispatcherStep::Delivering(at, streams)),
        1 => which().prop_map(DispatcherStep::Large),
        4 => (which(), any_how()).prop_map(|(at, how)| DispatcherStep::Ended(at, how)),
        2 => (which(), any_how(), 0u64..3_000).prop_map(|(at, how, wait)| DispatcherStep::Again(at, how, wait)),
        2 => (0u64..3_000).prop_map(DispatcherStep::Pass),
        1 => (0u64..60_000).prop_map(DispatcherStep::Pass),
    ]
}

fn any_options() -> impl Strategy<Value = JobDispatcherOptions> {
    let limit = prop_oneof![
        (0usize..10).prop_map(|max| HostRequestLimit::Auto { max }),
        (0usize..10).prop_map(HostRequestLimit::Fixed),
    ];
    (
        prop::option::of(0usize..6),
        limit,
        (0usize..8, 0usize..8),
        1usize..60,
        0usize..12,
    )
        .prop_map(
            |(jobs, per_host, (total, unknown), window, limbo)| JobDispatcherOptions {
                max_jobs: jobs,
                per_host,
                max_streams: 12,
                request_slots: total,
                untried_host_slots: unknown,
                window,
                max_overdue: limbo,
            },
        )
}

/// A job as the model has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModelJobPlace {
    Fresh,
    /// Not before then.
    Again(Duration),
    Running,
    Over,
}

#[derive(Debug)]
struct DispatcherModel {
    options: JobDispatcherOptions,
    dispatch: JobDispatcher<usize>,
    now: Duration,
    /// Each job's host, and where it is.
    jobs: Vec<(u8, ModelJobPlace)>,
    /// Tickets of jobs that run, and whether they are large.
    running: BTreeMap<usize, (JobTicket, bool)>,
    /// Tickets that are no longer good.
    stale: Vec<JobTicket>,
    /// The last fresh job that each host was given.
    last: HashMap<u8, usize>,
}

impl DispatcherModel {
    fn new(options: JobDispatcherOptions) -> Self {
        Self {
            options,
            dispatch: JobDispatcher::new(options),
            now: Duration::ZERO,
            jobs: Vec::new(),
            running: BTreeMap::new(),
            stale: Vec::new(),
            last: HashMap::new(),
        }
    }

    fn pick(&self, at: &prop::sample::Index) -> Option<(usize, JobTicket)> {
        let running: Vec<_> = self
            .running
            .iter()
            .map(|(job, run)| (*job, run.0))
            .collect();
        (!running.is_empty()).then(|| running[at.index(running.len())])
    }

    /// Takes a running job out.
    fn over(&mut self, job: usize, place: ModelJobPlace) {
        let (ticket, _) = self.running.remove(&job).unwrap();
        self.stale.push(ticket);
        self.jobs[job].1 = place;
    }

    fn step(&mut self, step: &DispatcherStep) {
        match step {
            DispatcherStep::Add(host) if self.dispatch.has_room() => {
                let job = self.jobs.len();
                self.jobs.push((*host, ModelJobPlace::Fresh));
                self.dispatch.add(&format!("h{host}"), job, self.now);
            }
            DispatcherStep::Add(_) => {}
            DispatcherStep::Next => {
                self.next();
            }
            DispatcherStep::Delivering(at, streams) => {
                if let Some((_, ticket)) = self.pick(at) {
                    self.dispatch.on_response_head(ticket, *streams, self.now);
                }
            }
            DispatcherStep::Large(at) => {
                if let Some((job, ticket)) = self.pick(at) {
                    self.dispatch.on_large_file(ticket, self.now);
                    self.running.insert(job, (ticket, true));
                }
            }
            DispatcherStep::Ended(at, how) => {
                if let Some((job, ticket)) = self.pick(at) {
                    let ended = JobRunReport {
                        bytes: 1000,
                        result: *how,
                    };
                    self.dispatch.on_finished(ticket, ended, self.now);
                    self.over(job, ModelJobPlace::Over);
                }
            }
            DispatcherStep::Again(at, how, wait) => {
                if let Some((job, ticket)) = self.pick(at) {
                    self.dispatch
                        .retry_later(ticket, job, ms(*wait), *how, self.now);
                    self.over(job, ModelJobPlace::Again(self.now + ms(*wait)));
                }
            }
            DispatcherStep::Pass(time) => self.now += ms(*time),
        }
        self.check();
    }

    /// Asks for the next job, and carries it out. What it waits for, if it waits.
    fn next(&mut self) -> Option<Option<Duration>> {
        match self.dispatch.next(self.now) {
            DispatchDecision::Run(ticket, job) => self.ran(ticket, job),
            DispatchDecision::Reject(job, why) => {
                assert!(matches!(
                    self.jobs[job].1,
                    ModelJobPlace::Fresh | ModelJobPlace::Again(_)
                ));
                assert!(why.failures > 0);
                self.jobs[job].1 = ModelJobPlace::Over;
            }
            DispatchDecision::Wait(until) => {
                assert!(until.is_none_or(|until| until > self.now));
                return Some(until);
            }
            DispatchDecision::Done => assert_eq!(self.dispatch.held_jobs(), 0),
        }
        None
    }

    fn ran(&mut self, ticket: JobTicket, job: usize) {
        let (host, place) = self.jobs[job];
        match place {
            ModelJobPlace::Fresh => {
                let before = self.last.insert(host, job);
                assert!(
                    before.is_none_or(|before| before < job),
                    "first in, first out"
                );
                let due = |place: ModelJobPlace| matches!(place, ModelJobPlace::Again(due) if due <= self.now);
                let passed = self
                    .jobs
                    .iter()
                    .any(|(of, place)| *of == host && due(*place));
                assert!(!passed, "what is due comes before what is new");
            }
            ModelJobPlace::Again(due) => assert!(due <= self.now, "too early"),
            ModelJobPlace::Running | ModelJobPlace::Over => panic!("{job} is given out twice"),
        }
        self.jobs[job].1 = ModelJobPlace::Running;
        self.running.insert(job, (ticket, false));
        let of_host =
            |(job, (_, large)): (&usize, &(JobTicket, bool))| self.jobs[*job].0 == host && !large;
        let small = self.running.iter().filter(|run| of_host(*run)).count();
        let most = match self.options.per_host {
            HostRequestLimit::Auto { max } => max.max(self.options.max_streams),
            HostRequestLimit::Fixed(number) => number.max(1),
        };
        assert!(small <= most, "{small} of one host");
    }

    fn check(&mut self) {
        for ticket in self.stale.clone().into_iter().rev().take(3) {
            let ended = JobRunReport {
                bytes: 0,
                result: JobRunResult::Unreachable,
            };
            self.dispatch.on_finished(ticket, ended, self.now);
            self.dispatch.on_response_head(ticket, None, self.now);
            self.dispatch.on_large_file(ticket, self.now);
        }
        let held = self
            .jobs
            .iter()
            .filter(|(_, place)| *place != ModelJobPlace::Over);
        assert_eq!(self.dispatch.held_jobs(), held.count());
        assert_eq!(self.dispatch.running_jobs(), self.running.len());
        assert!(self.dispatch.held_jobs() <= self.options.window);
        let JobDispatcherOptions {
            request_slots: total,
            max_overdue: limbo,
            max_jobs: jobs,
            ..
        } = self.options;
        let most = (total.max(1) + limbo).min(jobs.map_or(usize::MAX, |jobs| jobs.max(1)));
        assert!(self.running.len() <= most, "{} running", self.running.len());
    }

    /// The list ends: everything else comes and is done.
    fn finish(mut self) {
        self.dispatch.close();
        for _ in 0..10_000 {
            self.check();
            if self.dispatch.held_jobs() == 0 {
                assert_eq!(self.dispatch.next(self.now), DispatchDecision::Done);
                assert_eq!(self.dispatch.host_count(), 0);
                return;
            }
            match self.next() {
                None => continue,
                Some(Some(until)) => self.now = until,
                Some(None) => self.end_one(),
            }
        }
        panic!("it never ends: {self:?}");
    }

    fn end_one(&mut self) {
        let (job, (ticket, _)) = self.running.pop_first().expect("a job is lost");
        let ended = JobRunReport {
            bytes: 1 << 20,
            result: JobRunResult::Done,
        };
        self.dispatch.on_finished(ticket, ended, self.now);
        self.jobs[job].1 = ModelJobPlace::Over;
    }
}

proptest! {
    #[test]
    fn any_order_of_events_keeps_the_limits_and_loses_nothing(
        options in any_options(), steps in prop::collection::vec(any_step(), 0..300),
    ) {
        let mut model = DispatcherModel::new(options);
        for step in &steps {
            model.step(step);
        }
        model.finish();
    }

    /// As long as places are free, a job of a host that is well is given out at once, whatever happens to another.
    #[test]
    fn c3_a_host_in_trouble_never_keeps_another_from_a_free_place(
        troubles in prop::collection::vec((any_how(), any::<prop::sample::Index>(), 0u64..2_000), 1..40),
    ) {
        let mut model = DispatcherModel::new(JobDispatcherOptions { request_slots: 4, ..JobDispatcherOptions::default() });
        for _ in 0..50 {
            model.step(&DispatcherStep::Add(0));
        }
        for (how, at, wait) in troubles {
            while model.next().is_none() {}
            let free = model.running.len() < 4;
            model.step(&DispatcherStep::Add(1));
            while model.next().is_none() {}
            let well = |job: &usize| model.jobs[*job].0 == 1;
            let well: Vec<usize> = model.running.keys().copied().filter(well).collect();
            prop_assert!(!free || !well.is_empty());
            for job in well {
                let (ticket, _) = model.running[&job];
                model.dispatch.on_finished(ticket, JobRunReport { bytes: 1, result: JobRunResult::Done }, model.now);
                model.over(job, ModelJobPlace::Over);
            }
            // Nothing but the troubled host's jobs run.
            model.step(&DispatcherStep::Again(at, how, wait));
            model.now += ms(wait);
        }
    }
}
