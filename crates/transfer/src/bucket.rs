//! Operations on the objects of a bucket that move no file: lists and deletions, with retries.
//!
//! [`ObjectLister`] lists a prefix in the order of keys, several parts of it at a time; [`ObjectListing`] shows a folder or a selection to
//! somebody. [`ObjectDeletion`] deletes keys, [`delete_named`] what addresses name. [`StoreSession::request`] is how every such request is
//! sent.

mod deleted;
mod deletion;
mod lister;
mod listing;
mod object_keys;
mod retries;
mod selection;
mod session;

pub use deleted::{DeletedFiles, DeletionFailure};
pub use deletion::{DeletionError, DeletionOptions, DeletionSummary, ObjectDeletion, delete_named};
pub use lister::{ListProgress, ListedPage, ObjectLister};
pub use listing::{FolderObjects, ListingPage, ObjectListing};
pub(crate) use object_keys::path_of_key;
pub use object_keys::{KeyFilter, KeyPathError, KeyPattern, KeyRule};
pub use retries::{BucketError, retrying};
pub use selection::{NamedObjects, ObjectSelection, SelectedObjects};
pub use session::StoreSession;
