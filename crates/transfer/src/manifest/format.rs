//! The two formats: an object a line, and a table. Which one is told by the ending of the file's name.

use std::path::Path;

use super::csv::ManifestColumns;
use super::csv_record::{CsvFields, CsvRecordParser};
use super::row::ManifestRow;
use super::serialized_row::SerializedRow;

/// How the first row of a manifest of objects begins: enough to tell a torn or damaged one from what is none.
const BEGINNINGS: [&str; 3] = [
    "{\"state\":\"done\",\"url\":\"",
    "{\"state\":\"failed\",\"url\":\"",
    "{\"state\":\"skipped\",\"url\":\"",
];

/// How rows are written in one manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ManifestFormat {
    /// `.jsonl`, `.ndjson`: an object a line.
    JsonLines,
    /// `.csv`: a table with a header, as RFC 4180 has it.
    Csv(ManifestColumns),
}

/// What some bytes, a line or several, turned out to be.
#[derive(Debug)]
pub(super) enum ParsedRow {
    /// A row.
    Row(Box<ManifestRow>),
    /// A row once, but not what was written.
    Damaged,
    /// Nothing that a manifest has.
    NotARow,
    /// A quotation is still open: the next line belongs to it.
    Incomplete,
}

impl ManifestFormat {
    /// The format of a new manifest under this name; `None` when it has another ending.
    pub(super) fn from_path(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match &*ending {
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            "csv" => Some(Self::Csv(ManifestColumns::default())),
            _ => None,
        }
    }

    /// What a new manifest begins with.
    pub(super) fn header(&self) -> Vec<u8> {
        match self {
            Self::JsonLines => Vec::new(),
            Self::Csv(table) => table.header(),
        }
    }

    /// Appends rows to a buffer.
    pub(super) fn encode(&self, rows: &[ManifestRow], buffer: &mut Vec<u8>) {
        match self {
            Self::JsonLines => rows.iter().for_each(|row| {
                // Neither a row nor memory gives an error.
                let _ = serde_json::to_writer(&mut *buffer, &SerializedRow::new(row));
                buffer.push(b'\n');
            }),
            Self::Csv(table) => table.encode(rows, buffer),
        }
    }

    /// What some bytes say that end with a line's end.
    pub(super) fn decode(&self, bytes: &[u8], splitter: &mut CsvRecordParser) -> ParsedRow {
        match self {
            Self::JsonLines => parse_json_row(bytes),
            Self::Csv(table) => match splitter.parse(bytes) {
                CsvFields::Incomplete => ParsedRow::Incomplete,
                CsvFields::Invalid => ParsedRow::Damaged,
                CsvFields::Complete(fields) => table
                    .decode(&fields)
                    .map_or(ParsedRow::Damaged, |row| ParsedRow::Row(Box::new(row))),
            },
        }
    }

    /// Whether a file that ends in these bytes, and holds nothing before them, may be a manifest of this format whose first
    /// write was torn.
    pub(super) fn may_be_torn_start(&self, bytes: &[u8]) -> bool {
        let agrees = |whole: &[u8]| whole.starts_with(bytes) || bytes.starts_with(whole);
        match self {
            _ if bytes.iter().all(|byte| *byte == 0) => true,
            Self::JsonLines => BEGINNINGS.iter().any(|text| agrees(text.as_bytes())),
            Self::Csv(table) => table.header().starts_with(bytes),
        }
    }
}

fn parse_json_row(bytes: &[u8]) -> ParsedRow {
    let damaged = || {
        let ours = BEGINNINGS
            .iter()
            .any(|text| bytes.starts_with(text.as_bytes()));
        if ours {
            ParsedRow::Damaged
        } else {
            ParsedRow::NotARow
        }
    };
    match serde_json::from_slice::<SerializedRow<'_>>(bytes) {
        Ok(wire) => {
            let checked = wire.check.is_some();
            match wire.into_row() {
                Some(row) => ParsedRow::Row(Box::new(row)),
                None if checked => ParsedRow::Damaged,
                None => damaged(),
            }
        }
        Err(_) => damaged(),
    }
}
