//! Why an archive cannot be written.

use std::io;
use std::path::PathBuf;

/// Why an archive cannot be written. Unless said otherwise, what was appended before is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The name of a shard is taken.
    #[error("{} exists already", .path.display())]
    Exists {
        /// The name.
        path: PathBuf,
    },
    /// A temporary name is taken by something that no archive left there.
    #[error("{} is in the way: {what}", .path.display())]
    InTheWay {
        /// The name.
        path: PathBuf,
        /// Why it is taken for something else.
        what: &'static str,
    },
    /// The name asked for is a directory's.
    #[error("{} is a directory", .path.display())]
    IsDirectory {
        /// The name.
        path: PathBuf,
    },
    /// Another process writes the same archive.
    #[error("another haul is writing {}", .path.display())]
    Locked {
        /// The name that both want.
        path: PathBuf,
    },
    /// Entries that earlier runs wrote are not there any more.
    #[error("{} should hold {claimed} bytes of an earlier run and holds {found}", .path.display())]
    MissingEntries {
        /// The temporary name of the shard.
        path: PathBuf,
        /// Where the last entry ends that is said to be in it.
        claimed: u64,
        /// How long it is; 0 when it is gone.
        found: u64,
    },
    /// What is known of earlier runs is known of another archive: what is in that one would be left out of this one.
    #[error("the manifest is of the archive {shard}, and not of {}", .path.display())]
    OtherArchive {
        /// The one asked for.
        path: PathBuf,
        /// The other, as rows call it.
        shard: String,
    },
    /// No name for an entry.
    #[error("{} cannot be the name of an entry: {what}", .path.display())]
    InvalidName {
        /// The name.
        path: PathBuf,
        /// Why.
        what: &'static str,
    },
    /// An entry's contents could not be read, or were shorter than was said.
    #[error("cannot read what belongs into the archive")]
    Content(#[source] io::Error),
    /// The reader of a stream is gone, or takes no more. Nothing more can be appended.
    #[error("cannot write the archive to its reader")]
    Stream(#[source] io::Error),
    /// This machine's disk said no.
    #[error("cannot {action} {}", .path.display())]
    Local {
        /// What was being done: "write to", "create", "rename" ...
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
