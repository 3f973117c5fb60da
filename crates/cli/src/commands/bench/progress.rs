//! A line of progress on standard error: the experiment, the round and the cell. Without a terminal a line for each experiment.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::Duration;

use haul_bench::runner::RunProgress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::message;

/// Shows how far a run is.
pub(super) struct BenchProgress {
    /// `None` without a terminal, or where nobody wants it.
    bar: Option<ProgressBar>,
    is_quiet: bool,
    /// The experiment that was named last.
    named: Mutex<String>,
}

impl BenchProgress {
    pub(super) fn new(is_quiet: bool) -> Self {
        let has_bar = !is_quiet && std::io::stderr().is_terminal();
        let bar = has_bar.then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self {
            bar,
            is_quiet,
            named: Mutex::default(),
        }
    }

    pub(super) fn show(&self, found: &RunProgress<'_>) {
        let name = &found.experiment.name;
        if let Some(bar) = &self.bar {
            let round = match found.round {
                0 => "warming up".to_owned(),
                round => format!("round {round}"),
            };
            let (measured, cells) = (found.measured + 1, found.cells);
            let (elapsed, time) = (
                found.elapsed.as_secs(),
                found.experiment.rounds.time.as_secs(),
            );
            bar.set_message(message::sanitize(&format!(
                "{name}: {round}, {measured} of {cells}, {elapsed} of about {time} s: {}",
                found.cell
            )));
            return;
        }
        let Ok(mut named) = self.named.lock() else {
            return;
        };
        if !self.is_quiet && *named != *name {
            named.clone_from(name);
            let title = &found.experiment.title;
            message::print_line(&message::sanitize(&format!("haul: {name}: {title}")));
        }
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
