//! The outcome of one job. `columns.rs` says which of it is written.

use haul_plan::{DigestAlgorithm, Remedy};
use serde::{Deserialize, Serialize};

use crate::archive::ShardEntryLocation;
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

    pub(super) fn from_name(name: &str) -> Option<Self> {
        [Self::Done, Self::Failed, Self::Skipped]
            .into_iter()
            .find(|state| state.name() == name)
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
