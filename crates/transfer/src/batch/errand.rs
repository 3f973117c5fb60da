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
use crate::get::quick::ResponseInfo;
use crate::list::ListEntry;
use crate::manifest::{ManifestRow, RowState, RowTimings};
use crate::options::{DownloadJob, JobOutput};

/// A job on its way.
#[derive(Debug)]
pub(super) struct BatchJob {
    /// What the engine is told: URL, final name, checksums.
    pub(super) job: DownloadJob,
    /// The URL of its list, whichever mirror is asked.
    url: Url,
    /// How many of its mirrors, the first ones, were never asked.
    fresh: usize,
    /// Its line in its list.
    pub(super) line: u64,
    /// The final name, or that of an entry in the archive.
    pub(super) path: PathBuf,
    /// Where an entry lies that is too large to be kept in memory until it is in the archive.
    pub(super) staged: Option<PathBuf>,
    /// The file that may be new enough (`--update`).
    pub(super) have: Option<StoredValidators>,
    /// What its failures lead to.
    pub(super) course: FailurePolicy,
    /// Requests so far.
    pub(super) attempts: u32,
    /// The status of the answer that another road goes on with.
    pub(super) status: Option<StatusCode>,
    /// Whether its host has refused it.
    pub(super) refused: bool,
    /// The host that answered the last of them 403, if one did.
    pub(super) denied: Option<String>,
    /// Where what is to be replaced lies, if that is behind a link.
    pub(super) real: Option<PathBuf>,
    /// When the first of them was made.
    pub(super) begun: Option<Instant>,
    /// Which road it goes.
    pub(super) road: BatchJobStrategy,
}

/// Which road a job goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchJobStrategy {
    /// That of a file that comes whole; with a range, or without where ranges were given up.
    Quick {
        /// Whether a range is asked for.
        ranges: bool,
    },
    /// That of partial files: there is one, or a file cannot be without a name here.
    Engine,
    /// None, if the file that is there is the one meant.
    There,
}

impl BatchJob {
    /// A job whose file gets the name `path`, or where it is an entry of an archive, lies under the name `staged` until then.
    pub(super) fn new(
        id: u64,
        entry: ListEntry,
        (path, staged): (PathBuf, Option<PathBuf>),
        retry: &RetryOptions,
    ) -> Self {
        Self {
            url: entry.url.clone(),
            fresh: entry.mirrors.len(),
            job: DownloadJob {
                id,
                url: entry.url,
                output: JobOutput::File(staged.as_ref().unwrap_or(&path).clone()),
                checksums: entry.checksums,
                mirrors: entry.mirrors,
                pieces: entry.pieces,
                named: entry.untrusted_hosts.then(Vec::new),
                size: entry.size,
                headers: entry.headers,
            },
            line: entry.line,
            path,
            staged,
            have: None,
            course: FailurePolicy::new(retry.clone()),
            attempts: 0,
            status: None,
            refused: false,
            denied: None,
            real: None,
            begun: None,
            road: BatchJobStrategy::Quick { ranges: true },
        }
        .with_pieces()
    }

    /// Digests of pieces are looked at on the roads of partial files alone.
    fn with_pieces(mut self) -> Self {
        if self.job.pieces.is_some() {
            self.road = BatchJobStrategy::Engine;
        }
        self
    }

    /// The file that is written to.
    pub(super) fn target(&self) -> DownloadPaths {
        let path = self.staged.as_ref().or(self.real.as_ref());
        DownloadPaths::new(path.unwrap_or(&self.path).clone())
    }

    /// Takes the roads of partial files, if it goes another; false if it does not.
    pub(super) fn turn_to_engine(&mut self) -> bool {
        let quick = matches!(self.road, BatchJobStrategy::Quick { .. });
        if quick {
            self.road = BatchJobStrategy::Engine;
        }
        quick
    }

    /// Goes to where else the file can be had, with a fresh budget; false where there is nowhere.
    pub(super) fn turn_to_mirror(&mut self, retry: &RetryOptions) -> bool {
        if self.job.mirrors.is_empty() {
            return false;
        }
        self.job.url = self.job.mirrors.remove(0);
        // What another host has said is not this one's word.
        (self.denied, self.refused) = (None, false);
        self.fresh = self.fresh.saturating_sub(1);
        self.course = FailurePolicy::new(retry.clone());
        if self.job.pieces.is_none() {
            self.road = BatchJobStrategy::Quick { ranges: true };
        }
        true
    }

    /// After a few breaks of one source goes to one that was never asked, if there is any; the one that broke is asked again after all
    /// others, and then with all the patience that there is.
    pub(super) fn turn_from_breaks(
        &mut self,
        trouble: RequestFailure,
        retry: &RetryOptions,
    ) -> bool {
        // The course has counted this one already.
        if self.fresh == 0 || !breaks_enough(trouble, self.course.retries()) {
            return false;
        }
        self.job.mirrors.push(self.job.url.clone());
        self.turn_to_mirror(retry)
    }

    /// What its answer must be, by what is expected of all of them and what its list says.
    pub(super) fn expect(&self, all: &ContentExpectation) -> ContentExpectation {
        ContentExpectation {
            exact_length: self.job.size.or(all.exact_length),
            ..all.clone()
        }
    }

    /// Whether a file of this length is known to be another than the one meant.
    pub(super) fn is_other(&self, length: u64) -> bool {
        self.job.size.is_some_and(|size| size != length)
    }

    /// Whether its list says what digest it must have.
    pub(super) fn is_checked(&self) -> bool {
        self.job.checksums.iter().any(|sum| sum.digest.is_some())
    }

    /// The URL as it may be shown, by which it is known between runs.
    pub(super) fn shown(&self) -> String {
        shown(&self.url)
    }

    /// What the file that comes of it is known by, whichever mirror brings it.
    pub(super) fn resource(&self) -> ResourceId {
        ResourceId::from_url(&self.url)
    }

    /// Whether another is asked than its list's URL.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.job.url != self.url
    }

    /// The name, by which it is known between runs.
    pub(super) fn name(&self) -> String {
        named(&self.path)
    }

    /// Whom it asks: jobs of equal hosts share a limit.
    pub(super) fn host(&self) -> String {
        self.job.url.origin().ascii_serialization()
    }

    /// A row that says how it ended, as far as that is known without an answer.
    pub(super) fn row(&self, state: RowState) -> ManifestRow {
        let total = self.begun.map_or(0, |begun| millis(begun.elapsed()));
        ManifestRow {
            line: line(self.line),
            url: self.shown(),
            path: Some(self.name()),
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
    pub(super) fn answered(&self, state: RowState, head: &ResponseInfo) -> ManifestRow {
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
pub(super) fn shown(url: &Url) -> String {
    let bare = haul_net::without_credentials(url);
    let shown = haul_net::redacted_url(&bare);
    if shown == bare.as_str() {
        return shown;
    }
    let digest = blake3::hash(bare.as_str().as_bytes()).to_hex();
    format!("{shown}#{}", &digest[..16])
}

/// A path, as it is known between runs.
pub(super) fn named(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The line that a row names: URLs that were typed have none.
pub(super) fn line(line: u64) -> Option<u64> {
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
