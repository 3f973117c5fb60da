//! What commands that transfer have in common: a runtime, and the one loop that sees everything.
//!
//! Tasks run on the runtime's threads and touch nothing but their files. Their events, their ends, signals and the time come
//! together in [`RunLoop::run`], which alone writes to the terminal: its `select!` only says what happened, and a plain
//! method decides. What the tasks are, and what their ends mean, is a [`TaskSet`]'s business.

use std::io;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::time::Duration;

use haul_transfer::{TransferEvent, TransferEventSender};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::open_file_limit;
use crate::progress::Renderer;
use crate::signals::{StopSignal, StopSignals, exit_at_once};

/// Events that may wait for the renderer: some for each job, so that printing a line holds none up.
const EVENT_QUEUE: usize = 1024;

/// How long the loop has to put the terminal right after a second signal.
const ABORT_AFTER: Duration = Duration::from_millis(500);

/// Between two frames.
const FRAME_INTERVAL: Duration = Duration::from_millis(100);

/// A runtime with a thread a core, within limits: two, so that one can wait for the disk; no more than four, since a
/// download that needs more is limited elsewhere.
///
/// # Errors
/// What the system says.
pub(super) fn new_runtime() -> io::Result<Runtime> {
    open_file_limit::check_free_descriptors()?;
    let cores = std::thread::available_parallelism().map_or(2, NonZero::get);
    Builder::new_multi_thread()
        .worker_threads(cores.clamp(2, 4))
        .enable_all()
        .build()
}

/// Why nothing was begun.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    /// A certificate or key is not what it should be.
    #[error(transparent)]
    Settings(#[from] haul_net::TlsConfigError),
    /// Signals cannot be listened to.
    #[error("cannot listen to signals")]
    Signals(#[source] io::Error),
}

/// Where and when something is told: the renderer, and the time since the beginning.
pub(super) type RenderContext<'a> = (&'a mut dyn Renderer, Duration);

/// Tasks, and who decides about them.
pub(super) trait TaskSet: Send {
    /// How a task ends.
    type End: Send + 'static;

    /// The tasks at work.
    fn tasks(&mut self) -> &mut JoinSet<Self::End>;

    /// An event came; the renderer is told of it after this.
    fn on_event(&mut self, _stage: RenderContext<'_>, _event: &TransferEvent) {}

    /// A task ended.
    fn on_end(&mut self, stage: RenderContext<'_>, end: Self::End);

    /// Time went on: called some ten times a second.
    fn on_tick(&mut self, _stage: RenderContext<'_>) {}
}

/// Listens to signals and events from when it is made.
pub(super) struct RunLoop {
    /// For the loop.
    signals: StopSignals,
    /// For when the loop cannot hear them.
    backstop: StopSignals,
    /// What the tasks tell.
    events: mpsc::Receiver<TransferEvent>,
    /// Asks the tasks to stop.
    stop: CancellationToken,
    /// What `now` counts from.
    started: Instant,
}

impl RunLoop {
    /// Begins to listen; also gives where to tell events. When the last of those senders is gone, the watch is over.
    ///
    /// # Errors
    /// That signals cannot be listened to.
    pub(super) fn start() -> Result<(Self, TransferEventSender), StartError> {
        let (sender, events) = mpsc::channel(EVENT_QUEUE);
        let watch = Self {
            signals: StopSignals::listen().map_err(StartError::Signals)?,
            backstop: StopSignals::listen().map_err(StartError::Signals)?,
            events,
            stop: CancellationToken::new(),
            started: Instant::now(),
        };
        Ok((watch, sender))
    }

    /// What tasks look at to learn that they should stop.
    pub(super) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Watches over a crew until nothing more can happen. Says how long that took.
    ///
    /// After the first signal tasks are asked to stop; at the second the process ends.
    pub(super) async fn run<C: TaskSet>(self, crew: &mut C, screen: &mut dyn Renderer) -> Duration {
        let (mut signals, mut events, begun) = (self.signals, self.events, self.started);
        let mut guard = JoinSet::new();
        guard.spawn(backstop(self.backstop, self.stop.clone()));
        let mut floor = RunLoopState {
            tasks: crew,
            stop: self.stop,
            is_stopping: false,
            started: begun,
            renderer: screen,
            next_frame: Duration::ZERO,
        };
        loop {
            // Events before ends: a job's last event is shown before its end is told.
            let happening = tokio::select! {
                biased;
                asked = signals.next() => RunEvent::Signal(asked),
                event = events.recv() => RunEvent::Transfer(event),
                Some(end) = floor.tasks.tasks().join_next() => RunEvent::TaskEnded(end),
                () = sleep_until(begun + floor.next_frame) => RunEvent::Tick,
            };
            if floor.handle(happening).is_break() {
                break;
            }
            // A batch may tell so much that the clock has no turn.
            floor.draw_if_due();
        }
        // The last end may still wait when the last event, and with it the channel, is gone.
        while let Some(end) = floor.tasks.tasks().join_next().await {
            let _ = floor.handle(RunEvent::TaskEnded(end));
        }
        floor.renderer.clear();
        begun.elapsed()
    }
}

/// Hears signals where the loop cannot, while it waits for a reader of standard output: tasks are asked to stop at the first,
/// and some time after the second, which the loop would have obeyed by then, the process ends.
async fn backstop(mut signals: StopSignals, stop: CancellationToken) {
    signals.next().await;
    stop.cancel();
    // A hang-up that is told twice is one.
    while signals.next().await != StopSignal::End {}
    tokio::time::sleep(ABORT_AFTER).await;
    exit_at_once()
}

/// What happened.
enum RunEvent<E> {
    /// A signal.
    Signal(StopSignal),
    /// A task tells something; `None`: none will any more.
    Transfer(Option<TransferEvent>),
    /// A task ended, or panicked.
    TaskEnded(Result<E, JoinError>),
    /// It is time for a frame.
    Tick,
}

/// The state that the loop decides on.
struct RunLoopState<'a, C> {
    /// Decides about the tasks.
    tasks: &'a mut C,
    /// Asks tasks to stop.
    stop: CancellationToken,
    /// Whether that was said.
    is_stopping: bool,
    /// What `now` counts from.
    started: Instant,
    /// The terminal.
    renderer: &'a mut dyn Renderer,
    /// When the next frame is due.
    next_frame: Duration,
}

impl<C: TaskSet> RunLoopState<'_, C> {
    /// Something happened; breaks when nothing more will.
    fn handle(&mut self, happening: RunEvent<C::End>) -> ControlFlow<()> {
        let now = self.started.elapsed();
        match happening {
            RunEvent::Transfer(None) => return ControlFlow::Break(()),
            RunEvent::Transfer(Some(event)) => {
                self.tasks.on_event((self.renderer, now), &event);
                self.renderer.on_event(now, &event);
            }
            RunEvent::Tick => {}
            RunEvent::TaskEnded(Ok(end)) => self.tasks.on_end((self.renderer, now), end),
            // Tasks are never aborted here, so it panicked: the bug is passed on.
            RunEvent::TaskEnded(Err(error)) => std::panic::resume_unwind(error.into_panic()),
            RunEvent::Signal(StopSignal::HangUp) if self.is_stopping => {}
            RunEvent::Signal(_) if self.is_stopping => {
                self.renderer.clear();
                exit_at_once();
            }
            RunEvent::Signal(_) => {
                self.is_stopping = true;
                self.stop.cancel();
                self.renderer
                    .print("haul: stopping; once more to stop at once");
            }
        }
        ControlFlow::Continue(())
    }

    /// Draws a frame, if it is time for one.
    fn draw_if_due(&mut self) {
        let now = self.started.elapsed();
        if now >= self.next_frame {
            self.next_frame = now + FRAME_INTERVAL;
            self.tasks.on_tick((self.renderer, now));
            self.renderer.on_tick(now);
        }
    }
}
