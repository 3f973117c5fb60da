//! The events of a transfer, as one enum over one channel.
//!
//! Progress bars, plain lines and `--progress json` are made from this channel and nothing else. Nothing here formats text:
//! a renderer does. The engine never waits for a renderer to take a [`TransferEvent::Progress`]. It does wait for the rarer
//! kinds, so that none is lost; therefore a reader must keep reading until the channel closes.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use url::Url;

use crate::batch::BatchSnapshot;
use crate::bucket::{DeletedFiles, DeletionFailure};
use crate::connection_control::ConnectionCountLimit;
use crate::input_error::InputError;
use crate::job_end::{DownloadEnd, UploadAbort, UploadEnd};
use crate::manifest::ManifestRow;
use crate::sync::PlannedCopy;
use crate::warning::TransferWarning;

/// The sender of the channel. The channel is bounded: a renderer that blocks delays the rare events and costs no memory.
pub type TransferEventSender = mpsc::Sender<TransferEvent>;

/// An event of a job or of a batch.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TransferEvent {
    Started {
        job: u64,
        /// The URL of the download. It contains no login, but may hold other secrets: see [`haul_net::redacted_url`].
        url: Url,
    },
    /// The path and the length, from the first response. Before it they come from an earlier run's partial file, and the
    /// response may contradict them.
    DestinationKnown {
        job: u64,
        /// The final path; `None` for standard output.
        path: Option<PathBuf>,
        /// The size of the whole resource, if the origin says so.
        length: Option<u64>,
        /// Bytes kept from an earlier run.
        resumed: u64,
    },
    /// The state of a running job, at most twenty times a second.
    Progress {
        job: u64,
        /// Bytes of the resource on disk, resumed ones included.
        done: u64,
        /// The size of the whole resource.
        length: Option<u64>,
        /// Connections in use.
        connections: usize,
    },
    /// A segment's request ended (in full, cut short or taken over).
    SegmentEnded {
        job: u64,
        /// The received bytes, as a range of the resource.
        range: Range<u64>,
        /// The time from the request to its last byte.
        elapsed: Duration,
        /// The number of the job's worker that fetched it.
        worker: usize,
    },
    /// All bytes of a download in segments have arrived: over how many connections, and why not over more.
    Connections {
        job: u64,
        /// The number that connection control chose.
        connections: usize,
        /// Bytes that each worker's connections brought, by the number of the worker.
        bytes: Vec<u64>,
        /// The round trip that the first response showed; `None` where there was none.
        round_trip: Option<Duration>,
        /// Why there were no more.
        limit: ConnectionCountLimit,
    },
    /// A request failed; the job continues after `wait`.
    Retry {
        job: u64,
        /// Retries since the last byte; 0 for a failure that does not count because other connections still deliver.
        attempt: u32,
        /// The most retries without a byte.
        limit: u32,
        /// The time without new requests.
        wait: Duration,
        /// What failed.
        reason: RetryReason,
    },
    /// The user should know something; the job continues.
    Warning {
        job: u64,
        warning: TransferWarning,
        /// The URL of a file of a batch, without secrets.
        url: Option<String>,
    },
    /// Existing bytes are read back: at the start those of an earlier run, or at the end all of them for a checksum.
    Verifying {
        job: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// The file has its final name.
    Finished {
        job: u64,
        /// Bytes in the resource.
        bytes: u64,
        /// The time from the start to the rename.
        elapsed: Duration,
    },
    /// A job of a batch ended: sent for those that failed, or for all if the options say so.
    BatchRow(Box<ManifestRow>),
    /// The state of a running batch, ten times a second.
    BatchProgress(Box<BatchSnapshot>),
    /// A job of [`TransferEngine::get_all`](crate::TransferEngine::get_all) ended.
    DownloadEnded(Arc<DownloadEnd>),
    /// An upload of a batch ended.
    UploadEnded {
        upload: Arc<UploadEnd>,
        /// Whether it was refused in the same way as the first file, so that its report waits. [`Self::UploadRefused`] follows if the
        /// refusals turn out to be about single files.
        is_deferred: bool,
    },
    /// The refusal of an upload that has ended is about its file alone.
    UploadRefused(Arc<UploadEnd>),
    /// An unfinished upload was removed, or could not be.
    UploadAborted(Arc<UploadAbort>),
    /// Something that was named or found is not transferred.
    NotTransferred(Arc<InputError>),
    /// A sync would copy a file.
    CopyPlanned(Box<PlannedCopy>),
    /// Files or objects were deleted.
    Deleted(Box<DeletedFiles>),
    /// A file or an object was not deleted.
    DeletionFailed(Box<DeletionFailure>),
    /// The job ended without its file.
    Failed {
        job: u64,
        /// The error in one line.
        error: String,
    },
}

/// What failed before a retry. Requests that failed in one moment have one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryReason {
    /// The error of the first of them, without its URL.
    pub error: String,
    /// How many connections failed.
    pub connections: usize,
    /// Whether the server closed all of them.
    pub is_close: bool,
}

impl From<String> for RetryReason {
    fn from(error: String) -> Self {
        Self {
            error,
            connections: 1,
            is_close: false,
        }
    }
}

impl fmt::Display for RetryReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.connections {
            0 | 1 => f.write_str(&self.error),
            count if self.is_close => write!(f, "server closed {count} connections"),
            count => write!(f, "{count} connections failed: {}", self.error),
        }
    }
}

impl TransferEvent {
    /// The job of the event; `None` if it is about no job, or about many.
    #[must_use]
    pub fn job(&self) -> Option<u64> {
        Some(match self {
            Self::BatchRow(_)
            | Self::BatchProgress(_)
            | Self::NotTransferred(_)
            | Self::CopyPlanned(_)
            | Self::UploadAborted(_)
            | Self::Deleted(_)
            | Self::DeletionFailed(_) => return None,
            Self::DownloadEnded(download) => download.job.id,
            Self::UploadEnded { upload, .. } | Self::UploadRefused(upload) => upload.job.id,
            Self::Started { job, .. }
            | Self::DestinationKnown { job, .. }
            | Self::Progress { job, .. }
            | Self::SegmentEnded { job, .. }
            | Self::Connections { job, .. }
            | Self::Retry { job, .. }
            | Self::Warning { job, .. }
            | Self::Verifying { job, .. }
            | Self::Finished { job, .. }
            | Self::Failed { job, .. } => *job,
        })
    }
}
