//! Lines of text: for logs, and for what is worth a line whatever the display.

use std::collections::HashMap;
use std::io::Write as _;
use std::time::Duration;

use haul_transfer::Event;
use tokio::time::Instant;

use super::track::{Track, bytes_text, rate_text, time_text};
use super::Renderer;

/// How often a job has a line.
const EVERY: Duration = Duration::from_secs(1);

/// Which events are worth a line of their own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notes {
    /// None.
    pub(crate) quiet: bool,
    /// Segments too.
    pub(crate) verbose: bool,
}

impl Notes {
    /// The line of an event, if it is worth one.
    pub(crate) fn line(self, event: &Event) -> Option<String> {
        match event {
            _ if self.quiet => None,
            Event::Warning { text, .. } => Some(format!("haul: warning: {text}")),
            Event::Retry { attempt, wait, why, .. } if !wait.is_zero() => {
                Some(format!("haul: {why}; trying again in {:.1} s (retry {attempt})", wait.as_secs_f64()))
            }
            Event::Segment { range, elapsed, connection, .. } if self.verbose => Some(format!(
                "segment {}-{}: {} ms, {}, {}, connection {connection}",
                range.start,
                range.end.saturating_sub(1),
                elapsed.as_millis(),
                bytes_text((range.end - range.start) as f64),
                rate_text(range.end - range.start, *elapsed),
            )),
            _ => None,
        }
    }
}

fn print(line: &str) {
    // A standard error that is closed leaves nobody to tell.
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

/// Notes only.
pub(crate) struct Silent(pub(crate) Notes);

impl Renderer for Silent {
    fn event(&mut self, event: &Event) {
        if let Some(line) = self.0.line(event) {
            print(&line);
        }
    }
}

/// A line a second for each job.
pub(crate) struct Plain {
    notes: Notes,
    running: HashMap<u64, (String, Track, Option<Instant>)>,
}

impl Plain {
    pub(crate) fn new(notes: Notes) -> Self {
        Self { notes, running: HashMap::new() }
    }

    /// The line of an event at a time, if it has one.
    fn line(&mut self, event: &Event, now: Instant) -> Option<String> {
        match event {
            Event::Named { job, path, length, resumed } => {
                let name = path.as_ref().map_or_else(|| "-".to_owned(), |path| path.display().to_string());
                self.running.insert(*job, (name, Track::new(now, *resumed, *length), None));
                None
            }
            Event::Progress { job, done, connections, .. } => {
                let (name, track, last) = self.running.get_mut(job)?;
                track.look(now, *done);
                if last.is_some_and(|last| now.duration_since(last) < EVERY) {
                    return None;
                }
                *last = Some(now);
                Some(progress_line(name, track, *connections))
            }
            Event::Finished { job, .. } | Event::Failed { job, .. } => {
                self.running.remove(job);
                None
            }
            other => self.notes.line(other),
        }
    }
}

fn progress_line(name: &str, track: &Track, connections: usize) -> String {
    let of = track.length.map_or_else(String::new, |length| {
        let percent = track.done() as f64 * 100.0 / length.max(1) as f64;
        format!(" of {} ({percent:.0} %)", bytes_text(length as f64))
    });
    let left = track.left().map_or_else(String::new, |left| format!(", {} left", time_text(left)));
    let (done, rate) = (bytes_text(track.done() as f64), bytes_text(track.rate()));
    format!("{name}: {done}{of}, {rate}/s{left}, connections: {connections}")
}

impl Renderer for Plain {
    fn event(&mut self, event: &Event) {
        if let Some(line) = self.line(event, Instant::now()) {
            print(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_job_has_a_line_a_second() {
        let mut plain = Plain::new(Notes { quiet: false, verbose: true });
        let named = Event::Named { job: 1, path: Some("f".into()), length: Some(4 << 20), resumed: 0 };
        assert_eq!(plain.line(&named, Instant::now()), None);
        let mut lines = Vec::new();
        for step in 1..=4u64 {
            tokio::time::advance(Duration::from_millis(500)).await;
            let event = Event::Progress { job: 1, done: step << 20, length: Some(4 << 20), connections: 3 };
            lines.extend(plain.line(&event, Instant::now()));
        }
        assert_eq!(
            lines,
            [
                "f: 1.0 MiB of 4.0 MiB (25 %), 2.0 MiB/s, 0:01 left, connections: 3",
                "f: 3.0 MiB of 4.0 MiB (75 %), 2.0 MiB/s, 0:00 left, connections: 3",
            ]
        );
        let segment = Event::Segment { job: 1, range: 0..1 << 20, elapsed: Duration::from_millis(500), connection: 2 };
        let line = plain.line(&segment, Instant::now()).unwrap();
        assert_eq!(line, "segment 0-1048575: 500 ms, 1.0 MiB, 2.0 MiB/s, connection 2");
    }

    #[test]
    fn quiet_says_nothing() {
        let notes = Notes { quiet: true, verbose: false };
        assert_eq!(notes.line(&Event::Warning { job: 0, text: "x".into() }), None);
    }
}
