//! No progress: notes, summaries and errors only.

use std::time::Duration;

use haul_transfer::Event;

use super::Renderer;
use super::picture::Picture;
use crate::message;

/// Only what is worth a line of its own.
pub(super) struct Silent(pub(super) Box<dyn Picture>);

impl Renderer for Silent {
    fn event(&mut self, now: Duration, event: &Event) {
        if let Some(line) = self.0.event(now, event) {
            message::note(&line);
        }
    }

    fn tick(&mut self, now: Duration) {
        if let Some(line) = self.0.tick(now) {
            message::note(&line);
        }
    }

    fn say(&mut self, line: &str) {
        message::note(line);
    }
}
