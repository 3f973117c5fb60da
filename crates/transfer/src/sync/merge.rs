//! Carries out the merge of both lists: what is to copy goes on, contents are compared, what is to delete is written down.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_s3::S3Address;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle, JoinSet};

use super::comparison::{SyncDecision, SyncEntry};
use super::content::{ContentError, file_has_content, object_digests};
use super::deletion_list::DeletionList;
use super::merge_decisions::{SyncMerge, SyncMergeError};
use super::place::{SyncPlace, SyncSettings, SyncSides};
use crate::bucket::{BucketError, path_of_key};
use crate::folder_walk::FolderProblem;
use crate::input_error::InputError;

/// Decisions that wait for those who carry them out.
const DECISIONS_AHEAD: usize = 1024;

/// Contents that are compared at a time.
const PARALLEL_COMPARISONS: usize = 16;

/// A file to copy, or why something is not.
pub(super) type FoundCopy = Result<SyncEntry, InputError>;

/// What the merge found beside files to copy.
#[derive(Debug)]
pub(super) struct MergeOutcome {
    pub(super) deletions: DeletionList,
    /// Whether there was more to delete than allowed.
    pub(super) is_refused: bool,
    pub(super) has_source_files: bool,
    /// Whether both lists were read to their ends.
    pub(super) is_complete: bool,
}

impl MergeOutcome {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            deletions: DeletionList::new()?,
            is_refused: false,
            has_source_files: false,
            is_complete: false,
        })
    }
}

/// A step of the merge that others carry out.
enum SyncStep {
    Copy(FoundCopy),
    Compare(SyncEntry, SyncEntry),
}

/// A merge that runs.
#[derive(Debug)]
pub(super) struct RunningMerge {
    pub(super) outcome: JoinHandle<std::io::Result<MergeOutcome>>,
    /// What could not be read in folders.
    pub(super) problems: ProblemReporter,
    /// The task that compares contents; it ends when this is dropped.
    _comparisons: JoinSet<()>,
}

/// Passes on what cannot be read in folders.
#[derive(Debug, Clone)]
pub(super) struct ProblemReporter {
    steps: mpsc::WeakSender<SyncStep>,
    /// Names and folders that could not be read: their files may be missing from the lists.
    pub(super) unreadable_names: Arc<AtomicU64>,
    /// How many names are known and left out by their kind.
    pub(super) left_out: Arc<AtomicU64>,
}

impl ProblemReporter {
    /// For a thread that may wait.
    pub(super) fn report(&self, problem: FolderProblem) {
        let counter = if problem.is_left_out() {
            &self.left_out
        } else {
            &self.unreadable_names
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.send(InputError::InFolder(problem));
    }

    fn leave_out(&self, reason: InputError) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
        self.send(reason);
    }

    fn send(&self, reason: InputError) {
        if let Some(steps) = self.steps.upgrade() {
            // Nobody reads when the run has ended.
            let _ = steps.blocking_send(SyncStep::Copy(Err(reason)));
        }
    }

    /// What the destination has and is not written to matters only where the source has something below it, which the merge reports.
    pub(super) fn report_of_destination(&self, problem: FolderProblem) {
        if !problem.is_left_out() {
            self.report(problem);
        }
    }
}

/// Starts a merge on a thread that reads both lists. Also returns the files to copy.
pub(super) fn start_merge(
    sides: SyncSides,
    settings: SyncSettings,
) -> (RunningMerge, mpsc::Receiver<FoundCopy>) {
    let (step_sender, steps) = mpsc::channel(DECISIONS_AHEAD);
    let (copy_sender, copies) = mpsc::channel(DECISIONS_AHEAD);
    let problems = ProblemReporter {
        steps: step_sender.downgrade(),
        unreadable_names: Arc::default(),
        left_out: Arc::default(),
    };
    let (reporter, merged, runtime) = (problems.clone(), sides.clone(), Handle::current());
    let outcome = tokio::task::spawn_blocking(move || {
        // Lists of objects are tasks.
        let _entered = runtime.enter();
        let (of_source, of_destination) = (reporter.clone(), reporter.clone());
        let source = settings.source_entries(&merged, move |problem| of_source.report(problem))?;
        let destination = settings.destination_entries(&merged, move |problem| {
            of_destination.report_of_destination(problem);
        })?;
        let decisions = SyncMerge::new(settings.options, source, destination);
        merge(&merged, decisions, &step_sender, &reporter)
    });
    let mut comparisons = JoinSet::new();
    comparisons.spawn(async move { compare_contents(&sides, steps, copy_sender).await });
    let merge = RunningMerge {
        outcome,
        problems,
        _comparisons: comparisons,
    };
    (merge, copies)
}

fn merge(
    sides: &SyncSides,
    decisions: impl Iterator<Item = Result<SyncDecision, SyncMergeError<BucketError>>>,
    steps: &mpsc::Sender<SyncStep>,
    problems: &ProblemReporter,
) -> std::io::Result<MergeOutcome> {
    let mut outcome = MergeOutcome::new()?;
    let mut last_link = None;
    for decision in decisions {
        if sides.session.stop.is_cancelled() {
            return Ok(outcome);
        }
        let step = match decision {
            Ok(SyncDecision::Delete(entry)) => {
                outcome.deletions.push(&entry.key)?;
                continue;
            }
            Ok(SyncDecision::DeleteRefused(_)) => {
                outcome.is_refused = true;
                continue;
            }
            // It was reported when it was found.
            Ok(SyncDecision::LeaveOut(_)) => continue,
            Ok(SyncDecision::BehindLink { link, .. }) => {
                outcome.has_source_files = true;
                if last_link.as_ref() == Some(&link) {
                    continue;
                }
                let name = sides.destination.name_of(link.trim_end_matches('/'));
                last_link = Some(link);
                problems.leave_out(InputError::BehindLink(name));
                continue;
            }
            Ok(SyncDecision::Keep) => {
                outcome.has_source_files = true;
                continue;
            }
            Ok(SyncDecision::Create(entry)) if sides.has_name_of(&entry) => {
                outcome.has_source_files = true;
                let name = sides.destination.name_of(&entry.key);
                problems.leave_out(InputError::FoldedName(name));
                continue;
            }
            Ok(SyncDecision::Create(entry) | SyncDecision::Copy(entry)) => {
                SyncStep::Copy(Ok(entry))
            }
            Ok(SyncDecision::CompareContent {
                source,
                destination,
            }) => SyncStep::Compare(source, destination),
            Err(error) => {
                let error = match error {
                    SyncMergeError::List(error) => error.into(),
                    SyncMergeError::Disordered { .. } => InputError::Disordered(error.to_string()),
                };
                let _ = steps.blocking_send(SyncStep::Copy(Err(error)));
                return Ok(outcome);
            }
        };
        outcome.has_source_files = true;
        if steps.blocking_send(step).is_err() {
            return Ok(outcome);
        }
    }
    outcome.is_complete = true;
    Ok(outcome)
}

/// Compares contents where the merge wants it, and passes on what is to copy.
async fn compare_contents(
    sides: &SyncSides,
    mut steps: mpsc::Receiver<SyncStep>,
    copies: mpsc::Sender<FoundCopy>,
) {
    let mut comparisons: JoinSet<Option<FoundCopy>> = JoinSet::new();
    let passed_on = |ended: Result<Option<FoundCopy>, JoinError>| {
        ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    };
    loop {
        let copy = tokio::select! {
            Some(ended) = comparisons.join_next() => passed_on(ended),
            Some(step) = steps.recv(), if comparisons.len() < PARALLEL_COMPARISONS => match step {
                SyncStep::Copy(copy) => Some(copy),
                SyncStep::Compare(source, destination) => {
                    let sides = sides.clone();
                    comparisons.spawn(async move {
                        match sides.have_same_content(&source, &destination).await {
                            Ok(true) => None,
                            Ok(false) => Some(Ok(source)),
                            Err(error) => Some(Err(InputError::Comparison {
                                name: sides.source.name_of(&source.key),
                                source: Box::new(error),
                            })),
                        }
                    });
                    None
                }
            },
            else => return,
        };
        if let Some(copy) = copy
            && copies.send(copy).await.is_err()
        {
            return;
        }
    }
}

impl SyncSides {
    /// Whether the destination's folder finds a file under a name that it did not list. A folder of that name is an error of the copy,
    /// and nothing is deleted then.
    fn has_name_of(&self, missing: &SyncEntry) -> bool {
        let folder = self.destination.folder();
        let path = folder.zip(path_of_key(&missing.key).ok());
        path.is_some_and(|(folder, path)| {
            let found = folder.join(path).symlink_metadata();
            found.is_ok_and(|found| !found.is_dir())
        })
    }

    async fn have_same_content(
        &self,
        source: &SyncEntry,
        destination: &SyncEntry,
    ) -> Result<bool, ContentError> {
        match (&self.source, &self.destination) {
            (SyncPlace::Folder(root), SyncPlace::Bucket(prefix)) => {
                self.has_content_of(prefix, &destination.key, root).await
            }
            (SyncPlace::Bucket(prefix), SyncPlace::Folder(root)) => {
                self.has_content_of(prefix, &source.key, root).await
            }
            (SyncPlace::Bucket(from), SyncPlace::Bucket(to)) => {
                let one = self.digests(from, &source.key).await?;
                let other = self.digests(to, &destination.key).await?;
                Ok(one.is_same_content(&other) == Some(true))
            }
            // There is no sync between folders.
            (SyncPlace::Folder(_), SyncPlace::Folder(_)) => Ok(false),
        }
    }

    async fn has_content_of(
        &self,
        prefix: &S3Address,
        key: &str,
        root: &Path,
    ) -> Result<bool, ContentError> {
        let digests = self.digests(prefix, key).await?;
        let path = root.join(key);
        let compared = tokio::task::spawn_blocking(move || file_has_content(&path, &digests))
            .await
            .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        Ok(compared?)
    }

    async fn digests(
        &self,
        prefix: &S3Address,
        key: &str,
    ) -> Result<crate::sync::ObjectDigests, BucketError> {
        let object = prefix.with_key(format!("{}{key}", prefix.key));
        object_digests(&self.session, &object).await
    }
}
