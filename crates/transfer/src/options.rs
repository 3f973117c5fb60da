//! What a caller says about a download and what it gets back: plain data, no behaviour.

use std::path::PathBuf;
use std::time::Duration;

use haul_plan::{
    CheckpointOptions, Checksum, ContentExpectation, DigestAlgorithm, PieceDigests, RetryOptions,
};
use http::HeaderMap;
use url::Url;

use crate::disk::StorageWrapping;

/// How many connections a job may hold to its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionCount {
    /// Found by itself, never above `max`.
    Auto {
        /// The per-origin limit.
        max: usize,
    },
    /// The user's number, obeyed until the origin refuses it.
    Fixed(usize),
}

impl ConnectionCount {
    /// The most that may be open at once.
    #[must_use]
    pub fn max(self) -> usize {
        match self {
            Self::Auto { max } => max.max(1),
            Self::Fixed(n) => n.max(1),
        }
    }
}

/// What to do when the final name is taken already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExistingFilePolicy {
    /// Leave it and fail: nothing a user has is replaced unasked.
    #[default]
    Keep,
    /// Replace it, once the new file is whole.
    Overwrite,
    /// Ask the origin whether it changed; replace it if so.
    Update,
}

/// Settings shared by every job of an [`TransferEngine`](crate::TransferEngine).
#[derive(Debug, Clone)]
pub struct GetOptions {
    /// Connections a job.
    pub connections: ConnectionCount,
    /// Bytes; no segment is smaller, but for the last of a file. `None`: what the plan finds worth a request.
    pub min_segment_size: Option<u64>,
    /// Bytes; every segment of this size instead of sizes found by the plan.
    pub segment_size: Option<u64>,
    /// Whether to use, and to leave, state for a later run.
    pub resume: bool,
    /// What to do when the final name is taken.
    pub existing_file: ExistingFilePolicy,
    /// Whether to undo a Content-Encoding that the origin applied unasked.
    pub decode_content: bool,
    /// What an answer must be to be the file that is meant.
    pub expected_content: ContentExpectation,
    /// The retry budget of each job.
    pub retry: RetryOptions,
    /// When checkpoints are due: what a kill may cost to fetch again.
    pub checkpoint: CheckpointOptions,
    /// What is between the engine and its partial files.
    pub storage_wrapping: StorageWrapping,
    /// Whether to use the mirrors and the Metalink document that an origin's Link fields name (RFC 6249).
    pub mirror_links: bool,
}

impl Default for GetOptions {
    fn default() -> Self {
        Self {
            // Sixteen is what aria2 allows and what browsers' and CDNs' per-client limits tolerate.
            connections: ConnectionCount::Auto { max: 16 },
            min_segment_size: None,
            segment_size: None,
            resume: true,
            existing_file: ExistingFilePolicy::default(),
            decode_content: false,
            expected_content: ContentExpectation::default(),
            retry: RetryOptions::default(),
            checkpoint: CheckpointOptions::default(),
            storage_wrapping: StorageWrapping::default(),
            // Off: other hosts than the one that was named would be asked.
            mirror_links: false,
        }
    }
}

/// Where a job's bytes go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutput {
    /// This path (a FIFO or device is written as it is, without a temporary name).
    File(PathBuf),
    /// Into this directory, named by the origin or the URL.
    Directory(PathBuf),
    /// Standard output, in order.
    Stdout,
}

/// One resource to move.
#[derive(Debug, Clone)]
pub struct DownloadJob {
    /// The caller's number for it; events carry it.
    pub id: u64,
    /// What to fetch.
    pub url: Url,
    /// Where it goes.
    pub output: JobOutput,
    /// Checksums to verify (with a digest) or to report (without).
    pub checksums: Vec<Checksum>,
    /// Further places to fetch the same file from, best first. Segments come from all of them at once; one that is gone, fails, has
    /// another file, or of which nothing tells that it has the same is dropped. What tells is a digest or a strong entity tag in
    /// common, the same size and date, or a checksum or `piece_digests` that what comes is compared with.
    pub mirrors: Vec<Url>,
    /// Where the URLs above are those of a document that somebody else wrote: URLs of the origins that the user named. What the
    /// user gave for origins (header fields, tokens, logins, a client certificate) then goes to these alone. `None`: all of the
    /// URLs above are the user's word.
    pub credential_urls: Option<Vec<Url>>,
    /// Digests of pieces: a bad one is fetched again, from another place if there is one.
    pub piece_digests: Option<PieceDigests>,
    /// Bytes that the file must have.
    pub expected_size: Option<u64>,
    /// The user's header fields for it, beside those of the client and in their place. To origins that the user did not name
    /// go only those that say what is wanted.
    pub headers: HeaderMap,
}

/// A job that ended well.
#[derive(Debug, Clone)]
pub struct DownloadOutcome {
    /// What was requested.
    pub url: Url,
    /// Where redirects led.
    pub final_url: Url,
    /// Where the file is; `None` for standard output.
    pub path: Option<PathBuf>,
    /// Bytes in the resource.
    pub bytes: u64,
    /// Bytes that arrived over the wire in this run.
    pub fetched: u64,
    /// Bytes kept from an earlier run.
    pub resumed: u64,
    /// From start to rename.
    pub elapsed: Duration,
    /// The number of connections that the control settled on.
    pub connections: usize,
    /// Requests that brought bytes.
    pub segments: u64,
    /// Retries made.
    pub retries: u32,
    /// The entity tag, as the origin wrote it.
    pub etag: Option<String>,
    /// Digests in hexadecimal, of each requested algorithm.
    pub checksums: Vec<(DigestAlgorithm, String)>,
    /// `ExistingFilePolicy::Update` found nothing newer: the file was left alone.
    pub not_modified: bool,
}

impl DownloadJob {
    /// The URLs of the job's sources: its own, then its mirrors, each once. A source's number is its place here.
    pub fn source_urls(&self) -> impl Iterator<Item = &Url> {
        let all = || std::iter::once(&self.url).chain(&self.mirrors);
        let is_first = move |(number, url): &(usize, &Url)| !all().take(*number).any(|u| u == *url);
        all().enumerate().filter(is_first).map(|(_, url)| url)
    }
}
