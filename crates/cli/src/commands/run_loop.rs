//! The runtime of downloads, and the loop that handles all events.
//!
//! An engine runs on the runtime's threads and touches only its files. Its events, signals and the time meet in [`RunLoop::run`], which
//! alone writes to the terminal: its `select!` only says what happened, and synchronous methods decide. What results mean is up to the
//! command's [`EngineEvents`].

use std::io;
use std::num::NonZero;
use std::time::Duration;

use haul_transfer::{TransferEvent, TransferEventSender};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs};
use crate::open_file_limit;
use crate::progress::Renderer;
use crate::signals::{StopSignal, StopSignals, exit_at_once};

/// Events that may wait for the renderer: some for each job, so that printing a line holds none up.
const EVENT_QUEUE: usize = 1024;

/// How long the loop has to restore the terminal after a second signal.
const ABORT_AFTER: Duration = Duration::from_millis(500);

const FRAME_INTERVAL: Duration = Duration::from_millis(100);

/// A runtime with a thread for each core, within limits: at least two, so that one can wait for the disk; at most four, since a download
/// that needs more is limited elsewhere.
pub(super) fn new_runtime() -> io::Result<Runtime> {
    open_file_limit::check_free_descriptors()?;
    let cores = std::thread::available_parallelism().map_or(2, NonZero::get);
    Builder::new_multi_thread()
        .worker_threads(cores.clamp(2, 4))
        .enable_all()
        .build()
}

/// Runs a command on a runtime of its own.
///
/// # Errors
/// The command's, and those of the system, which are reported.
pub(super) fn block_on<T>(
    outputs: JsonOutputs,
    command: impl Future<Output = Result<T, ExitReason>>,
) -> Result<T, ExitReason> {
    let runtime = new_runtime().map_err(|error| {
        outputs.report_failure(ExitReason::LocalIo, &format!("cannot start: {error}"), None)
    })?;
    let output = runtime.block_on(command);
    // Does not wait for a name lookup that hangs in the system's resolver.
    runtime.shutdown_background();
    output
}

/// Why a run could not start.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    /// A certificate or key cannot be used.
    #[error(transparent)]
    Settings(#[from] haul_net::TlsConfigError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] haul_s3::S3ConfigError),
    /// Signals cannot be received.
    #[error("cannot receive signals")]
    Signals(#[source] io::Error),
}

impl StartError {
    /// Reports it, and returns the exit code.
    pub(super) fn report(&self, outputs: JsonOutputs) -> ExitReason {
        let exit = match self {
            Self::Settings(_) | Self::Store(_) => ExitReason::Usage,
            Self::Signals(_) => ExitReason::LocalIo,
        };
        outputs.report_failure(exit, &message::chain_text(self), None)
    }
}

#[derive(Debug)]
pub(super) struct RunEnd {
    pub(super) exit: ExitReason,
    /// A hint how to continue after an interruption.
    pub(super) continue_hint: Option<String>,
}

/// The renderer, and the time since the start.
pub(super) struct RenderContext<'a> {
    pub(super) renderer: &'a mut dyn Renderer,
    pub(super) now: Duration,
}

/// Handles the events of an engine, before the renderer does.
pub(super) trait EngineEvents: Send {
    fn on_event(&mut self, context: RenderContext<'_>, event: &TransferEvent);

    /// Time has passed, or the engine has ended.
    fn on_tick(&mut self, _context: RenderContext<'_>) {}
}

/// Receives signals and events from its creation on.
pub(super) struct RunLoop {
    /// For the loop.
    signals: StopSignals,
    /// Handles them when the loop cannot: before it runs, and while it waits for a reader of standard output.
    _backstop: JoinSet<()>,
    events: mpsc::Receiver<TransferEvent>,
    stop: CancellationToken,
    /// `now` counts from here.
    started: Instant,
}

impl RunLoop {
    /// Starts to receive signals. Also returns the sender of events: the run is over when its last clone is dropped.
    ///
    /// # Errors
    /// Signals cannot be received.
    pub(super) fn start() -> Result<(Self, TransferEventSender), StartError> {
        let (sender, events) = mpsc::channel(EVENT_QUEUE);
        let stop = CancellationToken::new();
        let watch = Self {
            signals: StopSignals::listen().map_err(StartError::Signals)?,
            _backstop: stop_on_signals(stop.clone())?,
            events,
            stop,
            started: Instant::now(),
        };
        Ok((watch, sender))
    }

    /// Cancelled when tasks should stop.
    pub(super) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Runs an engine to its end, and returns its output and how long that took.
    ///
    /// The first signal stops the engine, the second ends the process.
    pub(super) async fn run<O: Default + Send + 'static>(
        self,
        engine: impl Future<Output = O> + Send + 'static,
        handler: &mut dyn EngineEvents,
        renderer: &mut dyn Renderer,
    ) -> (O, Duration) {
        let (mut signals, mut events, started) = (self.signals, self.events, self.started);
        let mut engines = JoinSet::new();
        engines.spawn(engine);
        let mut output = O::default();
        let mut state = RunLoopState {
            handler,
            stop: self.stop,
            is_stopping: false,
            started,
            renderer,
            next_frame: Duration::ZERO,
        };
        loop {
            tokio::select! {
                biased;
                signal = signals.next() => state.on_signal(signal),
                event = events.recv() => match event {
                    Some(event) => state.on_event(&event),
                    None => break,
                },
                Some(end) = engines.join_next() => output = engine_output(end),
                () = sleep_until(started + state.next_frame) => {}
            }
            // A batch may send events so fast that the timer never fires.
            state.draw_if_due();
        }
        // The output may still wait when the channel of events has closed.
        while let Some(end) = engines.join_next().await {
            output = engine_output(end);
        }
        // Here, where signals are received even if nobody reads.
        state.tick();
        state.renderer.clear();
        (output, started.elapsed())
    }
}

/// The output of an engine. Engines are never aborted here, so one without an output panicked: the bug is passed on.
fn engine_output<O>(end: Result<O, JoinError>) -> O {
    end.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// Handles signals until the result is dropped: the first cancels `stop`, and some time after the second, which a running loop would have
/// handled by then, the process ends.
///
/// # Errors
/// Signals cannot be received.
pub(super) fn stop_on_signals(stop: CancellationToken) -> Result<JoinSet<()>, StartError> {
    let mut signals = StopSignals::listen().map_err(StartError::Signals)?;
    let mut task = JoinSet::new();
    task.spawn(async move {
        signals.next().await;
        stop.cancel();
        // Two hang-ups count as one.
        while signals.next().await != StopSignal::End {}
        tokio::time::sleep(ABORT_AFTER).await;
        exit_at_once()
    });
    Ok(task)
}

/// Runs an engine that has no progress to show. `on_event` handles its events; when that fails, the engine is dropped.
///
/// # Errors
/// Those of `on_event`.
pub(super) async fn with_events<F: Future>(
    engine: impl FnOnce(TransferEventSender) -> F,
    mut on_event: impl FnMut(TransferEvent) -> Result<(), ExitReason>,
) -> Result<F::Output, ExitReason> {
    let (sender, mut events) = mpsc::channel(EVENT_QUEUE);
    let mut engine = Box::pin(engine(sender));
    let output = loop {
        tokio::select! {
            biased;
            Some(event) = events.recv() => on_event(event)?,
            output = &mut engine => break output,
        }
    };
    while let Some(event) = events.recv().await {
        on_event(event)?;
    }
    Ok(output)
}

struct RunLoopState<'a> {
    handler: &'a mut dyn EngineEvents,
    /// Stops the engine.
    stop: CancellationToken,
    /// Whether a signal has stopped it.
    is_stopping: bool,
    /// `now` counts from here.
    started: Instant,
    renderer: &'a mut dyn Renderer,
    next_frame: Duration,
}

impl RunLoopState<'_> {
    fn on_event(&mut self, event: &TransferEvent) {
        let now = self.started.elapsed();
        let renderer = &mut *self.renderer;
        self.handler
            .on_event(RenderContext { renderer, now }, event);
        self.renderer.on_event(now, event);
    }

    fn on_signal(&mut self, signal: StopSignal) {
        match signal {
            StopSignal::HangUp if self.is_stopping => {}
            _ if self.is_stopping => {
                self.renderer.clear();
                exit_at_once();
            }
            _ => {
                self.is_stopping = true;
                self.stop.cancel();
                self.renderer
                    .print("haul: stopping; a second signal stops at once");
            }
        }
    }

    fn draw_if_due(&mut self) {
        let now = self.started.elapsed();
        if now >= self.next_frame {
            self.next_frame = now + FRAME_INTERVAL;
            self.tick();
            self.renderer.on_tick(now);
        }
    }

    fn tick(&mut self) {
        let (renderer, now) = (&mut *self.renderer, self.started.elapsed());
        self.handler.on_tick(RenderContext { renderer, now });
    }
}
