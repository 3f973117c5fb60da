//! One job of a batch: what it downloads, and its state between attempts.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_net::RequestTimings;
use haul_plan::Checksum;
use http::{HeaderName, HeaderValue, StatusCode};
use tokio::time::Instant;
use url::Url;

use crate::disk::{DownloadPaths, StoredValidators};
use crate::get::{PieceDigests, ResponseInfo};
use crate::layout::ResourceId;
use crate::list::ListEntry;
use crate::listed_version::ListedVersion;
use crate::manifest::{JobRowState, ManifestRow, RowTimings};
use crate::options::{DownloadJob, JobOutput};
use crate::recovery::{RecoveryPolicy, RetryOptions};
use crate::response::ContentExpectation;
use crate::sources::{NextSource, SourceSet};

#[derive(Debug)]
pub(super) struct BatchJob {
    /// The job for the engine: URL, output path, checksums.
    pub(super) download: DownloadJob,
    /// The number of the source in use; see [`DownloadJob::source_urls`].
    source: usize,
    /// Decides what follows a failure. Made at the first failure: most jobs do not fail.
    recovery: Option<Box<RecoveryPolicy>>,
    pub(super) line: u64,
    /// The final path of the file, or the name of its entry in the archive. A file that has neither is known by its staging
    /// path.
    pub(super) path: PathBuf,
    /// Unless the file goes to its final path: where it is stored if it is too large to be kept in memory.
    pub(super) staging_path: Option<PathBuf>,
    /// The version that the list names.
    pub(super) listed: Option<ListedVersion>,
    /// The validators of an existing file that may be up to date (`--update`).
    pub(super) stored_validators: Option<StoredValidators>,
    /// Requests made so far.
    pub(super) attempts: u32,
    /// The status of a response that the partial-file strategy continues.
    pub(super) status: Option<StatusCode>,
    /// Whether the host has refused a request of this job.
    pub(super) host_refused: bool,
    /// The host that answered the last attempts with 403, and how often the request was repeated because of that.
    pub(super) forbidding_host: Option<(String, u32)>,
    /// The file behind the link at `path`, if the file to be replaced is behind a link.
    pub(super) link_target: Option<PathBuf>,
    /// When the first attempt began.
    pub(super) first_attempt_at: Option<Instant>,
    /// How the job is carried out.
    pub(super) strategy: BatchJobStrategy,
}

/// How a job is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchJobStrategy {
    /// By one response with the whole file.
    SingleResponse {
        /// Whether the request asks for a range. Not any more after ranges have failed.
        ranges: bool,
    },
    /// Through a partial file: one exists, or the file system has no unnamed files.
    PartialFile,
    /// By verifying the file that exists already, without a request.
    VerifyExisting,
}

impl BatchJob {
    /// A job for an entry of a list. `staging_path` is where a large file is stored meanwhile, unless that is `path`.
    pub(super) fn new(
        id: u64,
        entry: ListEntry,
        path: PathBuf,
        staging_path: Option<PathBuf>,
    ) -> Self {
        // Only a partial file is checked against digests of pieces.
        let strategy = match entry.pieces {
            Some(_) => BatchJobStrategy::PartialFile,
            None => BatchJobStrategy::SingleResponse { ranges: true },
        };
        let of_size = |size| ListedVersion {
            size,
            ..ListedVersion::default()
        };
        let listed = entry.listed.or_else(|| entry.size.map(of_size));
        Self {
            source: 0,
            recovery: None,
            download: DownloadJob {
                id,
                url: entry.url,
                output: JobOutput::File(staging_path.as_ref().unwrap_or(&path).clone()),
                checksums: entry.checksums,
                mirrors: entry.mirrors,
                piece_digests: entry.pieces,
                credential_urls: entry.untrusted_hosts.then(Vec::new),
                expected_size: entry.size,
                replaces_file: false,
                headers: entry.headers,
            },
            line: entry.line,
            path,
            staging_path,
            listed,
            stored_validators: None,
            attempts: 0,
            status: None,
            host_refused: false,
            forbidding_host: None,
            link_target: None,
            first_attempt_at: None,
            strategy,
        }
    }

    pub(super) fn written_path(&self) -> &Path {
        let path = self.staging_path.as_ref().or(self.link_target.as_ref());
        path.unwrap_or(&self.path)
    }

    /// The paths of the file that is written.
    pub(super) fn paths(&self) -> DownloadPaths {
        DownloadPaths::new(self.written_path().to_owned())
    }

    /// Switches from a single response to a partial file. False when the job already had another strategy.
    pub(super) fn use_partial_file(&mut self) -> bool {
        let switches = matches!(self.strategy, BatchJobStrategy::SingleResponse { .. });
        if switches {
            self.strategy = BatchJobStrategy::PartialFile;
        }
        switches
    }

    /// Decides what failures lead to.
    pub(super) fn recovery(&mut self, retry: &RetryOptions) -> &mut RecoveryPolicy {
        self.recovery.get_or_insert_with(|| {
            let mut recovery = RecoveryPolicy::for_single_responses(retry.clone());
            for _ in self.download.source_urls() {
                recovery.add_source(true);
            }
            Box::new(recovery)
        })
    }

    /// The state of the sources; `None` until one has failed.
    pub(super) fn failed_sources(&self) -> Option<&SourceSet> {
        self.recovery.as_ref().map(|recovery| recovery.sources())
    }

    /// Whether another source than the one in use may have the file.
    pub(super) fn has_other_sources(&self) -> bool {
        match &self.recovery {
            Some(recovery) => recovery.sources().live_count() > 1,
            None => self.download.source_urls().nth(1).is_some(),
        }
    }

    /// Drops the source in use and switches to the next one. False when there is none.
    pub(super) fn fail_over(&mut self, reason: &str, retry: &RetryOptions, now: Duration) -> bool {
        let source = self.source;
        let next = self.recovery(retry).fail_over(source, reason, now);
        self.switch_to(next)
    }

    /// Switches to the source whose turn it is. False when there is none.
    pub(super) fn use_next_source(&mut self, retry: &RetryOptions, now: Duration) -> bool {
        let next = self.recovery(retry).next_source(now);
        self.switch_to(next)
    }

    fn switch_to(&mut self, next: Option<NextSource>) -> bool {
        let Some(next) = next else {
            return false;
        };
        if next.source != self.source {
            self.source = next.source;
            // What one host has answered says nothing about another.
            self.forbidding_host = None;
            self.host_refused = false;
            if self.download.piece_digests.is_none() {
                self.strategy = BatchJobStrategy::SingleResponse { ranges: true };
            }
        }
        true
    }

    /// What the response must be: the expectation for all jobs, and the size and the version from the list.
    pub(super) fn content_expectation(&self, all: &ContentExpectation) -> ContentExpectation {
        ContentExpectation {
            exact_length: self.download.expected_size.or(all.exact_length),
            listed: self.listed.clone(),
            ..all.clone()
        }
    }

    /// The entity tag of the file to update.
    pub(super) fn stored_tag(&self) -> Option<&str> {
        self.stored_validators.as_ref()?.etag.as_deref()
    }

    /// Bytes that the file has by its list.
    pub(super) fn listed_size(&self) -> Option<u64> {
        self.listed.as_ref().map(|listed| listed.size)
    }

    /// Whether the list gives a digest.
    pub(super) fn has_digest(&self) -> bool {
        self.download
            .checksums
            .iter()
            .any(|sum| sum.digest.is_some())
    }

    /// About the memory of a job that waits, in bytes.
    pub(super) fn memory(&self) -> usize {
        let download = &self.download;
        let url_memory = |url: &Url| size_of::<Url>() + url.as_str().len();
        let header_memory =
            |(name, value): (&HeaderName, &HeaderValue)| 100 + name.as_str().len() + value.len();
        size_of::<Self>()
            + download.url.as_str().len()
            + download.mirrors.iter().map(url_memory).sum::<usize>()
            + download.headers.iter().map(header_memory).sum::<usize>()
            + 2 * self.path.as_os_str().len()
            + download.checksums.len() * (size_of::<Checksum>() + 64)
            + download
                .piece_digests
                .as_ref()
                .map_or(0, PieceDigests::memory)
    }

    /// The URL in the manifest, which identifies the job between runs.
    pub(super) fn manifest_url(&self) -> String {
        manifest_url(&self.download.url)
    }

    /// The identity of the file, whichever mirror it comes from.
    pub(super) fn resource_id(&self) -> ResourceId {
        ResourceId::from_url(&self.download.url)
    }

    /// The number of the source in use.
    pub(super) fn source(&self) -> usize {
        self.source
    }

    /// The URL of the source in use.
    pub(super) fn url(&self) -> &Url {
        let listed = &self.download.url;
        match self.source {
            0 => listed,
            source => self.download.source_urls().nth(source).unwrap_or(listed),
        }
    }

    /// Whether the file has a path, or is an entry with a path. Otherwise it is only staged.
    fn has_path(&self) -> bool {
        let staging_path = self.staging_path.as_ref();
        staging_path.is_none_or(|staging| staging.as_os_str() != self.path.as_os_str())
    }

    /// The path in the manifest, which identifies the job between runs.
    pub(super) fn manifest_path(&self) -> String {
        manifest_path(&self.path)
    }

    /// The origin of the current URL. Jobs of one origin share its connection limit.
    pub(super) fn host(&self) -> Cow<'_, str> {
        haul_net::origin_text(self.url())
    }

    /// A row about this job, as far as it is known without a response.
    pub(super) fn row(&self, state: JobRowState) -> ManifestRow {
        let total = self
            .first_attempt_at
            .map_or(0, |begun| millis(begun.elapsed()));
        ManifestRow {
            path: self.has_path().then(|| self.manifest_path()),
            status: self.status.map(|status| status.as_u16()),
            attempts: self.attempts,
            timings: RowTimings {
                total,
                ..RowTimings::default()
            },
            listed_size: self.listed_size(),
            ..ManifestRow::new(manifest_line(self.line), self.manifest_url(), state)
        }
    }

    pub(super) fn row_of_response(&self, state: JobRowState, head: &ResponseInfo) -> ManifestRow {
        let row = self.row(state);
        ManifestRow {
            status: Some(head.status.as_u16()),
            etag: head.version.etag_text(),
            timings: row_timings(&head.timings, row.timings.total),
            ..row
        }
    }
}

/// A URL as it appears in the manifest. If something in it is redacted, a digest of the whole URL is appended: two URLs
/// that differ only in a redacted part are two jobs.
pub(super) fn manifest_url(url: &Url) -> String {
    let shown = haul_net::redacted_url(url);
    if shown == url.as_str() || url.scheme() == "s3" {
        return shown;
    }
    let bare = haul_net::without_credentials(url);
    let bare = haul_net::url_text(&bare);
    if shown == bare {
        return shown;
    }
    let digest = blake3::hash(bare.as_bytes()).to_hex();
    format!("{shown}#{}", &digest[..16])
}

pub(super) fn manifest_path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The line as it appears in the manifest: `None` for URLs of the command line.
pub(super) fn manifest_line(line: u64) -> Option<u64> {
    Some(line).filter(|line| *line > 0)
}

fn row_timings(timings: &RequestTimings, total: u64) -> RowTimings {
    RowTimings {
        dns: millis(timings.dns),
        connect: millis(timings.connect),
        tls: millis(timings.tls),
        first_byte: millis(timings.first_byte),
        total,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_list_may_have_much_of_counts_as_memory() {
        let memory = |entry| BatchJob::new(0, entry, "d/f".into(), None).memory();
        let entry = || ListEntry::new(1, "http://h.test/a".parse().unwrap());
        let url = || {
            format!("http://h.test/{}", "a".repeat(1000))
                .parse()
                .unwrap()
        };
        let small = memory(entry());
        let mut with_headers = entry();
        let value = HeaderValue::try_from("x".repeat(1000)).unwrap();
        with_headers.headers.append("x-a", value);
        let large = [
            with_headers,
            ListEntry::new(1, url()),
            ListEntry {
                mirrors: vec![url()],
                ..entry()
            },
        ];
        for entry in large {
            assert!((900..1300).contains(&(memory(entry) - small)));
        }
    }
}
