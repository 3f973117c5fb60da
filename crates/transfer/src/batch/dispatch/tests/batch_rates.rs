//! Requests a second: no host gets more than its rate, whatever comes of its jobs, and no other host waits for it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use proptest::prelude::*;

use super::simulated_batch::{SimulatedRequest, SimulatedResult, ms, run};
use crate::batch::dispatch::{
    DispatchDecision, HostRequestLimit, JobDispatcher, JobDispatcherOptions, JobRunReport,
    JobRunResult, JobTicket, RequestRate,
};

/// Tries of a job.
const MAX_TRIES: u32 = 3;

/// A job of a list that comes slowly.
#[derive(Debug, Clone, Copy)]
struct RatedJob {
    arrival: Duration,
    host: u8,
    /// From its start to its end.
    duration: Duration,
    /// How its runs end, apart from the last.
    result: JobRunResult,
}

/// A batch of such jobs.
#[derive(Debug)]
struct RatedBatch {
    dispatcher: JobDispatcher<(usize, u32)>,
    jobs: Vec<RatedJob>,
    /// Jobs that were added.
    added: usize,
    /// Ends of running jobs.
    ends: BinaryHeap<Reverse<(Duration, usize)>>,
    runs: Vec<(JobTicket, usize, u32)>,
    /// When jobs of each host began.
    starts: [Vec<Duration>; 3],
    now: Duration,
}

impl RatedBatch {
    fn new(options: JobDispatcherOptions, mut jobs: Vec<RatedJob>) -> Self {
        jobs.sort_by_key(|job| job.arrival);
        Self {
            dispatcher: JobDispatcher::new(options),
            jobs,
            added: 0,
            ends: BinaryHeap::new(),
            runs: Vec::new(),
            starts: Default::default(),
            now: ms(10_000),
        }
    }

    /// Runs all jobs to their end. Returns when jobs of each host began.
    fn run(mut self) -> [Vec<Duration>; 3] {
        for _ in 0..100_000 {
            self.add_due_jobs();
            match self.dispatcher.next(self.now) {
                DispatchDecision::Run(ticket, job) => self.start(ticket, job),
                DispatchDecision::Reject(..) => {}
                DispatchDecision::Wait(until) => self.pass_time(until),
                DispatchDecision::Done => return self.starts,
            }
        }
        panic!("it never ends: {self:?}");
    }

    fn add_due_jobs(&mut self) {
        while let Some(job) = self.jobs.get(self.added)
            && ms(10_000) + job.arrival <= self.now
        {
            let host = format!("h{}", job.host);
            self.dispatcher.add(&host, (self.added, 0), self.now);
            self.added += 1;
        }
        if self.added == self.jobs.len() {
            self.dispatcher.close();
        }
    }

    fn start(&mut self, ticket: JobTicket, (number, tries): (usize, u32)) {
        let job = self.jobs[number];
        self.starts[usize::from(job.host)].push(self.now);
        let end = (self.now + job.duration, self.runs.len());
        self.ends.push(Reverse(end));
        self.runs.push((ticket, number, tries));
    }

    /// Lets time pass to the next event, or until then.
    fn pass_time(&mut self, until: Option<Duration>) {
        let end = self.ends.peek().map(|Reverse((at, _))| *at);
        let arrival = self
            .jobs
            .get(self.added)
            .map(|job| ms(10_000) + job.arrival);
        let next = end.into_iter().chain(arrival).chain(until).min();
        self.now = next.expect("something must happen, or jobs are lost");
        if end == next
            && let Some(Reverse((_, run))) = self.ends.pop()
        {
            self.end_run(run);
        }
    }

    fn end_run(&mut self, run: usize) {
        let (ticket, number, tries) = self.runs[run];
        let result = self.jobs[number].result;
        if tries + 1 < MAX_TRIES && result != JobRunResult::Done {
            let job = (number, tries + 1);
            self.dispatcher
                .retry_later(ticket, job, ms(20), result, self.now);
        } else {
            let report = JobRunReport { bytes: 10, result };
            self.dispatcher.on_finished(ticket, report, self.now);
        }
    }
}

fn any_job() -> impl Strategy<Value = RatedJob> {
    let result = prop_oneof![
        6 => Just(JobRunResult::Done),
        1 => Just(JobRunResult::Failed),
        1 => Just(JobRunResult::Unreachable),
        1 => prop::option::of(0u64..2_000).prop_map(|wait| JobRunResult::Refused {
            retry_after: wait.map(ms),
        }),
    ];
    let arrival = prop_oneof![Just(0u64), 0u64..3_000];
    (arrival, 0u8..3, 0u64..300, result).prop_map(|(arrival, host, duration, result)| RatedJob {
        arrival: ms(arrival),
        host,
        duration: ms(duration),
        result,
    })
}

/// Asserts that in no window of `t` seconds more requests begin than `rate * t`, and those of a burst.
fn assert_rate(starts: &[Duration], rate: f64) -> Result<(), TestCaseError> {
    let burst = (rate / 10.0).max(1.0);
    for (first, begin) in starts.iter().enumerate() {
        for (last, end) in starts.iter().enumerate().skip(first) {
            let most = rate * (*end - *begin).as_secs_f64() + burst;
            let requests = (last - first + 1) as f64;
            prop_assert!(
                requests <= most + 1e-3,
                "{requests} from {begin:?} to {end:?}"
            );
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_host_gets_more_than_its_rate_and_every_job_ends(
        jobs in prop::collection::vec(any_job(), 1..120),
        // In thousandths, as rates are.
        rate in prop_oneof![200u32..20_000, 10_000u32..2_000_000],
        per_host in prop_oneof![Just(HostRequestLimit::Auto { max: 128 }), Just(HostRequestLimit::Fixed(50))],
    ) {
        let rate = f64::from(rate) / 1000.0;
        let options = JobDispatcherOptions {
            rate_per_host: RequestRate::per_second(rate),
            per_host,
            ..JobDispatcherOptions::default()
        };
        for starts in RatedBatch::new(options, jobs).run() {
            assert_rate(&starts, rate)?;
        }
    }
}

#[test]
fn c3_hosts_get_their_whole_rate_and_a_long_list_of_one_delays_no_other() {
    let options = JobDispatcherOptions {
        rate_per_host: RequestRate::per_second(20.0),
        window: 500,
        ..JobDispatcherOptions::default()
    };
    // Sorted: the thousand jobs of the first host, twice the window, come before ten of each other.
    let list = std::iter::repeat_n(0, 1_000).chain((1..=30).flat_map(|host| [host; 10]));
    let mut simulated = |_: SimulatedRequest| SimulatedResult::File {
        head: ms(30),
        body: Duration::ZERO,
        bytes: 4096,
    };
    let outcome = run(&mut simulated, options, list);
    assert_eq!((outcome.done, outcome.failed), (1_300, 0));
    let of_others = |(host, at): (&u32, &Duration)| (*host > 0).then_some(*at);
    let last = outcome.last_file_of_host.iter().filter_map(of_others).max();
    // Ten at this rate take half a second.
    assert!(last.unwrap() < ms(1_500), "{last:?}");
    let time = outcome.time.as_secs_f64();
    assert!((49.0..51.0).contains(&time), "{outcome:?}");
}
