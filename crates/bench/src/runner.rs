//! Runs an experiment: its cells in interleaved rounds, until enough is known, the time is spent or the user stops it.
//!
//! Each round measures every cell once, in an order of its own, so that whatever the machine does meanwhile meets all cells alike. A first round
//! warms up and does not count. The rounds end by [`RoundRules`](crate::experiment::RoundRules); a round that takes far longer than all rounds may is given up.

#[cfg(test)]
mod tests;

use std::pin::pin;
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::experiment::{Experiment, Guess, GuessMetric};
use crate::results::{
    CellResults, ExperimentResults, GuessResults, GuessVerdict, RatioInterval, RoundsEnd,
};
use crate::statistics::{median, ratio_interval, spread};
use crate::workload::WorkloadError;
use crate::{Cell, Measurement};

/// After so many times the time of an experiment a running round is given up.
const PATIENCE: u32 = 3;
/// But not before: the fewest rounds of a small experiment take longer than the shortest times that a user may name.
const MIN_PATIENCE: Duration = Duration::from_secs(10);

/// The longest that a measurement which was stopped may take to remove what it has stored on a server.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A cell whose rate is above this part of haul's own limit has measured the limit.
const CAP_PART: f64 = 0.8;

/// How far a run is.
#[derive(Debug, Clone, Copy)]
pub struct RunProgress<'a> {
    pub experiment: &'a Experiment,
    /// The round: 0 warms up.
    pub round: u32,
    /// The cell that is measured now.
    pub cell: &'a Cell,
    /// How many cells of this round have been measured.
    pub measured: usize,
    /// How many it has.
    pub cells: usize,
    /// Since the experiment began.
    pub elapsed: Duration,
}

#[derive(Debug)]
pub struct ExperimentRun<'a> {
    experiment: &'a Experiment,
    /// What was measured so far. The rest is filled in at the end.
    results: ExperimentResults,
    started: Instant,
    random: StdRng,
    seed: u64,
}

impl<'a> ExperimentRun<'a> {
    /// A run that begins now. The order of the rounds and the intervals follow from the seed. `target` is the server that the user named, and
    /// `max_rate` the most requests a second that it gets.
    #[must_use]
    pub fn new(
        experiment: &'a Experiment,
        target: Option<String>,
        max_rate: Option<f64>,
        seed: u64,
    ) -> Self {
        let factors = experiment.factors.iter();
        let cells = experiment.cells().into_iter().map(|cell| CellResults {
            write_up: experiment.figure(&cell).map(str::to_owned),
            cell,
            measurements: Vec::new(),
            wall: None,
            ratio: None,
            failure: None,
        });
        let results = ExperimentResults {
            name: experiment.name.clone(),
            title: experiment.title.clone(),
            factors: factors.map(|factor| factor.name.clone()).collect(),
            baseline: experiment.baseline.clone(),
            target,
            max_rate,
            rounds: 0,
            end: RoundsEnd::Failed,
            cells: cells.collect(),
            guesses: Vec::new(),
            lesson: experiment.lesson.clone(),
        };
        Self {
            experiment,
            results,
            started: Instant::now(),
            random: StdRng::seed_from_u64(seed),
            seed,
        }
    }

    /// Runs the rounds. `measure` measures a cell once, and ends soon when its token is cancelled; what it returns then is not used.
    pub async fn run(
        mut self,
        measure: impl AsyncFnMut(&Cell, &CancellationToken) -> Result<Measurement, WorkloadError>,
        stop: &CancellationToken,
        observer: &mut (dyn FnMut(RunProgress<'_>) + Send),
    ) -> ExperimentResults {
        self.results.end = self.run_rounds(measure, stop, observer).await;
        self.finish()
    }

    /// Ends a run that cannot begin.
    #[must_use]
    pub fn fail(mut self, error: &WorkloadError) -> ExperimentResults {
        for cell in &mut self.results.cells {
            cell.failure = Some(error_chain(error));
        }
        self.finish()
    }

    /// Fills in what follows from the measurements.
    fn finish(mut self) -> ExperimentResults {
        let ratios: Vec<_> = self
            .results
            .cells
            .iter()
            .map(|cell| self.ratio(cell))
            .collect();
        let guesses = self.experiment.guesses.iter();
        self.results.guesses = guesses.map(|guess| self.guess(guess)).collect();
        self.results.lesson = self.lesson();
        for (cell, ratio) in self.results.cells.iter_mut().zip(ratios) {
            cell.wall = spread(&cell.walls());
            cell.ratio = ratio;
        }
        self.results
    }

    /// The lesson of the file, and what its findings say that hold.
    fn lesson(&self) -> String {
        let findings = self.experiment.findings.iter();
        let holding = findings.filter(|finding| self.guess(finding).verdict == GuessVerdict::Holds);
        let texts =
            std::iter::once(&self.experiment.lesson).chain(holding.map(|found| &found.text));
        let texts: Vec<&str> = texts.map(|text| text.trim()).collect();
        texts.join(" ").trim().to_owned()
    }

    async fn run_rounds(
        &mut self,
        mut measure: impl AsyncFnMut(&Cell, &CancellationToken) -> Result<Measurement, WorkloadError>,
        stop: &CancellationToken,
        observer: &mut (dyn FnMut(RunProgress<'_>) + Send),
    ) -> RoundsEnd {
        let rules = self.experiment.rounds;
        let deadline = self.started + (rules.time * PATIENCE).max(MIN_PATIENCE);
        for round in 0.. {
            let mut order: Vec<usize> = (0..self.results.cells.len()).collect();
            order.retain(|at| self.results.cells[*at].failure.is_none());
            order.shuffle(&mut self.random);
            for (measured, at) in order.iter().enumerate() {
                let cell = &mut self.results.cells[*at];
                observer(RunProgress {
                    experiment: self.experiment,
                    round,
                    cell: &cell.cell,
                    measured,
                    cells: order.len(),
                    elapsed: self.started.elapsed(),
                });
                match measure_once(&mut measure, &cell.cell, stop, deadline).await {
                    Ok(result) => add_result(cell, result, round > 0),
                    Err((end, failure)) => {
                        // A server that never answers.
                        if end == RoundsEnd::TimeSpent && cell.measurements.is_empty() {
                            cell.failure = failure.map(|error| error_chain(&error));
                        }
                        return end;
                    }
                }
            }
            if self.results.cells.iter().all(|cell| cell.failure.is_some()) {
                return RoundsEnd::Failed;
            }
            self.results.rounds = round;
            if round > 0
                && let Some(end) = rules.end(round, self.started.elapsed(), self.widest_interval())
            {
                return end;
            }
        }
        RoundsEnd::MaxRounds
    }

    /// The widest interval of a ratio, as a part of the ratio. `None` where a cell that can be compared has none yet.
    fn widest_interval(&self) -> Option<f64> {
        let mut widest = None;
        for cell in &self.results.cells {
            let baseline = self.baseline(cell);
            if cell.failure.is_none() && baseline.is_some_and(|cell| cell.failure.is_none()) {
                let ratio = self.ratio(cell)?;
                let width = (ratio.high - ratio.low) / ratio.ratio;
                widest = Some(width.max(widest.unwrap_or(0.0)));
            }
        }
        widest
    }

    fn baseline(&self, cell: &CellResults) -> Option<&CellResults> {
        let baseline = self.experiment.baseline_of(&cell.cell)?;
        let mut cells = self.results.cells.iter();
        cells.find(|cell| cell.cell == baseline)
    }

    /// The ratio of a cell to its baseline.
    fn ratio(&self, cell: &CellResults) -> Option<RatioInterval> {
        self.compare(cell, self.baseline(cell)?, GuessMetric::Wall)
    }

    /// The ratio of two cells. `None` where it is haul's own limit of requests that one of them has measured.
    fn compare(
        &self,
        cell: &CellResults,
        other: &CellResults,
        metric: GuessMetric,
    ) -> Option<RatioInterval> {
        let is_at_cap = |cell: &CellResults| {
            let time = median(&cell.times_of_success());
            let rate = time.map(|time| 1.0 / time);
            let max_rate = self.results.max_rate;
            rate.zip(max_rate)
                .is_some_and(|(rate, cap)| rate > CAP_PART * cap)
        };
        if is_at_cap(cell) || is_at_cap(other) {
            return None;
        }
        let values = [cell, other].map(|cell| cell.values_of_success(|found| metric.value(found)));
        ratio_interval(&values[0], &values[1], self.seed)
    }

    fn guess(&self, guess: &Guess) -> GuessResults {
        let find = |levels: &Cell| {
            let mut cells = self.results.cells.iter();
            cells.find(|cell| cell.cell.matches(levels))
        };
        let cells = find(&guess.cell).zip(find(&guess.other));
        let ratio = cells.and_then(|(cell, other)| self.compare(cell, other, guess.metric));
        GuessResults {
            text: guess.text.clone(),
            compared: guess.compared_text(),
            ratio,
            verdict: guess.expected.verdict(ratio),
        }
    }
}

/// Measures a cell once.
///
/// # Errors
/// Why there are no more rounds: the run was stopped, or the deadline is over. With what failed until then, if nothing else happened.
async fn measure_once(
    measure: &mut impl AsyncFnMut(&Cell, &CancellationToken) -> Result<Measurement, WorkloadError>,
    cell: &Cell,
    stop: &CancellationToken,
    deadline: Instant,
) -> Result<Result<Measurement, WorkloadError>, (RoundsEnd, Option<WorkloadError>)> {
    let running = stop.child_token();
    let mut measuring = pin!(measure(cell, &running));
    let end = tokio::select! {
        biased;
        () = stop.cancelled() => RoundsEnd::Interrupted,
        result = &mut measuring => if stop.is_cancelled() { return Err((RoundsEnd::Interrupted, None)) } else { return Ok(result) },
        () = tokio::time::sleep_until(deadline) => RoundsEnd::TimeSpent,
    };
    running.cancel();
    let stopped = tokio::time::timeout(STOP_LIMIT, measuring).await;
    let failure = stopped
        .ok()
        .and_then(Result::err)
        .filter(|error| matches!(error, WorkloadError::OnlyFailures(_)));
    Err((end, failure))
}

/// Takes the result of a measurement. A cell that cannot be measured is not measured again.
fn add_result(
    cell: &mut CellResults,
    result: Result<Measurement, WorkloadError>,
    is_counted: bool,
) {
    match result {
        Err(error) => cell.failure = Some(error_chain(&error)),
        Ok(measurement) if measurement.successes == 0 => {
            let worst = measurement.errors.iter().max_by_key(|(_, count)| **count);
            cell.failure = Some(match worst {
                Some((kind, count)) => format!("nothing but failures: {count} x {kind}"),
                None => "nothing was sent".to_owned(),
            });
            cell.measurements.push(measurement);
        }
        Ok(measurement) if is_counted => cell.measurements.push(measurement),
        Ok(_) => {}
    }
}

fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
