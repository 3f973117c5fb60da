//! `haul bench` from the command line: each experiment with small sizes, its results read back, and what goes wrong.

mod commands;
mod experiments;
mod kernel_links;
mod load;
mod server_faults;
mod stops;
mod usage_errors;
mod user_servers;

use haul_bench::cell::FileSet;
use haul_bench::report::read_results;
use haul_bench::results::{BenchResults, CellResults, ExperimentResults};
use haul_bench::statistics::{MIN_VALUES, median};
use haul_bench::{Cell, Measurement};

use super::harness::{HaulDirectory, HaulOutput};

/// The results of a run, and what it printed.
struct BenchRun {
    output: HaulOutput,
    results: BenchResults,
}

/// Runs `haul bench` with these arguments and a report, which is read back.
async fn bench(haul: &HaulDirectory, args: &[&str]) -> BenchRun {
    let output = haul
        .run(&[&["bench"], args, &["--report", "out"]].concat())
        .await;
    read_run(haul, output)
}

/// The same where all cells can be measured: experiments of haul's own servers, or of the user's.
async fn bench_success(haul: &HaulDirectory, args: &[&str]) -> BenchRun {
    let run = bench(haul, args).await;
    assert_success(&run);
    run
}

/// Asserts that all cells of a run were measured.
#[track_caller]
fn assert_success(run: &BenchRun) {
    run.output.assert_code(0);
    assert!(!run.results.is_partial);
    assert!(run.output.stderr.contains("haul: wrote out/report.html"));
    for experiment in &run.results.experiments {
        assert!(!experiment.cells.is_empty(), "{experiment:#?}");
        for cell in &experiment.cells {
            assert_measured(experiment, cell);
        }
    }
}

#[track_caller]
fn read_run(haul: &HaulDirectory, output: HaulOutput) -> BenchRun {
    let names = super::harness::file_names(&haul.path("out"));
    assert_eq!(
        names,
        ["report.html", "report.md", "results.json"],
        "{output:#?}"
    );
    let results = read_results(&haul.path("out/results.json")).unwrap();
    BenchRun { output, results }
}

/// Asserts that all measurements of a cell are whole.
#[track_caller]
fn assert_measured(experiment: &ExperimentResults, cell: &CellResults) {
    let name = format!("{}: {}", experiment.name, cell.cell);
    assert_eq!(cell.failure, None, "{name}");
    assert!(!cell.measurements.is_empty(), "{name}");
    let wall = cell.wall.unwrap();
    assert!(
        0.0 < wall.low && wall.low <= wall.median && wall.median <= wall.high,
        "{name}: {wall:?}"
    );
    // As many values as an interval needs.
    let is_compared = experiment.baseline.levels.is_empty()
        || cell.cell.matches(&experiment.baseline)
        || (experiment.rounds as usize) < MIN_VALUES
        || !experiment
            .cells
            .iter()
            .any(|other| other.cell == cell.cell.with(&experiment.baseline));
    assert!(is_compared || cell.ratio.is_some(), "{name} has no ratio");
    for measured in &cell.measurements {
        assert!(measured.errors.is_empty(), "{name}: {measured:#?}");
        assert!(
            measured.client_cpu.unwrap().total_s() > 0.0,
            "{name}: {measured:#?}"
        );
        if experiment.target.is_none() && cell.cell.level("server") != Some("short-queue") {
            assert!(
                measured.server_cpu.unwrap().total_s() > 0.0,
                "{name}: {measured:#?}"
            );
            assert!(measured.server_memory.unwrap() > 1 << 20, "{name}");
        }
        let Some(files) = cell.cell.level("files") else {
            continue;
        };
        let files = FileSet::parse(files).unwrap();
        assert_eq!(measured.successes, u64::from(files.count), "{name}");
        if files.bytes > 0 && cell.cell.level("method") != Some("delete") {
            let bytes = files.bytes * measured.successes;
            assert_eq!(measured.bytes, bytes, "{name}");
        }
    }
}

impl BenchRun {
    #[track_caller]
    fn experiment(&self, name: &str) -> &ExperimentResults {
        let mut experiments = self.results.experiments.iter();
        experiments.find(|found| found.name == name).unwrap()
    }

    /// The cells of an experiment that have these levels.
    fn cells(&self, name: &str, levels: &[(&str, &str)]) -> Vec<&CellResults> {
        let levels = Cell::new(levels.iter().copied());
        let cells = self.experiment(name).cells.iter();
        cells.filter(|cell| cell.cell.matches(&levels)).collect()
    }

    /// All measurements of these cells.
    #[track_caller]
    fn measurements(&self, name: &str, levels: &[(&str, &str)]) -> Vec<&Measurement> {
        let cells = self.cells(name, levels).into_iter();
        let found: Vec<_> = cells.flat_map(|cell| &cell.measurements).collect();
        assert!(!found.is_empty(), "no measurements of {levels:?}");
        found
    }

    /// The ratio of the only cell with these levels to its baseline. It needs no interval, for which a busy machine has too few rounds.
    #[track_caller]
    fn ratio(&self, name: &str, levels: &[(&str, &str)]) -> f64 {
        let cells = self.cells(name, levels);
        assert_eq!(cells.len(), 1, "{levels:?}");
        let experiment = self.experiment(name);
        let baseline = cells[0].cell.with(&experiment.baseline);
        let mut all = experiment.cells.iter();
        let baseline = all.find(|cell| cell.cell == baseline).unwrap();
        let [time, compared] =
            [cells[0], baseline].map(|cell| median(&cell.times_of_success()).unwrap());
        time / compared
    }

    /// Errors by kind, of all cells.
    fn errors(&self) -> std::collections::BTreeMap<String, u64> {
        let cells = self.results.experiments.iter().flat_map(|all| &all.cells);
        let mut errors = std::collections::BTreeMap::new();
        for (kind, count) in cells
            .flat_map(|cell| &cell.measurements)
            .flat_map(|measured| &measured.errors)
        {
            *errors.entry(kind.clone()).or_default() += count;
        }
        errors
    }
}

/// Flags that make an experiment short, and set levels of factors.
fn set<'a>(levels: &[&'a str]) -> Vec<&'a str> {
    let sets = levels.iter().flat_map(|levels| ["--set", levels]);
    ["--time", "1s"].into_iter().chain(sets).collect()
}
