//! What is known of a job when it has ended.

use haul_plan::DigestAlgorithm;
use serde::{Deserialize, Serialize};

use crate::archive::ShardEntryLocation;
use crate::error::ErrorClass;

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowState {
    /// Its bytes are durable where they belong.
    Done,
    /// It ended without its file; the next run tries again.
    Failed,
    /// Nothing was fetched: a duplicate of another job, or a resource that has not changed. With status 304 the job counts as done;
    /// with any other, what an earlier row says of it still holds.
    Skipped,
}

/// Where a job's time went, each in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RowTimings {
    /// Looking up the name; zero where it was known.
    pub dns: u64,
    /// Until TCP (and a proxy) had connected; zero on a connection that was there.
    pub connect: u64,
    /// The TLS handshake; zero likewise.
    pub tls: u64,
    /// From the request to the answer's head.
    pub first_byte: u64,
    /// From the job's begin to its end, retries and waits among it.
    pub total: u64,
}

/// Why a job failed, or was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    /// What kind of end it was.
    pub class: ErrorClass,
    /// In words. Written as one line: control characters, which may be a peer's, become blanks.
    pub text: String,
}

/// One job's end. Between runs a job is known by `url` and `path` together.
///
/// A text that is empty says the same as none: CSV cannot tell them apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestRow {
    /// Where the job stands in its list, counted from 1; none for URLs that were typed.
    pub line: Option<u64>,
    /// The URL as [`haul_net::redacted_url`] prints it: without secrets.
    pub url: String,
    /// Where the file went, as the layout gave it.
    pub path: Option<String>,
    /// How it ended.
    pub state: RowState,
    /// The last answer's status; none where none came.
    pub status: Option<u16>,
    /// Bytes in the file.
    pub bytes: u64,
    /// Digests of the file, in lower-case hexadecimal.
    pub checksums: Vec<(DigestAlgorithm, String)>,
    /// The entity tag as the origin wrote it: what `--update` asks with. A row of a 304 repeats it.
    pub etag: Option<String>,
    /// Requests made.
    pub attempts: u32,
    /// Where the time went.
    pub timings: RowTimings,
    /// Why there is no file.
    pub error: Option<RowError>,
    /// Where in which tar the file is. Rows of one shard are appended in the order of its entries.
    pub shard: Option<ShardEntryLocation>,
}
