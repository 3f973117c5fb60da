//! Jobs that have ended, as events carry them.

use crate::error::GetError;
use crate::options::{DownloadJob, DownloadOutcome};
use crate::put::{PutError, UploadJob, UploadOutcome};

#[derive(Debug)]
pub struct DownloadEnd {
    pub job: DownloadJob,
    pub result: Result<DownloadOutcome, GetError>,
}

#[derive(Debug)]
pub struct UploadEnd {
    pub job: UploadJob,
    pub result: Result<UploadOutcome, PutError>,
}

/// An unfinished upload that was removed, or would be in a dry run.
#[derive(Debug)]
pub struct UploadAbort {
    /// The file, or the address of an upload that a store lists.
    pub name: String,
    /// Whether there was anything to remove.
    pub result: Result<bool, PutError>,
}
