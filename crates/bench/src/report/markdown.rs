//! The report as Markdown, for repositories and issues.

use super::report_table::{ColumnKind, ReportTable, TableDetail};
use super::sentences::{
    PARTIAL, baseline_sentence, environment_lines, failure_notes, fixed_levels, guess_evidence,
    rounds_sentence, run_sentence, verdict_name,
};
use crate::results::{BenchResults, ExperimentResults};

/// The results as Markdown with tables.
#[must_use]
pub fn markdown_report(results: &BenchResults) -> String {
    let mut blocks = vec!["# haul bench".to_owned()];
    if results.is_partial {
        blocks.push(format!("> **{PARTIAL}**"));
    }
    blocks.push(escape_markdown(&run_sentence(results)));
    for experiment in &results.experiments {
        push_experiment(&mut blocks, experiment);
    }
    blocks.push("## Environment".to_owned());
    let lines = environment_lines(&results.environment).into_iter();
    let lines = lines.map(|(name, value)| format!("- {name}: {}", escape_markdown(&value)));
    blocks.push(lines.collect::<Vec<_>>().join("\n"));
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n\n") + "\n"
}

fn push_experiment(blocks: &mut Vec<String>, experiment: &ExperimentResults) {
    let title = format!("{}: {}", experiment.name, experiment.title);
    blocks.push(format!("## {}", escape_markdown(&title)));
    blocks.push(escape_markdown(&fixed_levels(experiment)));
    blocks.push(markdown_table(&ReportTable::of_experiment(
        experiment,
        TableDetail::Page,
    )));
    blocks.push(markdown_list(failure_notes(experiment)));
    let guesses = experiment.guesses.iter().map(|guess| {
        let verdict = verdict_name(guess.verdict);
        format!("{verdict}: {} {}.", guess.text, guess_evidence(guess))
    });
    blocks.push(markdown_list(guesses));
    blocks.push(escape_markdown(&experiment.lesson));
    let sentences = [
        Some(rounds_sentence(experiment)),
        baseline_sentence(experiment),
    ];
    let sentences: Vec<_> = sentences.into_iter().flatten().collect();
    blocks.push(escape_markdown(&sentences.join(" ")));
}

fn markdown_list(items: impl IntoIterator<Item = String>) -> String {
    let items = items
        .into_iter()
        .map(|item| format!("- {}", escape_markdown(&item)));
    items.collect::<Vec<_>>().join("\n")
}

fn markdown_table(table: &ReportTable) -> String {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let heads = table
        .columns
        .iter()
        .map(|column| escape_markdown(&column.head()));
    let rules = table.columns.iter().map(|column| match column.kind {
        ColumnKind::Number => "---:".to_owned(),
        _ => "---".to_owned(),
    });
    let mut lines = vec![line(heads.collect()), line(rules.collect())];
    for row in &table.rows {
        let cells = row.iter().map(|value| escape_markdown(&value.text));
        lines.push(line(cells.collect()));
    }
    lines.join("\n")
}

/// Text without meaning to Markdown, on one line.
fn escape_markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !escaped.is_empty() {
            escaped.push(' ');
        }
        for (position, character) in word.chars().enumerate() {
            let is_mark = "\\`*_[]<>|~&".contains(character)
                || escaped.is_empty() && position == 0 && "#+-=".contains(character);
            match character {
                _ if character.is_control() => escaped.push('\u{fffd}'),
                _ if is_mark => escaped.extend(['\\', character]),
                _ => escaped.push(character),
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn a_report_in_markdown() {
        insta::assert_snapshot!(markdown_report(&fixture::bench_results()));
    }

    #[test]
    fn results_are_no_markdown() {
        assert_eq!(
            escape_markdown("# a_b|c\n<d> - e"),
            "\\# a\\_b\\|c \\<d\\> - e"
        );
        let report = markdown_report(&fixture::with_text("|\n<b>"));
        assert!(!report.replace("\\<", "").contains("<b"));
        let tables = report.lines().filter(|line| line.starts_with('|'));
        let pipes = tables.map(|line| line.replace("\\|", "").matches('|').count());
        assert!(pipes.collect::<std::collections::BTreeSet<_>>().len() <= 3);
    }
}
