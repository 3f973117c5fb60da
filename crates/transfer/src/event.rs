//! The events of a transfer, as one enum over one channel.
//!
//! Bars, plain lines, `--progress json`, the bench and later a page read this channel and nothing else. Nothing here
//! formats: a renderer turns events into text. The engine never waits for a renderer over [`TransferEvent::Progress`]; the
//! rarer kinds are awaited, so that none is lost, which is why a reader must keep reading until the channel closes.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc;
use url::Url;

use crate::batch::BatchSnapshot;
use crate::manifest::ManifestRow;

/// The sending end of the channel. It is bounded: a renderer that blocks delays the rare events and costs no memory.
pub type TransferEventSender = mpsc::Sender<TransferEvent>;

/// Something happened to a job.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TransferEvent {
    /// The job was begun.
    Started {
        /// The job.
        job: u64,
        /// The URL of the download; carries no login, but may hold other secrets: see [`haul_net::redacted_url`].
        url: Url,
    },
    /// The path and the length: known from the first response, and before that from an earlier run's partial file, which the response may
    /// contradict.
    DestinationKnown {
        /// The job.
        job: u64,
        /// The final path; `None` for standard output.
        path: Option<PathBuf>,
        /// Bytes in the whole resource, where the origin says so.
        length: Option<u64>,
        /// Bytes that an earlier run left and this one keeps.
        resumed: u64,
    },
    /// A look at a running job, at most twenty a second.
    Progress {
        /// The job.
        job: u64,
        /// Bytes of the resource in place, those resumed among them.
        done: u64,
        /// Bytes in the whole resource.
        length: Option<u64>,
        /// Connections at work.
        connections: usize,
    },
    /// A segment's request ended (in full, cut short or taken over).
    SegmentEnded {
        /// The job.
        job: u64,
        /// The received bytes, as a range of the resource.
        range: Range<u64>,
        /// From the request to its last byte.
        elapsed: Duration,
        /// Which of the job's workers fetched it.
        worker: usize,
    },
    /// A request failed; the job continues after `wait`.
    Retry {
        /// The job.
        job: u64,
        /// Retries since the last byte; 0 for a failure that costs none because other connections still deliver.
        attempt: u32,
        /// The most retries without a byte.
        limit: u32,
        /// The time without new requests.
        wait: Duration,
        /// What failed.
        reason: String,
    },
    /// The user should know something; the job continues.
    Warning {
        /// The job.
        job: u64,
        /// The warning.
        text: String,
    },
    /// Existing bytes are read back: those of an earlier run at the beginning, or all of them for a checksum.
    Verifying {
        /// The job.
        job: u64,
        /// How many.
        bytes: u64,
    },
    /// The file has its final name.
    Finished {
        /// The job.
        job: u64,
        /// Bytes in the resource.
        bytes: u64,
        /// From start to rename.
        elapsed: Duration,
    },
    /// A job of a batch ended: sent for those that failed, or for all if the options say so.
    BatchRow(Box<ManifestRow>),
    /// A look at a running batch, ten times a second.
    BatchProgress(Box<BatchSnapshot>),
    /// The job ended without its file.
    Failed {
        /// The job.
        job: u64,
        /// The error in one line.
        error: String,
    },
}

impl TransferEvent {
    /// The job of the event; `None` if it is about a batch.
    #[must_use]
    pub fn job(&self) -> Option<u64> {
        Some(match self {
            Self::BatchRow(_) | Self::BatchProgress(_) => return None,
            Self::Started { job, .. }
            | Self::DestinationKnown { job, .. }
            | Self::Progress { job, .. }
            | Self::SegmentEnded { job, .. }
            | Self::Retry { job, .. }
            | Self::Warning { job, .. }
            | Self::Verifying { job, .. }
            | Self::Finished { job, .. }
            | Self::Failed { job, .. } => *job,
        })
    }
}
