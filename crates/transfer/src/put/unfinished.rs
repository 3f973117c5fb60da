//! Removes unfinished uploads: what earlier runs have sent of files, or all that a store lists below a prefix.

use std::sync::Arc;

use haul_s3::{MultipartUpload, S3Address, S3Client};
use tokio_util::sync::CancellationToken;

use super::engine::UploadEngine;
use super::error::PutError;
use super::job_source::UploadJobSource;
use super::options::{PutOptions, UploadInput, UploadJob};
use crate::bucket::retrying;
use crate::event::{TransferEvent, TransferEventSender};
use crate::job_end::UploadAbort;

/// Which unfinished uploads are removed.
#[derive(Debug)]
pub enum UnfinishedUploads {
    /// Those of earlier runs with the same files and targets.
    OfFiles(UploadJobSource),
    /// Those of any program.
    Below(S3Address),
}

impl UnfinishedUploads {
    /// Removes them with an event for each; with `is_dry_run` it only looks. The receiver must read until the channel closes.
    ///
    /// # Errors
    /// The store does not list its uploads, or keeps one of those that it lists. Files fail one by one.
    pub async fn abort(
        self,
        client: S3Client,
        options: PutOptions,
        is_dry_run: bool,
        events: TransferEventSender,
    ) -> Result<(), PutError> {
        let (retry, sender) = (options.retry.clone(), events.clone());
        let engine = UploadEngine::new(client.clone(), options, events);
        let send = async |name: String, result| {
            let event = TransferEvent::UploadAborted(Arc::new(UploadAbort { name, result }));
            // A closed channel is no reason to stop.
            let _ = sender.send(event).await;
        };
        match self {
            Self::OfFiles(mut source) => {
                while let Some(found) = source.next().await {
                    match found {
                        Ok(job) => {
                            let result = engine.abort_job(&job, is_dry_run).await;
                            send(job.input.to_string(), result).await;
                        }
                        Err(error) => {
                            let event = TransferEvent::NotTransferred(Arc::new(error));
                            let _ = sender.send(event).await;
                        }
                    }
                }
            }
            Self::Below(prefix) => {
                let never = CancellationToken::new();
                let list = || client.list_multipart_uploads(&prefix);
                for upload in retrying(&retry, &never, list).await? {
                    let upload = MultipartUpload {
                        address: prefix.with_key(upload.key),
                        upload_id: upload.upload_id,
                    };
                    if !is_dry_run {
                        engine.abort_upload(&upload).await?;
                    }
                    send(upload.address.to_string(), Ok(true)).await;
                }
            }
        }
        Ok(())
    }
}

impl UploadEngine {
    async fn abort_job(&self, job: &UploadJob, is_dry_run: bool) -> Result<bool, PutError> {
        match (&job.input, job.target.object()) {
            (UploadInput::File(path), Some(target)) => self.abort(path, &target, is_dry_run).await,
            // Nothing of it is ever left at the peer.
            _ => Ok(false),
        }
    }
}
