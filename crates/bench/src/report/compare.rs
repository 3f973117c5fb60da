//! Two runs beside each other: `haul bench compare A B`.

use super::quantity::TimeUnit;
use super::report_table::{
    ColumnKind, ReportColumn, ReportTable, TableDetail, TableValue, ValueTone, ratio_value,
};
use super::sentences::{cell_name, fixed_levels, varying_factors};
use super::text_layout::TextPage;
use crate::results::{BenchEnvironment, BenchResults, CellResults, ExperimentResults};
use crate::statistics::{ratio_interval, spread};

/// The same runs give the same intervals.
const SEED: u64 = 0x6861_756c;

/// Two runs as text for a terminal: for each cell that both have the medians, and the ratio of `b` to `a`.
#[must_use]
pub fn compare_text(a: &BenchResults, b: &BenchResults, width: usize, has_color: bool) -> String {
    let mut page = TextPage::new(width, has_color);
    for (name, run) in [("A", a), ("B", b)] {
        let environment = &run.environment;
        let program = [&environment.haul, &environment.commit, &environment.command];
        let program: Vec<&str> = program.iter().map(|part| part.as_str()).collect();
        let line = format!("{name}: haul {}, {}", program.join(" "), run.started);
        page.paragraph(&line, 3, ValueTone::Faint);
        if run.is_partial {
            let line = format!("{name} is partial: it was stopped before it was done.");
            page.paragraph(&line, 3, ValueTone::Warning);
        }
    }
    for difference in environment_differences(&a.environment, &b.environment) {
        page.paragraph(&difference, 2, ValueTone::Warning);
    }
    for of_a in &a.experiments {
        page.blank();
        match b.experiments.iter().find(|of_b| of_b.name == of_a.name) {
            Some(of_b) => compare_experiment(&mut page, of_a, of_b),
            None => only_in(&mut page, "A", &of_a.name),
        }
    }
    for of_b in &b.experiments {
        if a.experiments.iter().all(|of_a| of_a.name != of_b.name) {
            page.blank();
            only_in(&mut page, "B", &of_b.name);
        }
    }
    page.finish()
}

fn compare_experiment(page: &mut TextPage, a: &ExperimentResults, b: &ExperimentResults) {
    page.paragraph(&format!("{}: {}", a.name, a.title), 2, ValueTone::Heading);
    page.paragraph(&fixed_levels(a), 2, ValueTone::Faint);
    if a.target != b.target {
        let server =
            |of: &ExperimentResults| of.target.clone().unwrap_or_else(|| "haul's own".to_owned());
        let warning = format!("! The servers differ: {} and {}.", server(a), server(b));
        page.paragraph(&warning, 2, ValueTone::Warning);
    }
    page.blank();
    let find = |of: &ExperimentResults, cell: &CellResults| {
        of.cells
            .iter()
            .find(|other| other.cell == cell.cell)
            .cloned()
    };
    let pairs: Vec<_> = a
        .cells
        .iter()
        .filter_map(|cell| Some((cell, find(b, cell)?)))
        .collect();
    if !pairs.is_empty() {
        page.table(&comparison_table(a, &pairs));
        page.blank();
    }
    for (name, run, other) in [("A", a, b), ("B", b, a)] {
        for cell in run.cells.iter().filter(|cell| find(other, cell).is_none()) {
            only_in(page, name, &cell_name(run, &cell.cell));
        }
    }
}

fn only_in(page: &mut TextPage, run: &str, what: &str) {
    page.paragraph(&format!("Only in {run}: {what}"), 2, ValueTone::Warning);
}

fn comparison_table(
    experiment: &ExperimentResults,
    pairs: &[(&CellResults, CellResults)],
) -> ReportTable {
    let mut table = ReportTable {
        columns: Vec::new(),
        rows: vec![Vec::new(); pairs.len()],
    };
    for factor in varying_factors(experiment) {
        let levels = pairs
            .iter()
            .map(|(cell, _)| cell.cell.level(factor).unwrap_or("-"));
        let levels = levels.map(|level| TableValue::new(level, ValueTone::Plain));
        table.add(ReportColumn::new(factor, "", ColumnKind::Level, 0), levels);
    }
    let walls: Vec<_> = pairs
        .iter()
        .map(|(a, b)| (successful_walls(a), successful_walls(b)))
        .collect();
    let median = |walls: &[f64]| spread(walls).map(|spread| spread.median);
    let medians: Vec<_> = walls.iter().map(|(a, b)| (median(a), median(b))).collect();
    let unit = TimeUnit::for_times(medians.iter().flat_map(|(a, b)| [*a, *b]).flatten());
    let show = |median: Option<f64>| match median {
        Some(median) => TableValue::new(unit.show(median), ValueTone::Plain),
        None => TableValue::new("failed", ValueTone::Warning),
    };
    let times = |name| ReportColumn::new(name, unit.symbol(), ColumnKind::Number, 0);
    table.add(times("A"), medians.iter().map(|(a, _)| show(*a)));
    table.add(times("B"), medians.iter().map(|(_, b)| show(*b)));
    let ratios = pairs.iter().map(|(a, b)| {
        match ratio_interval(&b.times_of_success(), &a.times_of_success(), SEED) {
            Some(ratio) => ratio_value(ratio, TableDetail::Terminal),
            None => TableValue::new("-", ValueTone::Faint),
        }
    });
    table.add(ReportColumn::new("B/A", "", ColumnKind::Text, 0), ratios);
    table
}

fn successful_walls(cell: &CellResults) -> Vec<f64> {
    let successful = cell.measurements.iter().filter(|m| m.successes > 0);
    successful.map(|m| m.wall_s).collect()
}

/// What else than haul may be the reason for a difference.
fn environment_differences(a: &BenchEnvironment, b: &BenchEnvironment) -> Vec<String> {
    let facts = [
        ("processors", a.cpu.clone(), b.cpu.clone()),
        (
            "numbers of processors",
            a.cpus.to_string(),
            b.cpus.to_string(),
        ),
        ("kernels", a.kernel.clone(), b.kernel.clone()),
        (
            "sizes of memory",
            a.memory.to_string(),
            b.memory.to_string(),
        ),
    ];
    let different = facts.into_iter().filter(|(_, a, b)| a != b);
    let lines = different.map(|(name, a, b)| format!("! The {name} differ: {a} and {b}."));
    lines.collect()
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
