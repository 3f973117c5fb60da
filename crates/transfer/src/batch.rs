//! Many files in one run: hundreds of thousands of jobs, in bounded memory, each with a recorded outcome.
//!
//! [`Batch::run`] starts a [coordinator]. A [reader] thread turns entries of lists into jobs and puts them into the
//! [queue](job_queue), where the [`JobDispatcher`](dispatch::JobDispatcher) decides which of them runs
//! next. [Workers](workers) make one request at a time. Fetched files go through a [write buffer](write_buffer) to the
//! [commit] thread, which makes a group of files durable, gives them their names, and records the [outcomes](outcome).
//! Every queue is bounded, so that the slowest of these sets the pace and none of them fills the memory.
//!
//! A job whose file is larger than one response, or has a partial file from an earlier run, is downloaded as a single
//! download is, by the worker that got its first response.

mod commit;
mod coordinator;
mod counters;
mod dispatch;
mod error_limit;
mod existing_file;
mod host_failures;
mod host_memory;
mod job;
mod job_queue;
mod limits;
mod options;
mod outcome;
mod output;
mod outputs;
mod published_rows;
mod reader;
mod running_jobs;
mod workers;
mod write_buffer;

use haul_net::Client;
use tokio_util::sync::CancellationToken;

use crate::event::TransferEventSender;
use crate::manifest::{Manifest, PreviousRuns};
use crate::options::GetOptions;
use coordinator::BatchCoordinator;
pub(crate) use counters::BatchCounters;
pub use dispatch::{HostRequestLimit, JobDispatcherOptions, RequestRate, RequestRateError};
pub use error_limit::{ErrorLimit, ErrorLimitError};
pub use host_memory::HostMemory;
pub use limits::{dispatcher_options, open_file_limit};
pub use options::{
    BatchOptions, BatchSnapshot, BatchSummary, CommitGroupOptions, EarlyStop, FailureGroup,
    SlowJob, StopReason,
};
pub use outcome::error_chain;
pub use output::{BatchArchive, BatchOutput, FetchedBody, MemoryOutput};
pub use outputs::{BatchDestination, BatchOutputError, BatchOutputs, StagingDirectory};
pub use reader::ListEntries;

/// A batch that can be run.
#[derive(Debug)]
pub struct Batch {
    /// Makes requests.
    pub client: Client,
    /// Settings of each job.
    pub get_options: GetOptions,
    pub options: BatchOptions,
    /// Where outcomes are recorded, and the outcomes of earlier runs.
    pub manifest: Option<(Manifest, PreviousRuns)>,
    /// Where files go.
    pub output: BatchOutput,
    /// What earlier batches of this process have learned about hosts, and later ones shall know.
    pub host_memory: Option<HostMemory>,
    /// Where events are sent. The receiver must read until the channel closes.
    pub events: TransferEventSender,
}

impl Batch {
    /// Runs the jobs of these entries. When `stop` is cancelled, it ends soon: complete files are put in place, partial
    /// files are kept, and a later run with the same lists continues.
    ///
    /// To be called on a runtime with several threads. If the future is dropped, its threads end by themselves.
    pub async fn run(mut self, entries: ListEntries, stop: CancellationToken) -> BatchSummary {
        self.options.dispatch.max_retry_after = self.get_options.retry.max_retry_after;
        self.options.dispatch.retries = self.get_options.retry.retries;
        let mut coordinator = BatchCoordinator::start(self, entries, stop.child_token());
        coordinator.run().await;
        let mut summary = coordinator.finish().await;
        if stop.is_cancelled() {
            summary.note_interruption();
        }
        summary
    }
}
