//! What the workers of a batch share.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haul_plan::Denials;
use haul_plan::dispatch::{Dispatch, GivenUp, Next, Ticket};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::books::Counts;
use super::clerk::{Delivery, chain};
use super::errand::Errand;
use super::nameless::Nameless;
use super::options::Halt;
use super::reasons::Reasons;
use super::table::Table;
use super::underway::Underway;
use super::worker;
use crate::error::GetError;
use crate::get::Inner;

/// What the workers share.
#[derive(Debug)]
pub(super) struct Shared {
    /// Does what one job needs.
    pub(super) engine: Inner,
    /// Says which job is next.
    dispatch: Mutex<Dispatch<Box<Errand>>>,
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
    pub(super) table: Table,
    /// Where ends are told.
    pub(super) clerk: mpsc::Sender<Vec<Delivery>>,
    /// Which jobs run.
    pub(super) underway: Underway,
    /// Leave for files to be open: those that wait for the clerk, and those of the present group.
    pub(super) open: Arc<Semaphore>,
    /// What is known of hosts that answered 403.
    denials: Mutex<Denials>,
    /// Why hosts could not be reached.
    pub(super) reasons: Reasons,
    /// Leave to write an armful.
    pub(super) hands: Semaphore,
    /// Armfuls that are written, or wait to be.
    in_hand: AtomicUsize,
    /// Where files cannot be without a name.
    pub(super) nameless: Nameless,
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
    counts: Arc<Counts>,
    /// What the dispatcher's time counts from.
    begun: Instant,
}

/// What a batch begins with.
pub(super) struct Start {
    pub(super) engine: Inner,
    pub(super) dispatch: Dispatch<Box<Errand>>,
    pub(super) low: usize,
    pub(super) open: usize,
    pub(super) patience: Duration,
    pub(super) clerk: mpsc::Sender<Vec<Delivery>>,
    pub(super) stop: CancellationToken,
    pub(super) counts: Arc<Counts>,
}

impl Shared {
    pub(super) fn new(start: Start) -> Self {
        Self {
            engine: start.engine,
            dispatch: Mutex::new(start.dispatch),
            room: Condvar::new(),
            low: start.low,
            workers: Mutex::default(),
            runtime: Handle::current(),
            over: Notify::new(),
            table: Table::default(),
            clerk: start.clerk,
            underway: Underway::default(),
            open: Arc::new(Semaphore::new(start.open)),
            denials: Mutex::default(),
            reasons: Reasons::default(),
            nameless: Nameless::default(),
            patience: start.patience,
            hands: Semaphore::new(HANDS),
            in_hand: AtomicUsize::new(0),
            budget: crate::get::quick::budget(),
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
    pub(super) fn dispatch(&self) -> MutexGuard<'_, Dispatch<Box<Errand>>> {
        self.dispatch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of hosts that answered 403.
    pub(super) fn denials(&self) -> MutexGuard<'_, Denials> {
        self.denials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the batch began.
    pub(super) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// An armful waits to be written until the answer is dropped.
    pub(super) fn take_in_hand(&self) -> InHand<'_> {
        self.in_hand.fetch_add(1, Ordering::Relaxed);
        InHand(&self.in_hand)
    }

    /// Whether more has come than can be written: what comes besides would be held in memory, and open.
    fn is_behind(&self) -> bool {
        self.in_hand.load(Ordering::Relaxed) >= 2 * HANDS
    }

    /// The next job that may run now. None does while the clerk, or the disk, has more to do than it can: a look begins again.
    pub(super) fn next(&self) -> Option<(Ticket, Box<Errand>)> {
        while !self.stop.is_cancelled() && !self.is_behind() {
            let room = self.clerk.try_reserve().ok()?;
            let next = self.dispatch().next(self.now());
            match next {
                Next::Run(ticket, errand) => return Some((ticket, errand)),
                Next::Refuse(errand, given_up) => {
                    if let Some(delivery) = self.refuse(errand, given_up) {
                        room.send(vec![delivery]);
                    }
                }
                Next::Wait(_) | Next::Done => return None,
            }
        }
        None
    }

    /// A job whose host was given up: it turns to a mirror, or has failed.
    fn refuse(&self, mut errand: Box<Errand>, given_up: GivenUp) -> Option<Delivery> {
        if errand.turn_to_mirror(&self.engine.options().retry) {
            self.put_back(errand);
            return None;
        }
        self.made_room(&self.dispatch());
        let reason = self.reasons.of(&errand.host());
        let error = GetError::HostDown {
            url: Box::new(haul_net::without_credentials(&errand.job.url)),
            failures: given_up.failures,
            proxy: reason.as_ref().is_some_and(|reason| reason.proxy),
            why: reason.map(|reason| reason.why),
        };
        Some(Delivery::failed(&errand, error))
    }

    /// The host of a large job that began without an answer has given one.
    pub(super) fn answered_large(self: &Arc<Self>, ticket: Ticket) {
        self.dispatch().large(ticket, self.now());
        self.recruit();
    }

    /// Lets the dispatcher look at hosts that stand still, once a second: it looks at all of them.
    pub(super) fn look(&self) {
        let now = self.now();
        let second = now.as_secs();
        if self.looked.swap(second, Ordering::Relaxed) != second {
            self.dispatch().look(now);
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
    pub(super) fn add(self: &Arc<Self>, host: &str, errand: Box<Errand>) -> Result<(), Full> {
        let now = self.now();
        let mut dispatch = self.dispatch();
        if !dispatch.has_room() {
            return Err(Full::Window(errand));
        }
        if dispatch.would_crowd(host) {
            return Err(match dispatch.may_put_aside(now) {
                true => Full::Host(errand),
                false => Full::Window(errand),
            });
        }
        dispatch.add(host, errand, now);
        drop(dispatch);
        self.recruit();
        Ok(())
    }

    /// Ends the batch: jobs would be lost.
    pub(super) fn halt(&self, error: &GetError) {
        self.counts.halt(Halt::LocalIo, chain(error));
        self.stop.cancel();
    }

    /// Whether a job of a host could be added now.
    pub(super) fn has_room_for(&self, host: &str) -> bool {
        let dispatch = self.dispatch();
        dispatch.has_room() && !dispatch.would_crowd(host)
    }

    /// Waits until there may be room. Looked at again now and then, for the stop has no way to wake this thread. Called from a thread
    /// that may wait.
    pub(super) fn wait_for_room(&self) {
        let dispatch = self.dispatch();
        let _ = self.room.wait_timeout(dispatch, WAIT);
    }

    /// Adds a job that another host is asked for now. Its place was counted before, so nobody waits for room.
    pub(super) fn put_back(&self, errand: Box<Errand>) {
        let host = errand.host();
        let now = self.now();
        self.dispatch().add(&host, errand, now);
    }

    /// A job's place is free; whoever waits for room is told when there is much of it, for each waking costs as much as a request.
    pub(super) fn made_room(&self, dispatch: &Dispatch<Box<Errand>>) {
        if dispatch.held() == self.low {
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
pub(super) struct InHand<'a>(&'a AtomicUsize);

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a job was not added.
pub(super) enum Full {
    /// Enough jobs are held.
    Window(Box<Errand>),
    /// Enough of its host are, and others would help: it may be put aside.
    Host(Box<Errand>),
}
