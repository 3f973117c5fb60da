//! Many files in one run: hundreds of thousands of jobs, in bounded memory, each of them accounted for.
//!
//! [`Batch::run`] puts the parts together (`floor.rs`). A [feeder] reads entries and makes jobs of them; `plan`'s
//! [`JobDispatcher`](haul_plan::dispatch::JobDispatcher) says which of them runs next; [workers](worker) make one request each, and hand what
//! comes, an armful at a time from a [table], to the [clerk], who makes a group of files durable, gives them
//! their names, and keeps the [books]. Every hand-over has a bound, so that the slowest of them sets the pace and none
//! of them fills the memory.
//!
//! A job that is larger than one answer, or that an earlier run left bytes of, goes by the roads of single downloads, in the
//! worker that had its first answer.

mod coordinator;
mod counters;
mod directory_cache;
mod existing_file;
mod file_owner;
mod group_commit;
mod job;
mod job_reader;
mod options;
mod running_jobs;
mod sink;
mod spill;
mod spill_record;
mod state;
mod unnamed_files;
mod unreachable;
mod worker;
mod write_buffer;

use std::path::PathBuf;

use haul_net::Client;
use tokio_util::sync::CancellationToken;

use crate::archive::ShardWriter;
use crate::event::TransferEventSender;
use crate::manifest::{Manifest, PreviousRuns};
use crate::options::GetOptions;
use coordinator::BatchCoordinator;
pub use job_reader::ListEntries;
pub use options::{
    BatchHalt, BatchHaltKind, BatchOptions, BatchSnapshot, BatchSummary, CommitGroupOptions,
    FailureGroup, SlowJob,
};

/// A batch.
#[derive(Debug)]
pub struct Batch {
    /// Makes requests.
    pub client: Client,
    /// Settings of each job.
    pub get_options: GetOptions,
    /// Settings of all together.
    pub options: BatchOptions,
    /// Where rows are written down, and what earlier runs wrote there.
    pub manifest: Option<(Manifest, PreviousRuns)>,
    /// The archive that files go into in place of directories.
    pub archive: Option<BatchArchive>,
    /// Where events go; their reader must read on until the channel closes.
    pub events: TransferEventSender,
}

/// An archive that files go into.
#[derive(Debug)]
pub struct BatchArchive {
    /// The archive.
    pub writer: ShardWriter,
    /// The directory where those lie that are too large to be kept in memory until they are in it.
    pub staging_directory: PathBuf,
}

impl Batch {
    /// Does the jobs that `entries` name. When `stop` is cancelled it ends soon: what came whole by then is in its place, what is
    /// left of larger files is kept, and the same batch goes on.
    ///
    /// To be called on a runtime of several threads. Dropped, it leaves its threads to end by themselves.
    pub async fn run(self, entries: ListEntries, stop: CancellationToken) -> BatchSummary {
        let mut floor = BatchCoordinator::begin(self, entries, stop.child_token());
        floor.watch().await;
        floor.close().await
    }
}
