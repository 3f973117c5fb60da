//! The files of a download on this machine.
//!
//! [`PartialStorage`] is what the engine needs of a partial file, [`PartialFile`] the real implementation; tests have others
//! that are slow, fail, or lose data that was not synced. [`DownloadPaths`] builds the names: the final one, and those of
//! the partial file and the journal next to it. Nothing here knows about HTTP or segments.

#[cfg(test)]
pub(crate) mod faulty_disk;
mod file_notes;
mod name_folding;
mod offload;
mod partial_file;
mod paths;
mod permissions;
mod planted_file;
mod positioned_io;
mod storage;
mod stored_validators;
mod stream_sink;
mod unnamed_file;

pub(crate) use name_folding::folds_names;
pub use offload::blocking;
pub use partial_file::PartialFile;
pub use paths::DownloadPaths;
pub(crate) use paths::{directory_of, or_current_directory, remove_if_exists, sync_directory};
pub(crate) use permissions::FilePermissions;
pub(crate) use planted_file::refuse_planted;
pub use planted_file::refuse_planted_folder;
pub(crate) use positioned_io::file_beginning;
pub use storage::{PartialStorage, StorageWrapping};
pub(crate) use stored_validators::{
    FileOwner, KeptMetadata, KeptSeconds, KnownLength, StoredValidators, file_owner,
    load_validators, noted_download, store_validators, stored_entity_tag,
};
pub(crate) use stream_sink::{StreamSink, is_stdout, is_stream};
pub(crate) use unnamed_file::UnnamedFile;
