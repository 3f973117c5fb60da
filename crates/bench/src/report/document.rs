//! A report as a list of blocks, which each form lays out in its own way.

use super::headline::headlines;
use super::quantity::{show_duration, show_ratio};
use super::report_table::{ReportColumn, TableDetail, TextTone, TonedText, experiment_table};
use super::sentences::{environment_lines, failure_notes, fixed_levels, rounds_text};
use crate::results::{BenchResults, ExperimentResults, GuessResults, GuessVerdict};
use crate::statistics::MIN_VALUES;

const PARTIAL: &str =
    "Partial: the run was stopped before it was done. Missing cells were not measured.";

#[derive(Debug)]
pub(super) enum ReportBlock<'a> {
    Heading(String),
    /// A paragraph.
    Text(TonedText),
    /// The charts of an experiment, where charts can be shown.
    Charts(&'a ExperimentResults),
    Table(Vec<ReportColumn>),
}

pub(super) fn report_blocks(results: &BenchResults, detail: TableDetail) -> Vec<ReportBlock<'_>> {
    use ReportBlock::{Charts, Heading, Table, Text};
    let mut blocks = Vec::new();
    if results.is_partial {
        blocks.push(Text(TextTone::Warning.text(PARTIAL)));
    }
    for experiment in &results.experiments {
        let notes = failure_notes(experiment).into_iter();
        let guesses = experiment.guesses.iter();
        blocks.extend([
            Heading(format!("{}: {}", experiment.name, experiment.title)),
            Text(TextTone::Faint.text(fixed_levels(experiment))),
        ]);
        let headlines = headlines(experiment).into_iter();
        blocks.extend(headlines.map(|headline| Text(TextTone::Headline.text(headline))));
        // Rows that all failed are told once, below.
        if experiment.cells.iter().any(|cell| cell.failure.is_none()) {
            blocks.push(Charts(experiment));
            blocks.push(Table(experiment_table(experiment, detail)));
        }
        blocks.extend(notes.map(|note| Text(TextTone::Warning.text(note))));
        blocks.push(Text(
            TextTone::Faint.text(rounds_text(experiment, &results.rate_hint)),
        ));
        blocks.push(Text(TextTone::Lesson.text(&experiment.lesson)));
        blocks.extend(guesses.map(|guess| Text(guess_text(experiment, guess))));
    }
    let took = show_duration(results.elapsed_s);
    let run = format!("Started {}, took {took}.", results.started);
    let lines = environment_lines(&results.environment).into_iter();
    blocks.push(Heading("Environment".to_owned()));
    blocks.extend(
        std::iter::once(run)
            .chain(lines)
            .map(|line| Text(TextTone::Faint.text(line))),
    );
    blocks.retain(|block| !matches!(block, Text(text) if text.text.trim().is_empty()));
    blocks
}

/// A guess with its verdict, whose sign needs no colour, and what it was judged by.
fn guess_text(experiment: &ExperimentResults, guess: &GuessResults) -> TonedText {
    let (verdict, tone) = match guess.verdict {
        GuessVerdict::Holds => ("✓ holds", TextTone::Good),
        GuessVerdict::Refuted => ("✗ refuted", TextTone::Bad),
        GuessVerdict::Open => ("? open", TextTone::Warning),
    };
    let is_measured = experiment.cells.iter().any(|cell| cell.wall.is_some());
    let found = match guess.ratio {
        Some(ratio) => show_ratio(ratio),
        None if is_measured && (experiment.rounds as usize) < MIN_VALUES => {
            "too few rounds".to_owned()
        }
        None => "not measured".to_owned(),
    };
    tone.text(format!(
        "{verdict}: {} {}: {found}.",
        guess.text, guess.compared
    ))
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn a_guess_without_an_interval_says_why() {
        let mut experiment = fixture::bench_results().experiments.remove(0);
        let mut guess = experiment.guesses[0].clone();
        guess.verdict = GuessVerdict::Open;
        assert!(
            guess_text(&experiment, &guess)
                .text
                .ends_with(": 0.24 (0.23 to 0.25).")
        );
        guess.ratio = None;
        // With eleven rounds it was one of its own cells that had none.
        assert!(
            guess_text(&experiment, &guess)
                .text
                .ends_with(": not measured.")
        );
        experiment.rounds = 3;
        assert!(
            guess_text(&experiment, &guess)
                .text
                .ends_with(": too few rounds.")
        );
        for cell in &mut experiment.cells {
            cell.wall = None;
        }
        assert!(
            guess_text(&experiment, &guess)
                .text
                .ends_with(": not measured.")
        );
    }
}
