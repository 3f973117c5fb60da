//! Errors of the store, by meaning: the HTTP side has a status for each.

use std::io;

use rustix::io::Errno;

/// Why an operation of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing has that key, or it is outside the root.
    #[error("not found")]
    NotFound,
    /// The key is a folder's.
    #[error("this is a folder")]
    IsFolder,
    /// The key is a pipe, a socket or a device.
    #[error("this is neither a file nor a folder")]
    SpecialFile,
    /// A parent in the path is a file, or there is a folder where a file should go.
    #[error("that name, or a part of the path, is already in use")]
    Conflict,
    /// Only empty folders can be deleted.
    #[error("the folder is not empty")]
    NotEmpty,
    /// The system denies this process the operation.
    #[error("permission denied")]
    PermissionDenied,
    /// The name is longer than this file system allows.
    #[error("the name is too long for the file system")]
    TooLong,
    /// The disk is full.
    #[error("no space is left on the disk")]
    NoSpace,
    /// The upload exceeds the quota.
    #[error("the store's quota has no room for it")]
    OverQuota {
        /// Bytes that this file might have.
        room: u64,
        /// Bytes that it has, if known.
        needed: Option<u64>,
    },
    /// Something else uses what the request needs. It may be sent again in a moment.
    #[error("{0}: try again")]
    Busy(&'static str),
    /// The bucket has too many uploads that have not ended.
    #[error("the bucket has {0} unfinished uploads, and may have no more: complete or abort some")]
    TooManyUploads(usize),
    /// A condition of the request does not hold.
    #[error("a condition does not hold")]
    ConditionFailed,
    /// The store was opened read-only.
    #[error("the store is read-only")]
    ReadOnly,
    /// The body does not match its digest.
    #[error("the bytes do not match their {0} digest")]
    DigestMismatch(&'static str),
    /// The served folder was removed.
    #[error("the served folder was removed: create it again, then restart the server")]
    RootRemoved,
    /// Another program removed the temporary file of the upload.
    #[error("another program removed the unfinished upload from .haul: send it again")]
    UploadRemoved,
    /// Any other error of the disk.
    #[error(transparent)]
    Io(io::Error),
}

impl From<Errno> for StoreError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::NotFound,
            // The kernel's errors for a link that leads out of the root, or in a circle: for the
            // client, nothing is there.
            Errno::XDEV | Errno::LOOP => Self::NotFound,
            // A parent in the path is a file.
            Errno::NOTDIR => Self::Conflict,
            Errno::ISDIR => Self::IsFolder,
            Errno::EXIST => Self::Conflict,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Self::PermissionDenied,
            Errno::NAMETOOLONG => Self::TooLong,
            Errno::NOSPC | Errno::DQUOT => Self::NoSpace,
            // A device without a driver, or a socket.
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
