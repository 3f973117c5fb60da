//! A row as the columns of a table with a header.
//!
//! The header of the file rules, not this list: rows go under the names that stand there, in their order. So a manifest with
//! columns of a newer haul or of somebody's own stays one; in rows that are appended those are empty.

use std::borrow::Cow;

use super::row::ManifestRow;
use super::serialized_row::SerializedRow;

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

/// Without these a table is no manifest: those that the check is over, and itself.
const NEEDED: [&str; 10] = [
    "state", "url", "path", "status", "bytes", "etag", "shard", "offset", "end", "check",
];

/// The columns of one manifest, in the order of its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ManifestColumns {
    /// Their names.
    columns: Vec<String>,
}

impl Default for ManifestColumns {
    fn default() -> Self {
        let columns = COLUMNS.map(str::to_owned).to_vec();
        Self { columns }
    }
}

impl ManifestColumns {
    /// The table with this header; `None` where that is no manifest's: a column is missing, or one of ours stands twice.
    pub(super) fn from_header(columns: Vec<String>) -> Option<Self> {
        let count = |name: &str| columns.iter().filter(|column| *column == name).count();
        let right = NEEDED.iter().all(|name| count(name) == 1)
            && COLUMNS.iter().all(|name| count(name) <= 1);
        right.then_some(Self { columns })
    }

    /// The header's line.
    pub(super) fn header(&self) -> Vec<u8> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        // Writing to memory cannot fail.
        let _ = writer.write_record(&self.columns);
        writer.into_inner().unwrap_or_default()
    }

    /// Appends rows to a buffer, quoted as RFC 4180 has it.
    pub(super) fn encode(&self, rows: &[ManifestRow], buffer: &mut Vec<u8>) {
        let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(buffer);
        for row in rows {
            let wire = SerializedRow::new(row);
            let fields = self.columns.iter().map(|column| field_text(&wire, column));
            // Writing to memory cannot fail.
            let _ = fields
                .map(|field| writer.write_field(&*field))
                .find(Result::is_err);
            let _ = writer.write_record(None::<&[u8]>);
        }
        let _ = writer.flush();
    }

    /// The row that some fields say, if they say one.
    pub(super) fn decode(&self, fields: &[&str]) -> Option<ManifestRow> {
        if fields.len() != self.columns.len() {
            return None;
        }
        let mut wire = SerializedRow::default();
        for (column, field) in self.columns.iter().zip(fields) {
            if !field.is_empty() {
                set_field(&mut wire, column, field)?;
            }
        }
        wire.into_row()
    }
}

/// What stands in a column of a row.
fn field_text<'a>(wire: &'a SerializedRow<'_>, column: &str) -> Cow<'a, str> {
    fn number(number: impl Into<Option<u64>>) -> Cow<'static, str> {
        let number: Option<u64> = number.into();
        number.map_or(Cow::Borrowed(""), |number| Cow::Owned(number.to_string()))
    }
    let optional =
        |text: &'a Option<Cow<'_, str>>| Cow::Borrowed(text.as_deref().unwrap_or_default());
    match column {
        "state" => Cow::Borrowed(&*wire.state),
        "url" => Cow::Borrowed(&*wire.url),
        "path" => optional(&wire.path),
        "status" => number(wire.status.map(u64::from)),
        "bytes" => number(wire.bytes),
        "checksum" => optional(&wire.checksum),
        "checksums" => Cow::Owned(wire.checksums.join(" ")),
        "etag" => optional(&wire.etag),
        "attempts" => number(u64::from(wire.attempts)),
        "ms_dns" => number(wire.ms.dns),
        "ms_connect" => number(wire.ms.connect),
        "ms_tls" => number(wire.ms.tls),
        "ms_first_byte" => number(wire.ms.first_byte),
        "ms_total" => number(wire.ms.total),
        "error_class" => optional(&wire.error_class),
        "error" => optional(&wire.error),
        "line" => number(wire.line),
        "shard" => optional(&wire.shard),
        "offset" => number(wire.offset),
        "end" => number(wire.end),
        "check" => optional(&wire.check),
        _ => Cow::Borrowed(""),
    }
}

/// Puts what stands in a column where it belongs; `None` where a number should stand and does not.
fn set_field(wire: &mut SerializedRow<'_>, column: &str, text: &str) -> Option<()> {
    let owned = || Cow::Owned(text.to_owned());
    match column {
        "state" => wire.state = owned(),
        "url" => wire.url = owned(),
        "path" => wire.path = Some(owned()),
        "status" => wire.status = Some(text.parse().ok()?),
        "bytes" => wire.bytes = text.parse().ok()?,
        "checksum" => wire.checksum = Some(owned()),
        "checksums" => wire.checksums = text.split(' ').map(str::to_owned).collect(),
        "etag" => wire.etag = Some(owned()),
        "attempts" => wire.attempts = text.parse().ok()?,
        "ms_dns" => wire.ms.dns = text.parse().ok()?,
        "ms_connect" => wire.ms.connect = text.parse().ok()?,
        "ms_tls" => wire.ms.tls = text.parse().ok()?,
        "ms_first_byte" => wire.ms.first_byte = text.parse().ok()?,
        "ms_total" => wire.ms.total = text.parse().ok()?,
        "error_class" => wire.error_class = Some(owned()),
        "error" => wire.error = Some(owned()),
        "line" => wire.line = Some(text.parse().ok()?),
        "shard" => wire.shard = Some(owned()),
        "offset" => wire.offset = Some(text.parse().ok()?),
        "end" => wire.end = Some(text.parse().ok()?),
        "check" => wire.check = Some(owned()),
        _ => {}
    }
    Some(())
}
