//! Whether one file of a sync has to be copied. `merge` decides the order of files.

use std::time::SystemTime;

use haul_plan::UnixTime;

/// One file or object of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncEntry {
    /// The name below the folder or prefix that is synced, with `/` between its parts.
    pub key: String,
    /// In bytes.
    pub size: u64,
    /// When the file was changed or the object was stored; `None` if the list does not say it.
    pub modified: Option<SystemTime>,
    /// The entity tag of an object without its quotes; of a file only if it is known to be the one that it was downloaded with.
    pub entity_tag: Option<String>,
    /// Whether the name is taken by something that the list does not read: a folder behind a link, whose key ends with a slash, or what is
    /// not a file.
    pub is_unread: bool,
}

/// A file that would be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedCopy {
    /// Its path or address.
    pub source: String,
    pub target: String,
    pub bytes: u64,
}

/// How two files under the same key are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncComparison {
    /// They are the same if their sizes are, and the source is not newer. Contents decide where times are too close to tell.
    #[default]
    SizeAndTime,
    /// They are the same if their sizes and their digests are.
    Content,
}

/// What a sync does about one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SyncDecision {
    /// Copy this file of the source, which the destination does not have.
    Create(SyncEntry),
    /// Copy this file of the source over that of the destination.
    Copy(SyncEntry),
    /// Sizes are the same: copy the source unless digests say that the contents are, too.
    CompareContent {
        /// The file to copy.
        source: SyncEntry,
        /// What it is compared with.
        destination: SyncEntry,
    },
    /// Delete this file of the destination.
    Delete(SyncEntry),
    /// This file of the destination would be deleted, but as many as the user allowed have been.
    DeleteRefused(SyncEntry),
    /// The source has something here that was not read: whatever the destination has under this name or below it stays.
    LeaveOut(SyncEntry),
    /// The destination has a link to a folder above this file of the source, and is not written to behind it.
    BehindLink {
        /// The file that is not copied.
        source: SyncEntry,
        /// The key of the link, with a slash.
        link: String,
    },
    /// Nothing.
    Keep,
}

/// What the user wants of a sync.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncOptions {
    /// How files under the same key are compared.
    pub comparison: SyncComparison,
    /// Most files that are deleted because only the destination has them; with `None` they stay.
    pub max_deletes: Option<u64>,
    /// Whether only files are copied that the destination has already.
    pub existing_only: bool,
    /// Whether files that the destination has already are left as they are.
    pub ignore_existing: bool,
    /// Whether a file of the destination that is newer is left as it is.
    pub keep_newer: bool,
}

impl SyncOptions {
    /// What becomes of a file that only the source has.
    pub(super) fn decide_missing(&self, source: SyncEntry) -> SyncDecision {
        if self.existing_only {
            SyncDecision::Keep
        } else {
            SyncDecision::Create(source)
        }
    }

    /// What becomes of a file that both sides have.
    pub(super) fn decide_existing(
        &self,
        source: SyncEntry,
        destination: SyncEntry,
    ) -> SyncDecision {
        let is_kept = self.keep_newer && is_newer(&destination, &source) == Some(true);
        if self.ignore_existing || is_kept {
            return SyncDecision::Keep;
        }
        // Who copies says what is in the way.
        if destination.is_unread || source.size != destination.size {
            return SyncDecision::Copy(source);
        }
        // The same tag means the same version, also if the times differ: a downloaded file may be older than its object.
        if source.entity_tag.is_some() && source.entity_tag == destination.entity_tag {
            return SyncDecision::Keep;
        }
        match self.comparison {
            SyncComparison::Content => SyncDecision::CompareContent {
                source,
                destination,
            },
            // A time that nobody knows proves nothing, so the file is copied.
            SyncComparison::SizeAndTime if is_newer(&source, &destination) != Some(false) => {
                SyncDecision::Copy(source)
            }
            SyncComparison::SizeAndTime if is_too_close(&source, &destination) => {
                SyncDecision::CompareContent {
                    source,
                    destination,
                }
            }
            SyncComparison::SizeAndTime => SyncDecision::Keep,
        }
    }
}

/// Whether a source that is not newer may have been changed after the destination was stored all the same.
///
/// Lists have whole seconds, so a change in the second of the upload looks like none, and would for ever. The second before counts, too: a
/// file system's clock is some milliseconds behind that of the store. A file without a tag is none that a list names: a downloaded file
/// that could not note its tag has the very time of its object, and all such files would be read with each sync.
fn is_too_close(source: &SyncEntry, destination: &SyncEntry) -> bool {
    let seconds = |entry: &SyncEntry| Some(UnixTime::from(entry.modified?).whole_seconds());
    destination.entity_tag.is_some()
        && seconds(source)
            .zip(seconds(destination))
            .is_some_and(|(source, destination)| source + 1 >= destination)
}

/// Whether `one` was changed in a later second than `other`; `None` if one of the times is unknown.
///
/// Stores round times to seconds in some responses and not in others, so fractions would make the same time look newer.
fn is_newer(one: &SyncEntry, other: &SyncEntry) -> Option<bool> {
    let seconds = |entry: &SyncEntry| Some(UnixTime::from(entry.modified?).whole_seconds());
    Some(seconds(one)? > seconds(other)?)
}
