//! A sync: makes one side like the other.
//!
//! A thread reads both lists and merges them. What is to copy is copied while the lists are still being read. What is to delete waits until
//! both lists were read to their ends and nothing has failed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::copies::SyncCopies;
use super::deletion_list::DeletionList;
use super::local_file_entries::delete_file;
use super::merge::{RunningMerge, start_merge};
use super::place::{SyncPlace, SyncSettings, SyncSides};
use crate::bucket::{
    DeletedFiles, DeletionError, DeletionFailure, DeletionOptions, DeletionSummary, ObjectDeletion,
};
use crate::event::{TransferEvent, TransferEventSender};

/// A sync under way. The first step is to copy what [`RunningSync::start`] returns, the second [`RunningSync::delete`].
#[derive(Debug)]
pub struct RunningSync {
    sides: SyncSides,
    allows_empty_source: bool,
    merge: RunningMerge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncDeletionSummary {
    /// How many files only the destination had.
    pub found: u64,
    pub has_source_files: bool,
    /// What was deleted of them.
    pub deleted: DeletionSummary,
}

/// Why a sync does not delete what only the destination has.
#[derive(Debug, thiserror::Error)]
pub enum SyncDeletionError {
    /// A side cannot be listed.
    #[error("cannot list {}", .folder.display())]
    List {
        /// The folder among both sides.
        folder: PathBuf,
        source: io::Error,
    },
    /// There is more to delete than allowed.
    #[error("there are more files to delete than allowed")]
    TooMany,
    /// Not all went well, so that the lists or the copies may lack something.
    #[error("the sync is incomplete")]
    NotWhole {
        /// How many files would have been deleted.
        count: u64,
    },
    #[error("the source has no files")]
    EmptySource {
        /// How many files would have been deleted.
        count: u64,
    },
    #[error(transparent)]
    Ended(#[from] DeletionError),
}

impl RunningSync {
    /// Starts to read both sides. To be called on a runtime.
    #[must_use]
    pub fn start(settings: SyncSettings, sides: SyncSides) -> (Self, SyncCopies) {
        let (merge, found) = start_merge(sides.clone(), settings.clone());
        let sync = Self {
            sides: sides.clone(),
            allows_empty_source: settings.allows_empty_source,
            merge,
        };
        let copies = SyncCopies {
            sides,
            found,
            settings,
        };
        (sync, copies)
    }

    /// Waits for the lists to end, and deletes what only the destination has, if all went well. `failed` is how many files were not
    /// copied, with those that were left out, and `went_well` whether nothing else was wrong.
    pub async fn delete(
        self,
        failed: u64,
        went_well: bool,
        options: DeletionOptions,
        events: TransferEventSender,
    ) -> Result<SyncDeletionSummary, SyncDeletionError> {
        let RunningMerge {
            outcome, problems, ..
        } = self.merge;
        let outcome = outcome
            .await
            .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
            .map_err(|source| SyncDeletionError::List {
                folder: self
                    .sides
                    .folder()
                    .unwrap_or_else(|| Path::new(""))
                    .to_owned(),
                source,
            })?;
        // What was left out failed, and its names are not in the way of deletions: they are known.
        let is_whole = went_well
            && outcome.is_complete
            && problems.unreadable_names.load(Ordering::Relaxed) == 0
            && failed == problems.left_out.load(Ordering::Relaxed);
        let (list, has_source_files) = (outcome.deletions, outcome.has_source_files);
        let count = list.len();
        if outcome.is_refused {
            return Err(SyncDeletionError::TooMany);
        }
        if count > 0 && !is_whole {
            return Err(SyncDeletionError::NotWhole { count });
        }
        if count > 0 && !has_source_files && !self.allows_empty_source {
            return Err(SyncDeletionError::EmptySource { count });
        }
        let deleted = if count > 0 {
            delete_listed(self.sides, list, options, events).await?
        } else {
            DeletionSummary::default()
        };
        Ok(SyncDeletionSummary {
            found: count,
            has_source_files,
            deleted,
        })
    }
}

async fn delete_listed(
    sides: SyncSides,
    list: DeletionList,
    options: DeletionOptions,
    events: TransferEventSender,
) -> Result<DeletionSummary, DeletionError> {
    let keys = list.into_keys().map_err(DeletionError::List)?;
    let prefix = match &sides.destination {
        SyncPlace::Bucket(prefix) => prefix,
        SyncPlace::Folder(root) => {
            let mut summary = DeletionSummary::default();
            for key in keys {
                sides.session.check_stop()?;
                let key = key.map_err(DeletionError::List)?;
                let deleted = if options.dry_run {
                    Ok(())
                } else {
                    delete_file(root, &key)
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
                // A closed channel is not a reason to stop.
                let _ = events.send(event).await;
            }
            return Ok(summary);
        }
    };
    let mut deletion = ObjectDeletion::new(sides.session, options, events);
    for key in keys {
        let key = key.map_err(DeletionError::List)?;
        let key = format!("{}{key}", prefix.key);
        deletion.add(&prefix.bucket, key).await?;
    }
    deletion.finish().await
}
