//! Tar shards: where a batch's files go when they shall not be files.
//!
//! One archive, or a row of them (`NAME-000000.tar`, `NAME-000001.tar` ...) none of which is larger than was asked for, as training
//! pipelines read them; or a stream to whoever reads standard output. Each is written as `X.tar.haul-part` and has its name when it is
//! whole.
//!
//! **How a shard survives a crash.** Entries are appended, then [synced](ShardWriter::sync), then the caller writes the manifest's rows that
//! say where each entry ends, then [settles](ShardWriter::settle). A shard that is full keeps its temporary name until then, so that
//! a finished shard never holds an entry that no row speaks of. The next run is told the last durable end of each shard
//! and cuts off what lies behind it: a torn entry, or one whose row was not written and that is therefore fetched again.
//!
//! **How a finished archive takes more.** A single one whose last entry ends where the rows say is opened again with the first entry
//! that comes: renamed to its temporary name, which is made durable, and only then its end is cut off. At each step there is a whole
//! archive under the final name, or an unfinished one that the next run goes on with as with any other.
//!
//! The same entries in the same order make the same bytes: mode 0644, owner 0, nobody's names.
//!
//! `head` makes the blocks before an entry's contents, `names` knows the shards' names, `part` is one shard that grows, `files` the
//! row of them, `stream` the one that cannot be taken back. Nothing here knows the network or the manifest.

mod entry_header;
mod error;
mod shard_names;
mod shard_set;
mod stream;
mod unfinished_shard;
mod writer;

pub use error::ArchiveError;
pub use writer::{
    ArchiveDestination, ArchiveOptions, ShardEntryContent, ShardEntryLocation, ShardWriter,
};

#[cfg(test)]
mod again_tests;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod tests;
