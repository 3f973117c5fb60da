//! Two runs beside each other: `haul bench compare A B`.

use super::quantity::TimeUnit;
use super::report_table::{
    ColumnKind, ReportColumn, TableDetail, TextTone, level_columns, ratio_text,
};
use super::sentences::{cell_name, fixed_levels};
use super::terminal::TextPage;
use crate::results::{BenchEnvironment, BenchResults, CellResults, ExperimentResults};
use crate::statistics::ratio_interval;

/// The same runs give the same intervals.
const SEED: u64 = 0x6861_756c;

/// Two runs as text for a terminal: for each cell that both have the medians, and the ratio of `b` to `a`.
#[must_use]
pub fn compare_text(a: &BenchResults, b: &BenchResults, width: usize, has_color: bool) -> String {
    let mut page = TextPage::new(width, has_color);
    for (name, run) in [("A", a), ("B", b)] {
        let BenchEnvironment {
            haul,
            commit,
            command,
            ..
        } = &run.environment;
        let line = format!("{name}: haul {haul} {commit} {command}, {}", run.started);
        page.paragraph(&line, TextTone::Faint);
        if run.is_partial {
            let line = format!("{name} is partial: it was stopped before it was done.");
            page.paragraph(&line, TextTone::Warning);
        }
    }
    // What else than haul may be the reason for a difference.
    let facts = machine_facts(&a.environment).into_iter();
    for ((name, of_a), (_, of_b)) in facts.zip(machine_facts(&b.environment)) {
        if of_a != of_b {
            let line = format!("! The {name} differ: {of_a} and {of_b}.");
            page.paragraph(&line, TextTone::Warning);
        }
    }
    for of_a in &a.experiments {
        page.blank();
        match b.experiments.iter().find(|of_b| of_b.name == of_a.name) {
            Some(of_b) => compare_experiment(&mut page, of_a, of_b),
            None => only_in(&mut page, "A", &of_a.name),
        }
    }
    let is_only_in_b = |of_b: &&ExperimentResults| {
        let mut experiments = a.experiments.iter();
        experiments.all(|of_a| of_a.name != of_b.name)
    };
    for of_b in b.experiments.iter().filter(is_only_in_b) {
        page.blank();
        only_in(&mut page, "B", &of_b.name);
    }
    page.text
}

fn machine_facts(environment: &BenchEnvironment) -> [(&'static str, String); 4] {
    [
        ("processors", environment.cpu.clone()),
        ("numbers of processors", environment.cpus.to_string()),
        ("kernels", environment.kernel.clone()),
        ("sizes of memory", environment.memory.to_string()),
    ]
}

fn compare_experiment(page: &mut TextPage, a: &ExperimentResults, b: &ExperimentResults) {
    page.paragraph(&format!("{}: {}", a.name, a.title), TextTone::Heading);
    page.paragraph(&fixed_levels(a), TextTone::Faint);
    if a.target != b.target {
        let [of_a, of_b] = [a, b].map(|run| run.target.as_deref().unwrap_or("haul's own"));
        let warning = format!("! The servers differ: {of_a} and {of_b}.");
        page.paragraph(&warning, TextTone::Warning);
    }
    let find = |cell: &CellResults| b.cells.iter().find(|other| other.cell == cell.cell);
    let pairs: Vec<(&CellResults, &CellResults)> = a
        .cells
        .iter()
        .filter_map(|cell| Some((cell, find(cell)?)))
        .collect();
    if !pairs.is_empty() {
        page.table(&comparison_table(a, &pairs));
    }
    for (name, run, other) in [("A", a, b), ("B", b, a)] {
        let is_common = |cell: &CellResults| other.cells.iter().any(|of| of.cell == cell.cell);
        for cell in run.cells.iter().filter(|cell| !is_common(cell)) {
            only_in(page, name, &cell_name(run, &cell.cell));
        }
    }
}

fn only_in(page: &mut TextPage, run: &str, what: &str) {
    page.paragraph(&format!("Only in {run}: {what}"), TextTone::Warning);
}

fn comparison_table(
    experiment: &ExperimentResults,
    pairs: &[(&CellResults, &CellResults)],
) -> Vec<ReportColumn> {
    let walls = pairs.iter().flat_map(|(a, b)| [a.wall, b.wall]).flatten();
    let unit = TimeUnit::for_times(walls.map(|wall| wall.median));
    let median = |cell: &CellResults| match cell.wall {
        Some(wall) => TextTone::Plain.text(unit.show(wall.median)),
        None if cell.failure.is_some() => TextTone::Warning.text("failed"),
        None => TextTone::Faint.text("not measured"),
    };
    let ratio = |(a, b): &(&CellResults, &CellResults)| match ratio_interval(
        &b.times_of_success(),
        &a.times_of_success(),
        SEED,
    ) {
        Some(ratio) => ratio_text(ratio, TableDetail::Terminal),
        None => TextTone::Faint.text("-"),
    };
    let (of_a, of_b) = (pairs.iter().map(|(a, _)| *a), pairs.iter().map(|(_, b)| *b));
    let number = ColumnKind::Number;
    let mut columns = level_columns(experiment, of_a.clone());
    columns.extend([
        ReportColumn::new("A", unit.symbol, number, 0, of_a.map(median)),
        ReportColumn::new("B", unit.symbol, number, 0, of_b.map(median)),
        ReportColumn::new("B/A", "", number, 0, pairs.iter().map(ratio)),
    ]);
    columns
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    /// A run in which one experiment is faster and another has other cells.
    fn other_results() -> BenchResults {
        let mut results = fixture::bench_results();
        results.is_partial = false;
        results.environment.kernel = "Linux 6.13.0".to_owned();
        results.environment.commit = "12345678".to_owned();
        for cell in &mut results.experiments[0].cells[3..] {
            for measurement in &mut cell.measurements {
                measurement.wall_s *= 0.8;
            }
            if let Some(wall) = &mut cell.wall {
                wall.median *= 0.8;
            }
        }
        let dropped = results.experiments[0].cells.remove(0);
        let mut added = dropped.clone();
        added
            .cell
            .levels
            .insert("connections".to_owned(), "32".to_owned());
        results.experiments[0].cells.push(added);
        results.experiments.remove(1);
        results.experiments[1].target = Some("http://127.0.0.1:1/".to_owned());
        results
    }

    #[test]
    fn two_runs_of_80_columns() {
        insta::assert_snapshot!(compare_text(
            &fixture::bench_results(),
            &other_results(),
            80,
            false
        ));
    }

    #[test]
    fn two_runs_of_40_columns() {
        let text = compare_text(&other_results(), &fixture::bench_results(), 40, false);
        assert!(
            text.lines().all(|line| line.chars().count() <= 40),
            "{text}"
        );
        assert!(text.contains("Only in B: quirks"), "{text}");
        assert!(text.contains("1.25 (1."), "{text}");
    }

    #[test]
    fn a_run_does_not_differ_from_itself() {
        let results = fixture::bench_results();
        let text = compare_text(&results, &results, 100, false);
        assert!(
            !text.contains("Only in") && !text.contains("differ:"),
            "{text}"
        );
        let cells = results
            .experiments
            .iter()
            .flat_map(|experiment| &experiment.cells);
        let measured = cells.filter(|cell| cell.wall.is_some()).count();
        assert_eq!(text.matches("no difference").count(), measured);
    }
}
