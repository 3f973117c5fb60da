//! This machine's side of a download: where bytes lie until the file is whole.
//!
//! [`PartialStorage`] is the least that the engine needs of a partial file; [`PartialFile`] is the real one, tests have doubles
//! that are slow, that fail and that lose what was not synced. [`DownloadPaths`] knows the names: the final one, the
//! temporary one beside it, the journal's. Nothing here knows about HTTP or about segments.

#[cfg(test)]
pub(crate) mod doubles;
mod offload;
mod part;
mod rights;
mod stamp;
mod storage;
mod stream;
mod target;
mod unnamed;

pub use offload::blocking;
pub use part::PartialFile;
pub(crate) use rights::FilePermissions;
pub(crate) use stamp::{FileOwner, StoredValidators, ascribe, remembered, stamp, whose};
pub use storage::{PartialStorage, StorageLayer};
pub(crate) use stream::{StreamSink, is_stdout, is_stream};
pub use target::DownloadPaths;
pub(crate) use target::{or_here, sync_directory};
pub(crate) use unnamed::UnnamedFile;
