//! Any calls of the dispatcher in any order: limits are kept, no job is lost or given out twice, and the
//! batch ends.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;

use super::simulated_batch::ms;
use crate::batch::dispatch::{
    DispatchDecision, HostRequestLimit, JobDispatcher, JobDispatcherOptions, JobRunReport,
    JobRunResult, JobTicket, RequestRate,
};

#[derive(Debug, Clone)]
enum DispatcherStep {
    Add(u8),
    Next,
    ResponseHead(prop::sample::Index, Option<usize>),
    LargeFile(prop::sample::Index),
    Finish(prop::sample::Index, JobRunResult),
    RetryLater(prop::sample::Index, JobRunResult, u64),
    PassTime(u64),
}

fn any_result() -> impl Strategy<Value = JobRunResult> {
    prop_oneof![
        4 => Just(JobRunResult::Done),
        1 => Just(JobRunResult::Failed),
        3 => Just(JobRunResult::Unreachable),
        2 => prop::option::of(0u64..5_000)
            .prop_map(|wait| JobRunResult::Refused { retry_after: wait.map(ms) }),
        1 => Just(JobRunResult::RefusedAgain),
        1 => Just(JobRunResult::Inconclusive),
    ]
}

fn any_step() -> impl Strategy<Value = DispatcherStep> {
    let which = any::<prop::sample::Index>;
    prop_oneof![
        6 => (0u8..5).prop_map(DispatcherStep::Add),
        8 => Just(DispatcherStep::Next),
        3 => (which(), prop::option::of(0usize..20)).prop_map(|(at, streams)| DispatcherStep::ResponseHead(at, streams)),
        1 => which().prop_map(DispatcherStep::LargeFile),
        4 => (which(), any_result()).prop_map(|(at, result)| DispatcherStep::Finish(at, result)),
        2 => (which(), any_result(), 0u64..3_000).prop_map(|(at, result, wait)| DispatcherStep::RetryLater(at, result, wait)),
        2 => (0u64..3_000).prop_map(DispatcherStep::PassTime),
        1 => (0u64..60_000).prop_map(DispatcherStep::PassTime),
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
        prop::option::weighted(0.3, 0.1f64..1000.0),
    )
        .prop_map(
            |(jobs, per_host, (request_slots, untried_host_slots), window, max_overdue, rate)| {
                JobDispatcherOptions {
                    max_retry_after: Duration::from_secs(4),
                    retries: 10,
                    max_jobs: jobs,
                    per_host,
                    rate_per_host: rate.and_then(RequestRate::per_second),
                    max_streams: 12,
                    request_slots,
                    untried_host_slots,
                    window,
                    max_overdue,
                }
            },
        )
}

/// A job in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModelJobState {
    New,
    /// Not before then.
    RetryAt(Duration),
    Running,
    Ended,
}

#[derive(Debug)]
struct DispatcherModel {
    options: JobDispatcherOptions,
    dispatcher: JobDispatcher<usize>,
    now: Duration,
    /// Each job's host and state.
    jobs: Vec<(u8, ModelJobState)>,
    /// Tickets of running jobs, and whether they are large.
    running: BTreeMap<usize, (JobTicket, bool)>,
    /// Tickets whose run is over.
    stale: Vec<JobTicket>,
    /// The last new job that each host was given.
    last_new_job: HashMap<u8, usize>,
    /// Hosts that have failed or refused a request.
    failed: HashSet<u8>,
}

impl DispatcherModel {
    fn new(options: JobDispatcherOptions) -> Self {
        Self {
            options,
            dispatcher: JobDispatcher::new(options),
            now: Duration::ZERO,
            jobs: Vec::new(),
            running: BTreeMap::new(),
            stale: Vec::new(),
            last_new_job: HashMap::new(),
            failed: HashSet::new(),
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

    /// Ends the run of a job.
    fn end_run(&mut self, job: usize, state: ModelJobState) {
        let (ticket, _) = self.running.remove(&job).unwrap();
        self.stale.push(ticket);
        self.jobs[job].1 = state;
    }

    fn note_result(&mut self, job: usize, result: JobRunResult) {
        if !matches!(
            result,
            JobRunResult::Done | JobRunResult::Failed | JobRunResult::Inconclusive
        ) {
            self.failed.insert(self.jobs[job].0);
        }
    }

    fn step(&mut self, step: &DispatcherStep) {
        match step {
            DispatcherStep::Add(host) if self.dispatcher.make_room(2 * self.options.window) => {
                let job = self.jobs.len();
                self.jobs.push((*host, ModelJobState::New));
                self.dispatcher.add(&format!("h{host}"), job, self.now);
            }
            DispatcherStep::Add(_) => {}
            DispatcherStep::Next => {
                self.next();
            }
            DispatcherStep::ResponseHead(at, streams) => {
                if let Some((_, ticket)) = self.pick(at) {
                    self.dispatcher.on_response_head(ticket, *streams, self.now);
                }
            }
            DispatcherStep::LargeFile(at) => {
                if let Some((job, ticket)) = self.pick(at) {
                    self.dispatcher.on_large_file(ticket, self.now);
                    self.running.insert(job, (ticket, true));
                }
            }
            DispatcherStep::Finish(at, result) => {
                if let Some((job, ticket)) = self.pick(at) {
                    self.note_result(job, *result);
                    let report = JobRunReport {
                        bytes: 1000,
                        result: *result,
                    };
                    self.dispatcher.on_finished(ticket, report, self.now);
                    self.end_run(job, ModelJobState::Ended);
                }
            }
            DispatcherStep::RetryLater(at, result, wait) => {
                if let Some((job, ticket)) = self.pick(at) {
                    self.note_result(job, *result);
                    self.dispatcher
                        .retry_later(ticket, job, ms(*wait), *result, self.now);
                    self.end_run(job, ModelJobState::RetryAt(self.now + ms(*wait)));
                }
            }
            DispatcherStep::PassTime(time) => self.now += ms(*time),
        }
        self.check();
    }

    /// Takes the next decision, and carries it out. Returns what a decision to wait waits for.
    fn next(&mut self) -> Option<Option<Duration>> {
        match self.dispatcher.next(self.now) {
            DispatchDecision::Run(ticket, job) => self.job_started(ticket, job),
            DispatchDecision::Reject(job, unreachable) => {
                assert!(matches!(
                    self.jobs[job].1,
                    ModelJobState::New | ModelJobState::RetryAt(_)
                ));
                assert!(unreachable.failures > 0);
                self.jobs[job].1 = ModelJobState::Ended;
            }
            DispatchDecision::Wait(until) => {
                assert!(until.is_none_or(|until| until > self.now));
                return Some(until);
            }
            DispatchDecision::Done => assert_eq!(self.dispatcher.held_jobs(), 0),
        }
        None
    }

    fn job_started(&mut self, ticket: JobTicket, job: usize) {
        let (host, state) = self.jobs[job];
        match state {
            ModelJobState::New => {
                let before = self.last_new_job.insert(host, job);
                assert!(
                    before.is_none_or(|before| before < job),
                    "first in, first out"
                );
                let due = |state: ModelJobState| matches!(state, ModelJobState::RetryAt(due) if due <= self.now);
                let skipped = self
                    .jobs
                    .iter()
                    .any(|(of, state)| *of == host && due(*state));
                // The last tries of a host that refuses everything are those of new jobs.
                let in_order = !skipped || self.failed.contains(&host);
                assert!(in_order, "what is due comes before what is new");
            }
            ModelJobState::RetryAt(due) => assert!(due <= self.now, "too early"),
            ModelJobState::Running | ModelJobState::Ended => panic!("{job} is given out twice"),
        }
        self.jobs[job].1 = ModelJobState::Running;
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
            let report = JobRunReport {
                bytes: 0,
                result: JobRunResult::Unreachable,
            };
            self.dispatcher.on_finished(ticket, report, self.now);
            self.dispatcher.on_response_head(ticket, None, self.now);
            self.dispatcher.on_large_file(ticket, self.now);
        }
        let held = self
            .jobs
            .iter()
            .filter(|(_, state)| *state != ModelJobState::Ended);
        assert_eq!(self.dispatcher.held_jobs(), held.count());
        assert_eq!(self.dispatcher.running_jobs(), self.running.len());
        assert!(self.dispatcher.held_jobs() <= 2 * self.options.window);
        let JobDispatcherOptions {
            request_slots,
            max_overdue,
            max_jobs: jobs,
            ..
        } = self.options;
        let most =
            (request_slots.max(1) + max_overdue).min(jobs.map_or(usize::MAX, |jobs| jobs.max(1)));
        assert!(self.running.len() <= most, "{} running", self.running.len());
    }

    /// The list ends: all other jobs run and end.
    fn finish(mut self) {
        self.dispatcher.close();
        for _ in 0..10_000 {
            self.check();
            if self.dispatcher.held_jobs() == 0 {
                assert_eq!(self.dispatcher.next(self.now), DispatchDecision::Done);
                assert_eq!(self.dispatcher.host_count(), 0);
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
        let report = JobRunReport {
            bytes: 1 << 20,
            result: JobRunResult::Done,
        };
        self.dispatcher.on_finished(ticket, report, self.now);
        self.jobs[job].1 = ModelJobState::Ended;
    }
}

/// The circuit breaker of a host opens while a job waits for its retry, and closes again with the response to another job: the first one
/// is not rejected any more, but waits on.
#[test]
fn a_retry_that_an_open_circuit_made_due_waits_again_once_the_host_responds() {
    let mut model = DispatcherModel::new(JobDispatcherOptions {
        per_host: HostRequestLimit::Auto { max: 2 },
        request_slots: 2,
        untried_host_slots: 2,
        window: 3,
        max_overdue: 0,
        ..JobDispatcherOptions::default()
    });
    let first = |model: &DispatcherModel| {
        let (job, (ticket, _)) = model.running.first_key_value().expect("a job runs");
        (*job, *ticket)
    };
    for host in [3, 1, 0] {
        model.step(&DispatcherStep::Add(host));
    }
    model.step(&DispatcherStep::Next);
    let (job, ticket) = first(&model);
    let done = JobRunReport {
        bytes: 1000,
        result: JobRunResult::Done,
    };
    model.dispatcher.on_finished(ticket, done, model.now);
    model.end_run(job, ModelJobState::Ended);
    model.step(&DispatcherStep::Add(0));
    let retry_first = |model: &mut DispatcherModel, result, wait| {
        let (job, ticket) = first(model);
        let due = model.now + ms(wait);
        let dispatcher = &mut model.dispatcher;
        dispatcher.retry_later(ticket, job, ms(wait), result, model.now);
        model.end_run(job, ModelJobState::RetryAt(due));
    };
    model.step(&DispatcherStep::Next);
    retry_first(&mut model, JobRunResult::Unreachable, 0);
    model.step(&DispatcherStep::Next);
    model.step(&DispatcherStep::Next);
    retry_first(&mut model, JobRunResult::Unreachable, 1);
    retry_first(&mut model, JobRunResult::Done, 0);
    model.finish();
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

    /// As long as slots are free, a job of a healthy host is given out at once, whatever happens to another
    /// host.
    #[test]
    fn c3_a_host_in_trouble_never_keeps_another_from_a_free_slot(
        events in prop::collection::vec((any_result(), any::<prop::sample::Index>(), 0u64..2_000), 1..40),
    ) {
        let mut model = DispatcherModel::new(JobDispatcherOptions { request_slots: 4, ..JobDispatcherOptions::default() });
        for _ in 0..50 {
            model.step(&DispatcherStep::Add(0));
        }
        for (result, at, wait) in events {
            while model.next().is_none() {}
            let free = model.running.len() < 4;
            model.step(&DispatcherStep::Add(1));
            while model.next().is_none() {}
            let healthy = |job: &usize| model.jobs[*job].0 == 1;
            let healthy: Vec<usize> = model.running.keys().copied().filter(healthy).collect();
            prop_assert!(!free || !healthy.is_empty());
            for job in healthy {
                let (ticket, _) = model.running[&job];
                model.dispatcher.on_finished(ticket, JobRunReport { bytes: 1, result: JobRunResult::Done }, model.now);
                model.end_run(job, ModelJobState::Ended);
            }
            // Only the jobs of the host in trouble run.
            model.step(&DispatcherStep::RetryLater(at, result, wait));
            model.now += ms(wait);
        }
    }
}
