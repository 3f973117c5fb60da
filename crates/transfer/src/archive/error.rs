use std::io;
use std::path::PathBuf;

/// Why an archive cannot be written. Unless a variant says otherwise, the entries that were appended before are intact.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The name of a shard is taken.
    #[error("{} exists already", .path.display())]
    Exists {
        /// The name.
        path: PathBuf,
    },
    /// A temporary name is taken by a file that is not an unfinished shard.
    #[error("{} is in the way: {what}", .path.display())]
    InTheWay {
        /// The temporary name.
        path: PathBuf,
        /// Why it is not an unfinished shard.
        what: &'static str,
    },
    /// The name of the archive is a directory's.
    #[error("{} is a directory", .path.display())]
    IsDirectory {
        /// The name.
        path: PathBuf,
    },
    /// Another process writes the same archive.
    #[error("another haul is writing {}", .path.display())]
    Locked {
        /// The final name.
        path: PathBuf,
    },
    /// A shard is shorter than the manifest's rows say, or gone.
    #[error("{} should hold {claimed} bytes of an earlier run but holds {found}", .path.display())]
    MissingEntries {
        /// The temporary name of the shard.
        path: PathBuf,
        /// The end of the last entry that a row records.
        claimed: u64,
        /// The length of the file; 0 when it is gone.
        found: u64,
    },
    /// The manifest's rows are those of another archive. Their entries would be missing from this one.
    #[error("the manifest describes the archive {shard}, not {}", .path.display())]
    OtherArchive {
        /// The archive that was requested.
        path: PathBuf,
        /// The other archive, as the rows call it.
        shard: String,
    },
    /// A path that cannot be the name of an entry.
    #[error("{} cannot be the name of an entry: {what}", .path.display())]
    InvalidName { path: PathBuf, what: &'static str },
    /// An entry's content could not be read, or was shorter than announced.
    #[error("cannot read the content of an archive entry")]
    Content(#[source] io::Error),
    /// The reader of a stream has closed it or takes no more. Nothing more can be appended.
    #[error("cannot write the archive stream")]
    Stream(#[source] io::Error),
    /// A file operation failed.
    #[error("cannot {action} {}", .path.display())]
    Local {
        /// What failed: "write to", "create", "rename" ...
        action: &'static str,
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}
