//! Runs of scripted workloads, in paused time.

use std::collections::BTreeMap;

use super::*;
use crate::results::GuessVerdict;

const TEXT: &str = "title = 't'\nworkload = 'requests'\nlesson = 'l'\n[factors]\nconcurrency = ['1', '2', '4']\n[baseline]\n\
    concurrency = '1'\n[rounds]\nmax = 20\nwidth = 0.2\nseconds = 100\n[[write_up]]\nconcurrency = '2'\nfigure = '7 s'\n\
    [[guess]]\ntext = 'Two are faster.'\ncell = { concurrency = '2' }\nother = { concurrency = '1' }\nexpected = 'less'\n\
    [[finding]]\ntext = 'Two wait together.'\ncell = { concurrency = '2' }\nother = { concurrency = '1' }\nexpected = 'less'\n\
    [[finding]]\ntext = 'Four are too many.'\ncell = { concurrency = '4' }\nother = { concurrency = '2' }\nexpected = 'more'\n";

/// Takes 8 s for one at a time, 4 s for two and 2 s for four, with some noise.
#[derive(Default)]
struct ScriptedWorkload {
    calls: BTreeMap<String, u32>,
    order: Vec<String>,
    failing: Option<&'static str>,
    stop_after: Option<(usize, CancellationToken)>,
}

impl ScriptedWorkload {
    async fn measure(&mut self, cell: &Cell) -> Result<Measurement, WorkloadError> {
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
        let wall_s = noise * 8.0 / level.parse::<f64>().unwrap();
        tokio::time::sleep(Duration::from_secs_f64(wall_s)).await;
        let mut measurement = Measurement {
            wall_s,
            successes: 10,
            ..Measurement::default()
        };
        if self.failing == Some(&*level) {
            measurement.successes = 0;
            measurement.add_errors("status 503", 10);
        }
        Ok(measurement)
    }
}

async fn run(
    workload: &mut ScriptedWorkload,
    max_rate: Option<f64>,
    stop: &CancellationToken,
) -> ExperimentResults {
    let experiment = Experiment::parse("x", TEXT, false).unwrap();
    let run = ExperimentRun::new(&experiment, None, max_rate, 5);
    let measure = async |cell: &Cell, _: &CancellationToken| workload.measure(cell).await;
    run.run(measure, stop, &mut |_| {}).await
}

#[tokio::test(start_paused = true)]
async fn cells_are_measured_in_interleaved_rounds_until_intervals_are_narrow() {
    let mut workload = ScriptedWorkload::default();
    let results = run(&mut workload, None, &CancellationToken::new()).await;
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
    // What was not found is not said.
    assert_eq!(results.lesson, "l Two wait together.");
    assert_eq!(
        results.guesses[0].compared,
        "time: concurrency 2 against concurrency 1"
    );
}

/// The cells take 0.8, 0.4 and 0.2 s for a request: 1.25, 2.5 and 5 a second.
#[tokio::test(start_paused = true)]
async fn what_haul_itself_has_limited_is_not_compared() {
    let mut workload = ScriptedWorkload::default();
    let results = run(&mut workload, Some(3.0), &CancellationToken::new()).await;
    assert_eq!(results.max_rate, Some(3.0));
    assert!(results.cells.iter().all(|cell| cell.ratio.is_none()));
    assert_eq!(results.guesses[0].verdict, GuessVerdict::Open);
}

#[tokio::test(start_paused = true)]
async fn what_was_measured_before_a_stop_is_kept() {
    let stop = CancellationToken::new();
    let mut workload = ScriptedWorkload {
        stop_after: Some((8, stop.clone())),
        ..ScriptedWorkload::default()
    };
    let results = run(&mut workload, None, &stop).await;
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
    let mut workload = ScriptedWorkload {
        failing: Some("4"),
        ..ScriptedWorkload::default()
    };
    let results = run(&mut workload, None, &CancellationToken::new()).await;
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
    let experiment = Experiment::parse("x", TEXT, false).unwrap();
    let started = Instant::now();
    let run = ExperimentRun::new(&experiment, None, None, 1);
    let hang = async |_: &Cell, _: &CancellationToken| std::future::pending().await;
    let results = run.run(hang, &CancellationToken::new(), &mut |_| {}).await;
    assert_eq!(results.end, RoundsEnd::TimeSpent);
    assert_eq!(started.elapsed(), Duration::from_secs(300) + STOP_LIMIT);
    // They did not fail.
    let mut cells = results.cells.iter();
    assert!(cells.all(|cell| cell.failure.is_none() && cell.wall.is_none()));
}

/// A server that takes requests and never answers is told as what it is.
#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_named_in_the_failure() {
    let experiment = Experiment::parse("x", TEXT, false).unwrap();
    let run = ExperimentRun::new(&experiment, None, None, 1);
    let hang = async |_: &Cell, stop: &CancellationToken| {
        stop.cancelled().await;
        Err(WorkloadError::OnlyFailures("2 x no answer".to_owned()))
    };
    let results = run.run(hang, &CancellationToken::new(), &mut |_| {}).await;
    assert_eq!(results.end, RoundsEnd::TimeSpent);
    let failures = results.cells.iter().filter_map(|cell| cell.failure.clone());
    let named = failures.filter(|text| text.ends_with("2 x no answer"));
    assert_eq!(named.count(), 1);
}

#[test]
fn a_run_that_cannot_begin_says_why() {
    let experiment = Experiment::parse("x", TEXT, false).unwrap();
    let error = WorkloadError::LocalIo {
        action: "make",
        path: "/folder".into(),
        source: std::io::ErrorKind::StorageFull.into(),
    };
    let results = ExperimentRun::new(&experiment, None, None, 1).fail(&error);
    assert_eq!((results.end, results.rounds), (RoundsEnd::Failed, 0));
    assert_eq!(results.guesses[0].verdict, GuessVerdict::Open);
    for cell in &results.cells {
        let text = "cannot make /folder: no storage space";
        assert_eq!(cell.failure.as_deref(), Some(text));
        assert!(cell.wall.is_none() && cell.measurements.is_empty());
    }
}
