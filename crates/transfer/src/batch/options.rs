//! What a caller says about a batch, and what it gets back: plain data.

use std::path::PathBuf;
use std::time::Duration;

use haul_plan::dispatch::JobDispatcherOptions;
use haul_plan::{Checksum, ErrorLimit, PathLayout};

use url::Url;

use crate::error::ErrorClass;

/// Settings of a [`Batch`](super::Batch).
#[derive(Debug, Clone)]
pub struct BatchOptions {
    /// Where files go, beneath it.
    pub directory: PathBuf,
    /// How many jobs and connections at once.
    pub dispatch: JobDispatcherOptions,
    /// How paths are made of URLs.
    pub layout: PathLayout,
    /// How many jobs may fail before the rest is not tried.
    pub error_limit: Option<ErrorLimit>,
    /// Checksums to compute for each file (without a digest), beside those of its entry.
    pub checksums: Vec<Checksum>,
    /// Whether each end is told as an event, and not only those of failed jobs.
    pub report_every_row: bool,
    /// When a group of files is synced and named.
    pub commit_group: CommitGroupOptions,
    /// The longest that a small file's body may take (and a second more for each KiB) before it is asked for on a road where what
    /// comes of it outlives a break.
    pub body_timeout: Duration,
}

/// How many files share a sync. What a power cut costs is one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitGroupOptions {
    /// Files, at most: each of them is an open one until it has its name.
    pub max_files: usize,
    /// Bytes, about.
    pub max_bytes: u64,
    /// The longest that a file waits for others.
    pub linger: Duration,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            directory: PathBuf::new(),
            dispatch: JobDispatcherOptions::default(),
            layout: PathLayout::default(),
            error_limit: None,
            checksums: Vec::new(),
            report_every_row: false,
            commit_group: CommitGroupOptions::default(),
            // Longer than what ends well by itself.
            body_timeout: Duration::from_secs(60),
        }
    }
}

impl Default for CommitGroupOptions {
    fn default() -> Self {
        Self {
            // A sync costs a few milliseconds to tens of them, so that 256 files share it; the usual limit of open files is 1024.
            max_files: 256,
            // A second or less of a fast disk.
            max_bytes: 64 << 20,
            // What somebody who watches a directory hardly sees.
            linger: Duration::from_millis(500),
        }
    }
}

/// How a batch stands, or ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchSummary {
    /// Jobs that the lists named so far, lines that could not be read among them.
    pub listed: u64,
    /// Whether that is all of them.
    pub list_complete: bool,
    /// Files that came and are in their place.
    pub done: u64,
    /// Jobs that an earlier run has done, as the manifest says; nothing was asked.
    pub done_earlier: u64,
    /// Jobs of which nothing was asked, or nothing new was to be had.
    pub skipped: u64,
    /// Jobs without their file.
    pub failed: u64,
    /// Tries that failed and were followed by another.
    pub retries: u64,
    /// Bytes of bodies, as they came.
    pub bytes: u64,
    /// What made jobs fail, the most frequent first.
    pub failure_groups: Vec<FailureGroup>,
    /// Why the batch ended before its lists, if it did so by itself.
    pub halted: Option<BatchHalt>,
}

/// Why a batch ended by itself before its lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchHalt {
    /// Of what kind that is.
    pub kind: BatchHaltKind,
    /// In words.
    pub reason: String,
}

/// What kind of reason it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchHaltKind {
    /// More jobs failed than may.
    TooManyFailures,
    /// This machine takes no more: its disk is full, say.
    LocalIo,
    /// Whoever read the archive is gone.
    ReaderGone,
}

/// Why jobs failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureGroup {
    /// Of what kind.
    pub class: ErrorClass,
    /// In a few words, without a URL.
    pub cause: String,
    /// How many.
    pub count: u64,
    /// The first of them, as it was told.
    pub example: String,
}

/// A look at a running batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchSnapshot {
    /// What came of the jobs so far; without causes.
    pub summary: BatchSummary,
    /// Jobs that run.
    pub running: usize,
    /// The one of them that has run for longest.
    pub slowest: Option<SlowJob>,
}

/// A job that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowJob {
    /// What it fetches; carries no login, but may hold other secrets: see [`haul_net::redacted_url`].
    pub url: Url,
    /// For how long it has run.
    pub elapsed: Duration,
    /// Bytes of it that are there, where that is known.
    pub bytes: Option<u64>,
}
