//! Bars on a terminal. What they look like is the [picture](super::picture)'s; indicatif puts it on the screen and takes it away.

use std::io;
use std::time::Duration;

use console::Term;
use haul_transfer::{DownloadOutcome, TransferEvent};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use super::Renderer;
use super::picture::ProgressFrame;
use crate::{message, output};

/// Bars for all that is going on.
pub(super) struct BarRenderer {
    /// What is going on.
    picture: Box<dyn ProgressFrame>,
    /// Where it is drawn.
    screen: StderrTerm,
    /// All lines together: they are always drawn at once.
    drawn: ProgressBar,
    /// Nothing is drawn any more.
    closed: bool,
}

impl BarRenderer {
    pub(super) fn new(picture: Box<dyn ProgressFrame>) -> Self {
        let screen = StderrTerm(Term::buffered_stderr());
        // Frames come at their own pace: drawing must not skip one, least of all the last.
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(screen.clone()), u8::MAX);
        let drawn = ProgressBar::with_draw_target(None, target);
        // The template is a constant that indicatif knows.
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            drawn.set_style(style);
        }
        Self {
            picture,
            screen,
            drawn,
            closed: false,
        }
    }

    /// Draws what is going on now; nothing while nothing is.
    fn refresh(&mut self) {
        let size = (self.screen.height(), self.screen.width());
        let lines = match self.closed {
            true => Vec::new(),
            false => self.picture.frame(size),
        };
        if !lines.is_empty() {
            if self.drawn.is_finished() {
                self.drawn.reset();
            }
            self.drawn.set_message(lines.join("\n"));
        } else if !self.drawn.is_finished() {
            self.drawn.finish_and_clear();
        }
    }
}

impl Renderer for BarRenderer {
    fn event(&mut self, now: Duration, event: &TransferEvent) {
        if let Some(line) = self.picture.event(now, event) {
            self.say(&line);
        }
    }

    fn tick(&mut self, now: Duration) {
        match self.picture.tick(now) {
            Some(line) => self.say(&line),
            None => self.refresh(),
        }
    }

    fn say(&mut self, line: &str) {
        self.refresh();
        self.drawn.suspend(|| message::note(line));
    }

    fn digests(
        &mut self,
        _now: Duration,
        _of: (u64, &DownloadOutcome),
        lines: &[String],
    ) -> io::Result<()> {
        self.refresh();
        self.drawn
            .suspend(|| lines.iter().try_for_each(|line| output::stderr_line(line)))
    }

    /// Nothing where a bar is drawn that no terminal shows.
    fn width(&self) -> Option<usize> {
        let (_, width) = self.screen.0.size_checked()?;
        Some(usize::from(width).saturating_sub(1))
    }

    fn close(&mut self) {
        self.closed = true;
        self.drawn.finish_and_clear();
    }
}

/// Standard error, drawn on even where it is no terminal: `--progress bar` is obeyed.
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
