//! This machine's side of a download: where bytes lie until the file is whole.
//!
//! [`Storage`] is the least that the engine needs of a partial file; [`PartFile`] is the real one, tests have doubles
//! that are slow, that fail and that lose what was not synced. [`Target`] knows the names: the final one, the
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
pub use part::PartFile;
pub(crate) use rights::Rights;
pub(crate) use stamp::{Remembered, Whose, ascribe, remembered, stamp, whose};
pub use storage::{Layer, Storage};
pub(crate) use stream::{StreamSink, is_stdout, is_stream};
pub use target::Target;
pub(crate) use target::{or_here, sync_directory};
pub(crate) use unnamed::Unnamed;
