//! Runs an experiment: its cells in interleaved rounds, until enough is known, the time is spent or the user stops it.
//!
//! Each round measures every cell once, in an order of its own, so that whatever the machine does meanwhile meets all cells alike. A first round
//! warms up and does not count. The rounds end by [`RoundRules`](crate::experiment::RoundRules); a round that takes far longer than all rounds may is given up.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::experiment::{Experiment, Guess, GuessMetric};
use crate::results::{CellResults, ExperimentResults, GuessResults, RatioInterval, RoundsEnd};
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

/// The future of a measurement.
pub type MeasureFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Measurement, WorkloadError>> + Send + 'a>>;

/// Measures cells.
pub trait Workload: Send {
    /// Measures a cell once. Ends soon when `stop` is cancelled; what it returns then is not used.
    fn measure<'a>(&'a mut self, cell: &'a Cell, stop: &'a CancellationToken) -> MeasureFuture<'a>;
}

/// How far a run is.
#[derive(Debug, Clone, Copy)]
pub struct RunProgress<'a> {
    /// The experiment.
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

/// A server that the user named.
#[derive(Debug, Clone)]
pub struct BenchTarget {
    /// Its URL, without what opens it.
    pub name: String,
    /// The most requests a second that it gets.
    pub max_rate: Option<f64>,
}

/// What is told of the progress.
pub type ProgressObserver<'a> = dyn FnMut(RunProgress<'_>) + Send + 'a;

/// A cell, and what is known of it.
#[derive(Debug)]
struct CellState {
    cell: Cell,
    measurements: Vec<Measurement>,
    failure: Option<String>,
}

/// A running experiment.
#[derive(Debug)]
struct ExperimentRun<'a> {
    experiment: &'a Experiment,
    cells: Vec<CellState>,
    started: Instant,
    rounds: u32,
    random: StdRng,
    seed: u64,
    target: Option<BenchTarget>,
}

/// Why a round was not finished.
enum RoundFailure {
    Interrupted,
    TimeSpent,
}

/// Runs an experiment. The order of the rounds and the intervals follow from the seed. `target` is the server that the user named.
pub async fn run_experiment(
    experiment: &Experiment,
    workload: &mut dyn Workload,
    target: Option<BenchTarget>,
    seed: u64,
    stop: &CancellationToken,
    observer: &mut ProgressObserver<'_>,
) -> ExperimentResults {
    let cells = experiment.cells().into_iter().map(|cell| CellState {
        cell,
        measurements: Vec::new(),
        failure: None,
    });
    let mut run = ExperimentRun {
        experiment,
        cells: cells.collect(),
        started: Instant::now(),
        rounds: 0,
        random: StdRng::seed_from_u64(seed),
        seed,
        target,
    };
    let end = run.run_rounds(workload, stop, observer).await;
    run.into_results(end)
}

impl ExperimentRun<'_> {
    async fn run_rounds(
        &mut self,
        workload: &mut dyn Workload,
        stop: &CancellationToken,
        observer: &mut ProgressObserver<'_>,
    ) -> RoundsEnd {
        let rules = self.experiment.rounds;
        for round in 0.. {
            match self.run_round(round, workload, stop, observer).await {
                Ok(()) => {}
                Err(RoundFailure::Interrupted) => return RoundsEnd::Interrupted,
                Err(RoundFailure::TimeSpent) => return RoundsEnd::TimeSpent,
            }
            if self.cells.iter().all(|state| state.failure.is_some()) {
                return RoundsEnd::Failed;
            }
            self.rounds = round;
            if round > 0
                && let Some(end) = rules.end(round, self.started.elapsed(), self.widest_interval())
            {
                return end;
            }
        }
        RoundsEnd::MaxRounds
    }

    /// Measures every cell once.
    async fn run_round(
        &mut self,
        round: u32,
        workload: &mut dyn Workload,
        stop: &CancellationToken,
        observer: &mut ProgressObserver<'_>,
    ) -> Result<(), RoundFailure> {
        let mut order: Vec<usize> = (0..self.cells.len()).collect();
        order.retain(|at| self.cells[*at].failure.is_none());
        order.shuffle(&mut self.random);
        let deadline = self.started + (self.experiment.rounds.time * PATIENCE).max(MIN_PATIENCE);
        for (measured, at) in order.iter().enumerate() {
            let state = &mut self.cells[*at];
            observer(RunProgress {
                experiment: self.experiment,
                round,
                cell: &state.cell,
                measured,
                cells: order.len(),
                elapsed: self.started.elapsed(),
            });
            let running = stop.child_token();
            let mut measuring = workload.measure(&state.cell, &running);
            let ended = tokio::select! {
                biased;
                () = stop.cancelled() => Err(RoundFailure::Interrupted),
                result = &mut measuring => Ok(result),
                () = tokio::time::sleep_until(deadline) => Err(RoundFailure::TimeSpent),
            };
            match ended {
                Ok(_) if stop.is_cancelled() => return Err(RoundFailure::Interrupted),
                Ok(result) => {
                    drop(measuring);
                    state.add(result, round > 0);
                }
                Err(failure) => {
                    running.cancel();
                    let _ = tokio::time::timeout(STOP_LIMIT, measuring).await;
                    return Err(failure);
                }
            }
        }
        Ok(())
    }

    /// The widest interval of a ratio, as a part of the ratio. `None` where a cell that can be compared has none yet.
    fn widest_interval(&self) -> Option<f64> {
        let compared = self.cells.iter().filter(|state| {
            let baseline = self.experiment.baseline_of(&state.cell);
            let baseline = baseline.and_then(|cell| self.state(&cell));
            state.failure.is_none() && baseline.is_some_and(|state| state.failure.is_none())
        });
        let mut widths = compared.map(|state| {
            let ratio = self.ratio(state)?;
            Some((ratio.high - ratio.low) / ratio.ratio)
        });
        let first = widths.next()??;
        widths.try_fold(first, |widest, width| Some(widest.max(width?)))
    }

    fn state(&self, cell: &Cell) -> Option<&CellState> {
        self.cells.iter().find(|state| state.cell == *cell)
    }

    /// The ratio of a cell to its baseline.
    fn ratio(&self, state: &CellState) -> Option<RatioInterval> {
        let baseline = self.state(&self.experiment.baseline_of(&state.cell)?)?;
        if self.is_at_cap(state) || self.is_at_cap(baseline) {
            return None;
        }
        let values = |state: &CellState| state.values(GuessMetric::Wall);
        ratio_interval(&values(state), &values(baseline), self.seed)
    }

    /// Whether it is haul's own limit of requests that the cell has measured.
    fn is_at_cap(&self, state: &CellState) -> bool {
        let max_rate = self.target.as_ref().and_then(|target| target.max_rate);
        let time = median(&state.values(GuessMetric::Wall));
        let rate = time.map(|time| 1.0 / time);
        rate.zip(max_rate)
            .is_some_and(|(rate, cap)| rate > CAP_PART * cap)
    }

    fn guess(&self, guess: &Guess) -> GuessResults {
        let values = |levels: &Cell| {
            let mut states = self.cells.iter();
            let found = states.find(|state| state.cell.matches(levels));
            let found = found.filter(|state| !self.is_at_cap(state));
            found.map(|state| state.values(guess.metric))
        };
        let ratio = values(&guess.cell)
            .zip(values(&guess.other))
            .and_then(|(one, other)| ratio_interval(&one, &other, self.seed));
        GuessResults {
            text: guess.text.clone(),
            compared: compared_text(guess),
            ratio,
            verdict: guess.expected.verdict(ratio),
        }
    }

    fn into_results(mut self, end: RoundsEnd) -> ExperimentResults {
        if end == RoundsEnd::TimeSpent {
            let unmeasured = self
                .cells
                .iter_mut()
                .filter(|state| state.measurements.is_empty());
            for state in unmeasured {
                let text = "the time was spent before it was measured";
                state.failure.get_or_insert_with(|| text.to_owned());
            }
        }
        let guesses = self.experiment.guesses.iter();
        let guesses = guesses.map(|guess| self.guess(guess)).collect();
        let cells = self.cells.iter().map(|state| CellResults {
            cell: state.cell.clone(),
            wall: spread(&state.walls()),
            ratio: self.ratio(state),
            write_up: self.experiment.figure(&state.cell).map(str::to_owned),
            failure: state.failure.clone(),
            measurements: state.measurements.clone(),
        });
        let factors = self.experiment.factors.iter();
        ExperimentResults {
            name: self.experiment.name.clone(),
            title: self.experiment.title.clone(),
            factors: factors.map(|factor| factor.name.clone()).collect(),
            baseline: self.experiment.baseline.clone(),
            max_rate: self.target.as_ref().and_then(|target| target.max_rate),
            target: self.target.as_ref().map(|target| target.name.clone()),
            rounds: self.rounds,
            end,
            cells: cells.collect(),
            guesses,
            lesson: self.experiment.lesson.clone(),
        }
    }
}

impl CellState {
    /// Takes the result of a measurement. A cell that cannot be measured is not measured again.
    fn add(&mut self, result: Result<Measurement, WorkloadError>, is_counted: bool) {
        match result {
            Err(error) => self.failure = Some(error_chain(&error)),
            Ok(measurement) if measurement.successes == 0 => {
                let worst = measurement.errors.iter().max_by_key(|(_, count)| **count);
                let (kind, count) = worst.map_or(("nothing was sent", 0), |(kind, count)| {
                    (kind.as_str(), *count)
                });
                self.failure = Some(match count {
                    0 => kind.to_owned(),
                    count => format!("nothing but failures: {count} x {kind}"),
                });
                self.measurements.push(measurement);
            }
            Ok(measurement) if is_counted => self.measurements.push(measurement),
            Ok(_) => {}
        }
    }

    /// The wall times of the measurements with a success.
    fn walls(&self) -> Vec<f64> {
        let with_success = self.measurements.iter().filter(|found| found.successes > 0);
        with_success.map(|found| found.wall_s).collect()
    }

    /// A metric of each measurement, for each success: failures make nothing faster.
    fn values(&self, metric: GuessMetric) -> Vec<f64> {
        let with_success = self.measurements.iter().filter(|found| found.successes > 0);
        with_success
            .filter_map(|found| {
                let value = match metric {
                    GuessMetric::Wall => found.wall_s,
                    GuessMetric::ClientCpu => found.client_cpu?.total_s(),
                    GuessMetric::ServerCpu => found.server_cpu?.total_s(),
                };
                Some(value / found.successes as f64)
            })
            .collect()
    }
}

/// What a guess compares, in words: the levels that both cells share are named once.
fn compared_text(guess: &Guess) -> String {
    let (one, other) = (&guess.cell.levels, &guess.other.levels);
    let is_shared = |factor: &String, level: &String| {
        one.get(factor) == Some(level) && other.get(factor) == Some(level)
    };
    let text = |levels: &std::collections::BTreeMap<String, String>, shared: bool| {
        let levels = levels.iter();
        let chosen = levels.filter(|(factor, level)| is_shared(factor, level) == shared);
        let texts = chosen.map(|(factor, level)| format!("{factor} {level}"));
        texts.collect::<Vec<_>>().join(", ")
    };
    let shared = match text(one, true) {
        shared if shared.is_empty() => String::new(),
        shared => format!(" ({shared})"),
    };
    let metric = match guess.metric {
        GuessMetric::Wall => "time",
        GuessMetric::ClientCpu => "CPU of the client",
        GuessMetric::ServerCpu => "CPU of the server",
    };
    format!(
        "{metric}: {} against {}{shared}",
        text(one, false),
        text(other, false)
    )
}

/// An error with its causes.
fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::results::GuessVerdict;

    const TEXT: &str = "title = 't'\nworkload = 'requests'\nlesson = 'l'\n[factors]\nconcurrency = ['1', '2', '4']\n[baseline]\n\
        concurrency = '1'\n[rounds]\nmax = 20\nwidth = 0.2\nseconds = 100\n[[write_up]]\nconcurrency = '2'\nfigure = '7 s'\n\
        [[guess]]\ntext = 'Two are faster.'\ncell = { concurrency = '2' }\nother = { concurrency = '1' }\nexpected = 'less'\n";

    /// Takes 8 s for one at a time, 4 s for two and 2 s for four, with some noise.
    struct ScriptedWorkload {
        calls: BTreeMap<String, u32>,
        order: Vec<String>,
        failing: Option<(&'static str, Option<WorkloadError>)>,
        stop_after: Option<(usize, CancellationToken)>,
    }

    impl ScriptedWorkload {
        fn new() -> Self {
            Self {
                calls: BTreeMap::new(),
                order: Vec::new(),
                failing: None,
                stop_after: None,
            }
        }
    }

    impl Workload for ScriptedWorkload {
        fn measure<'a>(
            &'a mut self,
            cell: &'a Cell,
            _stop: &'a CancellationToken,
        ) -> MeasureFuture<'a> {
            let level = cell.level("concurrency").unwrap().to_owned();
            let calls = self.calls.entry(level.clone()).or_default();
            *calls += 1;
            let noise = 1.0 + 0.01 * f64::from(*calls % 3);
            self.order.push(level.clone());
            if let Some((after, stop)) = &self.stop_after
                && self.order.len() >= *after
            {
                stop.cancel();
            }
            let failing = self
                .failing
                .as_mut()
                .filter(|(failing, _)| *failing == level);
            let failure = failing.map(|(_, error)| error.take());
            Box::pin(async move {
                let wall_s = noise * 8.0 / level.parse::<f64>().unwrap();
                tokio::time::sleep(Duration::from_secs_f64(wall_s)).await;
                let mut measurement = Measurement {
                    wall_s,
                    successes: 10,
                    ..Measurement::default()
                };
                match failure {
                    None => {}
                    Some(Some(error)) => return Err(error),
                    Some(None) => {
                        measurement.successes = 0;
                        measurement.add_errors("status 503", 10);
                    }
                }
                Ok(measurement)
            })
        }
    }

    async fn run(workload: &mut ScriptedWorkload, stop: &CancellationToken) -> ExperimentResults {
        let experiment = Experiment::parse("x", TEXT, false).unwrap();
        run_experiment(&experiment, workload, None, 5, stop, &mut |_| {}).await
    }

    #[tokio::test(start_paused = true)]
    async fn cells_are_measured_in_interleaved_rounds_until_intervals_are_narrow() {
        let mut workload = ScriptedWorkload::new();
        let results = run(&mut workload, &CancellationToken::new()).await;
        assert_eq!((results.end, results.rounds), (RoundsEnd::Narrow, 4));
        // The first round warms up.
        assert!(workload.calls.values().all(|calls| *calls == 5));
        for round in workload.order.chunks(3) {
            let mut round = round.to_vec();
            round.sort();
            assert_eq!(round, ["1", "2", "4"]);
        }
        let ratios: Vec<_> = results.cells.iter().map(|cell| cell.ratio).collect();
        assert_eq!(ratios[0], None);
        assert!((ratios[1].unwrap().ratio - 0.5).abs() < 0.02);
        assert!((ratios[2].unwrap().ratio - 0.25).abs() < 0.02);
        assert_eq!(results.cells[1].write_up.as_deref(), Some("7 s"));
        assert_eq!(results.guesses[0].verdict, GuessVerdict::Holds);
        assert_eq!(
            results.guesses[0].compared,
            "time: concurrency 2 against concurrency 1"
        );
    }

    /// The cells take 0.8, 0.4 and 0.2 s for a request: 1.25, 2.5 and 5 a second.
    #[tokio::test(start_paused = true)]
    async fn what_haul_itself_has_limited_is_not_compared() {
        let experiment = Experiment::parse("x", TEXT, false).unwrap();
        let target = BenchTarget {
            name: "http://h/".to_owned(),
            max_rate: Some(3.0),
        };
        let stop = CancellationToken::new();
        let mut workload = ScriptedWorkload::new();
        let mut observer = |_: RunProgress<'_>| {};
        let running = run_experiment(
            &experiment,
            &mut workload,
            Some(target),
            5,
            &stop,
            &mut observer,
        );
        let results = running.await;
        assert_eq!(results.max_rate, Some(3.0));
        assert!(results.cells.iter().all(|cell| cell.ratio.is_none()));
        assert_eq!(results.guesses[0].verdict, GuessVerdict::Open);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_measured_before_a_stop_is_kept() {
        let stop = CancellationToken::new();
        let mut workload = ScriptedWorkload::new();
        workload.stop_after = Some((8, stop.clone()));
        let results = run(&mut workload, &stop).await;
        assert_eq!(results.end, RoundsEnd::Interrupted);
        let measured: usize = results
            .cells
            .iter()
            .map(|cell| cell.measurements.len())
            .sum();
        assert_eq!(measured, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cell_that_only_fails_is_not_measured_again() {
        let mut workload = ScriptedWorkload::new();
        workload.failing = Some(("4", None));
        let results = run(&mut workload, &CancellationToken::new()).await;
        assert_eq!(workload.calls["4"], 1);
        assert_eq!(
            results.cells[2].failure.as_deref(),
            Some("nothing but failures: 10 x status 503")
        );
        assert_eq!(
            (results.cells[2].wall, results.end),
            (None, RoundsEnd::Narrow)
        );
    }

    /// A measurement that never ends does not hold up the others for longer than three times what all may take.
    #[tokio::test(start_paused = true)]
    async fn a_round_that_takes_too_long_is_given_up() {
        struct HangingWorkload;
        impl Workload for HangingWorkload {
            fn measure<'a>(
                &'a mut self,
                _: &'a Cell,
                _: &'a CancellationToken,
            ) -> MeasureFuture<'a> {
                Box::pin(std::future::pending())
            }
        }
        let experiment = Experiment::parse("x", TEXT, false).unwrap();
        let started = Instant::now();
        let stop = CancellationToken::new();
        let results = run_experiment(
            &experiment,
            &mut HangingWorkload,
            None,
            1,
            &stop,
            &mut |_| {},
        )
        .await;
        assert_eq!(results.end, RoundsEnd::TimeSpent);
        assert_eq!(started.elapsed(), Duration::from_secs(300) + STOP_LIMIT);
    }
}
