//! The uploads of a run, found on a thread of their own while others are under way.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use haul_transfer::put::UploadJob;
use haul_transfer::{FolderProblem, FolderProblemKind};
use tokio::sync::mpsc;

use crate::exit::ExitReason;
use crate::message;

/// Uploads that are found ahead of those under way.
const JOBS_AHEAD: usize = 256;

/// A file that cannot be uploaded.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct BadInput {
    /// The code, if nothing else fails.
    pub(crate) exit: ExitReason,
    pub(crate) text: String,
    pub(crate) hint: Option<&'static str>,
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
            hint: Some(hint),
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
        match (self.exit, self.hint) {
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
    /// How many were left out since an earlier run has uploaded them.
    pub(crate) done_earlier: Arc<AtomicU64>,
    /// How many were left out since they are partial files of haul.
    pub(crate) partial_files: Arc<AtomicU64>,
}

impl UploadJobSource {
    /// Runs an iterator that may wait on a thread of its own, which ends when nobody wants more.
    pub(crate) fn from_iterator(
        jobs: impl Iterator<Item = FoundUpload> + Send + 'static,
        known_count: Option<usize>,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(JOBS_AHEAD);
        tokio::task::spawn_blocking(move || {
            for job in jobs {
                if sender.blocking_send(job).is_err() {
                    return;
                }
            }
        });
        Self {
            jobs: receiver,
            known_count,
            done_earlier: Arc::default(),
            partial_files: Arc::default(),
        }
    }
}
