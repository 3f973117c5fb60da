//! A row as its fields: what is written of a row, as a JSON object or for CSV, and what a line had before it is a row again.
//!
//! The state comes first in the file, so that a torn first line cannot be taken for a list of URLs, nor such a list for
//! a manifest. A check covers the fields that a later run acts on.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::columns::{COLUMNS, ColumnValue};
use super::row::{JobRowState, ManifestRow};
use crate::checksum::crc32c;

/// The place of the check behind the columns of the table.
const CHECK: usize = COLUMNS.len();

/// The object of times in JSON, and how the names of their columns begin.
const TIMINGS: &str = "ms";
const TIMING_PREFIX: &str = "ms_";

/// The names of all columns of a new manifest: those of the table, and the check.
pub(super) fn column_names() -> impl Iterator<Item = &'static str> {
    COLUMNS.iter().map(|column| column.name).chain(["check"])
}

/// What is written of a row. Serialized, it is an object without the values that are unknown.
#[derive(Debug)]
pub struct ManifestRowFields<'a> {
    row: &'a ManifestRow,
    /// The check, in a manifest, whose texts are one line each.
    check: Option<String>,
}

impl ManifestRow {
    /// The fields as they are, without a check.
    #[must_use]
    pub fn fields(&self) -> ManifestRowFields<'_> {
        ManifestRowFields {
            row: self,
            check: None,
        }
    }

    /// The fields as a manifest has them.
    pub(super) fn checked_fields(&self) -> ManifestRowFields<'_> {
        ManifestRowFields {
            row: self,
            check: Some(row_crc(self, one_line)),
        }
    }
}

impl ManifestRowFields<'_> {
    /// The value of the column at a place.
    pub(super) fn value(&self, position: usize) -> ColumnValue<'_> {
        let Some(column) = COLUMNS.get(position) else {
            return self.check.as_deref().into();
        };
        // Where nothing was requested there are no times.
        if self.row.attempts == 0 && column.name.starts_with(TIMING_PREFIX) {
            return ColumnValue::None;
        }
        match (column.get)(self.row) {
            ColumnValue::Text(Cow::Borrowed(text)) if self.check.is_some() => {
                ColumnValue::Text(one_line(text))
            }
            value => value,
        }
    }
}

impl Serialize for ManifestRowFields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        for (position, name) in column_names().enumerate() {
            if name.starts_with(TIMING_PREFIX) {
                continue;
            }
            let value = self.value(position);
            // The row of an unreadable line has no URL.
            if !value.is_empty() || name == "url" {
                object.serialize_entry(name, &value)?;
            }
            if name == "attempts" && self.row.attempts > 0 {
                object.serialize_entry(TIMINGS, &self.row.timings)?;
            }
        }
        object.end()
    }
}

/// What a line had. Unknown fields of it are ignored. A missing field (of an older haul's row) is empty, except for those
/// that make it a row.
#[derive(Debug, Default)]
pub(crate) struct ParsedFields<'a> {
    values: [ColumnValue<'a>; CHECK + 1],
}

impl<'a> ParsedFields<'a> {
    /// Takes a field of a CSV table; `None` when it is not of the column's type.
    pub(super) fn set(&mut self, position: usize, field: &'a str) -> Option<()> {
        self.values[position] = match COLUMNS.get(position) {
            Some(column) => column.parse(field)?,
            None => field.into(),
        };
        Some(())
    }

    pub(super) fn has_check(&self) -> bool {
        !matches!(self.values[CHECK], ColumnValue::None)
    }

    /// The row; `None` when the fields are not one or the check fails.
    pub(super) fn into_checked_row(mut self) -> Option<ManifestRow> {
        let check = std::mem::take(&mut self.values[CHECK]);
        let row = self.into_row()?;
        (check.text()? == row_crc(&row, |text| text.into())).then_some(row)
    }

    /// The row; `None` when the fields are not one.
    pub(crate) fn into_row(self) -> Option<ManifestRow> {
        let mut row = ManifestRow::new(None, String::new(), JobRowState::Failed);
        if self.values[0].is_empty() {
            return None;
        }
        for (column, value) in COLUMNS.iter().zip(self.values) {
            if !value.is_empty() {
                (column.set)(&mut row, value)?;
            }
        }
        // The row of an unreadable line has no URL. Such a job can only have failed.
        (!row.url.is_empty() || row.state != JobRowState::Done).then_some(row)
    }
}

impl<'de> Deserialize<'de> for ParsedFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Self::default();
        let object = ParsedObject {
            fields: &mut fields,
            prefix: "",
        };
        object.deserialize(deserializer)?;
        Ok(fields)
    }
}

#[derive(Deserialize)]
struct FieldName<'a>(#[serde(borrow)] Cow<'a, str>);

/// The fields of an object, whose names begin with a prefix.
struct ParsedObject<'f, 'a> {
    fields: &'f mut ParsedFields<'a>,
    prefix: &'static str,
}

impl<'de> DeserializeSeed<'de> for ParsedObject<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ParsedObject<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(FieldName(key)) = map.next_key()? {
            let named = |name: &str| name.strip_prefix(self.prefix) == Some(&key);
            if let Some(position) = column_names().position(named) {
                let value = &mut self.fields.values[position];
                if !matches!(value, ColumnValue::None) {
                    return Err(A::Error::custom("a field that is there twice"));
                }
                *value = map.next_value()?;
            } else if self.prefix.is_empty() && key == TIMINGS {
                map.next_value_seed(ParsedObject {
                    fields: self.fields,
                    prefix: TIMING_PREFIX,
                })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// CRC-32C in hexadecimal over the fields that a later run acts on, and no others. Damage to a time, a line or an attempt must
/// not cost a download, and a user may delete such a column in a spreadsheet. Digests are not covered: they are
/// compared with the file itself.
///
/// Each text is followed by the byte 0xff, which no text contains; a missing text counts as empty. Each number is a
/// byte that says whether it is there, and eight bytes, little-endian. The set of fields never changes: a newer
/// haul may add columns, and an older one still accepts its rows.
fn row_crc(row: &ManifestRow, written: for<'a> fn(&'a str) -> Cow<'a, str>) -> String {
    let mut bytes = Vec::with_capacity(512);
    let location = row.shard.as_ref();
    let texts = [
        Some(row.url.as_str()),
        row.path.as_deref(),
        Some(row.state.name()),
        row.etag.as_deref(),
        location.map(|location| location.shard.as_str()),
    ];
    for text in texts {
        bytes.extend_from_slice(written(text.unwrap_or_default()).as_bytes());
        bytes.push(0xff);
    }
    let numbers = [
        row.status.map(u64::from),
        Some(row.bytes),
        location.map(|location| location.offset),
        location.map(|location| location.end),
    ];
    for number in numbers {
        bytes.push(u8::from(number.is_some()));
        bytes.extend_from_slice(&number.unwrap_or_default().to_le_bytes());
    }
    format!("{:08x}", crc32c(&bytes))
}

/// Replaces control characters by blanks: a row is one line, in CSV too. The texts of peers may contain any character; paths
/// do so only if the user's directory does, and then the job is fetched again by a later run.
pub(super) fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(char::is_control) {
        Cow::Owned(text.replace(char::is_control, " "))
    } else {
        Cow::Borrowed(text)
    }
}
