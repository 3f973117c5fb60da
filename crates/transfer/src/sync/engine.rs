//! A sync: makes one side like the other.
//!
//! A thread reads both lists and merges them. What is to copy is copied while the lists are still being read. What is to delete waits until
//! both lists were read to their ends and nothing has failed.

use std::io;

use haul_plan::KeyFilter;
use haul_plan::sync::{SyncComparison, SyncOptions};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};

use super::copies::SyncCopies;
use super::deletion_list::DeletionList;
use super::local_file_entries::delete_file;
use super::merge::{MergeOutcome, OpenLists, ProblemReporter, start_merge};
use super::place::{SyncLists, SyncPlace, SyncSides};
use crate::bucket::{
    BucketError, DeletedFiles, DeletionError, DeletionFailure, DeletionOptions, DeletionSummary,
    ObjectDeletion,
};
use crate::event::{TransferEvent, TransferEventSender};
use crate::put::ObjectHeaders;

/// How two places are made alike.
#[derive(Debug, Clone)]
pub struct SyncSettings {
    /// What is copied and deleted.
    pub options: SyncOptions,
    /// Which files are meant, on both sides.
    pub filter: KeyFilter,
    /// Whether links to folders are followed, on both sides.
    pub follows_links: bool,
    /// The fields of objects that are stored.
    pub headers: ObjectHeaders,
    /// Whether everything may be deleted because the source has no files.
    pub allows_empty_source: bool,
}

/// A sync under way. The first step is to copy what [`RunningSync::start`] returns, the second [`RunningSync::deletions`].
#[derive(Debug)]
pub struct RunningSync {
    sides: SyncSides,
    allows_empty_source: bool,
    outcome: JoinHandle<io::Result<MergeOutcome>>,
    /// What could not be read in folders.
    problems: ProblemReporter,
    /// The task that compares contents; it ends when this is dropped.
    _comparisons: JoinSet<()>,
}

/// What only the destination has.
#[derive(Debug)]
pub struct SyncDeletions {
    sides: SyncSides,
    list: DeletionList,
    /// Why nothing may be deleted.
    pub refusal: Option<DeletionRefusal>,
    /// Whether the source has any file.
    pub has_source_files: bool,
}

/// Why a sync deletes nothing although the destination has more than the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionRefusal {
    /// There is more to delete than allowed.
    TooMany,
    /// Not all went well, so that the lists or the copies may lack something.
    NotWhole,
    /// The source has no files.
    EmptySource,
}

impl RunningSync {
    /// Starts to read both sides. To be called on a runtime.
    #[must_use]
    pub fn start(settings: SyncSettings, sides: SyncSides) -> (Self, SyncCopies) {
        let SyncSettings {
            options,
            filter,
            follows_links,
            headers,
            allows_empty_source,
        } = settings;
        let compares_content = options.comparison == SyncComparison::Content;
        let runtime = Handle::current();
        let merge = start_merge(sides.clone(), options, move |sides, problems| {
            // Lists of objects are tasks.
            let _entered = runtime.enter();
            let lists = SyncLists {
                session: &sides.session,
                filter: &filter,
                follows_links,
                compares_content,
            };
            let (of_source, of_destination) = (problems.clone(), problems.clone());
            let (source, destination) = (&sides.source, &sides.destination);
            Ok(OpenLists {
                source: lists.source(source, destination, move |problem| {
                    of_source.report(problem);
                })?,
                destination: lists.destination(destination, source, move |problem| {
                    of_destination.report_of_destination(problem);
                })?,
            })
        });
        let copies = SyncCopies {
            sides: sides.clone(),
            found: merge.copies,
            headers,
            follows_links,
        };
        let sync = Self {
            sides,
            allows_empty_source,
            outcome: merge.outcome,
            problems: merge.problems,
            _comparisons: merge.comparisons,
        };
        (sync, copies)
    }

    /// Waits for the lists to end, and decides whether anything may be deleted. `failed` is how many files were not copied, with those that
    /// were left out, and `went_well` whether nothing else was wrong.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub async fn deletions(self, failed: u64, went_well: bool) -> io::Result<SyncDeletions> {
        let outcome = self.outcome.await;
        let outcome =
            outcome.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
        // What was left out failed, and its names are not in the way of deletions: they are known.
        let is_whole = went_well
            && outcome.is_complete
            && self.problems.missing() == 0
            && failed == self.problems.left_out();
        let refusal = match outcome.is_refused {
            true => Some(DeletionRefusal::TooMany),
            false if outcome.deletions.is_empty() => None,
            false if !is_whole => Some(DeletionRefusal::NotWhole),
            false if !outcome.has_source_files && !self.allows_empty_source => {
                Some(DeletionRefusal::EmptySource)
            }
            false => None,
        };
        Ok(SyncDeletions {
            sides: self.sides,
            list: outcome.deletions,
            refusal,
            has_source_files: outcome.has_source_files,
        })
    }
}

impl SyncDeletions {
    /// How many files only the destination has.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.list.len()
    }

    /// Deletes them, unless that is refused.
    ///
    /// # Errors
    /// See [`DeletionError`].
    pub async fn delete(
        self,
        options: DeletionOptions,
        events: TransferEventSender,
    ) -> Result<DeletionSummary, DeletionError> {
        if self.refusal.is_some() || self.list.is_empty() {
            return Ok(DeletionSummary::default());
        }
        let session = self.sides.session;
        let keys = self.list.into_keys().map_err(DeletionError::List)?;
        let prefix = match self.sides.destination {
            SyncPlace::Bucket(prefix) => prefix,
            SyncPlace::Folder(root) => {
                let mut summary = DeletionSummary::default();
                for key in keys {
                    if session.stop.is_cancelled() {
                        return Err(BucketError::Interrupted.into());
                    }
                    let key = key.map_err(DeletionError::List)?;
                    let deleted = match options.dry_run {
                        true => Ok(()),
                        false => delete_file(&root, &key),
                    };
                    let path = root.join(&key);
                    let event = match deleted {
                        Ok(()) => {
                            summary.deleted += 1;
                            TransferEvent::Deleted(Box::new(DeletedFiles::File(path)))
                        }
                        Err(error) => {
                            summary.failed += 1;
                            let error = error.to_string();
                            let failure = DeletionFailure::File { path, error };
                            TransferEvent::DeletionFailed(Box::new(failure))
                        }
                    };
                    // A closed channel is no reason to stop.
                    let _ = events.send(event).await;
                }
                return Ok(summary);
            }
        };
        let mut deletion = ObjectDeletion::new(session, options, events);
        for key in keys {
            let key = key.map_err(DeletionError::List)?;
            let key = format!("{}{key}", prefix.key);
            deletion.add(&prefix.bucket, key).await?;
        }
        deletion.finish().await
    }
}
