//! A batch in simulated time: the dispatcher, driven as a feeder and a driver drive it, against simulated hosts.
//!
//! What the harness does beside carrying decisions out is what a batch does around them: a connection that has brought a file
//! is used again, a job that may heal is tried three times more, and jobs of a host that would crowd the window are put aside.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use haul_plan::dispatch::{
    DispatchDecision, JobDispatcher, JobDispatcherOptions, JobRunReport, JobRunResult, JobTicket,
};

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// The waits before a job is tried again.
const AGAIN: [Duration; 3] = [ms(200), ms(400), ms(800)];

/// A request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimulatedRequest {
    pub(crate) now: Duration,
    pub(crate) host: u32,
    /// The job's number in the list.
    pub(crate) job: u32,
    /// Whether a connection must be made for it.
    pub(crate) cold: bool,
    /// Requests of this host that are under way beside it.
    pub(crate) beside: usize,
}

/// What comes of it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SimulatedResult {
    /// A head after `head`, and the file after `body` more.
    File {
        head: Duration,
        body: Duration,
        bytes: u64,
    },
    /// The same, of a file that goes on over connections of its own.
    Large { head: Duration, body: Duration },
    /// No connection.
    Unreachable(Duration),
    /// 429.
    Refused(Duration, Option<Duration>),
}

/// The hosts.
pub(crate) trait SimulatedHosts {
    fn ask(&mut self, ask: SimulatedRequest) -> SimulatedResult;

    /// Streams on a connection, where hosts multiplex.
    fn streams(&self) -> Option<usize> {
        None
    }
}

impl<F: FnMut(SimulatedRequest) -> SimulatedResult> SimulatedHosts for F {
    fn ask(&mut self, ask: SimulatedRequest) -> SimulatedResult {
        self(ask)
    }
}

/// A job: which, of which host, and how many tries it has had.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimulatedJob {
    pub(crate) host: u32,
    pub(crate) job: u32,
    tries: u32,
}

/// What happens to a running job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SimulatedJobEvent {
    Head,
    Large,
    End,
}

#[derive(Debug, Clone, Copy)]
struct SimulatedRun {
    ticket: JobTicket,
    load: SimulatedJob,
    fate: SimulatedResult,
    cold: bool,
}

/// What came of a batch.
#[derive(Clone, Default)]
pub(crate) struct SimulatedBatchOutcome {
    /// When the last job ended, and the last that was done.
    pub(crate) time: Duration,
    pub(crate) done_at: Duration,
    pub(crate) done: usize,
    pub(crate) failed: usize,
    pub(crate) refused: usize,
    pub(crate) requests: usize,
    /// 429s.
    pub(crate) refusals: usize,
    /// Connections made.
    pub(crate) connections: usize,
    /// The most that there ever was.
    pub(crate) running: usize,
    pub(crate) held: usize,
    pub(crate) hosts: usize,
    pub(crate) remembered: usize,
    pub(crate) aside: usize,
    /// The most of one host at once.
    pub(crate) of_one: usize,
    /// When a host was first allowed so many at once: 4, 8, 16.
    pub(crate) reached: [Option<Duration>; 3],
    /// When the last file of each host was there.
    pub(crate) last: HashMap<u32, Duration>,
    /// In which order jobs were begun.
    pub(crate) begun: Vec<(u32, u32)>,
}

impl std::fmt::Debug for SimulatedBatchOutcome {
    /// All but the long lists.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outcome")
            .field("time", &(self.time, self.done_at))
            .field("done", &(self.done, self.failed, self.refused))
            .field(
                "requests",
                &(self.requests, self.refusals, self.connections),
            )
            .field("most", &(self.running, self.held, self.hosts, self.of_one))
            .field("aside", &(self.aside, self.remembered))
            .field("reached", &self.reached)
            .finish()
    }
}

#[derive(Debug, Default)]
struct SimulatedHost {
    under_way: usize,
    idle: usize,
}

/// A batch under way.
pub(crate) struct SimulatedBatch<'a, L: Iterator<Item = u32>> {
    world: &'a mut dyn SimulatedHosts,
    options: JobDispatcherOptions,
    dispatch: JobDispatcher<SimulatedJob>,
    list: std::iter::Enumerate<L>,
    ended: bool,
    /// An entry that waits for room.
    pending: Option<SimulatedJob>,
    aside: HashMap<u32, VecDeque<SimulatedJob>>,
    /// Hosts that have something aside, in turn.
    turns: VecDeque<u32>,
    put_aside: usize,
    hosts: HashMap<u32, SimulatedHost>,
    runs: HashMap<u64, SimulatedRun>,
    events: BinaryHeap<Reverse<(Duration, u64, SimulatedJobEvent)>>,
    next: u64,
    now: Duration,
    /// Whether details are kept that cost memory.
    detailed: bool,
    outcome: SimulatedBatchOutcome,
}

fn name(host: u32) -> String {
    format!("http://h{host}.test:80")
}

/// Runs a list of hosts, a job each, to its end.
pub(crate) fn run(
    world: &mut dyn SimulatedHosts,
    options: JobDispatcherOptions,
    list: impl IntoIterator<Item = u32>,
) -> SimulatedBatchOutcome {
    SimulatedBatch::new(world, options, list.into_iter()).run()
}

impl<'a, L: Iterator<Item = u32>> SimulatedBatch<'a, L> {
    pub(crate) fn new(
        world: &'a mut dyn SimulatedHosts,
        options: JobDispatcherOptions,
        list: L,
    ) -> Self {
        let detailed = list.size_hint().1.is_some_and(|jobs| jobs <= 100_000);
        Self {
            world,
            options,
            dispatch: JobDispatcher::new(options),
            list: list.enumerate(),
            ended: false,
            pending: None,
            aside: HashMap::new(),
            turns: VecDeque::new(),
            put_aside: 0,
            hosts: HashMap::new(),
            runs: HashMap::new(),
            events: BinaryHeap::new(),
            next: 0,
            now: Duration::ZERO,
            detailed,
            outcome: SimulatedBatchOutcome::default(),
        }
    }

    pub(crate) fn run(mut self) -> SimulatedBatchOutcome {
        loop {
            self.feed();
            match self.dispatch.next(self.now) {
                DispatchDecision::Run(ticket, load) => self.begin(ticket, load),
                DispatchDecision::Reject(..) => self.outcome.refused += 1,
                DispatchDecision::Done => break,
                DispatchDecision::Wait(until) => self.pass(until),
            }
            self.look();
        }
        assert_eq!(self.dispatch.held_jobs(), 0);
        assert_eq!(self.dispatch.host_count(), 0);
        self.outcome.time = self.now;
        self.outcome.aside = self.put_aside;
        self.outcome
    }

    fn look(&mut self) {
        let outcome = &mut self.outcome;
        outcome.running = outcome.running.max(self.dispatch.running_jobs());
        outcome.held = outcome.held.max(self.dispatch.held_jobs());
        outcome.hosts = outcome.hosts.max(self.dispatch.host_count());
        outcome.remembered = outcome.remembered.max(self.dispatch.idle_host_count());
        assert!(
            self.dispatch.running_jobs() <= self.options.request_slots + self.options.max_overdue
        );
        assert!(self.dispatch.held_jobs() <= self.options.window);
    }

    /// Adds what there is room for.
    fn feed(&mut self) {
        for _ in 0..self.turns.len().min(4) {
            self.take_back();
        }
        while self.dispatch.has_room() && !self.ended {
            let Some(load) = self.pending.take().or_else(|| self.read()) else {
                break;
            };
            let host = name(load.host);
            let behind = self.aside.contains_key(&load.host);
            if !behind && !self.dispatch.is_crowding(&host) {
                self.dispatch.add(&host, load, self.now);
            } else if self.dispatch.may_spill(self.now) {
                self.put_aside(load);
            } else {
                self.pending = Some(load);
                return;
            }
        }
        if self.pending.is_none() && self.aside.is_empty() && self.exhausted() {
            self.dispatch.close();
        }
    }

    fn read(&mut self) -> Option<SimulatedJob> {
        let Some((job, host)) = self.list.next() else {
            self.ended = true;
            return None;
        };
        let job = u32::try_from(job).unwrap();
        Some(SimulatedJob {
            host,
            job,
            tries: 0,
        })
    }

    fn exhausted(&mut self) -> bool {
        if !self.ended && self.pending.is_none() {
            self.pending = self.read();
        }
        self.ended && self.pending.is_none()
    }

    fn put_aside(&mut self, load: SimulatedJob) {
        self.put_aside += 1;
        let queue = self.aside.entry(load.host).or_default();
        if queue.is_empty() {
            self.turns.push_back(load.host);
        }
        queue.push_back(load);
    }

    /// Offers what lies aside of the host whose turn it is.
    fn take_back(&mut self) {
        let Some(host) = self.turns.pop_front() else {
            return;
        };
        while self.dispatch.has_room() && !self.dispatch.is_crowding(&name(host)) {
            let Some(load) = self.aside.get_mut(&host).and_then(VecDeque::pop_front) else {
                break;
            };
            self.dispatch.add(&name(host), load, self.now);
        }
        if self.aside.get(&host).is_some_and(VecDeque::is_empty) {
            self.aside.remove(&host);
        } else {
            self.turns.push_back(host);
        }
    }

    fn begin(&mut self, ticket: JobTicket, load: SimulatedJob) {
        let host = self.hosts.entry(load.host).or_default();
        let cold = host.idle == 0;
        if !cold && self.world.streams().is_none() {
            host.idle -= 1;
        }
        let ask = SimulatedRequest {
            now: self.now,
            host: load.host,
            job: load.job,
            cold,
            beside: host.under_way,
        };
        host.under_way += 1;
        let outcome = &mut self.outcome;
        outcome.of_one = outcome.of_one.max(host.under_way);
        outcome.requests += 1;
        outcome.connections += usize::from(cold);
        if self.detailed {
            outcome.begun.push((load.host, load.job));
        }
        for (reached, number) in outcome.reached.iter_mut().zip([4, 8, 16]) {
            if host.under_way >= number {
                reached.get_or_insert(self.now);
            }
        }
        let fate = self.world.ask(ask);
        self.next += 1;
        let run = SimulatedRun {
            ticket,
            load,
            fate,
            cold,
        };
        self.runs.insert(self.next, run);
        let mut at = |after, event| {
            self.events
                .push(Reverse((self.now + after, self.next, event)));
        };
        match fate {
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

    /// Time passes to the next event, or until then.
    fn pass(&mut self, until: Option<Duration>) {
        let event = self.events.peek().map(|Reverse((at, ..))| *at);
        // A feeder that has something in its hand looks again and again.
        let look = self.pending.map(|_| self.now + ms(10));
        let next = event.into_iter().chain(until).chain(look).min();
        let next = next.expect("something must happen, or jobs are lost");
        assert!(next >= self.now, "time goes on");
        // The driver has the dispatcher look once a second.
        let second = Duration::from_secs(self.now.as_secs() + 1);
        if next >= second {
            self.now = second;
            self.dispatch.widen_stalled_hosts(second);
            return;
        }
        self.now = next;
        if event == Some(next)
            && let Some(Reverse((_, id, event))) = self.events.pop()
        {
            self.happen(id, event);
        }
    }

    fn happen(&mut self, id: u64, event: SimulatedJobEvent) {
        let run = self.runs[&id];
        match event {
            SimulatedJobEvent::Head => {
                let streams = self.world.streams();
                self.dispatch
                    .on_response_head(run.ticket, streams, self.now);
                if run.cold && streams.is_some() {
                    self.hosts.get_mut(&run.load.host).unwrap().idle = 1;
                }
            }
            SimulatedJobEvent::Large => {
                self.dispatch
                    .on_response_head(run.ticket, self.world.streams(), self.now);
                self.dispatch.on_large_file(run.ticket, self.now);
                self.hosts.get_mut(&run.load.host).unwrap().under_way -= 1;
            }
            SimulatedJobEvent::End => self.end(id, run),
        }
    }

    fn end(&mut self, id: u64, run: SimulatedRun) {
        self.runs.remove(&id);
        let host = self.hosts.get_mut(&run.load.host).unwrap();
        host.under_way -= usize::from(!matches!(run.fate, SimulatedResult::Large { .. }));
        let (bytes, how) = match run.fate {
            SimulatedResult::File { bytes, .. } => (bytes, JobRunResult::Done),
            SimulatedResult::Large { .. } => (1 << 30, JobRunResult::Done),
            SimulatedResult::Unreachable(_) => (0, JobRunResult::Unreachable),
            SimulatedResult::Refused(_, wait) => (
                0,
                JobRunResult::Refused {
                    overloaded: true,
                    retry_after: wait,
                },
            ),
        };
        if how == JobRunResult::Done {
            host.idle += usize::from(self.world.streams().is_none());
            self.outcome.done += 1;
            self.outcome.done_at = self.now;
            if self.detailed {
                self.outcome.last.insert(run.load.host, self.now);
            }
        }
        if host.under_way == 0 && !self.detailed {
            self.hosts.remove(&run.load.host);
        }
        self.outcome.refusals += usize::from(matches!(run.fate, SimulatedResult::Refused(..)));
        let tries = run.load.tries as usize;
        let endless = matches!(run.fate, SimulatedResult::Refused(..));
        if how != JobRunResult::Done && (endless || tries < AGAIN.len()) {
            let load = SimulatedJob {
                tries: run.load.tries + 1,
                ..run.load
            };
            let wait = AGAIN[tries.min(AGAIN.len() - 1)];
            self.dispatch
                .retry_later(run.ticket, load, wait, how, self.now);
            return;
        }
        self.outcome.failed += usize::from(how != JobRunResult::Done);
        self.dispatch
            .on_finished(run.ticket, JobRunReport { bytes, result: how }, self.now);
    }
}

/// A number in 0..1 that depends on two others, and on nothing else.
pub(crate) fn drawn(seed: u64, of: u32) -> f64 {
    let mut bits = (seed << 32 | u64::from(of)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (bits >> 40) as f64 / (1u64 << 24) as f64
}
