//! The store: files beneath a directory, by their keys.
//!
//! It knows nothing of HTTP. Each object is a plain file, so users find their files with any other
//! program. Other programs may change them at any time, so nothing is trusted that was not checked
//! for this request.
//!
//! [`FileStore::open_file`] opens a version of a file, which stays that version while it is read.
//! [`FileStore::begin_upload`] begins an [`Upload`], which commits or is discarded.
//! [`FileStore::delete`] deletes. Listings begin with [`StoreRoot::open_folder`]. All of these may
//! wait for a disk and run on [`DiskThreads`]; the `try_` functions do the same where it needs no
//! waiting.
//!
//! `root` opens descriptors by key, `object` is an open file, `version` identifies its content,
//! `open_files` caches
//! open files between requests; `attributes` keeps what S3 knows of an object beside its bytes; `temporary_files` holds unfinished files, `upload` fills and
//! commits them, `created_folders` creates parent folders, `group_sync` makes uploads durable;
//! `quota` limits the bytes of all files, and `usage` counts them.

mod attribute_records;
mod attributes;
mod created_folders;
mod delete;
mod disk_threads;
mod error;
mod file_store;
mod flush;
mod flush_method;
mod folder_objects;
mod group_sync;
mod key_walk;
mod list;
mod multipart;
mod object;
mod open_files;
mod quota;
mod root;
mod stored_upload;
mod sys;
mod temporary_files;
#[cfg(test)]
mod tests;
mod upload;
mod upload_counts;
mod upload_folders;
mod usage;
mod version;

pub use attributes::{ObjectAttributes, ObjectChecksum, ObjectPart};
pub use disk_threads::DiskThreads;
pub use error::StoreError;
pub use file_store::{FileStore, FileStoreOptions, UploadDurability, VersionCheck};
pub use key_walk::{KeyWalk, KeyWalkRequest, WalkedKey, WalkedKind};
pub use list::{
    EntryKind, FolderEntries, FolderEntry, FolderPage, ListingCursor, ListingCursorError,
    OpenFolder, PageRequest, PageStart, SortKey,
};
pub(crate) use list::{OpenedEntry, UnopenedEntry, modification_time};
pub use object::OpenObject;
pub use root::{CachedLookup, FilesystemKind, StoreRoot};
pub use stored_upload::{PartWriter, StoredPart, StoredUpload, StoredUploadInfo};
pub use upload::{CommittedUpload, Upload};
pub use version::FileMetadata;
