//! What a sync reads and removes: the lists of both sides in the order of their keys, what proves equal content, and deletions.
//!
//! Which files are copied or deleted is decided by [`haul_plan::sync`]. Copies are the business of [`put`](crate::put) and of
//! [`batch`](crate::batch).

mod bucket_entries;
mod content;
mod deletion_list;
mod folder_entries;

pub use bucket_entries::BucketEntries;
pub use content::{ContentError, file_has_content, object_digests};
pub use deletion_list::DeletionList;
pub use folder_entries::{FolderEntries, FolderProblem, delete_file};
