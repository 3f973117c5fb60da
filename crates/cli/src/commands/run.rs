//! What commands that transfer have in common: a runtime, an engine, and the one loop that sees everything.
//!
//! Jobs run on the runtime's threads and touch nothing but their files. Their events, their ends, signals and the time come
//! together in [`transfer`], which alone writes to the terminal: its `select!` only says what happened, and a plain
//! method decides.

use std::io;
use std::num::NonZero;
use std::time::Duration;

use haul_net::ClientConfig;
use haul_transfer::{Engine, Event, GetError, GetOptions, Job, Outcome};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::limits;
use crate::progress::Renderer;
use crate::signals::{Asked, Signals, abort};

/// Events that may wait for the renderer: some for each job, so that printing a line holds none up.
const EVENTS: usize = 1024;

/// Jobs at once: what hides the round trips of small files; large ones share the connections to their origin anyway.
const JOBS: usize = 16;

/// How long the loop has to put the terminal right after a second signal.
const GRACE: Duration = Duration::from_millis(500);

/// Between two frames.
const FRAME: Duration = Duration::from_millis(100);

/// A runtime with a thread a core, within limits: two, so that one can wait for the disk; no more than four, since a
/// download that needs more is limited elsewhere.
///
/// # Errors
/// What the system says.
pub(super) fn runtime() -> io::Result<Runtime> {
    limits::room_to_begin()?;
    let cores = std::thread::available_parallelism().map_or(2, NonZero::get);
    Builder::new_multi_thread()
        .worker_threads(cores.clamp(2, 4))
        .enable_all()
        .build()
}

/// What is to be done.
#[derive(Debug)]
pub(super) struct Work {
    /// For `net`.
    pub(super) client: ClientConfig,
    /// For `transfer`.
    pub(super) options: GetOptions,
    /// In the order they are begun.
    pub(super) jobs: Vec<Job>,
}

/// Why nothing was begun.
#[derive(Debug, thiserror::Error)]
pub(super) enum CannotBegin {
    /// A certificate or key is not what it should be.
    #[error(transparent)]
    Settings(#[from] haul_net::ConfigError),
    /// Signals cannot be listened to.
    #[error("cannot listen to signals")]
    Signals(#[source] io::Error),
}

/// A job and what came of it.
type Ended = Box<(Job, Result<Outcome, GetError>)>;

/// What happened.
enum Happening {
    /// A signal.
    Signal(Asked),
    /// The engine tells something; `None`: it will not any more.
    Told(Option<Event>),
    /// A job ended, or panicked.
    Ended(Result<Ended, JoinError>),
    /// It is time for a frame.
    Tick,
}

/// Does jobs, several at once; `ended` is told each end as it comes, and when that was, and writes through the renderer.
///
/// After the first signal running jobs are asked to stop and no other is begun; at the second the process ends.
///
/// # Errors
/// See [`CannotBegin`]. A job that fails is no error.
pub(super) async fn transfer(
    work: Work,
    screen: &mut dyn Renderer,
    ended: impl FnMut((&mut dyn Renderer, Duration), &Job, &Result<Outcome, GetError>) + Send,
) -> Result<(), CannotBegin> {
    let mut signals = Signals::listen().map_err(CannotBegin::Signals)?;
    let (sender, mut events) = mpsc::channel(EVENTS);
    let engine = Engine::new(haul_net::Client::new(work.client)?, work.options, sender);
    let animated = screen.is_animated();
    let mut frames = tokio::time::interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut floor = Floor {
        engine: Some(engine),
        waiting: work.jobs.into_iter(),
        running: JoinSet::new(),
        stop: CancellationToken::new(),
        stopping: false,
        begun: Instant::now(),
        screen,
        ended,
    };
    let mut guard = JoinSet::new();
    guard.spawn(backstop(
        Signals::listen().map_err(CannotBegin::Signals)?,
        floor.stop.clone(),
    ));
    floor.fill();
    loop {
        // Events before ends: a job's last event is shown before its end is told.
        let happening = tokio::select! {
            biased;
            asked = signals.next() => Happening::Signal(asked),
            event = events.recv() => Happening::Told(event),
            Some(end) = floor.running.join_next() => Happening::Ended(end),
            _ = frames.tick(), if animated => Happening::Tick,
        };
        if floor.on(happening).is_break() {
            break;
        }
    }
    // The last job's end may still wait when its last event, and with it the channel, is gone.
    while let Some(end) = floor.running.join_next().await {
        let _ = floor.on(Happening::Ended(end));
    }
    floor.screen.close();
    Ok(())
}

/// Hears signals where the loop cannot, while it waits for a reader of standard output: jobs are asked to stop at the first,
/// and some time after the second, which the loop would have obeyed by then, the process ends.
async fn backstop(mut signals: Signals, stop: CancellationToken) {
    signals.next().await;
    stop.cancel();
    // A hang-up that is told twice is one.
    while signals.next().await != Asked::End {}
    tokio::time::sleep(GRACE).await;
    abort()
}

/// The state that the loop decides on.
struct Floor<'a, F> {
    /// Makes jobs; given up with the last of them, which closes the channel of events.
    engine: Option<Engine>,
    /// Jobs not begun.
    waiting: std::vec::IntoIter<Job>,
    /// Jobs that run.
    running: JoinSet<Ended>,
    /// Asks running jobs to stop.
    stop: CancellationToken,
    /// Whether that was said.
    stopping: bool,
    /// What `now` counts from.
    begun: Instant,
    /// The terminal.
    screen: &'a mut dyn Renderer,
    /// Told each end.
    ended: F,
}

impl<F: FnMut((&mut dyn Renderer, Duration), &Job, &Result<Outcome, GetError>)> Floor<'_, F> {
    /// Something happened; breaks when nothing more will.
    fn on(&mut self, happening: Happening) -> std::ops::ControlFlow<()> {
        match happening {
            Happening::Told(None) => return std::ops::ControlFlow::Break(()),
            Happening::Told(Some(event)) => self.screen.event(self.begun.elapsed(), &event),
            Happening::Tick => self.screen.tick(self.begun.elapsed()),
            Happening::Ended(Ok(end)) => {
                let (job, result) = &*end;
                (self.ended)((self.screen, self.begun.elapsed()), job, result);
                self.fill();
            }
            // Jobs are never aborted here, so it panicked: the bug is passed on.
            Happening::Ended(Err(error)) => std::panic::resume_unwind(error.into_panic()),
            Happening::Signal(Asked::HangUp) if self.stopping => {}
            Happening::Signal(_) if self.stopping => {
                self.screen.close();
                abort();
            }
            Happening::Signal(_) => {
                self.stopping = true;
                self.stop.cancel();
                self.engine = None;
                self.screen.say("haul: stopping; once more to stop at once");
            }
        }
        std::ops::ControlFlow::Continue(())
    }

    /// Begins as many jobs as may run.
    fn fill(&mut self) {
        while self.running.len() < JOBS
            && let Some(engine) = self.engine.clone()
        {
            let Some(job) = self.waiting.next() else {
                self.engine = None;
                return;
            };
            let stop = self.stop.clone();
            self.running.spawn(async move {
                let result = engine.get(job.clone(), stop).await;
                Box::new((job, result))
            });
        }
    }
}
