//! This machine's side of a download: where bytes lie until the file is whole.
//!
//! [`PartialStorage`] is the least that the engine needs of a partial file; [`PartialFile`] is the real one, tests have doubles
//! that are slow, that fail and that lose what was not synced. [`DownloadPaths`] knows the names: the final one, the
//! temporary one beside it, the journal's. Nothing here knows about HTTP or about segments.

#[cfg(test)]
pub(crate) mod faulty_disk;
mod offload;
mod partial_file;
mod paths;
mod permissions;
mod positioned_io;
mod storage;
mod stored_validators;
mod stream_sink;
mod unnamed_file;

pub use offload::blocking;
pub use partial_file::PartialFile;
pub use paths::DownloadPaths;
pub(crate) use paths::{or_current_directory, sync_directory};
pub(crate) use permissions::FilePermissions;
pub use storage::{PartialStorage, StorageWrapping};
pub(crate) use stored_validators::{
    FileOwner, StoredValidators, file_owner, load_validators, store_validators,
};
pub(crate) use stream_sink::{StreamSink, is_stdout, is_stream};
pub(crate) use unnamed_file::UnnamedFile;
