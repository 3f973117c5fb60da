//! A sync: makes one side like the other.
//!
//! A thread reads both lists and merges them. What is to copy is copied while the lists are still being read. What is to delete waits until
//! both lists were read to their ends and nothing has failed.

use std::io;
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

/// A sync under way. The first step is to copy what [`RunningSync::start`] returns, the second [`RunningSync::deletions`].
#[derive(Debug)]
pub struct RunningSync {
    sides: SyncSides,
    allows_empty_source: bool,
    merge: RunningMerge,
}

/// What only the destination has.
#[derive(Debug)]
pub struct SyncDeletions {
    sides: SyncSides,
    list: DeletionList,
    /// Why nothing may be deleted.
    pub refusal: Option<DeletionRefusal>,
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

    /// Waits for the lists to end, and decides whether anything may be deleted. `failed` is how many files were not copied, with those that
    /// were left out, and `went_well` whether nothing else was wrong.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub async fn deletions(self, failed: u64, went_well: bool) -> io::Result<SyncDeletions> {
        let RunningMerge {
            outcome, problems, ..
        } = self.merge;
        let outcome = outcome.await;
        let outcome =
            outcome.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
        // What was left out failed, and its names are not in the way of deletions: they are known.
        let is_whole = went_well
            && outcome.is_complete
            && problems.unreadable_names.load(Ordering::Relaxed) == 0
            && failed == problems.left_out.load(Ordering::Relaxed);
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
                    session.check_stop()?;
                    let key = key.map_err(DeletionError::List)?;
                    let deleted = if options.dry_run {
                        Ok(())
                    } else {
                        delete_file(&root, &key)
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
        let mut deletion = ObjectDeletion::new(session, options, events);
        for key in keys {
            let key = key.map_err(DeletionError::List)?;
            let key = format!("{}{key}", prefix.key);
            deletion.add(&prefix.bucket, key).await?;
        }
        deletion.finish().await
    }
}
