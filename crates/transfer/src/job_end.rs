//! Jobs that have ended, as events carry them.

use crate::error::GetError;
use crate::options::{DownloadJob, DownloadOutcome};
use crate::put::{PutError, UploadJob, UploadOutcome};

/// A download that has ended.
#[derive(Debug)]
pub struct DownloadEnd {
    /// The job.
    pub job: DownloadJob,
    /// Its result.
    pub result: Result<DownloadOutcome, GetError>,
}

/// An upload that has ended.
#[derive(Debug)]
pub struct UploadEnd {
    /// The job.
    pub job: UploadJob,
    /// Its result.
    pub result: Result<UploadOutcome, PutError>,
}
