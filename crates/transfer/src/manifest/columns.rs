//! The columns of a manifest: one table with the name of each, how to read it from a [`ManifestRow`] and how to put it into one.
//!
//! CSV, JSON Lines, the objects of `fields.rs`, and what other programs get of a row all follow from it. A new column is a field of
//! [`ManifestRow`] and an entry here. An older haul ignores columns that it does not know, so the order may change only at the end.

use std::borrow::Cow;

use haul_plan::DigestAlgorithm;
use serde::{Deserialize, Serialize};

use super::row::{JobRowState, ManifestRow, ManifestRowError};
use crate::archive::ShardEntryLocation;
use crate::error::ErrorClass;

/// The type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// A text, or none.
    Text,
    /// Any number of texts without blanks.
    Texts,
    /// A number below 2^31.
    Int32,
    /// A number below 2^63.
    Int64,
    /// A number below 2^31, or none.
    OptionalInt32,
    /// A number below 2^63, or none.
    OptionalInt64,
}

/// Where a column appears beside manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnScope {
    /// Nowhere.
    Manifest,
    /// In the result of one row, as a program gets it.
    Row,
    /// There, and in tables of results, which have the URLs in a column of their own.
    Table,
}

/// One of a few texts. Under this name serde does not borrow it from a line.
type StaticText = &'static str;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ColumnValue<'a> {
    /// The value is unknown.
    #[default]
    None,
    /// One of a few texts.
    #[serde(skip_deserializing)]
    Name(StaticText),
    #[serde(borrow)]
    Text(Cow<'a, str>),
    Number(u64),
    /// Texts without blanks, at least one.
    Texts(Box<[String]>),
}

/// A column. A name `ms_X` is the key X of the object `ms` in JSON.
#[derive(Debug)]
pub struct ManifestColumn {
    pub name: &'static str,
    pub column_type: ColumnType,
    /// Where it appears.
    pub scope: ColumnScope,
    pub get: for<'a> fn(&'a ManifestRow) -> ColumnValue<'a>,
    /// Puts a value that is not empty into a row; `None` when it is not one of this column. Columns are set in the order of the table.
    pub set: fn(&mut ManifestRow, ColumnValue<'_>) -> Option<()>,
}

/// Declares the table.
macro_rules! columns {
    ($($name:literal, $column_type:ident, $scope:ident, |$row:ident| $get:expr, |$into:ident, $value:ident| $set:expr;)*) => {
        /// All columns, in the order of a new manifest.
        pub static COLUMNS: [ManifestColumn; [$($name),*].len()] = [$(ManifestColumn {
            name: $name,
            column_type: ColumnType::$column_type,
            scope: ColumnScope::$scope,
            get: |$row| ColumnValue::from($get),
            set: |$into, $value| { $set; Some(()) },
        }),*];
    };
}

columns! {
    "state", Text, Table,
        |row| ColumnValue::Name(row.state.name()),
        |row, value| row.state = JobRowState::from_name(value.text()?)?;
    "url", Text, Row, |row| row.url.as_str(), |row, value| row.url = value.into_text()?;
    "path", Text, Table, |row| row.path.as_deref(), |row, value| row.path = Some(value.into_text()?);
    "status", OptionalInt32, Table, |row| row.status.map(u64::from), |row, value| row.status = Some(value.number()?);
    "bytes", Int64, Table, |row| row.bytes, |row, value| row.bytes = value.number()?;
    "checksum", Text, Table,
        |row| row.checksums.first().map(checksum_text),
        |row, value| row.checksums.extend(parse_checksum(value.text()?));
    "checksums", Texts, Manifest,
        |row| row.checksums.iter().skip(1).map(checksum_text).collect::<Box<[_]>>(),
        |row, value| row.checksums.extend(value.texts()?.iter().filter_map(|text| parse_checksum(text)));
    "etag", Text, Row, |row| row.etag.as_deref(), |row, value| row.etag = Some(value.into_text()?);
    "attempts", Int32, Table, |row| u64::from(row.attempts), |row, value| row.attempts = value.number()?;
    "ms_dns", Int64, Manifest, |row| row.timings.dns, |row, value| row.timings.dns = value.number()?;
    "ms_connect", Int64, Manifest, |row| row.timings.connect, |row, value| row.timings.connect = value.number()?;
    "ms_tls", Int64, Manifest, |row| row.timings.tls, |row, value| row.timings.tls = value.number()?;
    "ms_first_byte", Int64, Manifest, |row| row.timings.first_byte, |row, value| row.timings.first_byte = value.number()?;
    "ms_total", Int64, Table, |row| row.timings.total, |row, value| row.timings.total = value.number()?;
    // A class that only a newer haul knows is not an error.
    "error_class", Text, Table,
        |row| row.error.as_ref().map(|error| ColumnValue::Name(error.class.name())),
        |row, value| row.error = ErrorClass::from_name(value.text()?).map(|class| ManifestRowError::new(class, String::new()));
    "error", Text, Table,
        |row| row.error.as_ref().map(|error| error.text.as_str()),
        |row, value| if let Some(error) = &mut row.error { error.text = value.into_text()? };
    "line", OptionalInt64, Manifest, |row| row.line, |row, value| row.line = Some(value.number()?);
    "shard", Text, Table,
        |row| row.shard.as_ref().map(|location| location.shard.as_str()),
        |row, value| row.shard = Some(ShardEntryLocation { shard: value.into_text()?, offset: 0, end: 0 });
    "offset", OptionalInt64, Table,
        |row| row.shard.as_ref().map(|location| location.offset),
        |row, value| row.shard.as_mut()?.offset = value.number()?;
    "end", OptionalInt64, Manifest,
        |row| row.shard.as_ref().map(|location| location.end),
        |row, value| row.shard.as_mut()?.end = value.number()?;
}

fn checksum_text((algorithm, hex): &(DigestAlgorithm, String)) -> String {
    format!("{algorithm}:{hex}")
}

fn parse_checksum(text: &str) -> Option<(DigestAlgorithm, String)> {
    let (name, hex) = text.split_once(':')?;
    Some((name.parse().ok()?, hex.to_owned()))
}

impl ManifestColumn {
    /// Reads a field of a CSV table; `None` when it is not of the column's type.
    pub(super) fn parse<'a>(&self, field: &'a str) -> Option<ColumnValue<'a>> {
        Some(match self.column_type {
            ColumnType::Text => ColumnValue::Text(field.into()),
            ColumnType::Texts => ColumnValue::Texts(field.split(' ').map(str::to_owned).collect()),
            _ if field.is_empty() => ColumnValue::None,
            _ => ColumnValue::Number(field.parse().ok()?),
        })
    }
}

impl ColumnValue<'_> {
    /// Whether there is no value. An empty text is none, because CSV cannot tell them apart.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::None) || self.text().is_some_and(str::is_empty)
    }

    /// The text, if it is one.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Name(text) => Some(text),
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value without what it borrows.
    #[must_use]
    pub fn into_owned(self) -> ColumnValue<'static> {
        match self {
            Self::None => ColumnValue::None,
            Self::Name(name) => ColumnValue::Name(name),
            Self::Text(text) => ColumnValue::Text(Cow::Owned(text.into_owned())),
            Self::Number(number) => ColumnValue::Number(number),
            Self::Texts(texts) => ColumnValue::Texts(texts),
        }
    }

    fn into_text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.into_owned()),
            other => other.text().map(str::to_owned),
        }
    }

    fn texts(&self) -> Option<&[String]> {
        match self {
            Self::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    /// The number, if it is one and in the range of its field.
    #[must_use]
    pub fn number<N: TryFrom<u64>>(&self) -> Option<N> {
        match self {
            Self::Number(number) => N::try_from(*number).ok(),
            _ => None,
        }
    }
}

impl<'a> From<&'a str> for ColumnValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for ColumnValue<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<u64> for ColumnValue<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<Box<[String]>> for ColumnValue<'_> {
    fn from(texts: Box<[String]>) -> Self {
        if texts.is_empty() {
            Self::None
        } else {
            Self::Texts(texts)
        }
    }
}

impl<'a, T: Into<Self>> From<Option<T>> for ColumnValue<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, T::into)
    }
}
