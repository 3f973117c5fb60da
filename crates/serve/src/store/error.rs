//! What can be the matter with a file or folder of the store, by meaning: the HTTP side has a status for each.

use std::io;

use rustix::io::Errno;

/// Why the store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing has that key, or what has it lies outside the root.
    #[error("nothing is there")]
    NotFound,
    /// The key is a folder's.
    #[error("it is a folder")]
    IsFolder,
    /// What has the key is neither a file nor a folder: a pipe, a socket, a device.
    #[error("it is neither a file nor a folder")]
    SpecialFile,
    /// Part of the way is a file, or a folder stands where a file should go.
    #[error("something else has that name, or a part of it")]
    Conflict,
    /// A folder with something in it is not removed.
    #[error("the folder is not empty")]
    NotEmpty,
    /// The system does not let this process do it.
    #[error("permission denied")]
    PermissionDenied,
    /// The name is longer than this file system allows.
    #[error("the name is too long for the file system")]
    TooLong,
    /// The disk is full.
    #[error("no space is left on the disk")]
    NoSpace,
    /// More than the store may hold.
    #[error("the store's quota has no room for it")]
    OverQuota {
        /// Bytes that this file might have.
        room: u64,
        /// Bytes that it has, where that is known.
        needed: Option<u64>,
    },
    /// A condition of the request does not hold any more.
    #[error("a condition does not hold")]
    ConditionFailed,
    /// The store was opened for reading alone.
    #[error("the store is read-only")]
    ReadOnly,
    /// The body is not what its digest says.
    #[error("the bytes do not match their {0} digest")]
    DigestMismatch(&'static str),
    /// The folder that is served is not there any more.
    #[error("the folder that is served was removed: make it again, then restart the server")]
    RootRemoved,
    /// What an upload had written is not there any more.
    #[error("what had come of the upload was removed from .haul by another program: send it again")]
    UploadRemoved,
    /// All else that a disk may say.
    #[error(transparent)]
    Io(io::Error),
}

impl From<Errno> for StoreError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::NotFound,
            // The kernel's words for a link that leads out (or in a circle): to whoever asks, nothing is there.
            Errno::XDEV | Errno::LOOP => Self::NotFound,
            // A file where a folder should be on the way.
            Errno::NOTDIR => Self::Conflict,
            Errno::ISDIR => Self::IsFolder,
            Errno::EXIST => Self::Conflict,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Self::PermissionDenied,
            Errno::NAMETOOLONG => Self::TooLong,
            Errno::NOSPC | Errno::DQUOT => Self::NoSpace,
            // A device without a driver, a socket.
            Errno::NXIO | Errno::NODEV => Self::SpecialFile,
            other => Self::Io(other.into()),
        }
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(errno) => errno.into(),
            None => Self::Io(error),
        }
    }
}
