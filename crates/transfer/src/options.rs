//! The options of the engine, a download job and its outcome: plain data without behaviour.

use std::path::PathBuf;
use std::time::Duration;

use haul_plan::{Checksum, DigestAlgorithm};
use http::HeaderMap;
use url::Url;

use crate::body_channel::BodySender;
use crate::disk::StorageWrapping;
use crate::get::{CheckpointOptions, DownloadLimits, PieceDigests};
use crate::recovery::RetryOptions;
use crate::response::{ContentExpectation, RobotsTagPolicy};

/// How many connections a job may hold to its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionCount {
    /// Found by connection control, never above `max`.
    Auto {
        /// The per-origin limit.
        max: usize,
    },
    /// The user's number. haul uses fewer only if the origin refuses some.
    Fixed(usize),
}

impl ConnectionCount {
    /// The most connections that may be open at once.
    #[must_use]
    pub fn max(self) -> usize {
        match self {
            Self::Auto { max } => max.max(1),
            Self::Fixed(n) => n.max(1),
        }
    }
}

/// What to do when the final name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExistingFilePolicy {
    /// Keep the file and fail: a file is replaced only if an option says so.
    #[default]
    Keep,
    /// Replace it, once the new file is complete and verified.
    Overwrite,
    /// Send a conditional request; replace the file if the origin has a newer one.
    Update,
}

/// Settings shared by every job of a [`TransferEngine`](crate::TransferEngine).
#[derive(Debug, Clone)]
pub struct GetOptions {
    /// Connections of each job.
    pub connections: ConnectionCount,
    /// The smallest segment, in bytes; the last one of a file may be smaller. `None`: the default of the segment planner.
    pub min_segment_size: Option<u64>,
    /// The size of every segment, in bytes. `None`: the segment planner chooses the sizes.
    pub segment_size: Option<u64>,
    /// Whether to resume an earlier run's download, and to save state so that a later run can resume this one.
    pub resume: bool,
    /// What to do when the final name exists.
    pub existing_file: ExistingFilePolicy,
    /// Whether to decode a Content-Encoding that the origin applied although the request did not accept it.
    pub decode_content: bool,
    /// The media type and size that a response must have, so that an error page is not stored as the file.
    pub expected_content: ContentExpectation,
    /// Whether a file is downloaded whose use the origin's X-Robots-Tag forbids.
    pub robots_tag: RobotsTagPolicy,
    /// The retry budget of each job.
    pub retry: RetryOptions,
    /// When a job is ended that is too slow or takes too long.
    pub limits: DownloadLimits,
    /// When to make checkpoints: they limit how much must be fetched again after a kill.
    pub checkpoint: CheckpointOptions,
    /// A wrapper around each partial file, for tests and limits.
    pub storage_wrapping: StorageWrapping,
    /// Where haul notes what it knows of finished files, if their file system has no extended attributes for it. Without it
    /// [`ExistingFilePolicy::Update`] may download them again.
    pub notes_directory: Option<PathBuf>,
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
            robots_tag: RobotsTagPolicy::default(),
            retry: RetryOptions::default(),
            limits: DownloadLimits::default(),
            checkpoint: CheckpointOptions::default(),
            storage_wrapping: StorageWrapping::default(),
            notes_directory: None,
            // Off: requests would go to hosts that the user did not name.
            mirror_links: false,
        }
    }
}

/// Where a job's bytes go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutput {
    /// The file at this path. A FIFO or device is written directly, without a temporary name.
    File(PathBuf),
    /// Into this directory, named by the origin or the URL.
    Directory(PathBuf),
    /// Standard output, in order.
    Stdout,
    /// A reader in this process, in order: see [`body_channel`](crate::body_channel()).
    Channel(BodySender),
}

#[derive(Debug, Clone)]
pub struct DownloadJob {
    /// The caller's number for the job; events carry it.
    pub id: u64,
    pub url: Url,
    /// Where its bytes go.
    pub output: JobOutput,
    /// Checksums to verify (with a digest) or to report (without).
    pub checksums: Vec<Checksum>,
    /// Further URLs of the same file, best first. Segments are fetched from all of them at once. A mirror is dropped when it
    /// fails, has another file, or nothing shows that it has the same file. A digest or strong entity tag in common shows
    /// that, and so does the same size and date, or a checksum or `piece_digests` that verifies the bytes.
    pub mirrors: Vec<Url>,
    /// If a document lists the URLs above: URLs of the origins that the user named. What the user gave for origins (header
    /// fields, tokens, logins, a client certificate) is then sent to these origins only. `None`: the user named all of the
    /// URLs above.
    pub credential_urls: Option<Vec<Url>>,
    /// Digests of pieces: a bad piece is fetched again, from another source if there is one.
    pub piece_digests: Option<PieceDigests>,
    /// The size that the file must have, in bytes.
    pub expected_size: Option<u64>,
    /// Whether the file under the name is replaced whatever [`GetOptions::existing_file`] says: it is an older version of this one.
    pub replaces_file: bool,
    /// The user's header fields, added to the client's own or replacing them. Origins that the user did not name receive
    /// only those that describe the wanted response, such as Accept.
    pub headers: HeaderMap,
}

/// The result of a job that succeeded.
#[derive(Debug, Clone)]
pub struct DownloadOutcome {
    /// The requested URL.
    pub url: Url,
    /// The URL after redirects.
    pub final_url: Url,
    /// The path of the file; `None` for standard output and channels.
    pub path: Option<PathBuf>,
    /// The size of the resource, in bytes.
    pub bytes: u64,
    /// Bytes that this run received over the network.
    pub fetched: u64,
    /// Bytes kept from an earlier run.
    pub resumed: u64,
    /// The time from the start to the rename.
    pub elapsed: Duration,
    /// The number of connections that connection control chose.
    pub connections: usize,
    /// Requests that delivered bytes.
    pub segments: u64,
    pub retries: u32,
    /// The entity tag, as the origin wrote it.
    pub etag: Option<String>,
    /// Digests in hexadecimal, of each requested algorithm.
    pub checksums: Vec<(DigestAlgorithm, String)>,
    /// Whether `ExistingFilePolicy::Update` found nothing newer and left the file alone.
    pub not_modified: bool,
}

impl DownloadJob {
    /// A job with one source, of which nothing is known that its file must match.
    #[must_use]
    pub fn new(id: u64, url: Url, output: JobOutput) -> Self {
        Self {
            id,
            url,
            output,
            checksums: Vec::new(),
            mirrors: Vec::new(),
            credential_urls: None,
            piece_digests: None,
            expected_size: None,
            replaces_file: false,
            headers: HeaderMap::new(),
        }
    }

    /// The URLs of the job's sources: its own, then its mirrors, without duplicates. A source's number is its index here.
    pub fn source_urls(&self) -> impl Iterator<Item = &Url> {
        let all = || std::iter::once(&self.url).chain(&self.mirrors);
        let is_first = move |(number, url): &(usize, &Url)| !all().take(*number).any(|u| u == *url);
        all().enumerate().filter(is_first).map(|(_, url)| url)
    }
}

/// Where haul keeps state of one kind by default: a folder in the user's directory for state (XDG Base Directory Specification). `None` if
/// neither it nor the home is an absolute path: nothing lands in the current folder (row B12).
#[must_use]
pub fn default_state_directory(kind: &str) -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    state_directory_below(state, std::env::home_dir(), kind)
}

fn state_directory_below(
    state: Option<PathBuf>,
    home: Option<PathBuf>,
    kind: &str,
) -> Option<PathBuf> {
    let below_home = home.map(|home| home.join(".local/state"));
    [state, below_home]
        .into_iter()
        .flatten()
        .find(|path| path.is_absolute())
        .map(|path| path.join("haul").join(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b12_state_is_kept_below_absolute_paths_alone() {
        let below = |state: Option<&str>, home: Option<&str>| {
            state_directory_below(state.map(PathBuf::from), home.map(PathBuf::from), "uploads")
        };
        let at_home = PathBuf::from("/home/me/.local/state/haul/uploads");
        for state in [None, Some(""), Some("state")] {
            assert_eq!(below(state, Some("/home/me")), Some(at_home.clone()));
            for home in [None, Some(""), Some("me")] {
                assert_eq!(below(state, home), None, "{state:?} {home:?}");
            }
        }
        let own = below(Some("/state"), Some("/home/me"));
        assert_eq!(own, Some(PathBuf::from("/state/haul/uploads")));
    }
}
