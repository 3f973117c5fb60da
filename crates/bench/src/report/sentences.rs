//! What all forms of the report say in the same words, and how words of others are made harmless.

use super::quantity::{show_duration, show_ratio, three_digits};
use crate::Cell;
use crate::results::{
    BenchEnvironment, BenchResults, CellResults, ExperimentResults, GuessResults, GuessVerdict,
    RoundsEnd,
};

/// What a report of a run that was stopped begins with.
pub(super) const PARTIAL: &str =
    "Partial: the run was stopped before it was done. Missing cells were not measured.";

/// How many rounds there were, and why no more.
pub(super) fn rounds_sentence(experiment: &ExperimentResults) -> String {
    let rounds = match experiment.rounds {
        1 => "1 round".to_owned(),
        rounds => format!("{rounds} rounds"),
    };
    let cap = experiment.max_rate.map(|cap| {
        format!(
            " haul sent at most {cap:.0} requests a second, and does not compare cells that were as fast as that: --yes allows more."
        )
    });
    let end = match experiment.end {
        RoundsEnd::Narrow => format!("{rounds}: every interval is narrow enough."),
        RoundsEnd::TimeSpent => {
            format!("{rounds}: the time was spent before every interval was narrow enough.")
        }
        RoundsEnd::MaxRounds => format!("{rounds}: no more were wanted."),
        RoundsEnd::Interrupted => format!("{rounds}: then the run was stopped."),
        RoundsEnd::Failed => format!("{rounds}: a cell could not be measured."),
    };
    end + &cap.unwrap_or_default()
}

/// What ratios are ratios to; `None` where there are none.
pub(super) fn baseline_sentence(experiment: &ExperimentResults) -> Option<String> {
    let has_ratio = experiment.cells.iter().any(|cell| cell.ratio.is_some());
    let baseline = in_order(experiment, &experiment.baseline, |_| true);
    (has_ratio && !baseline.is_empty()).then(|| {
        format!(
            "Ratios are of wall time, to {baseline} with the other levels the same; intervals are bootstrap intervals of 95 %."
        )
    })
}

/// The levels that all cells have, and the server, in a line.
pub(super) fn fixed_levels(experiment: &ExperimentResults) -> String {
    let varying = varying_factors(experiment);
    let first = experiment.cells.first();
    let fixed =
        first.map(|first| in_order(experiment, &first.cell, |factor| !varying.contains(&factor)));
    let target = experiment.target.as_ref();
    let target = target.map(|target| format!("server {target}"));
    let parts = fixed
        .into_iter()
        .chain(target)
        .filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(", ")
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
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(' '),
            character if character.is_control() => escaped.push('\u{fffd}'),
            character => escaped.push(character),
        }
    }
    escaped
}

/// The factors that have more than one level here.
pub(super) fn varying_factors(experiment: &ExperimentResults) -> Vec<&str> {
    let varies = |factor: &&str| {
        let mut levels = experiment.cells.iter().map(|cell| cell.cell.level(factor));
        let first = levels.next();
        levels.any(|level| Some(level) != first)
    };
    let factors = experiment.factors.iter().map(String::as_str);
    factors.filter(varies).collect()
}

/// `factor level, factor level` of the factors that are wanted, in the experiment's order.
pub(super) fn in_order(
    experiment: &ExperimentResults,
    cell: &Cell,
    mut is_wanted: impl FnMut(&str) -> bool,
) -> String {
    let factors = experiment.factors.iter().filter(|factor| is_wanted(factor));
    let levels = factors.filter_map(|factor| Some(format!("{factor} {}", cell.level(factor)?)));
    levels.collect::<Vec<_>>().join(", ")
}

/// The levels by which a cell differs from the others.
pub(super) fn cell_name(experiment: &ExperimentResults, cell: &Cell) -> String {
    let varying = varying_factors(experiment);
    let name = in_order(experiment, cell, |factor| varying.contains(&factor));
    if name.is_empty() {
        cell.to_string()
    } else {
        name
    }
}

/// Whether other cells are compared with this one.
pub(super) fn is_baseline(experiment: &ExperimentResults, cell: &CellResults) -> bool {
    !experiment.baseline.levels.is_empty() && cell.cell.matches(&experiment.baseline)
}

/// What went wrong, a line for each cell.
pub(super) fn failure_notes(experiment: &ExperimentResults) -> Vec<String> {
    let note = |cell: &CellResults| {
        let mut kinds = std::collections::BTreeMap::<&str, u64>::new();
        for (kind, count) in cell.measurements.iter().flat_map(|m| &m.errors) {
            *kinds.entry(kind).or_default() += count;
        }
        let failure = cell.failure.as_deref().unwrap_or_default();
        let counted = kinds
            .iter()
            .filter(|(kind, _)| !failure.contains(**kind))
            .map(|(kind, count)| format!("{count} x {kind}"));
        let parts: Vec<_> = cell.failure.iter().cloned().chain(counted).collect();
        let name = cell_name(experiment, &cell.cell);
        (!parts.is_empty()).then(|| format!("{name}: {}", parts.join(", ")))
    };
    experiment.cells.iter().filter_map(note).collect()
}

/// A verdict, with a sign that needs no colour.
pub(super) const fn verdict_name(verdict: GuessVerdict) -> &'static str {
    match verdict {
        GuessVerdict::Holds => "✓ holds",
        GuessVerdict::Refuted => "✗ refuted",
        GuessVerdict::Open => "? open",
    }
}

/// What a guess was judged by.
pub(super) fn guess_evidence(guess: &GuessResults) -> String {
    match guess.ratio {
        Some(ratio) => format!("{}: {}", guess.compared, show_ratio(ratio)),
        None => format!("{}: not measured", guess.compared),
    }
}

/// When the run began, and how long it took.
pub(super) fn run_sentence(results: &BenchResults) -> String {
    let elapsed = show_duration(results.elapsed_s);
    format!("Started {}, took {elapsed}.", results.started)
}

/// The machine and the program, as names and values. What is not known has no line.
pub(super) fn environment_lines(environment: &BenchEnvironment) -> Vec<(&'static str, String)> {
    let cpu = match environment.cpus {
        0 => environment.cpu.clone(),
        cpus => format!("{}, {cpus} usable", environment.cpu),
    };
    let memory = environment.memory as f64 / f64::from(1 << 30);
    let memory = (environment.memory > 0).then(|| format!("{} GiB", three_digits(memory)));
    let lines = [
        ("haul", environment.haul.clone()),
        ("commit", environment.commit.clone()),
        ("command", environment.command.clone()),
        ("kernel", environment.kernel.clone()),
        ("processor", cpu),
        ("memory", memory.unwrap_or_default()),
    ];
    let lines = lines.into_iter().filter(|(_, value)| !value.is_empty());
    lines.collect()
}
