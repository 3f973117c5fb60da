//! The report as Markdown, for repositories and issues.

use super::document::{ReportBlock, report_blocks};
use super::report_table::{ColumnKind, ReportColumn, TableDetail};
use crate::results::BenchResults;

/// The results as Markdown with tables.
#[must_use]
pub fn markdown_report(results: &BenchResults) -> String {
    let blocks = report_blocks(results, TableDetail::Page).into_iter();
    let parts = blocks.filter_map(|block| match block {
        ReportBlock::Heading(title) => Some(format!("## {}", escape_markdown(&title))),
        ReportBlock::Text(text) => Some(escape_markdown(&text.text)),
        ReportBlock::Table(columns) => Some(markdown_table(&columns)),
        ReportBlock::Charts(_) => None,
    });
    let parts: Vec<String> = std::iter::once("# haul bench".to_owned())
        .chain(parts)
        .collect();
    parts.join("\n\n") + "\n"
}

fn markdown_table(columns: &[ReportColumn]) -> String {
    let rows = columns.first().map_or(0, |column| column.values.len());
    let line = |text: &dyn Fn(&ReportColumn) -> String| {
        let shown = columns
            .iter()
            .filter(|column| column.kind != ColumnKind::Bar);
        format!("| {} |", shown.map(text).collect::<Vec<_>>().join(" | "))
    };
    let rule = |column: &ReportColumn| match column.kind {
        ColumnKind::Number => "---:".to_owned(),
        _ => "---".to_owned(),
    };
    let mut lines = vec![line(&|column| escape_markdown(&column.head())), line(&rule)];
    lines.extend((0..rows).map(|row| line(&|column| escape_markdown(&column.values[row].text))));
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
