//! The engine as its callers see it: jobs go in, outcomes come out, events tell what happens meanwhile.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use haul_net::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::context::EngineState;
use super::handle::{DownloadHandle, run_steered, steer};
use super::steering::JobSteering;
use crate::error::GetError;
use crate::event::{TransferEvent, TransferEventSender};
use crate::job_end::DownloadEnd;
use crate::options::{DownloadJob, DownloadOutcome, GetOptions};

/// Downloads files. Cloning is cheap; clones share connections and limits.
#[derive(Debug, Clone)]
pub struct TransferEngine {
    state: Arc<EngineState>,
}

impl TransferEngine {
    /// An engine whose jobs send `events`; the receiver must keep reading until the channel closes.
    #[must_use]
    pub fn new(client: Client, options: GetOptions, events: TransferEventSender) -> Self {
        Self {
            state: Arc::new(EngineState::new(client, options, events)),
        }
    }

    /// Downloads the file of one job. When `stop` is cancelled it ends soon with [`GetError::Interrupted`] and keeps its state.
    ///
    /// A future that is dropped instead leaves what the last checkpoint claimed, as a kill would.
    ///
    /// # Errors
    /// See [`GetError`]; the final name is untouched by every one of them.
    pub async fn get(
        &self,
        job: DownloadJob,
        stop: CancellationToken,
    ) -> Result<DownloadOutcome, GetError> {
        self.start(job, stop).1.await
    }

    /// The same, with a handle to watch and steer the download while the future runs.
    pub fn start(
        &self,
        job: DownloadJob,
        stop: CancellationToken,
    ) -> (
        DownloadHandle,
        BoxFuture<'static, Result<DownloadOutcome, GetError>>,
    ) {
        let (handle, steering) = steer(&job);
        let engine = self.clone();
        let run = async move { engine.run(job, steering, stop).await };
        (handle, Box::pin(run))
    }

    async fn run(
        &self,
        job: DownloadJob,
        steering: Arc<JobSteering>,
        stop: CancellationToken,
    ) -> Result<DownloadOutcome, GetError> {
        let events = &self.state.events;
        let url = haul_net::without_credentials(&job.url);
        // A closed channel does not stop the download, here and below.
        let _ = events
            .send(TransferEvent::Started { job: job.id, url })
            .await;
        let job_id = job.id;
        let result = run_steered(&self.state, job, &steering, stop).await;
        let event = match &result {
            Ok(outcome) => TransferEvent::Finished {
                job: job_id,
                bytes: outcome.bytes,
                elapsed: outcome.elapsed,
            },
            Err(error) => TransferEvent::Failed {
                job: job_id,
                error: error.to_string(),
            },
        };
        let _ = events.send(event).await;
        result
    }

    /// Downloads the files of these jobs at once. Each result is a [`TransferEvent::DownloadEnded`].
    pub async fn get_all(self, jobs: Vec<DownloadJob>, stop: CancellationToken) {
        let mut running = JoinSet::new();
        for job in jobs {
            let (engine, stop) = (self.clone(), stop.clone());
            running.spawn(async move {
                let result = engine.get(job.clone(), stop).await;
                let ended = TransferEvent::DownloadEnded(Arc::new(DownloadEnd { job, result }));
                let _ = engine.state.events.send(ended).await;
            });
        }
        drop(self);
        while let Some(ended) = running.join_next().await {
            // Tasks are never aborted here, so the task panicked: the bug is passed on.
            ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        }
    }

    /// Lets later jobs have the final names of a job that has ended. For programs, whose calls are not the URLs of one command: the same
    /// call must be able to continue a download.
    pub fn release_names(&self, job: u64) {
        if let Some(names) = &self.state.reserved_names {
            names.release(job);
        }
    }
}
