//! What all uploads share, and what all steps of one upload use.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_plan::{DigestAlgorithm, MIN_NOTED_WAIT};
use haul_s3::{S3Address, S3Client, S3Error, ServiceError};
use http::HeaderMap;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::PutError;
use super::file_part::SentBytes;
use super::options::{PutOptions, UploadJob, UploadTarget};
use super::slots::{UploadSlot, UploadSlots};
use crate::event::{TransferEvent, TransferEventSender};
use crate::recovery::RequestRetries;
use crate::warning::TransferWarning;

/// How often a running job reports its progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// What all uploads share.
#[derive(Debug)]
pub(super) struct UploadState {
    pub(super) client: S3Client,
    pub(super) options: PutOptions,
    pub(super) events: TransferEventSender,
    pub(super) slots: Arc<UploadSlots>,
    /// Whether the store has refused checksums in header fields (row F8).
    pub(super) is_without_checksums: AtomicBool,
    /// Whether the user knows that uploads cannot be remembered (row B12).
    pub(super) has_warned_of_journals: AtomicBool,
}

/// One upload, and what all its steps share. Cloning is cheap.
#[derive(Debug, Clone)]
pub(super) struct UploadContext<T = S3Address> {
    pub(super) state: Arc<UploadState>,
    pub(super) job: Arc<UploadJob>,
    /// Where the job goes.
    pub(super) target: T,
    pub(super) stop: CancellationToken,
    pub(super) sent: SentBytes,
    pub(super) started: Instant,
}

/// Why a request failed, as far as it decides about another attempt.
pub(super) trait UploadRequestError: std::fmt::Display + Into<PutError> {
    /// Whether the same request may work later.
    fn is_transient(&self) -> bool;

    /// Whether the peer has too much to do.
    fn is_throttling(&self) -> bool;

    /// How long the peer wants to be left alone.
    fn retry_after(&self) -> Option<Duration>;

    /// Whether the peer ever sent a response.
    fn has_responded(&self) -> bool;
}

impl UploadRequestError for S3Error {
    fn is_transient(&self) -> bool {
        self.is_transient()
    }

    fn is_throttling(&self) -> bool {
        self.service().is_some_and(ServiceError::is_throttling)
    }

    fn retry_after(&self) -> Option<Duration> {
        self.service()?.retry_after
    }

    fn has_responded(&self) -> bool {
        self.has_responded()
    }
}

impl<U: Sync> UploadContext<U> {
    /// Reports progress while a future runs.
    pub(super) async fn with_progress<T>(
        &self,
        length: Option<u64>,
        future: impl Future<Output = T>,
    ) -> T {
        if self.state.options.is_batch {
            return future.await;
        }
        let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
        tokio::pin!(future);
        loop {
            tokio::select! {
                biased;
                result = &mut future => return result,
                _ = ticks.tick() => {
                    // A renderer that is behind will see the next one.
                    let _ = self.state.events.try_send(TransferEvent::Progress {
                        job: self.job.id,
                        done: self.sent.job.load(Ordering::Relaxed),
                        length,
                        connections: self.state.slots.active(),
                    });
                }
            }
        }
    }

    /// Reports that the upload begins. `length` is that of the file, if it is known.
    pub(super) async fn announce(&self, path: Option<&Path>, length: Option<u64>) {
        let announced = &self.state.slots.announced;
        announced.fetch_add(length.unwrap_or_default(), Ordering::Relaxed);
        if self.state.options.is_batch {
            return;
        }
        let job = self.job.id;
        let url = match &self.job.target {
            UploadTarget::Object(address) => address.to_url().ok(),
            UploadTarget::Url(url) => Some(url.clone()),
        };
        if let Some(url) = url {
            self.send(TransferEvent::Started { job, url }).await;
        }
        self.send(TransferEvent::DestinationKnown {
            job,
            path: path.map(Path::to_owned),
            length,
            resumed: 0,
        })
        .await;
    }

    /// Sends an event. A closed channel is not a reason to stop.
    pub(super) async fn send(&self, event: TransferEvent) {
        if !self.state.options.is_batch || matches!(event, TransferEvent::Warning { .. }) {
            let _ = self.state.events.send(event).await;
        }
    }

    pub(super) async fn warn(&self, warning: TransferWarning) {
        self.send(TransferEvent::Warning {
            job: self.job.id,
            warning,
            url: None,
        })
        .await;
    }

    /// Says once for all uploads that a later run cannot continue them (row B12).
    pub(super) async fn warn_no_resume(&self, reason: String) {
        if !self
            .state
            .has_warned_of_journals
            .swap(true, Ordering::Relaxed)
        {
            self.warn(TransferWarning::NotResumable { reason }).await;
        }
    }

    /// Waits for the right to send a request.
    ///
    /// # Errors
    /// The upload was stopped.
    pub(super) async fn slot(&self) -> Result<UploadSlot, PutError> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(self.interrupted()),
            slot = self.state.slots.acquire() => Ok(slot),
        }
    }

    /// Sends a request until it succeeds or fails for good. Each attempt holds a slot; a wait does not.
    pub(super) async fn send_with_slot<T, F, E>(
        &self,
        request: impl FnMut() -> F,
    ) -> Result<T, PutError>
    where
        F: Future<Output = Result<T, E>>,
        E: UploadRequestError,
    {
        let slot = self.slot().await?;
        slot.activity().begin();
        self.send_in_slot(slot, request).await
    }

    /// The same, with a slot for the first attempt.
    pub(super) async fn send_in_slot<T, F, E>(
        &self,
        slot: UploadSlot,
        mut request: impl FnMut() -> F,
    ) -> Result<T, PutError>
    where
        F: Future<Output = Result<T, E>>,
        E: UploadRequestError,
    {
        let mut first_slot = Some(slot);
        let mut retries = RequestRetries::new(self.state.options.retry.clone());
        let started = Instant::now();
        loop {
            let slot = match first_slot.take() {
                Some(slot) => slot,
                None => {
                    let slot = self.slot().await?;
                    slot.activity().begin();
                    slot
                }
            };
            let error = tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(self.interrupted()),
                result = request() => match result {
                    Ok(value) => return Ok(value),
                    Err(error) => error,
                },
            };
            if error.is_throttling() {
                slot.on_throttled();
            }
            drop(slot);
            if !error.is_transient() {
                return Err(error.into());
            }
            let wait = retries.on_failure(
                started.elapsed(),
                error.retry_after(),
                error.has_responded(),
                rand::random(),
            );
            let Some(wait) = wait else {
                return Err(error.into());
            };
            let (noted, reason) = (self.pause_all(&error), error.to_string());
            drop(error);
            if let Some(warning) = noted {
                self.warn(warning).await;
            }
            self.send(TransferEvent::Retry {
                job: self.job.id,
                attempt: 0,
                limit: retries.limit(),
                wait,
                reason: reason.into(),
            })
            .await;
            tokio::select! {
                () = self.stop.cancelled() => return Err(self.interrupted()),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// All uploads wait if the store asks for it. Returns what the user should know about that.
    fn pause_all(&self, error: &impl UploadRequestError) -> Option<TransferWarning> {
        let wait = error.retry_after().filter(|_| error.is_throttling())?;
        let is_new = self.state.slots.pause(wait);
        let is_noted = is_new && wait >= MIN_NOTED_WAIT && self.state.options.is_batch;
        is_noted.then(|| TransferWarning::UploadsWait {
            error: error.to_string(),
            wait,
        })
    }

    pub(super) fn interrupted(&self) -> PutError {
        PutError::Interrupted {
            is_resumable: false,
        }
    }

    pub(super) fn changed(&self, path: &Path) -> PutError {
        PutError::Changed {
            path: PathBuf::from(path),
        }
    }
}

impl UploadContext {
    /// The fields that say what the object is, with others.
    pub(super) fn object_headers(
        &self,
        others: impl IntoIterator<Item = (http::HeaderName, http::HeaderValue)>,
    ) -> HeaderMap {
        let mut headers = self.job.headers.clone();
        headers.extend(others);
        headers
    }

    /// Sends a request with checksums in header fields, and once more with an MD5 digest if the store refuses those (row F8). Says so
    /// once, though many requests may be refused at the same time.
    pub(super) async fn with_md5_fallback<T, F: Future<Output = Result<T, PutError>>>(
        &self,
        send: impl Fn() -> F,
    ) -> Result<T, PutError> {
        let had_checksums = !self.is_without_checksums();
        let error = match send().await {
            Err(error) if had_checksums && is_checksum_refusal(&error) => error,
            other => return other,
        };
        let is_known = &self.state.is_without_checksums;
        if !is_known.swap(true, Ordering::Relaxed) {
            let error = error.to_string();
            self.warn(TransferWarning::Md5Instead { error }).await;
        }
        send().await
    }

    /// The checksum that the parts of an upload have.
    pub(super) fn multipart_algorithm(&self) -> Option<DigestAlgorithm> {
        let wanted = self.state.options.checksum;
        let algorithm = wanted.unwrap_or(DigestAlgorithm::Crc64Nvme);
        (!self.is_without_checksums()).then_some(algorithm)
    }

    /// A digest of what an upload in parts tells the store of the object when it begins: parts of another one are of no use.
    pub(super) fn settings_digest(&self) -> String {
        let mut fields: Vec<_> = self.job.headers.iter().collect();
        fields.sort_by_key(|(name, _)| name.as_str());
        let text = format!("{:?}", self.multipart_algorithm());
        let mut digest = blake3::Hasher::new();
        digest.update(text.as_bytes());
        for (name, value) in fields {
            // No field has these bytes in it.
            digest.update(b"\n").update(name.as_str().as_bytes());
            digest.update(b"\0").update(value.as_bytes());
        }
        digest.finalize().to_hex().to_string()
    }

    pub(super) fn is_without_checksums(&self) -> bool {
        self.state.is_without_checksums.load(Ordering::Relaxed)
    }
}

/// Whether the store may have refused checksums in header fields.
fn is_checksum_refusal(error: &PutError) -> bool {
    let PutError::Store(error) = error else {
        return false;
    };
    match error.status().map(|status| status.as_u16()) {
        Some(501) => true,
        Some(400) => matches!(
            error.code(),
            "NotImplemented" | "InvalidArgument" | "InvalidRequest" | "UnsupportedHeader"
        ),
        _ => false,
    }
}
