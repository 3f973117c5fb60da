//! A row as named fields: what both formats write and read, and the check over what a later run acts on.
//!
//! The state stands first, so that a torn first line of a manifest cannot be taken for a list of URLs, nor such a list for it.

use std::borrow::Cow;

use haul_plan::DigestAlgorithm;
use serde::{Deserialize, Serialize};

use super::row::{ManifestRow, RowError, RowState, RowTimings};
use crate::archive::ShardEntryLocation;
use crate::checksum::crc32c;
use crate::error::ErrorClass;

/// A row's fields under the names that they have in the file. What is unknown in a line is passed over; what a line lacks (an
/// older haul's) is as if it were not known, but for what makes it a row.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SerializedRow<'a> {
    /// `done`, `failed` or `skipped`.
    #[serde(borrow)]
    pub(super) state: Cow<'a, str>,
    /// Half of what a job is known by.
    #[serde(borrow)]
    pub(super) url: Cow<'a, str>,
    /// The other half.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub(super) path: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<u16>,
    #[serde(default)]
    pub(super) bytes: u64,
    /// `algorithm:hex`, the first of them.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub(super) checksum: Option<Cow<'a, str>>,
    /// The others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) checksums: Vec<String>,
    #[serde(default, skip_serializing_if = "is_empty")]
    pub(super) etag: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) attempts: u32,
    #[serde(default)]
    pub(super) ms: RowTimings,
    /// As [`class_name`] has it; what a newer haul calls otherwise is not known here.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub(super) error_class: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "is_empty")]
    pub(super) error: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u64>,
    #[serde(default, skip_serializing_if = "is_empty")]
    pub(super) shard: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) offset: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<u64>,
    /// [`SerializedRow::checksum_of_fields`] in hexadecimal.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub(super) check: Option<Cow<'a, str>>,
}

#[expect(clippy::ref_option, reason = "the signature that serde calls it with")]
fn is_empty(text: &Option<Cow<'_, str>>) -> bool {
    text.as_deref().is_none_or(str::is_empty)
}

impl<'a> SerializedRow<'a> {
    /// A row's fields, with their check.
    pub(super) fn new(row: &'a ManifestRow) -> Self {
        let mut checksums = row
            .checksums
            .iter()
            .map(|(algorithm, hex)| format!("{algorithm}:{hex}"));
        let mut wire = Self {
            state: Cow::Borrowed(state_name(row.state)),
            url: Cow::Borrowed(&row.url),
            path: row.path.as_deref().map(Cow::Borrowed),
            status: row.status,
            bytes: row.bytes,
            checksum: checksums.next().map(Cow::Owned),
            checksums: checksums.collect(),
            etag: row.etag.as_deref().map(Cow::Borrowed),
            attempts: row.attempts,
            ms: row.timings,
            error_class: row
                .error
                .as_ref()
                .map(|error| class_name(error.class).into()),
            error: row.error.as_ref().map(|error| one_line(&error.text)),
            line: row.line,
            shard: row
                .shard
                .as_ref()
                .map(|placed| Cow::Borrowed(&*placed.shard)),
            offset: row.shard.as_ref().map(|placed| placed.offset),
            end: row.shard.as_ref().map(|placed| placed.end),
            check: None,
        };
        wire.check = Some(Cow::Owned(wire.checksum_of_fields()));
        wire
    }

    /// The row that these fields say; `None` where they say none, or their check says that they are not what was written.
    pub(super) fn into_row(self) -> Option<ManifestRow> {
        let full =
            |text: Option<Cow<'_, str>>| text.map(Cow::into_owned).filter(|text| !text.is_empty());
        if self.check.as_deref() != Some(&*self.checksum_of_fields()) {
            return None;
        }
        let state = [RowState::Done, RowState::Failed, RowState::Skipped]
            .into_iter()
            .find(|state| state_name(*state) == self.state)?;
        // A line of a list that named no job has a row without one, which can only have failed.
        if self.url.is_empty() && state == RowState::Done {
            return None;
        }
        let first = full(self.checksum);
        let checksums = first.iter().chain(&self.checksums);
        let error = full(self.error_class).and_then(|name| class_of(&name));
        Some(ManifestRow {
            line: self.line,
            url: self.url.into_owned(),
            path: full(self.path),
            state,
            status: self.status,
            bytes: self.bytes,
            checksums: checksums.filter_map(|text| checksum(text)).collect(),
            etag: full(self.etag),
            attempts: self.attempts,
            timings: self.ms,
            error: error.map(|class| RowError {
                class,
                text: self.error.map_or_else(String::new, Cow::into_owned),
            }),
            shard: full(self.shard).map(|shard| ShardEntryLocation {
                shard,
                offset: self.offset.unwrap_or_default(),
                end: self.end.unwrap_or_default(),
            }),
        })
    }

    /// CRC-32C over the fields that a later run acts on, and no others: damage to a time, a line or an attempt would cost a download and
    /// mend nothing, and who deletes such a column in a spreadsheet keeps his rows. A digest is there to be compared with the file.
    /// What is covered: texts ended by a byte that none has, where one that is not there counts as
    /// empty; numbers in eight bytes, the first first, after one that says whether they are there. Never another set of fields: a
    /// newer haul may add columns, and an older one still checks its rows.
    fn checksum_of_fields(&self) -> String {
        let mut bytes = Vec::with_capacity(512);
        let texts = [
            Some(&self.url),
            self.path.as_ref(),
            Some(&self.state),
            self.etag.as_ref(),
            self.shard.as_ref(),
        ];
        for text in texts {
            bytes.extend_from_slice(text.map(|text| text.as_bytes()).unwrap_or_default());
            bytes.push(0xff);
        }
        let status = self.status.map(u64::from);
        for number in [status, Some(self.bytes), self.offset, self.end] {
            bytes.push(u8::from(number.is_some()));
            bytes.extend_from_slice(&number.unwrap_or_default().to_le_bytes());
        }
        format!("{:08x}", crc32c(&bytes))
    }
}

fn state_name(state: RowState) -> &'static str {
    match state {
        RowState::Done => "done",
        RowState::Failed => "failed",
        RowState::Skipped => "skipped",
    }
}

/// As the binary's JSON calls them.
fn class_name(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::Verification => "verification",
        ErrorClass::LocalIo => "local_io",
        ErrorClass::Network => "network",
        ErrorClass::Interrupted => "interrupted",
        ErrorClass::Usage => "usage",
    }
}

fn class_of(name: &str) -> Option<ErrorClass> {
    [
        ErrorClass::Verification,
        ErrorClass::LocalIo,
        ErrorClass::Network,
        ErrorClass::Interrupted,
        ErrorClass::Usage,
    ]
    .into_iter()
    .find(|class| class_name(*class) == name)
}

fn checksum(text: &str) -> Option<(DigestAlgorithm, String)> {
    let (name, hex) = text.split_once(':')?;
    Some((name.parse().ok()?, hex.to_owned()))
}

/// A text of somebody else's that must not look like several rows to who reads lines.
pub(super) fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(char::is_control) {
        Cow::Owned(text.replace(char::is_control, " "))
    } else {
        Cow::Borrowed(text)
    }
}
