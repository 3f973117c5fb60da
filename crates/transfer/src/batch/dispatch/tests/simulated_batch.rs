//! A batch in simulated time: the dispatcher with its feeder and driver, against simulated hosts.
//!
//! Besides carrying decisions out, the harness does what a batch does around them: a connection that has
//! brought a file is used again, and a failed job is tried three times more.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use crate::batch::dispatch::{
    DispatchDecision, JobDispatcher, JobDispatcherOptions, JobRunReport, JobRunResult, JobTicket,
};

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// The waits before a job's retries.
const RETRY_WAITS: [Duration; 3] = [ms(200), ms(400), ms(800)];

/// The longest window.
pub(crate) const MAX_WINDOW: usize = 65_536;

/// A request to a host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimulatedRequest {
    pub(crate) now: Duration,
    pub(crate) host: u32,
    /// The job's number in the list.
    pub(crate) job: u32,
    /// Whether a connection must be made for it.
    pub(crate) is_new_connection: bool,
    /// Other requests of this host that are under way.
    pub(crate) concurrent: usize,
}

/// What comes of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SimulatedResult {
    /// A head after `head`, and the end of the file after `body` more.
    File {
        head: Duration,
        body: Duration,
        bytes: u64,
    },
    /// The same, for a file that goes on over connections of its own.
    Large { head: Duration, body: Duration },
    /// No connection.
    Unreachable(Duration),
    /// 429.
    Refused(Duration, Option<Duration>),
}

/// The hosts of a batch.
pub(crate) trait SimulatedHosts {
    fn respond(&mut self, request: SimulatedRequest) -> SimulatedResult;

    /// Streams on a connection, where hosts multiplex.
    fn max_streams(&self) -> Option<usize> {
        None
    }

    /// How long TCP takes to connect, where the dispatcher learns it.
    fn round_trip(&self) -> Option<Duration> {
        None
    }
}

impl<F: FnMut(SimulatedRequest) -> SimulatedResult> SimulatedHosts for F {
    fn respond(&mut self, request: SimulatedRequest) -> SimulatedResult {
        self(request)
    }
}

/// A job: its number, its host, and how many tries it has had.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimulatedJob {
    pub(crate) host: u32,
    pub(crate) job: u32,
    tries: u32,
}

/// An event of a running job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SimulatedJobEvent {
    Connected,
    Head,
    Large,
    End,
}

#[derive(Debug, Clone, Copy)]
struct SimulatedRun {
    ticket: JobTicket,
    job: SimulatedJob,
    result: SimulatedResult,
    is_new_connection: bool,
}

/// The outcome of a batch.
#[derive(Clone, Default)]
pub(crate) struct SimulatedBatchOutcome {
    /// When the last job ended, and when the last was done.
    pub(crate) time: Duration,
    pub(crate) done_at: Duration,
    pub(crate) done: usize,
    pub(crate) failed: usize,
    pub(crate) rejected: usize,
    pub(crate) requests: usize,
    /// Responses with 429.
    pub(crate) refusals: usize,
    /// Connections made.
    pub(crate) connections: usize,
    /// The highest numbers at any time.
    pub(crate) max_running: usize,
    pub(crate) max_held: usize,
    pub(crate) max_hosts: usize,
    pub(crate) max_idle_hosts: usize,
    /// The most requests of one host at once.
    pub(crate) max_of_one_host: usize,
    /// When a host first had 4, 8 and 16 requests at once.
    pub(crate) reached: [Option<Duration>; 3],
    /// When the last file of each host was done.
    pub(crate) last_file_of_host: HashMap<u32, Duration>,
    /// Host and job of each request, in their order.
    pub(crate) started: Vec<(u32, u32)>,
}

impl std::fmt::Debug for SimulatedBatchOutcome {
    /// All but the long lists.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outcome")
            .field("time", &(self.time, self.done_at))
            .field("done", &(self.done, self.failed, self.rejected))
            .field(
                "requests",
                &(self.requests, self.refusals, self.connections),
            )
            .field(
                "most",
                &(
                    self.max_running,
                    self.max_held,
                    self.max_hosts,
                    self.max_of_one_host,
                ),
            )
            .field("max_idle_hosts", &self.max_idle_hosts)
            .field("reached", &self.reached)
            .finish()
    }
}

#[derive(Debug, Default)]
struct SimulatedHost {
    under_way: usize,
    idle_connections: usize,
}

/// A batch under way.
pub(crate) struct SimulatedBatch<'a, L: Iterator<Item = u32>> {
    simulated_hosts: &'a mut dyn SimulatedHosts,
    options: JobDispatcherOptions,
    dispatcher: JobDispatcher<SimulatedJob>,
    list: std::iter::Enumerate<L>,
    hosts: HashMap<u32, SimulatedHost>,
    runs: HashMap<u64, SimulatedRun>,
    events: BinaryHeap<Reverse<(Duration, u64, SimulatedJobEvent)>>,
    next_run: u64,
    now: Duration,
    /// Whether details are kept that cost memory.
    detailed: bool,
    outcome: SimulatedBatchOutcome,
}

fn host_name(host: u32) -> String {
    format!("http://h{host}.test:80")
}

/// Runs a list of hosts, with one job each, to its end.
pub(crate) fn run(
    world: &mut dyn SimulatedHosts,
    options: JobDispatcherOptions,
    list: impl IntoIterator<Item = u32>,
) -> SimulatedBatchOutcome {
    SimulatedBatch::new(world, options, list.into_iter()).run()
}

impl<'a, L: Iterator<Item = u32>> SimulatedBatch<'a, L> {
    pub(crate) fn new(
        simulated_hosts: &'a mut dyn SimulatedHosts,
        options: JobDispatcherOptions,
        list: L,
    ) -> Self {
        let detailed = list.size_hint().1.is_some_and(|jobs| jobs <= 100_000);
        Self {
            simulated_hosts,
            options,
            dispatcher: JobDispatcher::new(options),
            list: list.enumerate(),
            hosts: HashMap::new(),
            runs: HashMap::new(),
            events: BinaryHeap::new(),
            next_run: 0,
            now: Duration::ZERO,
            detailed,
            outcome: SimulatedBatchOutcome::default(),
        }
    }

    pub(crate) fn run(mut self) -> SimulatedBatchOutcome {
        loop {
            self.feed();
            let has_candidates = self.dispatcher.has_candidates(self.now);
            let decision = self.dispatcher.next(self.now);
            assert!(
                has_candidates
                    || matches!(decision, DispatchDecision::Wait(_) | DispatchDecision::Done)
            );
            match decision {
                DispatchDecision::Run(ticket, job) => self.start_job(ticket, job),
                DispatchDecision::Reject(..) => self.outcome.rejected += 1,
                DispatchDecision::Done => break,
                DispatchDecision::Wait(until) => self.pass_time(until),
            }
            self.check_bounds();
        }
        assert_eq!(self.dispatcher.held_jobs(), 0);
        assert_eq!(self.dispatcher.host_count(), 0);
        self.outcome.time = self.now;
        self.outcome
    }

    fn check_bounds(&mut self) {
        let outcome = &mut self.outcome;
        outcome.max_running = outcome.max_running.max(self.dispatcher.running_jobs());
        outcome.max_held = outcome.max_held.max(self.dispatcher.held_jobs());
        outcome.max_hosts = outcome.max_hosts.max(self.dispatcher.host_count());
        outcome.max_idle_hosts = outcome
            .max_idle_hosts
            .max(self.dispatcher.idle_host_count());
        assert!(
            self.dispatcher.running_jobs() <= self.options.request_slots + self.options.max_overdue
        );
        assert!(self.dispatcher.held_jobs() <= self.options.window.max(MAX_WINDOW));
    }

    /// Adds the jobs for which there is room.
    fn feed(&mut self) {
        while !self.dispatcher.is_closed() && self.dispatcher.make_room(MAX_WINDOW) {
            let Some((job, host)) = self.list.next() else {
                return self.dispatcher.close();
            };
            let job = SimulatedJob {
                host,
                job: u32::try_from(job).unwrap(),
                tries: 0,
            };
            self.dispatcher.add(&host_name(host), job, self.now);
        }
    }

    fn start_job(&mut self, ticket: JobTicket, job: SimulatedJob) {
        let host = self.hosts.entry(job.host).or_default();
        let cold = host.idle_connections == 0;
        if !cold && self.simulated_hosts.max_streams().is_none() {
            host.idle_connections -= 1;
        }
        let request = SimulatedRequest {
            now: self.now,
            host: job.host,
            job: job.job,
            is_new_connection: cold,
            concurrent: host.under_way,
        };
        host.under_way += 1;
        let outcome = &mut self.outcome;
        outcome.max_of_one_host = outcome.max_of_one_host.max(host.under_way);
        outcome.requests += 1;
        outcome.connections += usize::from(cold);
        if self.detailed {
            outcome.started.push((job.host, job.job));
        }
        for (reached, number) in outcome.reached.iter_mut().zip([4, 8, 16]) {
            if host.under_way >= number {
                reached.get_or_insert(self.now);
            }
        }
        let result = self.simulated_hosts.respond(request);
        self.next_run += 1;
        let run = SimulatedRun {
            ticket,
            job,
            result,
            is_new_connection: cold,
        };
        self.runs.insert(self.next_run, run);
        let mut at = |after, event| {
            self.events
                .push(Reverse((self.now + after, self.next_run, event)));
        };
        if let Some(round_trip) = self.simulated_hosts.round_trip().filter(|_| cold) {
            at(round_trip, SimulatedJobEvent::Connected);
        }
        match result {
            SimulatedResult::File { head, body, .. } => {
                at(head, SimulatedJobEvent::Head);
                at(head + body, SimulatedJobEvent::End);
            }
            SimulatedResult::Large { head, body } => {
                at(head, SimulatedJobEvent::Large);
                at(head + body, SimulatedJobEvent::End);
            }
            SimulatedResult::Unreachable(after) | SimulatedResult::Refused(after, _) => {
                at(after, SimulatedJobEvent::End)
            }
        }
    }

    /// Lets time pass to the next event, or until then.
    fn pass_time(&mut self, until: Option<Duration>) {
        let event = self.events.peek().map(|Reverse((at, ..))| *at);
        let next = event
            .into_iter()
            .chain(until)
            .min()
            .expect("something must happen, or jobs are lost");
        assert!(next >= self.now, "time goes on");
        // The driver widens stalled hosts once a second.
        let second = Duration::from_secs(self.now.as_secs() + 1);
        if next >= second {
            self.now = second;
            self.dispatcher.widen_stalled_hosts(second);
            return;
        }
        self.now = next;
        if event == Some(next)
            && let Some(Reverse((_, id, event))) = self.events.pop()
        {
            self.handle_event(id, event);
        }
    }

    fn handle_event(&mut self, id: u64, event: SimulatedJobEvent) {
        let run = self.runs[&id];
        match event {
            SimulatedJobEvent::Connected => {
                let round_trip = self.simulated_hosts.round_trip().unwrap();
                self.dispatcher
                    .on_connected(run.ticket, round_trip, self.now);
            }
            SimulatedJobEvent::Head => {
                let streams = self.simulated_hosts.max_streams();
                self.dispatcher
                    .on_response_head(run.ticket, streams, self.now);
                if run.is_new_connection && streams.is_some() {
                    self.hosts.get_mut(&run.job.host).unwrap().idle_connections = 1;
                }
            }
            SimulatedJobEvent::Large => {
                self.dispatcher.on_response_head(
                    run.ticket,
                    self.simulated_hosts.max_streams(),
                    self.now,
                );
                self.dispatcher.on_large_file(run.ticket, self.now);
                self.hosts.get_mut(&run.job.host).unwrap().under_way -= 1;
            }
            SimulatedJobEvent::End => self.end_run(id, run),
        }
    }

    fn end_run(&mut self, id: u64, run: SimulatedRun) {
        self.runs.remove(&id);
        let host = self.hosts.get_mut(&run.job.host).unwrap();
        host.under_way -= usize::from(!matches!(run.result, SimulatedResult::Large { .. }));
        let (bytes, how) = match run.result {
            SimulatedResult::File { bytes, .. } => (bytes, JobRunResult::Done),
            SimulatedResult::Large { .. } => (1 << 30, JobRunResult::Done),
            SimulatedResult::Unreachable(_) => (0, JobRunResult::Unreachable),
            SimulatedResult::Refused(_, None) if run.job.tries > 0 => {
                (0, JobRunResult::RefusedAgain)
            }
            SimulatedResult::Refused(_, retry_after) => (0, JobRunResult::Refused { retry_after }),
        };
        if how == JobRunResult::Done {
            host.idle_connections += usize::from(self.simulated_hosts.max_streams().is_none());
            self.outcome.done += 1;
            self.outcome.done_at = self.now;
            if self.detailed {
                self.outcome
                    .last_file_of_host
                    .insert(run.job.host, self.now);
            }
        }
        if host.under_way == 0 && !self.detailed {
            self.hosts.remove(&run.job.host);
        }
        self.outcome.refusals += usize::from(matches!(run.result, SimulatedResult::Refused(..)));
        let tries = run.job.tries as usize;
        let retries_for_ever = matches!(run.result, SimulatedResult::Refused(..));
        if how != JobRunResult::Done && (retries_for_ever || tries < RETRY_WAITS.len()) {
            let job = SimulatedJob {
                tries: run.job.tries + 1,
                ..run.job
            };
            let wait = RETRY_WAITS[tries.min(RETRY_WAITS.len() - 1)];
            self.dispatcher
                .retry_later(run.ticket, job, wait, how, self.now);
            return;
        }
        self.outcome.failed += usize::from(how != JobRunResult::Done);
        self.dispatcher
            .on_finished(run.ticket, JobRunReport { bytes, result: how }, self.now);
    }
}

/// A number in 0..1 that depends on two others, and on nothing else.
pub(crate) fn random(seed: u64, of: u32) -> f64 {
    let mut bits = (seed << 32 | u64::from(of)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (bits >> 40) as f64 / (1u64 << 24) as f64
}
