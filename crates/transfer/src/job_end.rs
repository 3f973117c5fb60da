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
