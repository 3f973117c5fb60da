//! No progress: notes, summaries and errors only.

use std::time::Duration;

use haul_transfer::TransferEvent;

use super::Renderer;
use super::picture::ProgressFrame;
use crate::message;

/// Only what is worth a line of its own.
pub(super) struct QuietRenderer(pub(super) Box<dyn ProgressFrame>);

impl Renderer for QuietRenderer {
    fn event(&mut self, now: Duration, event: &TransferEvent) {
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
