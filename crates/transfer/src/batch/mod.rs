//! Many files in one run: hundreds of thousands of jobs, in bounded memory, each of them accounted for.
//!
//! [`Batch::run`] puts the parts together (`floor.rs`). A [feeder] reads entries and makes jobs of them; `plan`'s
//! [`Dispatch`](haul_plan::dispatch::Dispatch) says which of them runs next; [workers](worker) make one request each, and hand what
//! comes, an armful at a time from a [table], to the [clerk], who makes a group of files durable, gives them
//! their names, and keeps the [books]. Every hand-over has a bound, so that the slowest of them sets the pace and none
//! of them fills the memory.
//!
//! A job that is larger than one answer, or that an earlier run left bytes of, goes by the roads of single downloads, in the
//! worker that had its first answer.

mod aside;
mod books;
mod clerk;
mod errand;
mod feeder;
mod floor;
mod nameless;
mod options;
mod present;
mod reasons;
mod record;
mod shared;
mod sink;
mod table;
mod there;
mod underway;
mod whose;
mod worker;

use std::path::PathBuf;

use haul_net::Client;
use tokio_util::sync::CancellationToken;

use crate::archive::Shards;
use crate::event::EventSender;
use crate::manifest::{Manifest, Past};
use crate::options::GetOptions;
pub use feeder::Entries;
use floor::Floor;
pub use options::{BatchOptions, Board, Cause, GroupOptions, Halt, Halted, Slow, Summary};

/// A batch.
#[derive(Debug)]
pub struct Batch {
    /// Makes requests.
    pub client: Client,
    /// Settings of each job.
    pub get: GetOptions,
    /// Settings of all together.
    pub options: BatchOptions,
    /// Where rows are written down, and what earlier runs wrote there.
    pub manifest: Option<(Manifest, Past)>,
    /// The archive that files go into in place of directories.
    pub archive: Option<Archive>,
    /// Where events go; their reader must read on until the channel closes.
    pub events: EventSender,
}

/// An archive that files go into.
#[derive(Debug)]
pub struct Archive {
    /// The archive.
    pub shards: Shards,
    /// The directory where those lie that are too large to be kept in memory until they are in it.
    pub staging: PathBuf,
}

impl Batch {
    /// Does the jobs that `entries` name. When `stop` is cancelled it ends soon: what came whole by then is in its place, what is
    /// left of larger files is kept, and the same batch goes on.
    ///
    /// To be called on a runtime of several threads. Dropped, it leaves its threads to end by themselves.
    pub async fn run(self, entries: Entries, stop: CancellationToken) -> Summary {
        let mut floor = Floor::begin(self, entries, stop.child_token());
        floor.watch().await;
        floor.close().await
    }
}
