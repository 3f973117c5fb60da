//! Draws the lines of a [`ProgressView`] on a terminal. indicatif draws and clears them.

use std::io;
use std::time::Duration;

use console::Term;
use haul_transfer::{DownloadOutcome, TransferEvent};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use super::Renderer;
use super::view::ProgressView;
use crate::{message, output};

pub(super) struct BarRenderer {
    view: Box<dyn ProgressView>,
    terminal: StderrTerm,
    /// All lines are one bar: they are always drawn at once.
    bar: ProgressBar,
    is_cleared: bool,
}

impl BarRenderer {
    pub(super) fn new(view: Box<dyn ProgressView>) -> Self {
        let terminal = StderrTerm(Term::buffered_stderr());
        // The caller sets the pace: drawing must not skip a frame, least of all the last.
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), u8::MAX);
        let bar = ProgressBar::with_draw_target(None, target);
        // The template is a constant that indicatif accepts.
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Self {
            view,
            terminal,
            bar,
            is_cleared: false,
        }
    }

    /// Draws the current lines, or clears them when there are none.
    fn draw(&mut self) {
        let size = (self.terminal.height(), self.terminal.width());
        let lines = if self.is_cleared {
            Vec::new()
        } else {
            self.view.terminal_lines(size)
        };
        if !lines.is_empty() {
            if self.bar.is_finished() {
                self.bar.reset();
            }
            self.bar.set_message(lines.join("\n"));
        } else if !self.bar.is_finished() {
            self.bar.finish_and_clear();
        }
    }
}

impl Renderer for BarRenderer {
    fn on_event(&mut self, now: Duration, event: &TransferEvent) {
        if let Some(line) = self.view.on_event(now, event) {
            self.print(&line);
        }
    }

    fn on_tick(&mut self, now: Duration) {
        match self.view.on_tick(now) {
            Some(line) => self.print(&line),
            None => self.draw(),
        }
    }

    fn print(&mut self, line: &str) {
        self.draw();
        self.bar.suspend(|| message::print_line(line));
    }

    fn print_digests(
        &mut self,
        _now: Duration,
        _job: u64,
        _outcome: &DownloadOutcome,
        lines: &[String],
    ) -> io::Result<()> {
        self.draw();
        self.bar.suspend(|| {
            lines
                .iter()
                .try_for_each(|line| output::write_stderr_line(line))
        })
    }

    /// `None` where `--progress bar` draws without a terminal.
    fn line_width(&self) -> Option<usize> {
        let (_, width) = self.terminal.0.size_checked()?;
        Some(usize::from(width).saturating_sub(1))
    }

    fn clear(&mut self) {
        self.is_cleared = true;
        self.bar.finish_and_clear();
    }
}

/// Standard error, even if it is not a terminal: `--progress bar` draws anyway.
#[derive(Debug, Clone)]
struct StderrTerm(Term);

impl TermLike for StderrTerm {
    fn width(&self) -> u16 {
        self.0.size_checked().map_or(80, |(_, width)| width)
    }

    fn height(&self) -> u16 {
        self.0.size_checked().map_or(24, |(height, _)| height)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_up(n)
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_down(n)
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_right(n)
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_left(n)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.0.write_line(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}
