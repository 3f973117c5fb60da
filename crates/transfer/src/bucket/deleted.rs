//! What deletions say about objects and files, as events carry it.

use std::path::PathBuf;

use haul_s3::DeleteFailure;

/// Files or objects that were deleted, or would be in a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeletedFiles {
    /// Objects of a bucket, which one request deleted.
    Objects {
        bucket: String,
        keys: Vec<String>,
    },
    File(PathBuf),
}

/// A file or an object that was not deleted, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeletionFailure {
    /// The store refused an object.
    #[error("s3://{bucket}/{} was not deleted: {}: {}", .failure.key, .failure.code, .failure.message)]
    Object {
        bucket: String,
        /// The key and the reason.
        failure: DeleteFailure,
    },
    /// The system refused a file.
    #[error("cannot delete {}: {error}", path.display())]
    File {
        path: PathBuf,
        /// The system's error.
        error: String,
    },
}
