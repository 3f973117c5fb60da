//! A line a second: for logs, and for terminals that cannot draw.

use std::time::Duration;

use haul_transfer::Event;

use super::Renderer;
use super::board::{Board, Running};
use super::notes::Notes;
use super::text::{bytes_text, speed_text, time_text};
use crate::message;

/// How often there is a line.
const EVERY: Duration = Duration::from_secs(1);

/// A line a second for a single job, or for all of several together.
pub(super) struct Plain {
    notes: Notes,
    board: Board,
    /// When the last line was written.
    last: Duration,
}

impl Plain {
    pub(super) fn new(notes: Notes, jobs: usize) -> Self {
        Self {
            notes,
            board: Board::new(jobs),
            last: Duration::ZERO,
        }
    }

    /// The line of an event, if it has one.
    pub(super) fn on_event(&mut self, now: Duration, event: &Event) -> Option<String> {
        self.board.apply(now, event);
        self.notes.line(event)
    }

    /// The line of this moment, if it is time for one.
    pub(super) fn on_tick(&mut self, now: Duration) -> Option<String> {
        self.board.tick(now);
        let running = self.board.running.values().next()?;
        if now.saturating_sub(self.last.max(running.since)) < EVERY {
            return None;
        }
        self.last = now;
        Some(if self.board.jobs == 1 {
            job_line(running)
        } else {
            total_line(&self.board)
        })
    }
}

fn job_line(running: &Running) -> String {
    let Running {
        name, done, length, ..
    } = running;
    if running.verifying {
        return format!("{name}  {}, verifying", bytes_text(*done));
    }
    let of = length.map_or_else(String::new, |length| {
        let percent = done.saturating_mul(100).checked_div(length).unwrap_or(100);
        format!(" of {}, {percent}%", bytes_text(length))
    });
    let left = length.and_then(|length| running.meter.left(length.saturating_sub(*done)));
    let left = left.map_or_else(String::new, |left| format!(", {} left", time_text(left)));
    let rate = speed_text(running.meter.rate());
    format!(
        "{name}  {}{of}, {rate}{left}, {}",
        bytes_text(*done),
        counted(running.connections)
    )
}

fn total_line(board: &Board) -> String {
    let rate = speed_text(board.meter.rate());
    let (ended, jobs, brought) = (board.ended, board.jobs, bytes_text(board.brought()));
    format!(
        "{ended} of {jobs} files, {brought}, {rate}, {}",
        counted(board.connections())
    )
}

fn counted(connections: usize) -> String {
    format!(
        "{connections} connection{}",
        if connections == 1 { "" } else { "s" }
    )
}

impl Renderer for Plain {
    fn event(&mut self, now: Duration, event: &Event) {
        if let Some(line) = self.on_event(now, event) {
            message::note(&line);
        }
    }

    fn is_animated(&self) -> bool {
        true
    }

    fn tick(&mut self, now: Duration) {
        if let Some(line) = self.on_tick(now) {
            message::note(&line);
        }
    }

    fn say(&mut self, line: &str) {
        message::note(line);
    }
}
