//! The outcome of one job, and its fields as both formats write and read them.
//!
//! The state comes first in the file, so that a torn first line cannot be taken for a list of URLs, nor such a list for
//! a manifest. A check covers the fields that a later run acts on.

use std::borrow::Cow;

use haul_plan::{DigestAlgorithm, Remedy};
use serde::{Deserialize, Serialize};

use crate::archive::ShardEntryLocation;
use crate::checksum::crc32c;
use crate::error::ErrorClass;

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobRowState {
    /// The file is durable in its place.
    Done,
    /// The job ended without its file. The next run tries again.
    Failed,
    /// Nothing was fetched: the job repeats another one, or the file has not changed. With status 304 the job counts as
    /// done; otherwise an earlier row of the job still counts.
    Skipped,
}

impl JobRowState {
    /// The name in manifests and other results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// Where a job's time went, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RowTimings {
    /// The DNS lookup; zero when the address was known.
    pub dns: u64,
    /// The TCP connection (through a proxy, if any); zero on an open connection.
    pub connect: u64,
    /// The TLS handshake; zero on an open connection.
    pub tls: u64,
    /// From the request to the head of the response.
    pub first_byte: u64,
    /// The whole job, with retries and waits.
    pub total: u64,
}

/// Why a job failed or was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestRowError {
    /// The class, which decides the exit code.
    pub class: ErrorClass,
    /// The error and its sources in one line.
    pub text: String,
    /// The cause in a few words, the same for all URLs. This and the following fields are not in the file.
    pub cause: String,
    /// What the user can do about it.
    pub remedies: Vec<Remedy>,
    /// Whether the same job may succeed later.
    pub is_transient: bool,
}

impl ManifestRowError {
    /// An error of which no more is known.
    #[must_use]
    pub fn new(class: ErrorClass, text: String) -> Self {
        Self {
            class,
            text,
            cause: class.name().to_owned(),
            remedies: Vec::new(),
            is_transient: false,
        }
    }
}

/// The outcome of one job. `url` and `path` together are its key between runs.
///
/// An empty text is the same as none, because CSV cannot tell them apart. Control characters, which a peer may have sent,
/// are written as blanks, so that a row is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestRow {
    /// The job's line in its list, from 1; none for a URL of the command line.
    pub line: Option<u64>,
    /// The URL without secrets, as [`haul_net::redacted_url`] prints it.
    pub url: String,
    /// The path of the file, as the layout made it.
    pub path: Option<String>,
    /// How the job ended.
    pub state: JobRowState,
    /// The status of the last response, if there was one.
    pub status: Option<u16>,
    /// Bytes in the file.
    pub bytes: u64,
    /// Digests of the file, in lower-case hexadecimal.
    pub checksums: Vec<(DigestAlgorithm, String)>,
    /// The entity tag as the origin wrote it, for the next `--update`. A row of a 304 repeats the old one.
    pub etag: Option<String>,
    /// Number of requests.
    pub attempts: u32,
    /// How long each phase took.
    pub timings: RowTimings,
    /// Why there is no file.
    pub error: Option<ManifestRowError>,
    /// Where the file is in an archive. Rows of one shard are in the order of its entries.
    pub shard: Option<ShardEntryLocation>,
    /// Bytes that the file should have, if its list says so. Not in the manifest.
    pub listed_size: Option<u64>,
}

impl ManifestRow {
    /// A row of a job that was never begun.
    #[must_use]
    pub fn new(line: Option<u64>, url: String, state: JobRowState) -> Self {
        Self {
            line,
            url,
            path: None,
            state,
            status: None,
            bytes: 0,
            checksums: Vec::new(),
            etag: None,
            attempts: 0,
            timings: RowTimings::default(),
            error: None,
            shard: None,
            listed_size: None,
        }
    }
}

/// The fields under their names in the file. Unknown fields of a line are ignored. A missing field (of an older haul's
/// row) is empty, except for those that make it a row.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SerializedRow<'a> {
    /// `done`, `failed` or `skipped`.
    #[serde(borrow)]
    pub(super) state: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) url: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "is_empty")]
    pub(super) path: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<u16>,
    #[serde(default)]
    pub(super) bytes: u64,
    /// The first checksum, as `algorithm:hex`.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub(super) checksum: Option<Cow<'a, str>>,
    /// The other checksums.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) checksums: Vec<String>,
    #[serde(default, skip_serializing_if = "is_empty")]
    pub(super) etag: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) attempts: u32,
    /// `None` where nothing was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ms: Option<RowTimings>,
    /// The name of the class. A name that only a newer haul knows is ignored.
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
    /// [`SerializedRow::crc`] in hexadecimal.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub(super) check: Option<Cow<'a, str>>,
}

#[expect(clippy::ref_option, reason = "the signature that serde calls it with")]
fn is_empty(text: &Option<Cow<'_, str>>) -> bool {
    text.as_deref().is_none_or(str::is_empty)
}

impl<'a> SerializedRow<'a> {
    /// The fields of a row, with their check.
    pub(super) fn new(row: &'a ManifestRow) -> Self {
        let mut checksums = row
            .checksums
            .iter()
            .map(|(algorithm, hex)| format!("{algorithm}:{hex}"));
        let mut serialized = Self {
            state: Cow::Borrowed(row.state.name()),
            url: one_line(&row.url),
            path: row.path.as_deref().map(one_line),
            status: row.status,
            bytes: row.bytes,
            checksum: checksums.next().map(Cow::Owned),
            checksums: checksums.collect(),
            etag: row.etag.as_deref().map(one_line),
            attempts: row.attempts,
            ms: (row.attempts > 0).then_some(row.timings),
            error_class: row.error.as_ref().map(|error| error.class.name().into()),
            error: row.error.as_ref().map(|error| one_line(&error.text)),
            line: row.line,
            shard: row.shard.as_ref().map(|location| one_line(&location.shard)),
            offset: row.shard.as_ref().map(|location| location.offset),
            end: row.shard.as_ref().map(|location| location.end),
            check: None,
        };
        serialized.check = Some(Cow::Owned(serialized.crc()));
        serialized
    }

    /// Parses the fields; `None` when they are not a row or the check fails.
    pub(super) fn into_row(self) -> Option<ManifestRow> {
        let non_empty =
            |text: Option<Cow<'_, str>>| text.map(Cow::into_owned).filter(|text| !text.is_empty());
        if self.check.as_deref() != Some(&*self.crc()) {
            return None;
        }
        let state = [JobRowState::Done, JobRowState::Failed, JobRowState::Skipped]
            .into_iter()
            .find(|state| state.name() == self.state)?;
        // The row of an unreadable line has no URL. Such a job can only have failed.
        if self.url.is_empty() && state == JobRowState::Done {
            return None;
        }
        let first = non_empty(self.checksum);
        let checksums = first.iter().chain(&self.checksums);
        let error = non_empty(self.error_class).and_then(|name| parse_class(&name));
        Some(ManifestRow {
            line: self.line,
            url: self.url.into_owned(),
            path: non_empty(self.path),
            state,
            status: self.status,
            bytes: self.bytes,
            checksums: checksums.filter_map(|text| parse_checksum(text)).collect(),
            etag: non_empty(self.etag),
            attempts: self.attempts,
            timings: self.ms.unwrap_or_default(),
            error: error.map(|class| {
                let text = self.error.map_or_else(String::new, Cow::into_owned);
                ManifestRowError::new(class, text)
            }),
            shard: non_empty(self.shard).map(|shard| ShardEntryLocation {
                shard,
                offset: self.offset.unwrap_or_default(),
                end: self.end.unwrap_or_default(),
            }),
            listed_size: None,
        })
    }

    /// CRC-32C over the fields that a later run acts on, and no others. Damage to a time, a line or an attempt must not
    /// cost a download, and a user may delete such a column in a spreadsheet. Digests are not covered: they are
    /// compared with the file itself.
    ///
    /// Each text is followed by the byte 0xff, which no text contains; a missing text counts as empty. Each number is a
    /// byte that says whether it is there, and eight bytes, little-endian. The set of fields never changes: a newer
    /// haul may add columns, and an older one still accepts its rows.
    fn crc(&self) -> String {
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

fn parse_class(name: &str) -> Option<ErrorClass> {
    [
        ErrorClass::Verification,
        ErrorClass::LocalIo,
        ErrorClass::Network,
        ErrorClass::Interrupted,
        ErrorClass::Usage,
    ]
    .into_iter()
    .find(|class| class.name() == name)
}

fn parse_checksum(text: &str) -> Option<(DigestAlgorithm, String)> {
    let (name, hex) = text.split_once(':')?;
    Some((name.parse().ok()?, hex.to_owned()))
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
