//! Tar shards: a batch can write its files into tar archives instead of directories.
//!
//! The archive is one tar file, or a series of shards (`NAME-000000.tar`, `NAME-000001.tar` ...) with a size limit, as
//! training pipelines read them, or a stream to the reader of standard output. Each file is written as
//! `X.tar.haul-part` and renamed when it is complete.
//!
//! **How a shard survives a crash.** The caller appends entries, then [syncs](ShardWriter::sync), then writes the
//! manifest rows that record where each entry ends, then [publishes full shards](ShardWriter::publish_full). A full
//! shard keeps its temporary name until then, so that a finished shard never holds an entry without a row. The next run
//! gets the last recorded end of each shard and cuts the shard off there: what follows is a torn entry, or an entry
//! without a row, which is fetched again.
//!
//! **How a finished archive is extended.** A single archive whose last entry ends where the rows say is reopened for
//! the first new entry: it is renamed to its temporary name, the rename is made durable, and only then is its end cut
//! off. At each step there is either a complete archive under the final name or an unfinished one that the next run
//! continues.
//!
//! The same entries in the same order give the same bytes: mode 0644, owner 0, no user names.
//!
//! Nothing here knows the network or the manifest.

mod entry_header;
mod error;
mod shard_names;
mod shard_set;
mod unfinished_shard;
mod writer;

pub use error::ArchiveError;
pub use writer::{
    ArchiveDestination, ArchiveOptions, ShardEntryContent, ShardEntryLocation, ShardWriter,
};

#[cfg(test)]
mod tests;
