//! What the workers of a batch share.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haul_plan::ForbiddenPolicy;
use haul_plan::dispatch::{DispatchDecision, JobDispatcher, JobTicket, UnreachableHost};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::counters::BatchCounters;
use super::group_commit::{CommitMessage, error_chain};
use super::job::BatchJob;
use super::options::BatchHaltKind;
use super::running_jobs::RunningJobs;
use super::unnamed_files::UnnamedFileSupport;
use super::unreachable::UnreachableReasons;
use super::worker;
use super::write_buffer::WriteBuffer;
use crate::error::GetError;
use crate::get::EngineState;

/// What the workers share.
#[derive(Debug)]
pub(super) struct BatchState {
    /// Does what one job needs.
    pub(super) engine: EngineState,
    /// Says which job is next.
    dispatch: Mutex<JobDispatcher<Box<BatchJob>>>,
    /// Told when jobs may be added again.
    room: Condvar,
    /// When that is: so few jobs are held.
    low: usize,
    /// The workers at work.
    pub(super) workers: Mutex<JoinSet<()>>,
    /// Where workers run.
    runtime: Handle,
    /// Told when a worker may have ended the last job.
    pub(super) over: Notify,
    /// Where files that came lie until they are written.
    pub(super) table: WriteBuffer,
    /// Where ends are told.
    pub(super) clerk: mpsc::Sender<Vec<CommitMessage>>,
    /// Which jobs run.
    pub(super) underway: RunningJobs,
    /// Leave for files to be open: those that wait for the clerk, and those of the present group.
    pub(super) open: Arc<Semaphore>,
    /// What is known of hosts that answered 403.
    denials: Mutex<ForbiddenPolicy>,
    /// Why hosts could not be reached.
    pub(super) reasons: UnreachableReasons,
    /// Leave to write an armful.
    pub(super) hands: Semaphore,
    /// Armfuls that are written, or wait to be.
    in_hand: AtomicUsize,
    /// Where files cannot be without a name.
    pub(super) nameless: UnnamedFileSupport,
    /// What a small file's body may take.
    pub(super) patience: Duration,
    /// Room for bodies in memory.
    pub(super) budget: Arc<Semaphore>,
    /// Ends everything soon.
    pub(super) stop: CancellationToken,
    /// Bytes as they came.
    pub(super) fetched: AtomicU64,
    /// Tries that were followed by another.
    pub(super) retries: AtomicU64,
    /// Jobs that an earlier run has done.
    pub(super) earlier: AtomicU64,
    /// Jobs that the lists named.
    pub(super) listed: AtomicU64,
    /// The second in which the dispatcher last looked.
    looked: AtomicU64,
    /// What came of the jobs so far.
    counts: Arc<BatchCounters>,
    /// What the dispatcher's time counts from.
    begun: Instant,
}

/// What a batch begins with.
pub(super) struct BatchStart {
    pub(super) engine: EngineState,
    pub(super) dispatch: JobDispatcher<Box<BatchJob>>,
    pub(super) low: usize,
    pub(super) open: usize,
    pub(super) patience: Duration,
    pub(super) clerk: mpsc::Sender<Vec<CommitMessage>>,
    pub(super) stop: CancellationToken,
    pub(super) counts: Arc<BatchCounters>,
}

impl BatchState {
    pub(super) fn new(start: BatchStart) -> Self {
        Self {
            engine: start.engine,
            dispatch: Mutex::new(start.dispatch),
            room: Condvar::new(),
            low: start.low,
            workers: Mutex::default(),
            runtime: Handle::current(),
            over: Notify::new(),
            table: WriteBuffer::default(),
            clerk: start.clerk,
            underway: RunningJobs::default(),
            open: Arc::new(Semaphore::new(start.open)),
            denials: Mutex::default(),
            reasons: UnreachableReasons::default(),
            nameless: UnnamedFileSupport::default(),
            patience: start.patience,
            hands: Semaphore::new(HANDS),
            in_hand: AtomicUsize::new(0),
            budget: crate::get::single_response::memory_budget(),
            stop: start.stop,
            fetched: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            earlier: AtomicU64::new(0),
            listed: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            counts: start.counts,
            begun: Instant::now(),
        }
    }

    /// The dispatcher. A panic under the lock is a bug that the panicking task reports.
    pub(super) fn dispatch(&self) -> MutexGuard<'_, JobDispatcher<Box<BatchJob>>> {
        self.dispatch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of hosts that answered 403.
    pub(super) fn denials(&self) -> MutexGuard<'_, ForbiddenPolicy> {
        self.denials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the batch began.
    pub(super) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// An armful waits to be written until the answer is dropped.
    pub(super) fn take_in_hand(&self) -> FlushGuard<'_> {
        self.in_hand.fetch_add(1, Ordering::Relaxed);
        FlushGuard(&self.in_hand)
    }

    /// Whether more has come than can be written: what comes besides would be held in memory, and open.
    fn is_behind(&self) -> bool {
        self.in_hand.load(Ordering::Relaxed) >= 2 * HANDS
    }

    /// The next job that may run now. None does while the clerk, or the disk, has more to do than it can: a look begins again.
    pub(super) fn next(&self) -> Option<(JobTicket, Box<BatchJob>)> {
        while !self.stop.is_cancelled() && !self.is_behind() {
            let room = self.clerk.try_reserve().ok()?;
            let next = self.dispatch().next(self.now());
            match next {
                DispatchDecision::Run(ticket, job) => return Some((ticket, job)),
                DispatchDecision::Reject(job, given_up) => {
                    if let Some(delivery) = self.refuse(job, given_up) {
                        room.send(vec![delivery]);
                    }
                }
                DispatchDecision::Wait(_) | DispatchDecision::Done => return None,
            }
        }
        None
    }

    /// A job whose host was given up: it turns to a mirror, or has failed.
    fn refuse(&self, mut job: Box<BatchJob>, given_up: UnreachableHost) -> Option<CommitMessage> {
        if job.switch_to_mirror(&self.engine.options().retry) {
            self.put_back(job);
            return None;
        }
        self.made_room(&self.dispatch());
        let reason = self.reasons.get(&job.host());
        let error = GetError::HostUnreachable {
            url: Box::new(haul_net::without_credentials(&job.download.url)),
            attempts: given_up.failures,
            proxy: reason.as_ref().is_some_and(|reason| reason.is_proxy),
            reason: reason.map(|reason| reason.text),
        };
        Some(CommitMessage::failed(&job, error))
    }

    /// The host of a large job that began without an answer has given one.
    pub(super) fn answered_large(self: &Arc<Self>, ticket: JobTicket) {
        self.dispatch().on_large_file(ticket, self.now());
        self.recruit();
    }

    /// Lets the dispatcher look at hosts that stand still, once a second: it looks at all of them.
    pub(super) fn look(&self) {
        let now = self.now();
        let second = now.as_secs();
        if self.looked.swap(second, Ordering::Relaxed) != second {
            self.dispatch().widen_stalled_hosts(now);
        }
    }

    /// Puts as many workers to work as there are jobs that may run.
    pub(super) fn recruit(self: &Arc<Self>) {
        while let Some(job) = self.next() {
            let work = worker::work(Arc::clone(self), job);
            self.workers().spawn_on(work, &self.runtime);
        }
    }

    pub(super) fn workers(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job if there is room for it, and for its host; gives it back otherwise, saying whether it is the host that has too many.
    pub(super) fn add(self: &Arc<Self>, host: &str, job: Box<BatchJob>) -> Result<(), WindowFull> {
        let now = self.now();
        let mut dispatch = self.dispatch();
        if !dispatch.has_room() {
            return Err(WindowFull::Window(job));
        }
        if dispatch.is_crowding(host) {
            return Err(match dispatch.may_spill(now) {
                true => WindowFull::Host(job),
                false => WindowFull::Window(job),
            });
        }
        dispatch.add(host, job, now);
        drop(dispatch);
        self.recruit();
        Ok(())
    }

    /// Ends the batch: jobs would be lost.
    pub(super) fn halt(&self, error: &GetError) {
        self.counts.halt(BatchHaltKind::LocalIo, error_chain(error));
        self.stop.cancel();
    }

    /// Whether a job of a host could be added now.
    pub(super) fn has_room_for(&self, host: &str) -> bool {
        let dispatch = self.dispatch();
        dispatch.has_room() && !dispatch.is_crowding(host)
    }

    /// Waits until there may be room. Looked at again now and then, for the stop has no way to wake this thread. Called from a thread
    /// that may wait.
    pub(super) fn wait_for_room(&self) {
        let dispatch = self.dispatch();
        let _ = self.room.wait_timeout(dispatch, WAIT);
    }

    /// Adds a job that another host is asked for now. Its place was counted before, so nobody waits for room.
    pub(super) fn put_back(&self, job: Box<BatchJob>) {
        let host = job.host();
        let now = self.now();
        self.dispatch().add(&host, job, now);
    }

    /// A job's place is free; whoever waits for room is told when there is much of it, for each waking costs as much as a request.
    pub(super) fn made_room(&self, dispatch: &JobDispatcher<Box<BatchJob>>) {
        if dispatch.held_jobs() == self.low {
            self.room.notify_one();
        }
    }
}

/// Armfuls that are written at once. Each takes a thread from the reactors until another has taken its place; where files only go into
/// memory, two keep the processors busy, and more help a disk that is asked for several things at once.
const HANDS: usize = 4;

/// How long the feeder sleeps at most before it looks again.
const WAIT: Duration = Duration::from_millis(10);

/// An armful that is written, or waits to be.
pub(super) struct FlushGuard<'a>(&'a AtomicUsize);

impl Drop for FlushGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a job was not added.
pub(super) enum WindowFull {
    /// Enough jobs are held.
    Window(Box<BatchJob>),
    /// Enough of its host are, and others would help: it may be put aside.
    Host(Box<BatchJob>),
}
