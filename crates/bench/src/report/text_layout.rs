//! Lays text out for a terminal: paragraphs, and tables that lose columns where the terminal is narrow.

use super::report_table::{ColumnKind, NEEDED, ReportColumn, ReportTable, TableValue, ValueTone};
use super::sentences::printable;

/// No terminal is taken to be narrower.
const MIN_WIDTH: usize = 20;
const GAP: usize = 2;

/// Lines of a terminal, as they come to be.
#[derive(Debug)]
pub(super) struct TextPage {
    lines: Vec<String>,
    width: usize,
    has_color: bool,
}

impl TextPage {
    pub(super) fn new(width: usize, has_color: bool) -> Self {
        Self {
            lines: Vec::new(),
            width: width.max(MIN_WIDTH),
            has_color,
        }
    }

    pub(super) fn finish(self) -> String {
        let mut text = self.lines.join("\n");
        text.push('\n');
        text
    }

    pub(super) fn blank(&mut self) {
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.lines.push(String::new());
        }
    }

    /// A paragraph; all its lines but the first are indented.
    pub(super) fn paragraph(&mut self, text: &str, indent: usize, tone: ValueTone) {
        for line in wrap(text, self.width, indent) {
            self.lines.push(self.paint(&line, tone));
        }
    }

    /// A table. Returns the columns that had no room.
    ///
    /// Where the needed columns have no room, the first levels move into headings above their rows: all of them, if it must be.
    pub(super) fn table(&mut self, table: &ReportTable) -> Vec<String> {
        let columns = &table.columns;
        let widths = (0..columns.len()).map(|column| column_width(table, column));
        let widths: Vec<usize> = widths.collect();
        let is_level = |column: &&ReportColumn| column.kind == ColumnKind::Level;
        let levels = columns.iter().filter(is_level).count();
        let fitting = (0..=levels).find_map(|headings| {
            let shown = fitting_columns(table, &widths, headings, self.width)?;
            Some((headings, shown))
        });
        let needed = || {
            let needed = |index: &usize| columns[*index].priority <= NEEDED;
            (levels, (levels..columns.len()).filter(needed).collect())
        };
        let (headings, shown) = fitting.unwrap_or_else(needed);
        self.draw_rows(table, &widths, headings, &shown);
        let left_out = columns.iter().enumerate().filter(|(index, column)| {
            *index >= headings && !shown.contains(index) && !column.name.is_empty()
        });
        left_out.map(|(_, column)| column.name.clone()).collect()
    }

    fn draw_rows(
        &mut self,
        table: &ReportTable,
        widths: &[usize],
        headings: usize,
        shown: &[usize],
    ) {
        let heads = shown.iter().map(|index| {
            let head = table.columns[*index].head();
            wrap(&head, widths[*index], 0)
        });
        let heads: Vec<Vec<String>> = heads.collect();
        let height = heads.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let values = heads.iter().map(|head| {
                // Heads stand on the first row.
                let text = (line + head.len()).checked_sub(height);
                let text = text.map_or_else(String::new, |line| head[line].clone());
                TableValue::new(text, ValueTone::Faint)
            });
            let values: Vec<_> = values.collect();
            self.draw_row(
                &table.columns,
                &values.iter().collect::<Vec<_>>(),
                widths,
                shown,
            );
        }
        let mut heading = None;
        for row in &table.rows {
            let levels = &row[..headings];
            if headings > 0 && heading != Some(levels) {
                let names = level_names(table.columns.iter().zip(levels));
                self.paragraph(&format!("{names}:"), GAP, ValueTone::Heading);
                heading = Some(levels);
            }
            let values: Vec<_> = shown.iter().map(|index| &row[*index]).collect();
            self.draw_row(&table.columns, &values, widths, shown);
        }
    }

    fn draw_row(
        &mut self,
        columns: &[ReportColumn],
        values: &[&TableValue],
        widths: &[usize],
        shown: &[usize],
    ) {
        let width: usize = shown.iter().map(|index| widths[*index] + GAP).sum();
        if width > self.width + GAP {
            let texts: Vec<&str> = values.iter().map(|value| value.text.as_str()).collect();
            return self.paragraph(&texts.join(" "), GAP, ValueTone::Plain);
        }
        let mut line = String::new();
        let mut pending = 0;
        for (value, index) in values.iter().zip(shown) {
            let text = printable(&value.text);
            let padding = widths[*index] - text_width(&text);
            let is_right = columns[*index].kind == ColumnKind::Number;
            let (before, after) = if is_right { (padding, 0) } else { (0, padding) };
            // Spaces are only written before text, so that no line ends with them.
            if !text.is_empty() {
                line.push_str(&" ".repeat(pending + before));
                line.push_str(&self.paint(&text, value.tone));
                pending = after + GAP;
            } else {
                pending += padding + GAP;
            }
        }
        self.lines.push(line);
    }

    fn paint(&self, text: &str, tone: ValueTone) -> String {
        let code = match tone {
            ValueTone::Heading => "1",
            ValueTone::Faint => "2",
            ValueTone::Faster => "32",
            ValueTone::Slower => "31",
            ValueTone::Warning => "33",
            ValueTone::Plain => return text.to_owned(),
        };
        if self.has_color && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// A column is as wide as its values, and as the longest word of its head.
fn column_width(table: &ReportTable, column: usize) -> usize {
    let head = table.columns[column].head();
    let words = head
        .split_whitespace()
        .map(|word| text_width(&printable(word)));
    let values = table.rows.iter();
    let values = values.map(|row| text_width(&printable(&row[column].text)));
    words.chain(values).max().unwrap_or(0)
}

fn level_names<'a>(levels: impl IntoIterator<Item = (&'a ReportColumn, &'a TableValue)>) -> String {
    let levels = levels.into_iter();
    let names = levels.map(|(column, value)| format!("{} {}", column.name, value.text));
    names.collect::<Vec<_>>().join(", ")
}

/// The columns that have room beside each other, in their order, without those in headings; `None` if those that are needed have none.
fn fitting_columns(
    table: &ReportTable,
    widths: &[usize],
    headings: usize,
    width: usize,
) -> Option<Vec<usize>> {
    let mut by_priority: Vec<usize> = (headings..table.columns.len()).collect();
    by_priority.sort_by_key(|column| table.columns[*column].priority);
    let mut room = width + GAP;
    let mut shown = Vec::new();
    for column in by_priority {
        match room.checked_sub(widths[column] + GAP) {
            Some(rest) => {
                room = rest;
                shown.push(column);
            }
            None if table.columns[column].priority <= NEEDED => return None,
            None => {}
        }
    }
    shown.sort_unstable();
    Some(shown)
}

/// Breaks a text into lines. Words that are longer than a line are broken, too.
pub(super) fn wrap(text: &str, width: usize, indent: usize) -> Vec<String> {
    let width = width.max(4);
    let indent = indent.min(width / 2);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    let mut is_fresh = true;
    let mut next_line = |line: &mut String, used: &mut usize| {
        lines.push(std::mem::replace(line, " ".repeat(indent)));
        *used = indent;
    };
    for word in text.split_whitespace() {
        let word = printable(word);
        let space = usize::from(!is_fresh);
        if !is_fresh && used + space + text_width(&word) > width {
            next_line(&mut line, &mut used);
        } else {
            line.push_str(&" ".repeat(space));
            used += space;
        }
        for character in word.chars() {
            if used + character_width(character) > width && used > indent {
                next_line(&mut line, &mut used);
            }
            line.push(character);
            used += character_width(character);
        }
        is_fresh = false;
    }
    if !is_fresh {
        lines.push(line);
    }
    lines
}

fn text_width(text: &str) -> usize {
    text.chars().map(character_width).sum()
}

/// The cells that a character takes: two for the scripts and pictures that are wide everywhere.
const fn character_width(character: char) -> usize {
    match character {
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3ffff}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_wrapped_at_words() {
        assert_eq!(wrap("one two three", 8, 2), ["one two", "  three"]);
        assert_eq!(wrap("onetwothree", 4, 1), ["onet", " wot", " hre", " e"]);
        assert_eq!(wrap("a\n b", 10, 0), ["a b"]);
        assert_eq!(wrap(" ", 10, 0), [""; 0]);
    }

    #[test]
    fn terminals_are_not_controlled_by_results() {
        assert_eq!(
            printable("a\x1b[2Jb\u{202e}c\nd "),
            "a\u{fffd}[2Jb\u{fffd}c d"
        );
    }

    proptest! {
        #[test]
        fn no_line_is_wider_and_no_word_is_lost(text in ".{0,80}", width in 4_usize..40, indent in 0_usize..3) {
            let lines = wrap(&text, width, indent);
            for line in &lines {
                prop_assert!(text_width(line) <= width, "{line:?}");
            }
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), printable(&letters(&text)));
        }
    }
}
