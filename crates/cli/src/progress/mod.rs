//! Progress: what the engine tells, shown on standard error.
//!
//! One reader - the loop in [`commands::run`](crate::commands) - hands every event to one [`Renderer`]. Those for people
//! keep a [picture](picture::ProgressFrame) of what is going on, of some [`downloads`] or of a batch ([`tally`]): it gives [`BarRenderer`] the
//! lines of a terminal and [`PlainRenderer`] those of a log.
//! Nothing in here knows what time it is: `now` is an argument, counted from the start, so that recorded events always
//! give the same frames.

mod bars;
mod board;
mod downloads;
mod frame;
mod json;
mod meter;
mod notes;
mod picture;
mod plain;
mod remaining;
mod silent;
mod tally;
mod text;
mod throttle;

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
use picture::ProgressView;
use plain::PlainRenderer;
use silent::QuietRenderer;
use tally::BatchView;
pub(crate) use text::{bytes_text, files_rate_text, rate_text, time_text};

/// Shows what happens. The only one that writes to standard error while jobs run.
pub(crate) trait Renderer: Send {
    /// Something happened.
    fn on_event(&mut self, now: Duration, event: &TransferEvent);

    /// Time went on: called some ten times a second.
    fn on_tick(&mut self, _now: Duration) {}

    /// A line for people: a summary, what a signal did.
    fn print(&mut self, line: &str);

    /// A job ended without its file. The event of it has no causes and no hint, so it is told here.
    fn job_failed(&mut self, _now: Duration, _job: u64, error: &GetError) {
        self.print(&message::error_text(
            &message::chain_text(error),
            message::error_hint(error).as_deref(),
        ));
    }

    /// A warning that is of no job.
    fn warn(&mut self, _now: Duration, text: &str) {
        self.print(&message::warning_text(text));
    }

    /// A signal ended a job. People are told once for all of them.
    fn job_interrupted(&mut self, _now: Duration, _job: u64, _error: &GetError) {}

    /// Digests that were asked for and have no place on standard output, where the file itself is.
    ///
    /// # Errors
    /// What the system says, unless [`Renderer::take_write_error`] will.
    fn print_digests(
        &mut self,
        _now: Duration,
        _of: (u64, &DownloadOutcome),
        lines: &[String],
    ) -> io::Result<()> {
        lines
            .iter()
            .try_for_each(|line| output::write_stderr_line(line))
    }

    /// Why a result that goes to standard error could not be written, if one could not: told once.
    fn take_write_error(&mut self) -> Option<io::Error> {
        None
    }

    /// Columns of the terminal that lines are fitted to.
    fn line_width(&self) -> Option<usize> {
        None
    }

    /// A batch has ended: what people are told of it, in lines.
    fn batch_ended(&mut self, _now: Duration, _summary: &BatchSummary, lines: &[String]) {
        lines.iter().for_each(|line| self.print(line));
    }

    /// Nothing more will happen: clears what would be in the way of the next line.
    fn clear(&mut self) {}
}

/// What a user wants to see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgressOptions {
    /// Which kind.
    pub(crate) kind: ProgressKind,
    /// No warnings, no notes; no bars unless they are asked for.
    pub(crate) quiet: bool,
    /// A line a segment, or a file of a batch.
    pub(crate) verbose: bool,
    /// What is watched.
    pub(crate) scope: ProgressScope,
}

/// What there will be to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgressScope {
    /// So many downloads, one by one.
    Downloads(usize),
    /// A batch.
    Batch,
}

/// The renderer for a wish: `auto` is bars on a terminal that can draw them, and nothing elsewhere.
pub(crate) fn new_renderer(wish: ProgressOptions) -> Box<dyn Renderer> {
    let (quiet, verbose) = (wish.quiet, wish.verbose);
    let picture: Box<dyn ProgressView> = match wish.scope {
        ProgressScope::Downloads(jobs) => Box::new(DownloadsView::new(
            EventMessages::new(quiet, verbose, jobs),
            jobs,
        )),
        ProgressScope::Batch => Box::new(BatchView::new(quiet, verbose)),
    };
    match wish.kind {
        ProgressKind::Json => Box::new(JsonRenderer::default()),
        ProgressKind::Bar => Box::new(BarRenderer::new(picture)),
        ProgressKind::Auto if stderr_draws_bars() && !quiet => Box::new(BarRenderer::new(picture)),
        ProgressKind::Plain => Box::new(PlainRenderer::new(picture)),
        ProgressKind::Auto | ProgressKind::None => Box::new(QuietRenderer(picture)),
    }
}

/// Whether standard error is a terminal that can draw bars.
pub(crate) fn stderr_draws_bars() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod batch_tests;
#[cfg(test)]
mod tests;
