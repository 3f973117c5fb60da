//! What came of a run: the model of `results.json`, which reports are made of and `haul bench compare` reads.

use serde::{Deserialize, Serialize};

use crate::{Cell, Measurement};

/// The form of `results.json`. Readers refuse others.
pub const RESULTS_FORMAT: &str = "haul-bench-1";

/// A run of one or more experiments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchResults {
    /// [`RESULTS_FORMAT`].
    pub format: String,
    /// When it began, as RFC 3339.
    pub started: String,
    /// Seconds that it took.
    pub elapsed_s: f64,
    /// Whether it was stopped before it was done.
    pub is_partial: bool,
    /// Where it ran.
    pub environment: BenchEnvironment,
    /// The experiments, in the order in which they ran.
    pub experiments: Vec<ExperimentResults>,
    /// What allows more requests than [`ExperimentResults::max_rate`], in the words of the front end. No file has it.
    #[serde(skip)]
    pub rate_hint: String,
}

/// The machine and the program.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BenchEnvironment {
    /// The version of haul.
    pub haul: String,
    /// The commit it was built from, where that is known.
    pub commit: String,
    /// The command line.
    pub command: String,
    /// The kernel and its version.
    pub kernel: String,
    /// The processor's name.
    pub cpu: String,
    /// Processors that haul may use.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
}

/// What came of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExperimentResults {
    /// Its name, such as `quirks`.
    pub name: String,
    /// What it shows, in a line.
    pub title: String,
    /// The factors in the order of columns. Those with one level are the same for all cells.
    pub factors: Vec<String>,
    /// Levels of the cells that the others of the same remaining levels are compared with.
    pub baseline: Cell,
    /// The server that the user named; `None` for haul's own.
    pub target: Option<String>,
    /// The most requests a second that haul sent to it; `None` for as many as it took.
    #[serde(default)]
    pub max_rate: Option<f64>,
    /// Rounds that all cells were measured in.
    pub rounds: u32,
    /// Why there were no more rounds.
    pub end: RoundsEnd,
    /// The cells, in the order of the file.
    pub cells: Vec<CellResults>,
    /// Guesses of the write-up, and whether they hold here.
    pub guesses: Vec<GuessResults>,
    /// What to learn from it.
    pub lesson: String,
}

/// Why no further round was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoundsEnd {
    /// All intervals are as narrow as the experiment wants them.
    Narrow,
    /// The time for the experiment was spent.
    TimeSpent,
    /// The most rounds that the experiment wants.
    MaxRounds,
    /// The user stopped it.
    Interrupted,
    /// A cell could not be measured, or had nothing but errors.
    Failed,
}

/// What was measured of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellResults {
    /// Its levels.
    pub cell: Cell,
    /// The measurements, without those that warmed up.
    pub measurements: Vec<Measurement>,
    /// The median of the wall times and their quartiles, in seconds; `None` without a success.
    pub wall: Option<Spread>,
    /// The ratio of its wall time, for each success, to that of its baseline; `None` for the baseline itself.
    pub ratio: Option<RatioInterval>,
    /// What the write-up measured, as it says it.
    pub write_up: Option<String>,
    /// Why it could not be measured.
    pub failure: Option<String>,
}

impl CellResults {
    /// The wall time of each measurement with a success.
    #[must_use]
    pub fn walls(&self) -> Vec<f64> {
        let with_success = self.measurements.iter().filter(|found| found.successes > 0);
        with_success.map(|found| found.wall_s).collect()
    }

    /// The same, divided by the successes: failures make nothing faster.
    #[must_use]
    pub fn times_of_success(&self) -> Vec<f64> {
        self.values_of_success(|found| Some(found.wall_s))
    }

    /// The same of another value, where it was measured.
    pub fn values_of_success(&self, value: impl Fn(&Measurement) -> Option<f64>) -> Vec<f64> {
        let with_success = self.measurements.iter().filter(|found| found.successes > 0);
        with_success
            .filter_map(|found| Some(value(found)? / found.successes as f64))
            .collect()
    }
}

/// A median and the quartiles around it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The first quartile.
    pub low: f64,
    pub median: f64,
    /// The third quartile.
    pub high: f64,
}

/// A ratio of medians and its bootstrap interval of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RatioInterval {
    pub ratio: f64,
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl RatioInterval {
    /// Whether the interval holds 1, so that nothing is known of a difference.
    #[must_use]
    pub fn holds_one(self) -> bool {
        self.low <= 1.0 && 1.0 <= self.high
    }
}

/// A guess of a write-up, and what was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuessResults {
    /// The guess, in a sentence.
    pub text: String,
    /// What is compared, in words.
    pub compared: String,
    /// The ratio that was found; `None` where a cell is missing.
    pub ratio: Option<RatioInterval>,
    pub verdict: GuessVerdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuessVerdict {
    /// The interval lies where the guess says.
    Holds,
    /// It lies elsewhere.
    Refuted,
    /// It is too wide to say, or was not measured.
    Open,
}
