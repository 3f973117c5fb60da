//! A line a second: for logs, and for terminals that cannot draw.

use std::time::Duration;

use haul_transfer::TransferEvent;

use super::Renderer;
use super::picture::ProgressFrame;
use crate::message;

/// How often there is a line.
const EVERY: Duration = Duration::from_secs(1);

/// A line a second for all that is going on.
pub(super) struct PlainRenderer {
    /// What is going on.
    picture: Box<dyn ProgressFrame>,
    /// When the last line was written.
    last: Duration,
}

impl PlainRenderer {
    pub(super) fn new(picture: Box<dyn ProgressFrame>) -> Self {
        Self {
            picture,
            last: Duration::ZERO,
        }
    }

    /// The line of an event, if it has one.
    pub(super) fn on_event(&mut self, now: Duration, event: &TransferEvent) -> Option<String> {
        self.picture.event(now, event)
    }

    /// The lines of this moment, if it is time for some.
    pub(super) fn on_tick(&mut self, now: Duration) -> Vec<String> {
        let mut lines: Vec<String> = self.picture.tick(now).into_iter().collect();
        let since = self.picture.since();
        if since.is_some_and(|since| now.saturating_sub(self.last.max(since)) >= EVERY) {
            self.last = now;
            lines.extend(self.picture.line());
        }
        lines
    }
}

impl Renderer for PlainRenderer {
    fn event(&mut self, now: Duration, event: &TransferEvent) {
        if let Some(line) = self.on_event(now, event) {
            message::note(&line);
        }
    }

    fn tick(&mut self, now: Duration) {
        for line in self.on_tick(now) {
            message::note(&line);
        }
    }

    fn say(&mut self, line: &str) {
        message::note(line);
    }
}
