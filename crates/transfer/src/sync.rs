//! Sync: the lists of both sides in the order of their keys, what proves equal content, copies and deletions.
//!
//! `merge_decisions` decides which files are copied or deleted, [`RunningSync`] carries it out. Copies are the business of
//! [`put`](crate::put) and of [`batch`](crate::batch).

mod comparison;
mod content;
mod copies;
mod deletion_list;
mod engine;
mod local_file_entries;
mod merge;
mod merge_decisions;
mod object_digests;
mod object_entries;
mod place;

pub use comparison::{PlannedCopy, SyncComparison, SyncEntry, SyncOptions};
pub use content::ContentError;
pub(crate) use content::file_has_content;
pub use copies::{SyncCopies, SyncCopySummary};
pub use engine::{RunningSync, SyncDeletionError, SyncDeletionSummary};
pub(crate) use object_digests::ObjectDigests;
pub use place::{SyncPlace, SyncPlaceError, SyncSettings, SyncSides, check_sync_places};

#[cfg(test)]
mod tests;
