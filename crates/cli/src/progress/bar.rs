//! Bars on a terminal: bytes, rate, time left and connections, one line a job.

use std::collections::HashMap;

use haul_transfer::Event;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

use super::plain::Notes;
use super::track::{Track, bytes_text, time_text};
use super::Renderer;

/// How often the terminal is drawn at most, a second.
const FRAMES: u8 = 15;

/// Bars for all running jobs.
pub(crate) struct Bars {
    drawn: MultiProgress,
    running: HashMap<u64, (ProgressBar, Track)>,
    notes: Notes,
}

impl Bars {
    pub(crate) fn new(notes: Notes) -> Self {
        let drawn = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(FRAMES));
        Self { drawn, running: HashMap::new(), notes }
    }

    fn begin(&mut self, job: u64, name: String, done: u64, length: Option<u64>) {
        let bar = self.running.remove(&job).map_or_else(|| self.drawn.add(ProgressBar::no_length()), |(bar, _)| bar);
        bar.set_style(style(length.is_some()));
        bar.set_prefix(name);
        if let Some(length) = length {
            bar.set_length(length);
        }
        bar.set_position(done);
        self.running.insert(job, (bar, Track::new(Instant::now(), done, length)));
    }
}

/// The wide part shrinks first, so that a small terminal still shows the numbers.
fn style(known: bool) -> ProgressStyle {
    let template = if known { "{prefix:.bold} {wide_bar} {msg}" } else { "{prefix:.bold} {spinner} {msg}" };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─")
}

/// What stands behind a bar.
fn numbers(track: &Track, connections: usize) -> String {
    let done = bytes_text(track.done() as f64);
    let of = track.length.map_or_else(String::new, |length| format!("/{}", bytes_text(length as f64)));
    let left = track.left().map_or_else(String::new, |left| format!(" eta {}", time_text(left)));
    let plural = if connections == 1 { "" } else { "s" };
    format!("{done}{of} {}/s{left} {connections} connection{plural}", bytes_text(track.rate()))
}

impl Renderer for Bars {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Named { job, path, length, resumed } => {
                let name = path.as_ref().and_then(|path| path.file_name());
                let name = name.map_or_else(|| "-".to_owned(), |name| name.to_string_lossy().into_owned());
                self.begin(*job, name, *resumed, *length);
            }
            Event::Progress { job, done, connections, .. } => {
                if let Some((bar, track)) = self.running.get_mut(job) {
                    track.look(Instant::now(), *done);
                    bar.set_position(*done);
                    bar.set_message(numbers(track, *connections));
                }
            }
            Event::Verifying { job } => {
                if let Some((bar, _)) = self.running.get(job) {
                    bar.set_message("verifying");
                }
            }
            Event::Finished { job, .. } | Event::Failed { job, .. } => {
                if let Some((bar, _)) = self.running.remove(job) {
                    bar.finish_and_clear();
                }
            }
            other => {
                if let Some(line) = self.notes.line(other) {
                    // A terminal that is gone leaves nobody to tell.
                    let _ = self.drawn.println(line);
                }
            }
        }
    }

    fn close(&mut self) {
        let _ = self.drawn.clear();
    }
}
