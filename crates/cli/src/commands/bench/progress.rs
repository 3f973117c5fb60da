//! A line of progress on standard error: the experiment, the round and the cell. Without a terminal a line for each experiment.

use std::io::IsTerminal as _;
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
    named: String,
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
            named: String::new(),
        }
    }

    pub(super) fn show(&mut self, found: &RunProgress<'_>) {
        let name = &found.experiment.name;
        if let Some(bar) = &self.bar {
            let round = match found.round {
                0 => "warming up".to_owned(),
                round => format!("round {round}"),
            };
            bar.set_message(message::sanitize(&format!(
                "{name}: {round}, {} of {}, {} of about {} s: {}",
                found.measured + 1,
                found.cells,
                found.elapsed.as_secs(),
                found.experiment.rounds.time.as_secs(),
                found.cell
            )));
        } else if !self.is_quiet && self.named != *name {
            self.named.clone_from(name);
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
