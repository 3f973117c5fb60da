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

use super::row::{ManifestRow, SerializedRow};

/// The columns of a new manifest.
const COLUMNS: [&str; 21] = [
    "state",
    "url",
    "path",
    "status",
    "bytes",
    "checksum",
    "checksums",
    "etag",
    "attempts",
    "ms_dns",
    "ms_connect",
    "ms_tls",
    "ms_first_byte",
    "ms_total",
    "error_class",
    "error",
    "line",
    "shard",
    "offset",
    "end",
    "check",
];

/// A table without these columns is not a manifest: the columns that the check covers, and the check itself.
const REQUIRED: [&str; 10] = [
    "state", "url", "path", "status", "bytes", "etag", "shard", "offset", "end", "check",
];

/// The columns of one manifest, in the order of its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ManifestColumns {
    columns: Vec<String>,
}

impl Default for ManifestColumns {
    fn default() -> Self {
        let columns = COLUMNS.map(str::to_owned).to_vec();
        Self { columns }
    }
}

impl ManifestColumns {
    /// The table with this header; `None` when a required column is missing or a known column appears twice.
    pub(super) fn from_header(columns: Vec<String>) -> Option<Self> {
        let count = |name: &str| columns.iter().filter(|column| *column == name).count();
        let right = REQUIRED.iter().all(|name| count(name) == 1)
            && COLUMNS.iter().all(|name| count(name) <= 1);
        right.then_some(Self { columns })
    }

    /// The header line.
    pub(super) fn header(&self) -> Vec<u8> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        // Writing to memory cannot fail.
        let _ = writer.write_record(&self.columns);
        writer.into_inner().unwrap_or_default()
    }

    /// Appends rows to a buffer, quoted as in RFC 4180.
    pub(super) fn encode(&self, rows: &[&ManifestRow], buffer: &mut Vec<u8>) {
        let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(buffer);
        for row in rows {
            let row = SerializedRow::new(row);
            let fields = self.columns.iter().map(|column| field_text(&row, column));
            // Writing to memory cannot fail.
            let _ = fields
                .map(|field| writer.write_field(&*field))
                .find(Result::is_err);
            let _ = writer.write_record(None::<&[u8]>);
        }
        let _ = writer.flush();
    }

    /// Parses fields as a row; `None` when they are not a valid row.
    pub(super) fn decode(&self, fields: &[&str]) -> Option<ManifestRow> {
        if fields.len() != self.columns.len() {
            return None;
        }
        let mut row = SerializedRow::default();
        for (column, field) in self.columns.iter().zip(fields) {
            if !field.is_empty() {
                set_field(&mut row, column, field)?;
            }
        }
        row.into_row()
    }
}

/// The text of one column.
fn field_text<'a>(row: &'a SerializedRow<'_>, column: &str) -> Cow<'a, str> {
    fn number(number: impl Into<Option<u64>>) -> Cow<'static, str> {
        let number: Option<u64> = number.into();
        number.map_or(Cow::Borrowed(""), |number| Cow::Owned(number.to_string()))
    }
    let optional =
        |text: &'a Option<Cow<'_, str>>| Cow::Borrowed(text.as_deref().unwrap_or_default());
    match column {
        "state" => Cow::Borrowed(&*row.state),
        "url" => Cow::Borrowed(&*row.url),
        "path" => optional(&row.path),
        "status" => number(row.status.map(u64::from)),
        "bytes" => number(row.bytes),
        "checksum" => optional(&row.checksum),
        "checksums" => Cow::Owned(row.checksums.join(" ")),
        "etag" => optional(&row.etag),
        "attempts" => number(u64::from(row.attempts)),
        "ms_dns" => number(row.ms.map(|ms| ms.dns)),
        "ms_connect" => number(row.ms.map(|ms| ms.connect)),
        "ms_tls" => number(row.ms.map(|ms| ms.tls)),
        "ms_first_byte" => number(row.ms.map(|ms| ms.first_byte)),
        "ms_total" => number(row.ms.map(|ms| ms.total)),
        "error_class" => optional(&row.error_class),
        "error" => optional(&row.error),
        "line" => number(row.line),
        "shard" => optional(&row.shard),
        "offset" => number(row.offset),
        "end" => number(row.end),
        "check" => optional(&row.check),
        _ => Cow::Borrowed(""),
    }
}

/// Sets the field of one column; `None` when a number is expected and the text is not one.
fn set_field(row: &mut SerializedRow<'_>, column: &str, text: &str) -> Option<()> {
    let owned = || Cow::Owned(text.to_owned());
    match column {
        "state" => row.state = owned(),
        "url" => row.url = owned(),
        "path" => row.path = Some(owned()),
        "status" => row.status = Some(text.parse().ok()?),
        "bytes" => row.bytes = text.parse().ok()?,
        "checksum" => row.checksum = Some(owned()),
        "checksums" => row.checksums = text.split(' ').map(str::to_owned).collect(),
        "etag" => row.etag = Some(owned()),
        "attempts" => row.attempts = text.parse().ok()?,
        "ms_dns" => row.ms.get_or_insert_default().dns = text.parse().ok()?,
        "ms_connect" => row.ms.get_or_insert_default().connect = text.parse().ok()?,
        "ms_tls" => row.ms.get_or_insert_default().tls = text.parse().ok()?,
        "ms_first_byte" => row.ms.get_or_insert_default().first_byte = text.parse().ok()?,
        "ms_total" => row.ms.get_or_insert_default().total = text.parse().ok()?,
        "error_class" => row.error_class = Some(owned()),
        "error" => row.error = Some(owned()),
        "line" => row.line = Some(text.parse().ok()?),
        "shard" => row.shard = Some(owned()),
        "offset" => row.offset = Some(text.parse().ok()?),
        "end" => row.end = Some(text.parse().ok()?),
        "check" => row.check = Some(owned()),
        _ => {}
    }
    Some(())
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
