//! The uploads of a run, found on a thread of their own while others are under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use haul_transfer::batch::BatchSummary;
use haul_transfer::put::{UploadInput, UploadJob};
use haul_transfer::{FolderProblem, FolderProblemKind};
use tokio::sync::mpsc;

use crate::exit::ExitReason;
use crate::message;

/// Uploads that are found ahead of those under way: some megabytes, so that the totals of most folders are known at once.
const JOBS_AHEAD: usize = 8192;

/// A file that cannot be uploaded.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct BadInput {
    /// The code, if nothing else fails.
    pub(crate) exit: ExitReason,
    pub(crate) text: String,
    pub(crate) hint: Option<String>,
}

impl BadInput {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            exit: ExitReason::LocalIo,
            text: text.into(),
            hint: None,
        }
    }

    pub(crate) fn with_hint(self, hint: &'static str) -> Self {
        Self {
            hint: Some(hint.to_owned()),
            ..self
        }
    }

    /// Something that is no file, or that haul does not follow. The user may know that, so the message is a warning.
    pub(crate) fn left_out(text: impl Into<String>) -> Self {
        Self {
            exit: ExitReason::SomeFailed,
            ..Self::new(text)
        }
    }

    /// The message as printed.
    pub(crate) fn message(&self) -> String {
        let text = message::sanitize(&self.text);
        match (self.exit, self.hint.as_deref()) {
            (ExitReason::SomeFailed, hint) => message::warning_with_hint(&text, hint),
            (_, hint) => message::error_text(&text, hint),
        }
    }
}

/// What a user can do about a link to a folder.
pub(crate) const FOLLOW_LINKS_HINT: &str = "--follow-links follows such links";

/// A name of a folder that is not uploaded.
pub(crate) fn folder_problem(problem: &FolderProblem) -> BadInput {
    let text = problem.to_string();
    match problem.kind {
        FolderProblemKind::FolderLink => BadInput::left_out(text).with_hint(FOLLOW_LINKS_HINT),
        _ if problem.is_left_out() => BadInput::left_out(text),
        _ => BadInput::new(text),
    }
}

/// An upload, or why something is not uploaded.
pub(crate) type FoundUpload = Result<UploadJob, BadInput>;

/// Where a run's uploads come from: they are found as they are needed, since a folder or a bucket may have millions.
#[derive(Debug)]
pub(crate) struct UploadJobSource {
    pub(crate) jobs: mpsc::Receiver<FoundUpload>,
    /// How many there are, if that is known before.
    pub(crate) known_count: Option<usize>,
    /// What was found so far.
    pub(crate) totals: Arc<FoundTotals>,
    /// How many were left out since an earlier run has uploaded them.
    pub(crate) done_earlier: Arc<AtomicU64>,
    /// How many were left out since they are partial files of haul.
    pub(crate) partial_files: Arc<AtomicU64>,
}

/// What a run will upload, as far as it was found.
#[derive(Debug, Default)]
pub(crate) struct FoundTotals {
    files: AtomicU64,
    bytes: AtomicU64,
    /// Whether the size of some is unknown.
    is_unsized: AtomicBool,
    /// Whether all were found.
    is_complete: AtomicBool,
}

impl FoundTotals {
    fn add(&self, found: &FoundUpload) {
        self.files.fetch_add(1, Ordering::Relaxed);
        let Ok(job) = found else { return };
        let size = match &job.input {
            UploadInput::File(path) => std::fs::metadata(path).map(|found| found.len()).ok(),
            UploadInput::Object(source) => Some(source.size),
            UploadInput::Stdin => None,
        };
        match size {
            Some(size) => {
                self.bytes.fetch_add(size, Ordering::Relaxed);
            }
            None => self.is_unsized.store(true, Ordering::Relaxed),
        }
    }

    /// Enters the totals into a summary.
    pub(super) fn fill(&self, summary: &mut BatchSummary) {
        summary.list_complete = self.is_complete.load(Ordering::Relaxed);
        summary.listed = self.files.load(Ordering::Relaxed);
        let is_sized = !self.is_unsized.load(Ordering::Relaxed);
        summary.planned_bytes = is_sized.then(|| self.bytes.load(Ordering::Relaxed));
    }
}

impl UploadJobSource {
    /// Runs an iterator that may wait on a thread of its own, which ends when nobody wants more.
    pub(crate) fn from_iterator(
        jobs: impl Iterator<Item = FoundUpload> + Send + 'static,
        known_count: Option<usize>,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(JOBS_AHEAD);
        let totals = Arc::new(FoundTotals::default());
        let found = Arc::clone(&totals);
        tokio::task::spawn_blocking(move || {
            for job in jobs {
                found.add(&job);
                if sender.blocking_send(job).is_err() {
                    return;
                }
            }
            found.is_complete.store(true, Ordering::Relaxed);
        });
        Self {
            jobs: receiver,
            known_count,
            totals,
            done_earlier: Arc::default(),
            partial_files: Arc::default(),
        }
    }
}
