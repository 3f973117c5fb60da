//! Names and sentences that all forms of the report say in the same words, and how words of others are made harmless.

use std::collections::BTreeMap;

use super::quantity::three_digits;
use crate::Cell;
use crate::results::{BenchEnvironment, CellResults, ExperimentResults, RoundsEnd};

/// How many rounds there were, why no more, and what ratios are ratios to. `rate_hint` says what allows more requests a second.
pub(super) fn rounds_text(experiment: &ExperimentResults, rate_hint: &str) -> String {
    let plural = if experiment.rounds == 1 { "" } else { "s" };
    let end = match experiment.end {
        RoundsEnd::Narrow => "every interval is narrow enough",
        RoundsEnd::TimeSpent => "the time was spent before every interval was narrow enough",
        RoundsEnd::MaxRounds => "that is the maximum",
        RoundsEnd::Interrupted => "then the run was stopped",
        RoundsEnd::Failed => "then nothing could be measured",
    };
    let mut text = match (experiment.rounds, experiment.end) {
        (0, RoundsEnd::TimeSpent) => {
            "The time was spent before all rows were measured once.".into()
        }
        (0, RoundsEnd::Interrupted) => {
            "The run was stopped before all rows were measured once.".into()
        }
        (0, _) => "Nothing could be measured.".into(),
        (rounds, _) => format!("{rounds} round{plural}: {end}."),
    };
    let missing = experiment.cells.iter().filter(|cell| is_missing(cell));
    let (missing, all) = (missing.count(), experiment.cells.len());
    if missing > 0 && experiment.end == RoundsEnd::TimeSpent {
        text.extend([format!(" {missing} of {all} rows had no time.")]);
    }
    text.extend(experiment.max_rate.map(|cap| {
        let hint = if rate_hint.is_empty() {
            String::new()
        } else {
            format!(": {rate_hint}")
        };
        format!(
            " haul sent at most {cap:.0} requests a second, and does not compare cells that were as fast as that{hint}."
        )
    }));
    let baseline = level_names(factors(experiment), &experiment.baseline);
    text.extend(has_ratios(experiment).then(|| {
        format!(
            " Ratios are of wall time, to {baseline} with the other levels the same; intervals are bootstrap intervals of 95 %."
        )
    }));
    text
}

/// Whether a cell was neither measured nor failed.
fn is_missing(cell: &CellResults) -> bool {
    cell.wall.is_none() && cell.failure.is_none()
}

/// Whether any cell was compared with the baseline.
pub(super) fn has_ratios(experiment: &ExperimentResults) -> bool {
    experiment.cells.iter().any(|cell| cell.ratio.is_some())
}

/// The levels that all cells have, and the server, in a line.
pub(super) fn fixed_levels(experiment: &ExperimentResults) -> String {
    let varying = varying_factors(experiment);
    let fixed = factors(experiment).filter(|factor| !varying.contains(factor));
    let first = experiment.cells.first();
    let levels = first.map(|first| level_names(fixed, &first.cell));
    let server = experiment
        .target
        .as_ref()
        .map(|target| format!("server {target}"));
    let parts = levels
        .into_iter()
        .chain(server)
        .filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(", ")
}

/// The factors that have more than one level here.
pub(super) fn varying_factors(experiment: &ExperimentResults) -> Vec<&str> {
    let varies = |factor: &&str| {
        let mut levels = experiment.cells.iter().map(|cell| cell.cell.level(factor));
        let first = levels.next();
        levels.any(|level| Some(level) != first)
    };
    factors(experiment).filter(varies).collect()
}

fn factors(experiment: &ExperimentResults) -> impl Iterator<Item = &str> {
    experiment.factors.iter().map(String::as_str)
}

/// `factor level, factor level` of these factors, as far as the cell has them.
pub(super) fn level_names<'a>(factors: impl IntoIterator<Item = &'a str>, cell: &Cell) -> String {
    let factors = factors.into_iter();
    let levels = factors.filter_map(|factor| Some(format!("{factor} {}", cell.level(factor)?)));
    levels.collect::<Vec<_>>().join(", ")
}

/// The levels by which a cell differs from the others.
pub(super) fn cell_name(experiment: &ExperimentResults, cell: &Cell) -> String {
    match level_names(varying_factors(experiment), cell) {
        name if name.is_empty() => cell.to_string(),
        name => name,
    }
}

/// What went wrong, a line for each cell, or one for all if they have the same.
pub(super) fn failure_notes(experiment: &ExperimentResults) -> Vec<String> {
    let notes: Vec<(String, &Cell)> = experiment
        .cells
        .iter()
        .filter_map(|cell| Some((failure_text(cell)?, &cell.cell)))
        .collect();
    match notes.first() {
        Some((text, _))
            if notes.len() > 1
                && notes.len() == experiment.cells.len()
                && notes.iter().all(|(other, _)| other == text) =>
        {
            vec![format!("! all {} rows: {text}", notes.len())]
        }
        _ => notes
            .iter()
            .map(|(text, cell)| format!("! {}: {text}", cell_name(experiment, cell)))
            .collect(),
    }
}

/// What went wrong with a cell.
fn failure_text(cell: &CellResults) -> Option<String> {
    let mut kinds = BTreeMap::<&str, u64>::new();
    for (kind, count) in cell.measurements.iter().flat_map(|found| &found.errors) {
        *kinds.entry(kind).or_default() += count;
    }
    let failure = cell.failure.as_deref().unwrap_or_default();
    kinds.retain(|kind, _| !failure.contains(kind));
    let counted = kinds
        .iter()
        .map(|(kind, count)| format!("{count} x {kind}"));
    let parts: Vec<_> = cell.failure.iter().cloned().chain(counted).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The machine and the program, as names and values. What is not known has no line.
pub(super) fn environment_lines(environment: &BenchEnvironment) -> Vec<String> {
    let cpus = environment.cpus;
    let usable = if cpus > 0 {
        format!(", {cpus} usable")
    } else {
        String::new()
    };
    let gibibytes = three_digits(environment.memory as f64 / f64::from(1 << 30));
    let memory = if environment.memory > 0 {
        format!("{gibibytes} GiB")
    } else {
        String::new()
    };
    let lines = [
        ("haul", environment.haul.clone()),
        ("commit", environment.commit.clone()),
        ("command", environment.command.clone()),
        ("kernel", environment.kernel.clone()),
        ("processor", format!("{}{usable}", environment.cpu)),
        ("memory", memory),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty());
    lines
        .map(|(name, value)| format!("{name}: {value}"))
        .collect()
}

/// The text without space around it, and without characters that would do something to a terminal: controls, and marks that turn the
/// direction of text.
pub(super) fn printable(text: &str) -> String {
    let replace = |character: char| match character {
        '\t' | '\n' | '\r' => ' ',
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => '\u{fffd}',
        character if character.is_control() => '\u{fffd}',
        character => character,
    };
    text.trim().chars().map(replace).collect()
}

/// Text without meaning to HTML, in elements and in quoted attributes.
pub(super) fn escape_html(text: &str) -> String {
    let marks = [
        ('&', "&amp;"),
        ('<', "&lt;"),
        ('>', "&gt;"),
        ('"', "&quot;"),
        ('\'', "&#39;"),
    ];
    let escape = |text: String, (mark, escaped)| text.replace(mark, escaped);
    marks.into_iter().fold(printable(text), escape)
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn terminals_are_not_controlled_by_results() {
        assert_eq!(
            printable("a\x1b[2Jb\u{202e}c\nd "),
            "a\u{fffd}[2Jb\u{fffd}c d"
        );
    }

    #[test]
    fn what_had_no_time_did_not_fail() {
        let mut experiment = fixture::bench_results().experiments.remove(0);
        experiment.end = RoundsEnd::TimeSpent;
        experiment.rounds = 0;
        for cell in &mut experiment.cells[2..] {
            cell.wall = None;
            cell.measurements.clear();
        }
        let text = rounds_text(&experiment, "");
        assert!(
            text.starts_with(
                "The time was spent before all rows were measured once. 10 of 12 rows had no time."
            ),
            "{text}"
        );
        assert!(failure_notes(&experiment).is_empty());
        for cell in &mut experiment.cells {
            cell.failure = Some("connection refused".to_owned());
        }
        assert_eq!(
            failure_notes(&experiment),
            ["! all 12 rows: connection refused"]
        );
        experiment.end = RoundsEnd::Failed;
        assert!(rounds_text(&experiment, "").starts_with("Nothing could be measured."));
    }

    #[test]
    fn a_limited_rate_is_told_with_what_allows_more() {
        let mut experiment = fixture::bench_results().experiments.remove(0);
        experiment.max_rate = Some(100.0);
        let text = rounds_text(&experiment, "");
        assert!(text.contains("as fast as that."), "{text}");
        let text = rounds_text(&experiment, "a flag allows more");
        assert!(
            text.contains("as fast as that: a flag allows more."),
            "{text}"
        );
    }
}
