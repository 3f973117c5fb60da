//! No progress: notes, summaries and errors only.

use std::time::Duration;

use haul_transfer::Event;

use super::Renderer;
use super::notes::Notes;
use crate::message;

/// Notes only.
pub(super) struct Silent(pub(super) Notes);

impl Renderer for Silent {
    fn event(&mut self, _now: Duration, event: &Event) {
        if let Some(line) = self.0.line(event) {
            message::note(&line);
        }
    }

    fn say(&mut self, line: &str) {
        message::note(line);
    }
}
