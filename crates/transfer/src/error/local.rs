//! What failed on this machine.

use std::io;

use haul_net::redacted_url;
use haul_plan::Remedy;
use url::Url;

use crate::archive::ArchiveError;

/// What failed about a path of this machine. Display says it without the path.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The final name exists.
    #[error("exists already")]
    AlreadyExists,
    /// The final name was free, and another file got it during the download.
    #[error("was taken meanwhile by a file that may not be this URL's: run it again")]
    NameTaken,
    /// A file that haul must not replace has a name which the download needs.
    #[error("is in the way: {reason}")]
    Occupied {
        /// Why haul must not replace it.
        reason: &'static str,
        /// Whether haul may if the user says so.
        is_replaceable: bool,
    },
    /// The requested name ends like one of haul's temporary files.
    #[error("would look like a temporary file of haul's own")]
    ReservedName,
    #[error("is a directory")]
    IsDirectory,
    /// The file system takes no name that long.
    #[error("is too long a name for its file system")]
    NameTooLong,
    /// Another process is downloading to the same name.
    #[error("is being downloaded by another haul")]
    Locked,
    /// Another job of the same run has the same name.
    #[error("is the name of another URL, too")]
    DuplicateName {
        /// The URL of this job.
        url: Box<Url>,
    },
    /// The disk has too little space for the file.
    #[error("needs {needed} bytes and its disk has {free}")]
    NoSpace {
        /// Bytes still to come.
        needed: u64,
        /// Bytes free for this user.
        free: u64,
    },
    /// A system call failed.
    #[error("{source}")]
    Io {
        /// The failed call: "write to", "create", "rename to" ...
        action: &'static str,
        source: io::Error,
    },
    /// Writing to standard output, a FIFO or a device failed.
    #[error("{source}")]
    Output { source: io::Error },
    /// The file cannot be put into the archive. The path is its name there.
    #[error("{source}")]
    Archive { source: Box<ArchiveError> },
}

impl LocalError {
    /// The whole message.
    pub(super) fn message(&self, path: &str) -> String {
        match self {
            Self::NameTooLong => format!("the name {path} is too long for its file system"),
            Self::Locked => format!("another haul is downloading to {path}"),
            Self::DuplicateName { url } => format!(
                "{} would be saved as {path}, which another URL already uses",
                redacted_url(url)
            ),
            Self::Io { action, .. } => format!("cannot {action} {path}"),
            Self::Output { .. } => format!("cannot write to {path}"),
            Self::Archive { .. } => format!("cannot put {path} into the archive"),
            other => format!("{path} {other}"),
        }
    }

    pub(super) fn cause(&self) -> String {
        let text = match self {
            Self::AlreadyExists => "the file exists already",
            Self::NameTaken => "the name was taken meanwhile",
            Self::Occupied { .. } => "something is in the way",
            Self::ReservedName => "a name of haul's own",
            Self::IsDirectory => "the name is a directory",
            Self::NameTooLong => "the name is too long",
            Self::Locked => "another haul downloads it",
            Self::DuplicateName { .. } => "the name is another URL's",
            Self::NoSpace { .. } => "no space left",
            Self::Archive { .. } => "cannot be put into the archive",
            Self::Io { source, .. } | Self::Output { source } => return source.kind().to_string(),
        };
        text.to_owned()
    }

    pub(super) fn remedies(&self, path: &std::path::Path) -> Vec<Remedy> {
        match self {
            Self::AlreadyExists => vec![Remedy::Replace, Remedy::ReplaceIfOlder],
            Self::Occupied {
                is_replaceable: true,
                ..
            } => vec![Remedy::Replace],
            Self::Occupied { .. } => vec![Remedy::advice("move it away"), Remedy::Rename],
            Self::ReservedName => vec![Remedy::Rename],
            Self::IsDirectory => vec![Remedy::SaveInto(path.to_owned())],
            Self::NameTooLong => vec![Remedy::Rename],
            Self::Locked => vec![Remedy::advice("wait for it"), Remedy::Rename],
            Self::DuplicateName { .. } => vec![Remedy::Rename],
            Self::NoSpace { .. } => vec![Remedy::advice("make room")],
            Self::Io { source, .. } => io_remedies(source),
            Self::Output { source } => output_remedies(source),
            // Only a batch prints it, and the message says everything.
            Self::NameTaken | Self::Archive { .. } => Vec::new(),
        }
    }
}

/// For errors of standard output, FIFOs and devices.
fn output_remedies(source: &io::Error) -> Vec<Remedy> {
    let advice = |text| vec![Remedy::advice(text)];
    match source.kind() {
        _ if haul_net::is_descriptor_limit(source) => vec![Remedy::AllowOpenFiles],
        io::ErrorKind::BrokenPipe => advice("its reader has closed it"),
        io::ErrorKind::Unsupported => {
            vec![Remedy::WriteToFile, Remedy::advice("| cat shows it anyway")]
        }
        io::ErrorKind::StorageFull => advice("there is no space left where it is written"),
        _ => vec![Remedy::WriteToFile],
    }
}

fn io_remedies(source: &io::Error) -> Vec<Remedy> {
    let advice = |text| vec![Remedy::advice(text)];
    match source.kind() {
        _ if haul_net::is_descriptor_limit(source) => vec![Remedy::AllowOpenFiles],
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => advice("make room"),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            vec![Remedy::WriteElsewhere]
        }
        io::ErrorKind::NotFound => advice("create the directory first"),
        io::ErrorKind::FileTooLarge => {
            advice("this file system or a limit (ulimit -f) forbids so large a file")
        }
        _ => Vec::new(),
    }
}
