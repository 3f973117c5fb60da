//! The two formats of a manifest: JSON Lines and CSV. The extension of the file name selects one.

use std::path::Path;

use super::csv::{CsvRecordParser, ManifestHeader};
use super::fields::ParsedFields;
use super::row::ManifestRow;

/// The possible beginnings of the first JSON row. They tell a torn or damaged manifest from a file of another kind.
const JSON_ROW_PREFIXES: [&str; 3] = [
    "{\"state\":\"done\",\"url\":\"",
    "{\"state\":\"failed\",\"url\":\"",
    "{\"state\":\"skipped\",\"url\":\"",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ManifestFormat {
    /// `.jsonl`, `.ndjson`: one JSON object a line.
    JsonLines,
    /// `.csv`: a table with a header (RFC 4180).
    Csv(ManifestHeader),
}

/// The result of parsing a line.
#[derive(Debug)]
pub(super) enum ParsedRow {
    Row(Box<ManifestRow>),
    /// A row whose content changed after it was written.
    Damaged,
    NotARow,
}

impl ManifestFormat {
    /// The format of a new manifest with this name; `None` for another extension.
    pub(super) fn from_path(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match &*ending {
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            "csv" => Some(Self::Csv(ManifestHeader::default())),
            _ => None,
        }
    }

    /// The beginning of a new manifest.
    pub(super) fn header(&self) -> Vec<u8> {
        match self {
            Self::JsonLines => Vec::new(),
            Self::Csv(header) => header.line(),
        }
    }

    pub(super) fn encode(&self, rows: &[&ManifestRow], buffer: &mut Vec<u8>) {
        match self {
            Self::JsonLines => rows.iter().for_each(|row| {
                // Neither serializing a row nor writing to memory can fail.
                let _ = serde_json::to_writer(&mut *buffer, &row.checked_fields());
                buffer.push(b'\n');
            }),
            Self::Csv(header) => header.encode(rows, buffer),
        }
    }

    /// Parses a line with its newline.
    pub(super) fn decode(&self, bytes: &[u8], parser: &mut CsvRecordParser) -> ParsedRow {
        match self {
            Self::JsonLines => parse_json_row(bytes),
            Self::Csv(header) => {
                let fields = parser.parse(bytes);
                let row = fields.and_then(|fields| header.decode(&fields));
                row.map_or(ParsedRow::Damaged, |row| ParsedRow::Row(Box::new(row)))
            }
        }
    }

    /// Whether a file that holds only these bytes may be a manifest whose first write was torn.
    pub(super) fn may_be_torn_start(&self, bytes: &[u8]) -> bool {
        let matches_start_of = |whole: &[u8]| whole.starts_with(bytes) || bytes.starts_with(whole);
        match self {
            _ if bytes.iter().all(|byte| *byte == 0) => true,
            Self::JsonLines => JSON_ROW_PREFIXES
                .iter()
                .any(|text| matches_start_of(text.as_bytes())),
            Self::Csv(header) => header.line().starts_with(bytes),
        }
    }
}

fn parse_json_row(bytes: &[u8]) -> ParsedRow {
    let invalid = || {
        let is_row = JSON_ROW_PREFIXES
            .iter()
            .any(|text| bytes.starts_with(text.as_bytes()));
        if is_row {
            ParsedRow::Damaged
        } else {
            ParsedRow::NotARow
        }
    };
    match serde_json::from_slice::<ParsedFields<'_>>(bytes) {
        Ok(fields) => {
            let is_checked = fields.has_check();
            match fields.into_checked_row() {
                Some(row) => ParsedRow::Row(Box::new(row)),
                None if is_checked => ParsedRow::Damaged,
                None => invalid(),
            }
        }
        Err(_) => invalid(),
    }
}
