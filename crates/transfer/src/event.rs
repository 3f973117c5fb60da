//! What a transfer tells the outside, as one enum over one channel.
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

/// The engine's end of the channel. Bounded: a renderer that stands still slows the rare events, never the memory.
pub type TransferEventSender = mpsc::Sender<TransferEvent>;

/// Something happened to a job.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TransferEvent {
    /// The job was begun.
    Started {
        /// Which job.
        job: u64,
        /// What is fetched; carries no login, but may hold other secrets: see [`haul_net::redacted_url`].
        url: Url,
    },
    /// Where the bytes go and how many there are: known from the first answer, and before that from what an earlier run left,
    /// of which an answer may bring other news.
    DestinationKnown {
        /// Which job.
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
        /// Which job.
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
        /// Which job.
        job: u64,
        /// Where the request's bytes stand in the resource, as far as they came.
        range: Range<u64>,
        /// From the request to its last byte.
        elapsed: Duration,
        /// Which of the job's workers fetched it.
        worker: usize,
    },
    /// Something failed that may heal; the job goes on after `wait`.
    Retry {
        /// Which job.
        job: u64,
        /// How many retries there were since a byte last came; 0 for what costs none, since others still deliver.
        attempt: u32,
        /// The most retries without a byte.
        limit: u32,
        /// How long nothing new is asked.
        wait: Duration,
        /// What failed, in words.
        reason: String,
    },
    /// Worth knowing, though the job goes on.
    Warning {
        /// Which job.
        job: u64,
        /// What, in words.
        text: String,
    },
    /// Bytes that are there are read back: those that an earlier run left, at the beginning, or all of them, for a checksum.
    Verifying {
        /// Which job.
        job: u64,
        /// How many.
        bytes: u64,
    },
    /// The file stands under its final name.
    Finished {
        /// Which job.
        job: u64,
        /// Bytes in the resource.
        bytes: u64,
        /// From start to rename.
        elapsed: Duration,
    },
    /// A job of a batch ended; told of those that failed, and of all where somebody wants that.
    BatchRow(Box<ManifestRow>),
    /// A look at a running batch, ten times a second.
    BatchProgress(Box<BatchSnapshot>),
    /// The job ended without its file.
    Failed {
        /// Which job.
        job: u64,
        /// Why, in words.
        error: String,
    },
}

impl TransferEvent {
    /// The job an event speaks of; `None` where it speaks of a batch.
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
