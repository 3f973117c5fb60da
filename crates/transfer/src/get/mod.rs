//! Downloads: from a URL to a whole file.
//!
//! [`TransferEngine::get`] does one job; several may run at once and share connections and the per-host limit. Inside,
//! [`job`] puts the steps in order, [`first`] makes the first request, [`segmented`] and [`worker`] are the road of many
//! connections, [`sequential`] that of one ([`outward`] when it leads to a pipe), [`finish`] gives the file its name.
//! Where a file can be had in several places, [`elsewhere`] and [`mirroring`] do what that asks for. None of them decides: `plan` does.

pub(crate) mod attempt_failure;
mod checkpoint;
mod claim_table;
mod decode_pipe;
mod destination;
mod first_request;
mod flow;
mod gathered_chunks;
mod host_limits;
mod job_sources;
mod mirror_discovery;
mod mirroring;
mod not_modified;
mod partial_claim;
mod partial_download;
mod piece_verifier;
pub(crate) mod publish;
mod request;
mod reserved_names;
mod run;
mod segment_worker;
mod segmented;
mod segmented_state;
mod sequential;
pub(crate) mod single_response;
mod source_failover;
mod steps;
mod strategy;
mod stream_output;
mod unsynced_ranges;
mod worker_counts;

use std::sync::Arc;
use std::time::Duration;

use haul_net::Client;
use tokio_util::sync::CancellationToken;

use crate::error::GetError;
use crate::event::{TransferEvent, TransferEventSender};
use crate::options::{DownloadJob, DownloadOutcome, GetOptions};
use host_limits::HostLimits;
use reserved_names::ReservedNames;
use run::DownloadRun;
use single_response::LargeResponse;

/// How often a running job is looked at when nothing asks for it sooner: smooth for an eye, nothing for a processor.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Does jobs. Cloning is cheap; clones share connections and limits.
#[derive(Debug, Clone)]
pub struct TransferEngine {
    inner: Arc<EngineState>,
}

/// What all jobs share.
#[derive(Debug)]
pub(crate) struct EngineState {
    /// Makes requests.
    client: Client,
    /// The settings.
    options: GetOptions,
    /// Where events go.
    events: TransferEventSender,
    /// The per-host limits.
    host_limits: HostLimits,
    /// Final names, and whose they are; `None` where whoever makes the jobs gives each a name of its own.
    reserved_names: Option<ReservedNames>,
    /// Whether a job is only done when its file's name, and all those above it, would survive a power cut: a row will say so. Else
    /// that they may not is worth a warning.
    requires_durable_name: bool,
}

impl EngineState {
    /// What the jobs of a batch share, whose names are given to them.
    ///
    /// `small`: as many connections as small files may have to one host.
    pub(crate) fn for_batch(
        client: Client,
        (options, small): (GetOptions, usize),
        events: TransferEventSender,
    ) -> Self {
        Self {
            host_limits: HostLimits::for_batch(small, options.connections.max()),
            client,
            options,
            events,
            reserved_names: None,
            requires_durable_name: true,
        }
    }

    /// The settings.
    pub(crate) fn options(&self) -> &GetOptions {
        &self.options
    }

    /// Does a job by the roads that use partial files, with an answer that is there already or without.
    pub(crate) async fn run(
        &self,
        job: &DownloadJob,
        large: Option<LargeResponse>,
        stop: CancellationToken,
    ) -> Result<DownloadOutcome, GetError> {
        let run = DownloadRun::new(self, job, stop);
        let run = match large {
            Some(large) => run.adopt(large),
            None => run,
        };
        // On the heap: the states of all steps together are larger than a caller wants in its own future.
        Box::pin(run.run()).await
    }
}

impl TransferEngine {
    /// An engine whose jobs tell `events` what happens; its reader must read on until the channel closes.
    #[must_use]
    pub fn new(client: Client, options: GetOptions, events: TransferEventSender) -> Self {
        let hosts = HostLimits::new(options.connections.max());
        Self {
            inner: Arc::new(EngineState {
                client,
                options,
                events,
                host_limits: hosts,
                reserved_names: Some(ReservedNames::default()),
                requires_durable_name: false,
            }),
        }
    }

    /// Does one job. When `stop` is cancelled it ends soon with [`GetError::Interrupted`], its state kept.
    ///
    /// Dropped instead, it leaves what the last checkpoint claimed: as a kill would.
    ///
    /// # Errors
    /// See [`GetError`]; the final name is untouched by every one of them.
    pub async fn get(
        &self,
        job: DownloadJob,
        stop: CancellationToken,
    ) -> Result<DownloadOutcome, GetError> {
        let inner = &*self.inner;
        let url = haul_net::without_credentials(&job.url);
        // Nobody listening is no reason to stop, here and below.
        let _ = inner
            .events
            .send(TransferEvent::Started { job: job.id, url })
            .await;
        let result = inner.run(&job, None, stop).await;
        let event = match &result {
            Ok(outcome) => TransferEvent::Finished {
                job: job.id,
                bytes: outcome.bytes,
                elapsed: outcome.elapsed,
            },
            Err(error) => TransferEvent::Failed {
                job: job.id,
                error: error.to_string(),
            },
        };
        let _ = inner.events.send(event).await;
        result
    }
}
