//! Where a batch puts the files that it has fetched and verified.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;

use super::options::CommitGroupOptions;
use crate::archive::ShardWriter;

/// Where a batch puts its files.
#[derive(Debug)]
pub enum BatchOutput {
    /// Into the [directory](super::BatchOptions::directory) of the batch.
    Files,
    Archive(BatchArchive),
    /// To a function of the caller, as bytes.
    Memory(MemoryOutput),
}

/// An archive that files are written to.
#[derive(Debug)]
pub struct BatchArchive {
    pub writer: ShardWriter,
    /// A directory for files that are too large to be kept in memory until they are in the archive.
    pub staging_directory: PathBuf,
}

/// A function that takes the bytes of each file.
///
/// Files get no names, so entries may repeat a URL, and the paths of a list do not matter. Each job makes its request: no
/// run before this one counts.
pub struct MemoryOutput {
    /// A directory for files that are too large to be kept in memory until the function takes them: those above 256 KiB,
    /// and smaller ones while others fill the memory for bodies. Nothing is written where no file is like that. It is this
    /// batch's own, and empty when the batch begins. A stopped batch leaves partial files in it.
    pub staging_directory: PathBuf,
    /// Takes the line of an entry and the bytes of its file, once for each file that is complete and verified, before its
    /// row is published. It is called on a thread of the batch, one call at a time. While it blocks, at most the files that
    /// are on their way are fetched; the batch ends only when it has returned, also when it was stopped.
    pub on_body: Box<dyn FnMut(u64, FetchedBody) + Send>,
}

/// The bytes of a file.
#[derive(Debug, Clone, Default)]
pub struct FetchedBody {
    /// The bytes in their order. A piece may be a part of a larger buffer, which it keeps: copy what is to be kept.
    pub pieces: Vec<Bytes>,
}

impl BatchOutput {
    /// The directory for large files, if their place is elsewhere.
    pub(super) fn staging_directory(&self) -> Option<&Path> {
        match self {
            Self::Files => None,
            Self::Archive(archive) => Some(&archive.staging_directory),
            Self::Memory(memory) => Some(&memory.staging_directory),
        }
    }

    /// Whether files only go to a function, and have no paths.
    pub(super) fn is_memory(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    /// When a group of files is committed.
    pub(super) fn commit_group(&self, options: CommitGroupOptions) -> CommitGroupOptions {
        match self {
            // Nothing is synced, so there is nothing to wait for.
            Self::Memory(_) => CommitGroupOptions {
                linger: Duration::ZERO,
                ..options
            },
            Self::Files | Self::Archive(_) => options,
        }
    }
}

impl FetchedBody {
    /// How many bytes these are.
    #[must_use]
    pub fn length(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }
}

impl fmt::Debug for MemoryOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryOutput")
            .field("staging_directory", &self.staging_directory)
            .finish_non_exhaustive()
    }
}
