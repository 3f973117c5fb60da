//! What a sync reads and removes: the lists of both sides in the order of their keys, what proves equal content, and deletions.
//!
//! Which files are copied or deleted is decided by [`haul_plan::sync`]. Copies are the business of [`put`](crate::put) and of
//! [`batch`](crate::batch).

mod content;
mod deletion_list;
mod local_file_entries;
mod object_entries;

pub use content::{ContentError, file_has_content, object_digests};
pub use deletion_list::DeletionList;
pub use local_file_entries::{LocalFileEntries, delete_file};
pub use object_entries::ObjectEntries;
