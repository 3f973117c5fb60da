//! The outcome of one job.

use haul_plan::DigestAlgorithm;
use serde::{Deserialize, Serialize};

use crate::archive::ShardEntryLocation;
use crate::error::ErrorClass;

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowState {
    /// The file is durable in its place.
    Done,
    /// The job ended without its file. The next run tries again.
    Failed,
    /// Nothing was fetched: the job repeats another one, or the file has not changed. With status 304 the job counts as
    /// done; otherwise an earlier row of the job still counts.
    Skipped,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    /// The class, which decides the exit code.
    pub class: ErrorClass,
    /// One line of text: control characters, which a peer may have sent, are written as blanks.
    pub text: String,
}

/// The outcome of one job. `url` and `path` together are its key between runs.
///
/// An empty text is the same as none, because CSV cannot tell them apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestRow {
    /// The job's line in its list, from 1; none for a URL of the command line.
    pub line: Option<u64>,
    /// The URL without secrets, as [`haul_net::redacted_url`] prints it.
    pub url: String,
    /// The path of the file, as the layout made it.
    pub path: Option<String>,
    /// How the job ended.
    pub state: RowState,
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
    pub error: Option<RowError>,
    /// Where the file is in an archive. Rows of one shard are in the order of its entries.
    pub shard: Option<ShardEntryLocation>,
}
