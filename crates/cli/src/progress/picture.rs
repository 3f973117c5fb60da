//! What is going on, as somebody wants to see it: told events and the time, asked for lines.
//!
//! A [`ProgressView`] knows nothing of terminals, logs and files, and a renderer nothing of downloads: any of the ones draws any of
//! the others. There are two, for [downloads](super::downloads) that are watched one by one and for a [batch](super::tally).

use std::time::Duration;

use haul_transfer::TransferEvent;

/// A picture of what is going on.
pub(super) trait ProgressView: Send {
    /// Something happened; a line, if it is worth one of its own whatever else is shown.
    fn on_event(&mut self, now: Duration, event: &TransferEvent) -> Option<String>;

    /// Time went on; a line, if one has become due.
    fn on_tick(&mut self, now: Duration) -> Option<String>;

    /// Since when there is something to be seen; `None` while there is nothing.
    fn since(&self) -> Option<Duration>;

    /// As lines that stand still on a terminal of some height and width.
    fn terminal_lines(&self, size: (u16, u16)) -> Vec<String>;

    /// As one line of a log, if there is something to be seen.
    fn log_line(&self) -> Option<String>;
}
