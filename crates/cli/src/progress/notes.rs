//! What is worth a line of its own, whatever else is shown.

use haul_transfer::Event;

use super::text::{bytes_text, rate_text};
use crate::message::harmless;

/// Which events are worth a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Notes {
    /// None.
    pub(super) quiet: bool,
    /// Segments too.
    pub(super) verbose: bool,
}

impl Notes {
    /// The line of an event, if it is worth one.
    pub(super) fn line(self, event: &Event) -> Option<String> {
        match event {
            _ if self.quiet => None,
            Event::Warning { text, .. } => Some(format!(
                "haul: \x1b[1;33mwarning\x1b[0m: {}",
                harmless(text)
            )),
            // What is tried again at once is of no interest to anyone.
            Event::Retry {
                attempt, wait, why, ..
            } if !wait.is_zero() || self.verbose => Some(format!(
                "haul: {}; retry {attempt} in {:.1} s",
                harmless(why),
                wait.as_secs_f64()
            )),
            Event::Segment {
                range,
                elapsed,
                connection,
                ..
            } if self.verbose => {
                let bytes = range.end.saturating_sub(range.start);
                Some(format!(
                    "segment {}-{}  {} ms  {}  {}  connection {connection}",
                    range.start,
                    range.end.saturating_sub(1),
                    elapsed.as_millis(),
                    bytes_text(bytes),
                    rate_text(bytes, *elapsed),
                ))
            }
            _ => None,
        }
    }
}
