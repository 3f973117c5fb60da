//! No progress: only messages, summaries and errors.

use std::time::Duration;

use haul_transfer::TransferEvent;

use super::Renderer;
use super::view::ProgressView;
use crate::message;

pub(super) struct QuietRenderer(pub(super) Box<dyn ProgressView>);

impl Renderer for QuietRenderer {
    fn on_event(&mut self, now: Duration, event: &TransferEvent) {
        if let Some(line) = self.0.on_event(now, event) {
            message::print_line(&line);
        }
    }

    fn on_tick(&mut self, now: Duration) {
        if let Some(line) = self.0.on_tick(now) {
            message::print_line(&line);
        }
    }

    fn print(&mut self, line: &str) {
        message::print_line(line);
    }
}
