//! Experiments: which factors are varied, which cells that makes, and when enough was measured.
//!
//! An experiment is a TOML file, read by `file`; `builtin` has the files of haul; `adapt` changes one for
//! what the user wants. `haul bench show NAME` prints one to start from.

mod adapt;
mod builtin;
mod file;

pub use builtin::{BUILTIN_EXPERIMENTS, builtin_text};
pub use file::ExperimentError;

use std::time::Duration;

use serde::Deserialize;

use crate::results::{GuessVerdict, RatioInterval, RoundsEnd};
use crate::{Cell, Measurement};

/// The most cells of an experiment.
const MAX_CELLS: usize = 2000;

#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Its name: that of its file, without the folder and `.toml`.
    pub name: String,
    /// What it shows, in a line.
    pub title: String,
    /// What measures a cell.
    pub workload: WorkloadKind,
    /// The factors with their levels, in the order of the file.
    pub factors: Vec<Factor>,
    /// Levels of the cells that others are compared with.
    pub baseline: Cell,
    /// Cells with these levels are not measured.
    pub skipped: Vec<Cell>,
    /// How often cells are measured.
    pub rounds: RoundRules,
    pub figures: Vec<WriteUpFigure>,
    /// The levels of `files` that the file has: figures are of no others.
    pub figure_files: Vec<String>,
    /// Guesses of the write-up.
    pub guesses: Vec<Guess>,
    /// Sentences that the report has if their comparison holds.
    pub findings: Vec<Guess>,
    /// What to learn from it, whatever was measured.
    pub lesson: String,
}

/// What measures a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// Many requests, by the load generator.
    Requests,
    /// Files, by haul's own engine.
    Transfer,
}

/// Something that is varied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Factor {
    pub name: String,
    pub levels: Vec<String>,
}

/// How often cells are measured.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RoundRules {
    /// The fewest rounds, but no more than the most. Four are needed for an interval.
    #[serde(deserialize_with = "file::above_zero")]
    pub min: u32,
    /// The most rounds.
    #[serde(deserialize_with = "file::above_zero")]
    pub max: u32,
    /// No further round begins when all intervals of ratios are narrower than this part of their ratio.
    #[serde(deserialize_with = "file::above_zero")]
    pub width: f64,
    /// No further round begins after this time.
    #[serde(rename = "seconds", deserialize_with = "file::seconds")]
    pub time: Duration,
}

#[derive(Debug, Clone, PartialEq)]
pub struct WriteUpFigure {
    /// Levels of the cells that it belongs to.
    pub cell: Cell,
    /// The figure, as the write-up says it.
    pub figure: String,
}

/// A guess of the write-up: that one cell takes less, more or as much of something as another.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guess<C = Cell> {
    /// The guess, in a sentence.
    pub text: String,
    /// What is compared.
    #[serde(default)]
    pub metric: GuessMetric,
    /// Levels of the cell that is compared.
    pub cell: C,
    /// Levels of the cell that it is compared with.
    pub other: C,
    /// What is expected of the ratio.
    pub expected: GuessExpectation,
}

/// What two cells are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuessMetric {
    #[default]
    Wall,
    ClientCpu,
    ServerCpu,
}

/// What is expected of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuessExpectation {
    /// Below 1.
    Less,
    /// Above 1.
    More,
    /// Within a tenth of 1.
    Same,
}

/// A ratio within this of 1 is the same.
const SAME: f64 = 0.1;

/// A ratio within this of 1 is no gain and no loss that anybody would notice.
const NOTICED: f64 = 0.05;

impl Experiment {
    /// All cells: each combination of levels, the last factor varying fastest, without the skipped ones.
    #[must_use]
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = vec![Cell::default()];
        for factor in &self.factors {
            let name = factor.name.as_str();
            cells = cells
                .iter()
                .flat_map(|cell| {
                    let levels = factor.levels.iter();
                    levels.map(move |level| cell.with(&Cell::new([(name, level.as_str())])))
                })
                .collect();
        }
        let is_skipped = |cell: &Cell| self.skipped.iter().any(|skipped| cell.matches(skipped));
        cells.retain(|cell| !is_skipped(cell));
        cells
    }

    /// The cell that this one is compared with; `None` for those of the baseline.
    #[must_use]
    pub fn baseline_of(&self, cell: &Cell) -> Option<Cell> {
        let baseline = cell.with(&self.baseline);
        (baseline != *cell).then_some(baseline)
    }

    #[must_use]
    pub fn factor(&self, name: &str) -> Option<&Factor> {
        self.factors.iter().find(|factor| factor.name == name)
    }

    /// The figure of the write-up for a cell; none for files of other sizes than those of the experiment's file.
    #[must_use]
    pub fn figure(&self, cell: &Cell) -> Option<&str> {
        let is_known = |files| self.figure_files.iter().any(|known| known == files);
        let mut figures = self.figures.iter();
        let found = figures.find(|figure| cell.matches(&figure.cell))?;
        let is_of_files = cell.level("files").is_none_or(is_known);
        is_of_files.then_some(&found.figure)
    }
}

impl Default for RoundRules {
    fn default() -> Self {
        Self {
            min: 4,
            max: 30,
            width: 0.1,
            time: Duration::from_secs(30),
        }
    }
}

impl RoundRules {
    /// Whether the rounds are at their end, after so many, with the widest interval as a part of its ratio; `None` where there is none yet.
    #[must_use]
    pub fn end(self, rounds: u32, elapsed: Duration, widest: Option<f64>) -> Option<RoundsEnd> {
        if rounds < self.min.min(self.max) {
            return None;
        }
        if widest.is_some_and(|widest| widest <= self.width) {
            return Some(RoundsEnd::Narrow);
        }
        if rounds >= self.max {
            return Some(RoundsEnd::MaxRounds);
        }
        // A round that would not end in time does not begin.
        let next = elapsed + elapsed / rounds.max(1);
        (next > self.time).then_some(RoundsEnd::TimeSpent)
    }
}

impl GuessMetric {
    /// What a measurement has found.
    #[must_use]
    pub fn value(self, found: &Measurement) -> Option<f64> {
        match self {
            Self::Wall => Some(found.wall_s),
            Self::ClientCpu => Some(found.client_cpu?.total_s()),
            Self::ServerCpu => Some(found.server_cpu?.total_s()),
        }
    }
}

impl Guess {
    /// What is compared, in words: the levels that both cells share are named once.
    #[must_use]
    pub fn compared_text(&self) -> String {
        let is_shared = |factor: &str, level: &str| {
            [&self.cell, &self.other].map(|cell| cell.level(factor)) == [Some(level); 2]
        };
        let part = |cell: &Cell, shared: bool| {
            let mut part = cell.clone();
            part.levels
                .retain(|factor, level| is_shared(factor, level) == shared);
            part
        };
        let shared = match part(&self.cell, true) {
            shared if shared.levels.is_empty() => String::new(),
            shared => format!(" ({shared})"),
        };
        let metric = match self.metric {
            GuessMetric::Wall => "time",
            GuessMetric::ClientCpu => "CPU of the client",
            GuessMetric::ServerCpu => "CPU of the server",
        };
        let (one, other) = (part(&self.cell, false), part(&self.other, false));
        format!("{metric}: {one} against {other}{shared}")
    }
}

impl GuessExpectation {
    /// What an interval says of it.
    #[must_use]
    pub fn verdict(self, found: Option<RatioInterval>) -> GuessVerdict {
        let Some(found) = found else {
            return GuessVerdict::Open;
        };
        let (low, high) = (found.low, found.high);
        let (holds, is_refuted) = match self {
            Self::Less => (
                high < 1.0 && found.ratio < 1.0 - NOTICED,
                low > 1.0 - NOTICED,
            ),
            Self::More => (
                low > 1.0 && found.ratio > 1.0 + NOTICED,
                high < 1.0 + NOTICED,
            ),
            Self::Same => (
                low > 1.0 - SAME && high < 1.0 + SAME,
                low > 1.0 + SAME || high < 1.0 - SAME,
            ),
        };
        match (holds, is_refuted) {
            (true, _) => GuessVerdict::Holds,
            (false, true) => GuessVerdict::Refuted,
            (false, false) => GuessVerdict::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn interval(low: f64, high: f64) -> Option<RatioInterval> {
        let ratio = f64::midpoint(low, high);
        Some(RatioInterval { ratio, low, high })
    }

    #[test]
    fn cells_are_all_combinations_but_the_skipped_ones() {
        let text = "title = 't'\nworkload = 'requests'\n[factors]\nclient = ['threads', 'async']\nconnections = ['keep-alive', 'each']\n\
                    [baseline]\nconnections = 'each'\n[[skip]]\nclient = 'threads'\nconnections = 'each'\n";
        let experiment = Experiment::parse("x", text, false).unwrap();
        let cell =
            |client, connections| Cell::new([("client", client), ("connections", connections)]);
        assert_eq!(
            experiment.cells(),
            [
                cell("threads", "keep-alive"),
                cell("async", "keep-alive"),
                cell("async", "each")
            ]
        );
        let baseline = |client| experiment.baseline_of(&cell(client, "keep-alive"));
        assert_eq!(baseline("async"), Some(cell("async", "each")));
        assert_eq!(experiment.baseline_of(&cell("async", "each")), None);
    }

    #[test]
    fn rounds_end_when_enough_is_known_or_the_time_is_spent() {
        let rules = RoundRules {
            min: 3,
            max: 10,
            width: 0.1,
            time: Duration::from_secs(60),
        };
        let end = |rounds, seconds, widest| rules.end(rounds, Duration::from_secs(seconds), widest);
        assert_eq!(end(2, 600, Some(0.01)), None);
        assert_eq!(end(3, 30, Some(0.1)), Some(RoundsEnd::Narrow));
        assert_eq!(end(3, 30, Some(0.2)), None);
        assert_eq!(end(3, 46, Some(0.2)), Some(RoundsEnd::TimeSpent));
        assert_eq!(end(10, 5, None), Some(RoundsEnd::MaxRounds));
    }

    #[test]
    fn a_guess_holds_is_refuted_or_stays_open() {
        use GuessExpectation::{Less, More, Same};
        use GuessVerdict::{Holds, Open, Refuted};
        for (expected, low, high, verdict) in [
            (Less, 0.2, 0.9, Holds),
            (Less, 0.96, 1.05, Refuted),
            (Less, 0.93, 1.05, Open),
            (Less, 0.95, 0.99, Open),
            (Less, 0.90, 0.98, Holds),
            (Less, 1.2, 1.4, Refuted),
            (Less, 0.5, 1.5, Open),
            (More, 1.1, 3.0, Holds),
            (More, 0.3, 0.8, Refuted),
            (More, 0.8, 1.5, Open),
            (Same, 0.95, 1.08, Holds),
            (Same, 1.2, 1.5, Refuted),
            (Same, 0.8, 1.2, Open),
        ] {
            assert_eq!(
                expected.verdict(interval(low, high)),
                verdict,
                "{expected:?} {low} {high}"
            );
        }
        assert_eq!(Less.verdict(None), Open);
    }

    proptest! {
        /// However slow a round is, the rounds end, and never before the fewest.
        #[test]
        fn rounds_always_end(seconds_of_round in 0.001_f64..1000.0, widest in prop::option::of(0.0_f64..2.0)) {
            let rules = RoundRules { min: 3, max: 50, width: 0.05, time: Duration::from_secs(40) };
            let mut rounds = 0;
            let end = loop {
                rounds += 1;
                let elapsed = Duration::from_secs_f64(seconds_of_round * f64::from(rounds));
                if let Some(end) = rules.end(rounds, elapsed, widest) {
                    break end;
                }
            };
            prop_assert!((3..=50).contains(&rounds));
            if end == RoundsEnd::TimeSpent {
                prop_assert!(rounds == 3 || seconds_of_round * f64::from(rounds) <= 40.0 + 1e-6);
            }
        }
    }
}
