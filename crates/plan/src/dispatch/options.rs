//! What a [`JobDispatcher`](super::JobDispatcher) is told, and what it answers.

use std::time::Duration;

/// How many requests one origin gets at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostRequestLimit {
    /// Found by watching what they bring.
    Auto {
        /// Never more than this, unless the origin multiplexes.
        max: usize,
    },
    /// The user's number, whatever the protocol: only refusals lower it.
    Fixed(usize),
}

impl HostRequestLimit {
    /// The most that an origin gets that does not multiplex.
    #[must_use]
    pub fn max(self) -> usize {
        match self {
            Self::Auto { max: most } | Self::Fixed(most) => most.max(1),
        }
    }
}

/// Limits of a [`JobDispatcher`](super::JobDispatcher).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobDispatcherOptions {
    /// The user's number of files at once. It is never exceeded, so with it dead hosts take places like others. `None`: as many as
    /// the hosts' own numbers come to, up to [`request_slots`](Self::request_slots).
    pub max_jobs: Option<usize>,
    /// Requests at once to one origin.
    pub per_host: HostRequestLimit,
    /// The same where the origin multiplexes (HTTP/2), if it allows as many streams: they cost it little, so none are counted first.
    pub max_streams: usize,
    /// Jobs at once that are answered, or may be soon.
    pub request_slots: usize,
    /// How many of those may be the first of their hosts: nobody has heard of these yet, and they may be dead.
    pub untried_host_slots: usize,
    /// Jobs that are held: queued, waiting to be tried again, or running.
    pub window: usize,
    /// Jobs beyond the total that have waited long for a connection or an answer. So many dead hosts can be waited for at
    /// a time without a place of the living; where a share `d` of all hosts takes `c` seconds to fail and the others `t` to
    /// answer, that takes `untried_host_slots * d * c / t`.
    pub max_overdue: usize,
}

impl Default for JobDispatcherOptions {
    fn default() -> Self {
        Self {
            max_jobs: None,
            // Small files wait for round trips, each connection for one at a time: over an ocean sixteen bring two hundred files a
            // second. Whoever is near, or busy, shows it on the way up.
            per_host: HostRequestLimit::Auto { max: 128 },
            // Twice what most servers allow on a connection.
            max_streams: 256,
            // Two hosts far away, or 256 slow ones: more cost memory and bring little.
            request_slots: 256,
            untried_host_slots: 64,
            // Enough that a list which is sorted in stretches of hundreds keeps several hosts busy.
            window: 4096,
            // One host in twenty dead for ten seconds each, at six hundred a second and more.
            max_overdue: 512,
        }
    }
}

/// A job that runs. It is good for one run: a job that is tried again gets another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobTicket {
    /// Its slot.
    pub(super) slot: u32,
    /// Which run of all.
    pub(super) run: u64,
}

/// What a run of a job says about its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobRunResult {
    /// The job is done, as far as the host is concerned: it answered as asked.
    Done,
    /// It answered something else (404, 500), or broke off, or was too slow.
    Failed,
    /// No connection came about: refused, timed out, name unknown.
    Unreachable,
    /// The host does not want this many requests: 429, 503, a connection that was closed or reset before its answer.
    Refused {
        /// Whether it says that it is overloaded.
        overloaded: bool,
        /// What Retry-After said.
        retry_after: Option<Duration>,
    },
}

/// The end of a job's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobRunReport {
    /// Bytes of its answer.
    pub bytes: u64,
    /// What came of it.
    pub result: JobRunResult,
}

/// Why a job is refused: nobody can connect to its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnreachableHost {
    /// How many times in a row that was tried, at different moments.
    pub failures: u32,
    /// When it will be tried again.
    pub retry_at: Duration,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DispatchDecision<T> {
    /// Run this job.
    Run(JobTicket, T),
    /// This job has failed without being tried: its host was given up. It is no longer held.
    Reject(T, UnreachableHost),
    /// Nothing until something is told; or until this moment, since the run began, if there is one.
    Wait(Option<Duration>),
    /// All jobs have ended, and no more will come.
    Done,
}
