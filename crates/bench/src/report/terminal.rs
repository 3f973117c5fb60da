//! The report for a terminal: paragraphs, and tables that lose columns where the terminal is narrow. `textwrap` breaks lines.

use std::borrow::Cow;

use textwrap::core::display_width;
use textwrap::{Options, WordSplitter};

use super::document::{ReportBlock, report_blocks};
use super::report_table::{ColumnKind, ReportColumn, TableDetail, TextTone};
use super::sentences::printable;
use crate::results::BenchResults;

/// No terminal is taken to be narrower.
const MIN_WIDTH: usize = 20;
const GAP: &str = "  ";
/// The last priority without which a row says nothing.
const NEEDED: u8 = 1;
/// The last priority for which levels become headings: spread and failures.
const WANTED: u8 = 2;

/// The results as text for a terminal of `width` columns, at least 20.
///
/// Columns that have no room are left out, the least important first; where not even the needed ones have room, levels become headings.
#[must_use]
pub fn text_report(results: &BenchResults, width: usize, has_color: bool) -> String {
    let mut page = TextPage::new(width, has_color);
    for block in report_blocks(results, TableDetail::Terminal) {
        match block {
            ReportBlock::Heading(title) => {
                page.blank();
                page.paragraph(&title, TextTone::Heading);
            }
            ReportBlock::Text(text) => page.paragraph(&text.text, text.tone),
            ReportBlock::Table(columns) => page.table(&columns),
            ReportBlock::Charts(_) => {}
        }
    }
    page.text
}

/// The text of a terminal, as it comes to be.
#[derive(Debug)]
pub(super) struct TextPage {
    pub(super) text: String,
    width: usize,
    has_color: bool,
}

type SizedColumn<'a> = (&'a ReportColumn, usize);

impl TextPage {
    pub(super) fn new(width: usize, has_color: bool) -> Self {
        Self {
            text: String::new(),
            width: width.max(MIN_WIDTH),
            has_color,
        }
    }

    pub(super) fn blank(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// A paragraph; all its lines but the first are indented. A lesson is running text.
    pub(super) fn paragraph(&mut self, text: &str, tone: TextTone) {
        let is_running = matches!(tone, TextTone::Lesson | TextTone::Headline);
        let indent = if is_running { "" } else { GAP };
        if tone == TextTone::Lesson {
            self.blank();
        }
        for line in wrap(text, self.width, indent) {
            self.text.extend([self.paint(&line, tone).as_str(), "\n"]);
        }
    }

    /// A table, and below it what had no room: texts in full, and the names of numbers.
    ///
    /// Where the needed columns have no room, the first levels move into headings above their rows: all of them, if it must be. Where that is
    /// not enough, each value has a line.
    pub(super) fn table(&mut self, columns: &[ReportColumn]) {
        let rows = columns.first().map_or(0, |column| column.values.len());
        let columns: Vec<SizedColumn<'_>> = columns
            .iter()
            .map(|column| (column, column_width(column)))
            .collect();
        let is_level = |(column, _): &&SizedColumn<'_>| column.kind == ColumnKind::Level;
        let levels = columns.iter().filter(is_level).count();
        let fits = |headings: usize, last: u8| {
            let shown = columns[headings..]
                .iter()
                .filter(|(column, _)| column.priority <= last);
            let width: usize = shown.map(|(_, width)| width + GAP.len()).sum();
            width <= self.width + GAP.len()
        };
        let wanted = (0..levels).map(|headings| (headings, WANTED));
        let mut layouts = wanted.chain((0..=levels).map(|headings| (headings, NEEDED)));
        let fitting = layouts.find_map(|(headings, least)| {
            let last = (least..=u8::MAX).rev().find(|last| fits(headings, *last))?;
            Some((headings, last))
        });
        let (headings, last) = fitting.unwrap_or((levels, NEEDED));
        let (above, beside) = columns.split_at(headings);
        let (shown, left_out): (Vec<SizedColumn<'_>>, Vec<SizedColumn<'_>>) = beside
            .iter()
            .partition(|(column, _)| column.priority <= last);
        self.blank();
        if fitting.is_some() {
            self.table_head(&shown);
        }
        let mut heading = String::new();
        for row in 0..rows {
            let name = row_name(above, row);
            if name != heading {
                self.paragraph(&format!("{name}:"), TextTone::Heading);
                heading = name;
            }
            let values = shown.iter().map(|(column, _)| &column.values[row]);
            if fitting.is_some() {
                self.table_row(
                    &shown,
                    values.map(|value| (value.text.as_str(), value.tone)),
                );
            } else {
                for (value, (column, _)) in values.zip(&shown) {
                    self.paragraph(&format!("{}: {}", column.head(), value.text), value.tone);
                }
            }
        }
        self.blank();
        self.left_out(&columns[..levels], &left_out, rows);
    }

    fn table_head(&mut self, shown: &[SizedColumn<'_>]) {
        let heads: Vec<Vec<String>> = shown
            .iter()
            .map(|(column, width)| wrap(&column.head(), *width, ""))
            .collect();
        let height = heads.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            // Heads stand on the first row.
            let texts = heads.iter().map(|head| {
                let line = (line + head.len()).checked_sub(height);
                (line.map_or("", |line| head[line].as_str()), TextTone::Faint)
            });
            self.table_row(shown, texts);
        }
    }

    fn table_row<'a>(
        &mut self,
        shown: &[SizedColumn<'_>],
        values: impl Iterator<Item = (&'a str, TextTone)>,
    ) {
        let mut line = String::new();
        for ((text, tone), (column, width)) in values.zip(shown) {
            let text = self.paint(&printable(text), tone);
            let padding = " ".repeat(width.saturating_sub(display_width(&text)));
            let parts = match column.kind {
                ColumnKind::Number => [padding, text],
                _ => [text, padding],
            };
            line.extend(parts);
            line.push_str(GAP);
        }
        self.text.extend([line.trim_end(), "\n"]);
    }

    fn left_out(&mut self, levels: &[SizedColumn<'_>], left_out: &[SizedColumn<'_>], rows: usize) {
        let of_kind = |kind| {
            left_out
                .iter()
                .map(|(column, _)| *column)
                .filter(move |c| c.kind == kind)
        };
        for column in of_kind(ColumnKind::Text) {
            for row in (0..rows).filter(|row| !column.values[*row].text.is_empty()) {
                let name = row_name(levels, row);
                let text = format!("{name}: {} {}", column.name, column.values[row].text);
                self.paragraph(text.trim_start_matches(": "), TextTone::Plain);
            }
        }
        let names: Vec<&str> = of_kind(ColumnKind::Number)
            .map(|column| column.name.as_str())
            .collect();
        if !names.is_empty() {
            let note = format!("More in report.html: {}.", names.join(", "));
            self.paragraph(&note, TextTone::Faint);
        }
    }

    fn paint(&self, text: &str, tone: TextTone) -> String {
        let code = match tone {
            TextTone::Heading | TextTone::Headline => "1",
            TextTone::Faint => "2",
            TextTone::Good => "32",
            TextTone::Bad => "31",
            TextTone::Warning => "33",
            TextTone::Plain | TextTone::Lesson => return text.to_owned(),
        };
        if self.has_color && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// A column is as wide as its values, and as the longest word of its head.
fn column_width(column: &ReportColumn) -> usize {
    let head = column.head();
    let texts = column.values.iter().map(|value| value.text.as_str());
    let widths = head
        .split_whitespace()
        .chain(texts)
        .map(|text| display_width(&printable(text)));
    widths.max().unwrap_or(0)
}

fn row_name(levels: &[SizedColumn<'_>], row: usize) -> String {
    let names = levels
        .iter()
        .map(|(column, _)| format!("{} {}", column.name, column.values[row].text));
    names.collect::<Vec<_>>().join(", ")
}

/// Breaks a text into lines; none without words. Words that are longer than a line are broken, too.
fn wrap(text: &str, width: usize, indent: &str) -> Vec<String> {
    let text = printable(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let options = Options::new(width)
        .subsequent_indent(indent)
        .word_splitter(WordSplitter::NoHyphenation);
    let lines = textwrap::wrap(&text, options)
        .into_iter()
        .map(Cow::into_owned);
    lines.filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::fixture;
    use super::*;

    #[test]
    fn a_report_of_20_columns() {
        insta::assert_snapshot!(text_report(&fixture::bench_results(), 20, false));
    }

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
