//! Shows the engine's events on standard error.
//!
//! One loop, in [`run_loop`](crate::commands), hands every event to one [`Renderer`]. Renderers for people keep a [`ProgressView`], of
//! single [`downloads`] or of a batch ([`tally`]): it gives [`BarRenderer`] the lines of a terminal and [`PlainRenderer`] those of a log. Nothing
//! here reads a clock: `now` is an argument, counted from the start, so recorded events always give the same output.

mod bars;
mod board;
mod downloads;
mod frame;
mod json;
mod meter;
mod notes;
mod plain;
mod remaining;
mod silent;
mod tally;
mod text;
mod throttle;
mod view;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use haul_transfer::batch::BatchSummary;
use haul_transfer::{DownloadOutcome, GetError, TransferEvent};

use crate::args::ProgressKind;
use crate::{message, output};
use bars::BarRenderer;
use downloads::DownloadsView;
use json::JsonRenderer;
pub(crate) use json::early_failure_object;
use notes::EventMessages;
use plain::PlainRenderer;
use silent::QuietRenderer;
use tally::BatchView;
pub(crate) use text::{bytes_text, files_rate_text, rate_text, time_text};
use view::ProgressView;

/// Shows events. Nothing else writes to standard error while jobs run.
pub(crate) trait Renderer: Send {
    /// Shows an event.
    fn on_event(&mut self, now: Duration, event: &TransferEvent);

    /// Time has passed. Called about ten times a second.
    fn on_tick(&mut self, _now: Duration) {}

    /// Prints a line for people: a summary, the effect of a signal.
    fn print(&mut self, line: &str);

    /// Shows why a job failed. The event of it has no causes and no hint.
    fn job_failed(&mut self, _now: Duration, _job: u64, error: &GetError) {
        self.print(&message::error_text(
            &message::chain_text(error),
            message::error_hint(error).as_deref(),
        ));
    }

    /// Shows a warning about no particular job.
    fn warn(&mut self, _now: Duration, text: &str) {
        self.print(&message::warning_text(text));
    }

    /// A signal ended a job. People read one message for all jobs.
    fn job_interrupted(&mut self, _now: Duration, _job: u64, _error: &GetError) {}

    /// Prints requested digests where standard output has the file itself.
    ///
    /// # Errors
    /// The system's, unless [`Renderer::take_write_error`] returns it.
    fn print_digests(
        &mut self,
        _now: Duration,
        _job: u64,
        _outcome: &DownloadOutcome,
        lines: &[String],
    ) -> io::Result<()> {
        lines
            .iter()
            .try_for_each(|line| output::write_stderr_line(line))
    }

    /// The first error in writing results to standard error. Returned once.
    fn take_write_error(&mut self) -> Option<io::Error> {
        None
    }

    /// Columns of the terminal that lines must fit into.
    fn line_width(&self) -> Option<usize> {
        None
    }

    /// Shows the end of a batch, to people as `lines`.
    fn batch_ended(&mut self, _now: Duration, _summary: &BatchSummary, lines: &[String]) {
        lines.iter().for_each(|line| self.print(line));
    }

    /// No more events follow: clears what is drawn.
    fn clear(&mut self) {}
}

/// What a renderer shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgressOptions {
    pub(crate) kind: ProgressKind,
    /// No warnings and messages; no bars unless requested.
    pub(crate) quiet: bool,
    /// A line for each segment, or for each file of a batch.
    pub(crate) verbose: bool,
    pub(crate) scope: ProgressScope,
}

/// What runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgressScope {
    /// This number of single downloads.
    Downloads(usize),
    Batch,
}

/// Makes a renderer. `auto` is bars on a terminal that can draw them, otherwise nothing.
pub(crate) fn new_renderer(options: ProgressOptions) -> Box<dyn Renderer> {
    let (quiet, verbose) = (options.quiet, options.verbose);
    let view: Box<dyn ProgressView> = match options.scope {
        ProgressScope::Downloads(jobs) => Box::new(DownloadsView::new(
            EventMessages::new(quiet, verbose, jobs),
            jobs,
        )),
        ProgressScope::Batch => Box::new(BatchView::new(quiet, verbose)),
    };
    match options.kind {
        ProgressKind::Json => Box::new(JsonRenderer::default()),
        ProgressKind::Bar => Box::new(BarRenderer::new(view)),
        ProgressKind::Auto if stderr_draws_bars() && !quiet => Box::new(BarRenderer::new(view)),
        ProgressKind::Plain => Box::new(PlainRenderer::new(view)),
        ProgressKind::Auto | ProgressKind::None => Box::new(QuietRenderer(view)),
    }
}

/// Whether standard error is a terminal that can draw bars.
pub(crate) fn stderr_draws_bars() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests;
