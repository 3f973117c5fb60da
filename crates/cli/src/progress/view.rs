//! What runs, as people want to see it: takes events and the time, returns lines.
//!
//! A [`ProgressView`] knows nothing of terminals, logs and files, and a renderer nothing of downloads, so each renderer draws each view.
//! There are two views: of single [downloads](super::downloads) and of a [batch](super::tally).

use std::time::Duration;

use haul_transfer::TransferEvent;

/// What a renderer draws.
pub(super) trait ProgressView: Send {
    /// Takes an event in. Returns its message, if it has one.
    fn on_event(&mut self, now: Duration, event: &TransferEvent) -> Option<String>;

    /// Time has passed. Returns a message that has become due.
    fn on_tick(&mut self, now: Duration) -> Option<String>;

    /// When there was first something to show.
    fn since(&self) -> Option<Duration>;

    /// The lines of a terminal of this height and width.
    fn terminal_lines(&self, size: (u16, u16)) -> Vec<String>;

    /// The line of a log, if there is something to show.
    fn log_line(&self) -> Option<String>;
}
