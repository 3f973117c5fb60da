//! Rows as a CSV table with a header.
//!
//! The header in the file decides, not the list here: a row's fields go under the names that the header has, in its
//! order. So a manifest with columns of a newer haul or with a user's own columns stays usable; in appended rows those
//! columns are empty.
//!
//! Records are split by the core of the `csv` crate, not by its reader: the reader takes a stream, but here a record has
//! at most as many bytes as a few lines, and those lines must be known when they turn out not to be a record.

use std::borrow::Cow;

use csv_core::{ReadRecordResult, Reader};

use super::columns::ColumnValue;
use super::fields::{ParsedFields, column_names};
use super::row::ManifestRow;

/// A table without these columns is not a manifest: the columns that the check covers, and the check itself.
const REQUIRED: [&str; 10] = [
    "state", "url", "path", "status", "bytes", "etag", "shard", "offset", "end", "check",
];

/// The columns of one manifest, in the order of its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ManifestHeader {
    names: Vec<String>,
    /// The places among [`column_names`] of those that haul knows.
    positions: Vec<Option<usize>>,
}

impl Default for ManifestHeader {
    fn default() -> Self {
        Self::new(column_names().map(str::to_owned).collect())
    }
}

impl ManifestHeader {
    fn new(names: Vec<String>) -> Self {
        let positions = names
            .iter()
            .map(|name| column_names().position(|known| known == name))
            .collect();
        Self { names, positions }
    }

    /// The table with this header; `None` when a required column is missing or a known column appears twice.
    pub(super) fn parse(names: Vec<String>) -> Option<Self> {
        let count = |name: &str| names.iter().filter(|column| *column == name).count();
        let right = REQUIRED.iter().all(|name| count(name) == 1)
            && column_names().all(|name| count(name) <= 1);
        right.then(|| Self::new(names))
    }

    pub(super) fn line(&self) -> Vec<u8> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        // Writing to memory cannot fail.
        let _ = writer.write_record(&self.names);
        writer.into_inner().unwrap_or_default()
    }

    /// Appends rows to a buffer, quoted as in RFC 4180.
    pub(super) fn encode(&self, rows: &[&ManifestRow], buffer: &mut Vec<u8>) {
        let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(buffer);
        for row in rows {
            let row = row.checked_fields();
            for position in &self.positions {
                let value = position.map_or(ColumnValue::None, |position| row.value(position));
                // Writing to memory cannot fail.
                let _ = writer.write_field(&*field_text(&value));
            }
            let _ = writer.write_record(None::<&[u8]>);
        }
        let _ = writer.flush();
    }

    /// Parses fields as a row; `None` when they are not a valid row.
    pub(super) fn decode(&self, fields: &[&str]) -> Option<ManifestRow> {
        if fields.len() != self.positions.len() {
            return None;
        }
        let mut row = ParsedFields::default();
        for (position, field) in self.positions.iter().zip(fields) {
            if let Some(position) = position {
                row.set(*position, field)?;
            }
        }
        row.into_checked_row()
    }
}

fn field_text<'a>(value: &'a ColumnValue<'_>) -> Cow<'a, str> {
    match value {
        ColumnValue::Number(number) => number.to_string().into(),
        ColumnValue::Texts(texts) => texts.join(" ").into(),
        other => other.text().unwrap_or_default().into(),
    }
}

/// Splits records. Kept between records, because it is expensive to create.
pub(super) struct CsvRecordParser {
    reader: Reader,
    /// The unquoted fields of the last record, one after another.
    text: Vec<u8>,
    /// The end of each field.
    ends: Vec<usize>,
}

impl CsvRecordParser {
    pub(super) fn new() -> Self {
        Self {
            reader: Reader::new(),
            text: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Splits bytes that end with a newline. `None` if they are not exactly one record, or not UTF-8.
    pub(super) fn parse(&mut self, bytes: &[u8]) -> Option<Vec<&str>> {
        self.reader.reset();
        // A record has at most one field more than it has commas. The other extra one is for the reader's own count.
        let most = bytes.iter().filter(|byte| **byte == b',').count() + 2;
        self.ends.resize(most.max(self.ends.len()), 0);
        self.text.resize(bytes.len().max(self.text.len()), 0);
        let (result, taken, _, count) =
            self.reader
                .read_record(bytes, &mut self.text, &mut self.ends);
        if result != ReadRecordResult::Record || bytes[taken..].iter().any(|byte| *byte != b'\n') {
            return None;
        }
        let mut begin = 0;
        let field = |end: &usize| {
            let field = &self.text[begin..*end];
            begin = *end;
            str::from_utf8(field).ok()
        };
        self.ends[..count].iter().map(field).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_record_is_split() {
        let mut parser = CsvRecordParser::new();
        let mut fields = |text: &[u8]| parser.parse(text).map(|fields| fields.join("|"));
        assert_eq!(fields(b"a,b,\n").as_deref(), Some("a|b|"));
        assert_eq!(fields(b"a\r\n").as_deref(), Some("a"));
        assert_eq!(fields(b"\"a\"\",\",b\n").as_deref(), Some("a\",|b"));
        for other in [&b"a,\"b\n"[..], b"a\nb\n", b"a\rb\n", b"\xff,\n", b""] {
            assert_eq!(fields(other), None, "{other:?}");
        }
        assert_eq!(fields(&b",".repeat(5000)), None);
    }
}
