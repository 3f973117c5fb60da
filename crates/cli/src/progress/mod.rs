//! Progress: what the engine tells, shown on standard error.
//!
//! One reader - the loop in [`commands::run`](crate::commands) - hands every event to one [`Renderer`]. Those for people
//! keep a [`board`] of what is going on; from it [`frame`](fn@frame::frame) makes the lines of a terminal and [`Plain`] those of a log.
//! Nothing in here knows what time it is: `now` is an argument, counted from the start, so that recorded events always
//! give the same frames.

mod bars;
mod board;
mod frame;
mod json;
mod meter;
mod notes;
mod plain;
mod silent;
mod text;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use haul_transfer::{Event, GetError, Outcome};

use crate::args::ProgressKind;
use crate::{message, output};
use bars::Bars;
use json::Json;
pub(crate) use json::failed_early;
use notes::Notes;
use plain::Plain;
use silent::Silent;
pub(crate) use text::{bytes_text, rate_text};

/// Shows what happens. The only one that writes to standard error while jobs run.
pub(crate) trait Renderer: Send {
    /// Something happened.
    fn event(&mut self, now: Duration, event: &Event);

    /// Whether [`Renderer::tick`] shall be called some ten times a second.
    fn is_animated(&self) -> bool {
        false
    }

    /// Time went on.
    fn tick(&mut self, _now: Duration) {}

    /// A line for people: a summary, what a signal did.
    fn say(&mut self, line: &str);

    /// A job ended without its file. The event of it has no causes and no hint, so it is told here.
    fn failed(&mut self, _now: Duration, _job: u64, error: &GetError) {
        self.say(&message::error_text(
            &message::chain(error),
            message::hint(error).as_deref(),
        ));
    }

    /// A warning that is of no job.
    fn warn(&mut self, _now: Duration, text: &str) {
        self.say(&message::warning_text(text));
    }

    /// A signal ended a job. People are told once for all of them.
    fn stopped(&mut self, _now: Duration, _job: u64, _error: &GetError) {}

    /// Digests that were asked for and have no place on standard output, where the file itself is.
    ///
    /// # Errors
    /// What the system says, unless [`Renderer::lost`] will.
    fn digests(
        &mut self,
        _now: Duration,
        _of: (u64, &Outcome),
        lines: &[String],
    ) -> io::Result<()> {
        lines.iter().try_for_each(|line| output::stderr_line(line))
    }

    /// Why a result that goes to standard error could not be written, if one could not: told once.
    fn lost(&mut self) -> Option<io::Error> {
        None
    }

    /// Columns of the terminal that lines are fitted to.
    fn width(&self) -> Option<usize> {
        None
    }

    /// Nothing more will happen: clears what would be in the way of the next line.
    fn close(&mut self) {}
}

/// What a user wants to see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    /// Which kind.
    pub(crate) kind: ProgressKind,
    /// No warnings, no notes; no bars unless they are asked for.
    pub(crate) quiet: bool,
    /// A line a segment.
    pub(crate) verbose: bool,
    /// How many jobs there will be.
    pub(crate) jobs: usize,
}

/// The renderer for a wish: `auto` is bars on a terminal that can draw them, and nothing elsewhere.
pub(crate) fn renderer(wish: Wish) -> Box<dyn Renderer> {
    let notes = Notes::new(wish.quiet, wish.verbose, wish.jobs);
    match wish.kind {
        ProgressKind::Json => Box::new(Json::default()),
        ProgressKind::Bar => Box::new(Bars::new(notes, wish.jobs)),
        ProgressKind::Auto if on_terminal() && !wish.quiet => Box::new(Bars::new(notes, wish.jobs)),
        ProgressKind::Plain => Box::new(Plain::new(notes, wish.jobs)),
        ProgressKind::Auto | ProgressKind::None => Box::new(Silent(notes)),
    }
}

/// Whether standard error is a terminal that can draw bars.
pub(crate) fn on_terminal() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests;
