//! A job of a batch on its way: what it is to fetch, and what has become of it so far.

use std::path::{Path, PathBuf};

use haul_net::RequestTimings;
use haul_plan::{
    ContentExpectation, FailurePolicy, RequestFailure, ResourceId, ResourceVersion, RetryOptions,
    breaks_enough,
};
use http::StatusCode;
use tokio::time::Instant;
use url::Url;

use crate::disk::{DownloadPaths, StoredValidators};
use crate::get::single_response::ResponseInfo;
use crate::list::ListEntry;
use crate::manifest::{ManifestRow, RowState, RowTimings};
use crate::options::{DownloadJob, JobOutput};

/// A job on its way.
#[derive(Debug)]
pub(super) struct BatchJob {
    /// What the engine is told: URL, final name, checksums.
    pub(super) download: DownloadJob,
    /// The URL of its list, whichever mirror is asked.
    listed_url: Url,
    /// How many of its mirrors, the first ones, were never asked.
    untried_mirrors: usize,
    /// Its line in its list.
    pub(super) line: u64,
    /// The final name, or that of an entry in the archive.
    pub(super) path: PathBuf,
    /// Where an entry lies that is too large to be kept in memory until it is in the archive.
    pub(super) staging_path: Option<PathBuf>,
    /// The file that may be new enough (`--update`).
    pub(super) stored_validators: Option<StoredValidators>,
    /// What its failures lead to.
    pub(super) failure_policy: FailurePolicy,
    /// Requests so far.
    pub(super) attempts: u32,
    /// The status of the answer that another road goes on with.
    pub(super) status: Option<StatusCode>,
    /// Whether its host has refused it.
    pub(super) host_refused: bool,
    /// The host that answered the last of them 403, if one did.
    pub(super) forbidding_host: Option<String>,
    /// Where what is to be replaced lies, if that is behind a link.
    pub(super) link_target: Option<PathBuf>,
    /// When the first of them was made.
    pub(super) first_attempt_at: Option<Instant>,
    /// Which road it goes.
    pub(super) strategy: BatchJobStrategy,
}

/// Which road a job goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchJobStrategy {
    /// That of a file that comes whole; with a range, or without where ranges were given up.
    SingleResponse {
        /// Whether a range is asked for.
        ranges: bool,
    },
    /// That of partial files: there is one, or a file cannot be without a name here.
    PartialFile,
    /// None, if the file that is there is the one meant.
    VerifyExisting,
}

impl BatchJob {
    /// A job whose file gets the name `path`, or where it is an entry of an archive, lies under the name `staging_path` until then.
    pub(super) fn new(
        id: u64,
        entry: ListEntry,
        (path, staged): (PathBuf, Option<PathBuf>),
        retry: &RetryOptions,
    ) -> Self {
        Self {
            listed_url: entry.url.clone(),
            untried_mirrors: entry.mirrors.len(),
            download: DownloadJob {
                id,
                url: entry.url,
                output: JobOutput::File(staged.as_ref().unwrap_or(&path).clone()),
                checksums: entry.checksums,
                mirrors: entry.mirrors,
                piece_digests: entry.pieces,
                credential_urls: entry.untrusted_hosts.then(Vec::new),
                expected_size: entry.size,
                headers: entry.headers,
            },
            line: entry.line,
            path,
            staging_path: staged,
            stored_validators: None,
            failure_policy: FailurePolicy::new(retry.clone()),
            attempts: 0,
            status: None,
            host_refused: false,
            forbidding_host: None,
            link_target: None,
            first_attempt_at: None,
            strategy: BatchJobStrategy::SingleResponse { ranges: true },
        }
        .with_pieces()
    }

    /// Digests of pieces are looked at on the roads of partial files alone.
    fn with_pieces(mut self) -> Self {
        if self.download.piece_digests.is_some() {
            self.strategy = BatchJobStrategy::PartialFile;
        }
        self
    }

    /// The file that is written to.
    pub(super) fn paths(&self) -> DownloadPaths {
        let path = self.staging_path.as_ref().or(self.link_target.as_ref());
        DownloadPaths::new(path.unwrap_or(&self.path).clone())
    }

    /// Takes the roads of partial files, if it goes another; false if it does not.
    pub(super) fn use_partial_file(&mut self) -> bool {
        let quick = matches!(self.strategy, BatchJobStrategy::SingleResponse { .. });
        if quick {
            self.strategy = BatchJobStrategy::PartialFile;
        }
        quick
    }

    /// Goes to where else the file can be had, with a fresh budget; false where there is nowhere.
    pub(super) fn switch_to_mirror(&mut self, retry: &RetryOptions) -> bool {
        if self.download.mirrors.is_empty() {
            return false;
        }
        self.download.url = self.download.mirrors.remove(0);
        // What another host has said is not this one's word.
        (self.forbidding_host, self.host_refused) = (None, false);
        self.untried_mirrors = self.untried_mirrors.saturating_sub(1);
        self.failure_policy = FailurePolicy::new(retry.clone());
        if self.download.piece_digests.is_none() {
            self.strategy = BatchJobStrategy::SingleResponse { ranges: true };
        }
        true
    }

    /// After a few breaks of one source goes to one that was never asked, if there is any; the one that broke is asked again after all
    /// others, and then with all the patience that there is.
    pub(super) fn switch_after_breaks(
        &mut self,
        trouble: RequestFailure,
        retry: &RetryOptions,
    ) -> bool {
        // The course has counted this one already.
        if self.untried_mirrors == 0 || !breaks_enough(trouble, self.failure_policy.retries()) {
            return false;
        }
        self.download.mirrors.push(self.download.url.clone());
        self.switch_to_mirror(retry)
    }

    /// What its answer must be, by what is expected of all of them and what its list says.
    pub(super) fn content_expectation(&self, all: &ContentExpectation) -> ContentExpectation {
        ContentExpectation {
            exact_length: self.download.expected_size.or(all.exact_length),
            ..all.clone()
        }
    }

    /// Whether a file of this length is known to be another than the one meant.
    pub(super) fn has_other_size(&self, length: u64) -> bool {
        self.download
            .expected_size
            .is_some_and(|size| size != length)
    }

    /// Whether its list says what digest it must have.
    pub(super) fn has_digest(&self) -> bool {
        self.download
            .checksums
            .iter()
            .any(|sum| sum.digest.is_some())
    }

    /// The URL as it may be shown, by which it is known between runs.
    pub(super) fn manifest_url(&self) -> String {
        manifest_url(&self.listed_url)
    }

    /// What the file that comes of it is known by, whichever mirror brings it.
    pub(super) fn resource_id(&self) -> ResourceId {
        ResourceId::from_url(&self.listed_url)
    }

    /// Whether another is asked than its list's URL.
    pub(super) fn uses_mirror(&self) -> bool {
        self.download.url != self.listed_url
    }

    /// The name, by which it is known between runs.
    pub(super) fn manifest_path(&self) -> String {
        manifest_path(&self.path)
    }

    /// Whom it asks: jobs of equal hosts share a limit.
    pub(super) fn host(&self) -> String {
        self.download.url.origin().ascii_serialization()
    }

    /// A row that says how it ended, as far as that is known without an answer.
    pub(super) fn row(&self, state: RowState) -> ManifestRow {
        let total = self
            .first_attempt_at
            .map_or(0, |begun| millis(begun.elapsed()));
        ManifestRow {
            line: manifest_line(self.line),
            url: self.manifest_url(),
            path: Some(self.manifest_path()),
            state,
            status: self.status.map(|status| status.as_u16()),
            bytes: 0,
            checksums: Vec::new(),
            etag: None,
            attempts: self.attempts,
            timings: RowTimings {
                total,
                ..RowTimings::default()
            },
            error: None,
            shard: None,
        }
    }

    /// The same with what an answer said.
    pub(super) fn row_of_response(&self, state: RowState, head: &ResponseInfo) -> ManifestRow {
        let row = self.row(state);
        ManifestRow {
            status: Some(head.status.as_u16()),
            etag: etag(&head.version),
            timings: timed(&head.timings, row.timings.total),
            ..row
        }
    }
}

/// A URL as it may be shown, by which it is known between runs. Where something of it is masked, a digest of all of it stands
/// behind it: two URLs that differ in what nobody may see are two jobs.
pub(super) fn manifest_url(url: &Url) -> String {
    let bare = haul_net::without_credentials(url);
    let shown = haul_net::redacted_url(&bare);
    if shown == bare.as_str() {
        return shown;
    }
    let digest = blake3::hash(bare.as_str().as_bytes()).to_hex();
    format!("{shown}#{}", &digest[..16])
}

/// A path, as it is known between runs.
pub(super) fn manifest_path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The line that a row names: URLs that were typed have none.
pub(super) fn manifest_line(line: u64) -> Option<u64> {
    Some(line).filter(|line| *line > 0)
}

/// The entity tag, as the origin wrote it.
fn etag(version: &ResourceVersion) -> Option<String> {
    version.etag.as_ref().map(ToString::to_string)
}

fn timed(timings: &RequestTimings, total: u64) -> RowTimings {
    RowTimings {
        dns: millis(timings.dns),
        connect: millis(timings.connect),
        tls: millis(timings.tls),
        first_byte: millis(timings.first_byte),
        total,
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
