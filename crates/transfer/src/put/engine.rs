//! Uploads as their callers see them: jobs go in, outcomes come out, events tell what happens meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt as _;
use haul_s3::{MultipartUpload, S3Address, S3Client};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::context::{UploadContext, UploadState};
use super::error::PutError;
use super::file_part::{OpenFile, SentBytes};
use super::options::{
    PutOptions, SourceObject, UploadInput, UploadJob, UploadOutcome, UploadTarget,
};
use super::slots::UploadSlots;
use super::{http_put, multipart, multipart_requests, object_copy, single_request, stream};
use crate::event::{TransferEvent, TransferEventSender};

/// Uploads files. Cloning is cheap; clones share connections and their number.
#[derive(Debug, Clone)]
pub struct UploadEngine {
    state: Arc<UploadState>,
}

impl UploadEngine {
    /// An engine whose uploads send `events`; the receiver must keep reading until the channel closes.
    #[must_use]
    pub fn new(client: S3Client, options: PutOptions, events: TransferEventSender) -> Self {
        let slots = Arc::new(UploadSlots::new(options.connections));
        Self {
            state: Arc::new(UploadState {
                client,
                options,
                events,
                slots,
                is_without_checksums: AtomicBool::new(false),
                has_warned_of_journals: AtomicBool::new(false),
            }),
        }
    }

    /// Uploads one file or stream. When `stop` is cancelled it ends soon, and what the store has is kept for a later run.
    pub async fn put(
        &self,
        job: UploadJob,
        stop: CancellationToken,
    ) -> Result<UploadOutcome, PutError> {
        match job.target.clone() {
            UploadTarget::Object(address) => {
                let context = self.context(job, stop, address);
                // Without its name, which is too long for the compiler to see that it is Send.
                let upload = Self::store_object(&context).boxed();
                self.supervise(&context, upload).await
            }
            UploadTarget::Url(url) => {
                let context = self.context(job, stop, url);
                self.supervise(&context, Box::pin(http_put::upload(&context)))
                    .await
            }
        }
    }

    /// Bytes that all uploads have sent so far.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.state.slots.sent.load(Ordering::Relaxed)
    }

    /// Removes an upload of any program: an unfinished one that a list of uploads names.
    pub(super) async fn abort_upload(&self, upload: &MultipartUpload) -> Result<(), PutError> {
        multipart_requests::abort(&self.state, upload).await
    }

    /// Removes what earlier runs of this upload have sent, and its journal; with `is_dry_run` it only looks. Returns whether there
    /// was anything.
    pub async fn abort(
        &self,
        path: &Path,
        target: &S3Address,
        is_dry_run: bool,
    ) -> Result<bool, PutError> {
        multipart::abort_earlier(&self.state, path, target, is_dry_run).await
    }

    fn context<T>(&self, job: UploadJob, stop: CancellationToken, target: T) -> UploadContext<T> {
        let run = Arc::clone(&self.state.slots.sent);
        UploadContext {
            state: Arc::clone(&self.state),
            stop,
            sent: SentBytes {
                run,
                ..SentBytes::default()
            },
            started: Instant::now(),
            job: Arc::new(job),
            target,
        }
    }

    /// Runs an upload, and reports its end.
    async fn supervise<T: Sync>(
        &self,
        context: &UploadContext<T>,
        upload: impl Future<Output = Result<UploadOutcome, PutError>>,
    ) -> Result<UploadOutcome, PutError> {
        // The control runs as long as any upload does: each of them drives it.
        let result = tokio::select! {
            biased;
            result = upload => result,
            () = self.state.slots.control() => Err(context.interrupted()),
        };
        let event = match &result {
            Ok(outcome) => TransferEvent::Finished {
                job: context.job.id,
                bytes: outcome.bytes,
                elapsed: outcome.elapsed,
            },
            Err(error) => TransferEvent::Failed {
                job: context.job.id,
                error: error.to_string(),
            },
        };
        context.send(event).await;
        result
    }

    async fn store_object(context: &UploadContext) -> Result<UploadOutcome, PutError> {
        match &context.job.input {
            UploadInput::Stdin => stream::upload(context).await,
            UploadInput::File(path) => Self::upload_file(context, path).await,
            UploadInput::Object(source) => Self::copy_object(context, source).await,
        }
    }

    async fn upload_file(context: &UploadContext, path: &Path) -> Result<UploadOutcome, PutError> {
        let opened = OpenFile::open(path);
        let file = opened.map_err(|error| PutError::local("read", path, error))?;
        let size = file.snapshot.size;
        context.announce(Some(path), Some(size)).await;
        let is_small = size <= context.state.options.single_request_bytes();
        let upload = async {
            if is_small {
                single_request::upload(context, path, Arc::new(file)).await
            } else {
                Box::pin(multipart::upload(context, path, Arc::new(file))).await
            }
        };
        context.with_progress(Some(size), upload).await
    }

    async fn copy_object(
        context: &UploadContext,
        source: &SourceObject,
    ) -> Result<UploadOutcome, PutError> {
        context.announce(None, Some(source.size)).await;
        let copy = Box::pin(object_copy::copy(context, source));
        context.with_progress(Some(source.size), copy).await
    }
}
