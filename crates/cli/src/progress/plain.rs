//! Renders one line a second, for logs and for terminals that cannot draw.

use std::time::Duration;

use haul_transfer::TransferEvent;

use super::Renderer;
use super::view::ProgressView;
use crate::message;

const EVERY: Duration = Duration::from_secs(1);

/// One line a second.
pub(super) struct PlainRenderer {
    view: Box<dyn ProgressView>,
    /// When the last line was printed.
    last: Duration,
}

impl PlainRenderer {
    pub(super) fn new(view: Box<dyn ProgressView>) -> Self {
        Self {
            view,
            last: Duration::ZERO,
        }
    }

    /// The message about an event, if it has one.
    pub(super) fn event_line(&mut self, now: Duration, event: &TransferEvent) -> Option<String> {
        self.view.on_event(now, event)
    }

    /// The lines that are due now.
    pub(super) fn tick_lines(&mut self, now: Duration) -> Vec<String> {
        let mut lines: Vec<String> = self.view.on_tick(now).into_iter().collect();
        let since = self.view.since();
        if since.is_some_and(|since| now.saturating_sub(self.last.max(since)) >= EVERY) {
            self.last = now;
            lines.extend(self.view.log_line());
        }
        lines
    }
}

impl Renderer for PlainRenderer {
    fn on_event(&mut self, now: Duration, event: &TransferEvent) {
        if let Some(line) = self.event_line(now, event) {
            message::print_line(&line);
        }
    }

    fn on_tick(&mut self, now: Duration) {
        for line in self.tick_lines(now) {
            message::print_line(&line);
        }
    }

    fn print(&mut self, line: &str) {
        message::print_line(line);
    }
}
