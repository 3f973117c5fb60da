//! The report for a terminal.

use super::report_table::{ReportTable, TableDetail, ValueTone};
use super::sentences::{
    PARTIAL, baseline_sentence, cell_name, environment_lines, failure_notes, fixed_levels,
    guess_evidence, rounds_sentence, run_sentence, verdict_name,
};
use super::text_layout::TextPage;
use crate::results::{BenchResults, ExperimentResults, GuessVerdict};

/// The results as text for a terminal of `width` columns, at least 20.
///
/// Columns that have no room are left out, the least important first; where not even the needed ones have room, levels become headings.
#[must_use]
pub fn text_report(results: &BenchResults, width: usize, has_color: bool) -> String {
    let mut page = TextPage::new(width, has_color);
    if results.is_partial {
        page.paragraph(PARTIAL, 0, ValueTone::Warning);
    }
    for experiment in &results.experiments {
        page.blank();
        write_experiment(&mut page, experiment);
    }
    page.blank();
    page.paragraph(&run_sentence(results), 2, ValueTone::Plain);
    for (name, value) in environment_lines(&results.environment) {
        page.paragraph(&format!("{name}: {value}"), 2, ValueTone::Faint);
    }
    page.finish()
}

fn write_experiment(page: &mut TextPage, experiment: &ExperimentResults) {
    let title = format!("{}: {}", experiment.name, experiment.title);
    page.paragraph(&title, 2, ValueTone::Heading);
    page.paragraph(&fixed_levels(experiment), 2, ValueTone::Faint);
    page.blank();
    let table = ReportTable::of_experiment(experiment, TableDetail::Terminal);
    let left_out = page.table(&table);
    page.blank();
    write_notes(page, experiment, &left_out);
    for guess in &experiment.guesses {
        let tone = match guess.verdict {
            GuessVerdict::Holds => ValueTone::Faster,
            GuessVerdict::Refuted => ValueTone::Slower,
            GuessVerdict::Open => ValueTone::Warning,
        };
        page.paragraph(
            &format!("{}: {}", verdict_name(guess.verdict), guess.text),
            2,
            tone,
        );
        page.paragraph(&format!("- {}", guess_evidence(guess)), 2, ValueTone::Faint);
    }
    page.blank();
    page.paragraph(&experiment.lesson, 0, ValueTone::Plain);
}

fn write_notes(page: &mut TextPage, experiment: &ExperimentResults, left_out: &[String]) {
    for note in failure_notes(experiment) {
        page.paragraph(&format!("! {note}"), 2, ValueTone::Warning);
    }
    if left_out.iter().any(|name| name == "write-up") {
        for cell in &experiment.cells {
            if let Some(figure) = &cell.write_up {
                let name = cell_name(experiment, &cell.cell);
                page.paragraph(&format!("Write-up, {name}: {figure}"), 2, ValueTone::Plain);
            }
        }
    }
    page.paragraph(&rounds_sentence(experiment), 2, ValueTone::Plain);
    if let Some(sentence) = baseline_sentence(experiment) {
        page.paragraph(&sentence, 2, ValueTone::Faint);
    }
    let left_out = left_out.iter().filter(|name| *name != "write-up");
    let left_out: Vec<&str> = left_out.map(String::as_str).collect();
    if !left_out.is_empty() {
        let note = format!("More in report.html: {}.", left_out.join(", "));
        page.paragraph(&note, 2, ValueTone::Faint);
    }
    page.blank();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::fixture;
    use super::*;

    #[test]
    fn a_report_of_40_columns() {
        insta::assert_snapshot!(text_report(&fixture::bench_results(), 40, false));
    }

    #[test]
    fn a_report_of_80_columns() {
        insta::assert_snapshot!(text_report(&fixture::bench_results(), 80, false));
    }

    #[test]
    fn a_report_of_120_columns() {
        insta::assert_snapshot!(text_report(&fixture::bench_results(), 120, false));
    }

    #[test]
    fn colour_only_adds_to_the_text() {
        let results = fixture::bench_results();
        for width in [40, 100] {
            let colored = text_report(&results, width, true);
            assert!(colored.contains("\x1b[32m"));
            assert_eq!(
                fixture::without_color(&colored),
                text_report(&results, width, false)
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn no_line_is_wider_than_the_terminal(width in 20_usize..160, word in "[a-z \\x00-\\x1f<>&|]{0,50}") {
            let results = fixture::with_text(&word);
            for line in text_report(&results, width, false).lines() {
                prop_assert!(line.chars().count() <= width, "{line:?}");
                prop_assert!(!line.ends_with(' '), "{line:?}");
                prop_assert!(!line.chars().any(char::is_control), "{line:?}");
            }
        }
    }
}
