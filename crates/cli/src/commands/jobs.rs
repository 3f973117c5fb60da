//! Runs single downloads: a task each, all at once. More than a few are a batch.

use std::time::Duration;

use haul_net::ClientConfig;
use haul_transfer::{DownloadJob, DownloadOutcome, GetError, GetOptions, TransferEngine};
use tokio::task::JoinSet;

use super::run_loop::{RenderContext, RunLoop, StartError, TaskSet};
use crate::progress::Renderer;

#[derive(Debug)]
pub(super) struct DownloadWork {
    pub(super) client: ClientConfig,
    pub(super) options: GetOptions,
    pub(super) jobs: Vec<DownloadJob>,
}

/// Runs all jobs at once and returns how long that took. `on_end` gets each result when it is there, and prints through the renderer.
///
/// The first signal stops the jobs, the second ends the process.
///
/// # Errors
/// See [`StartError`]. A failed job is no error.
pub(super) async fn run_downloads(
    work: DownloadWork,
    renderer: &mut dyn Renderer,
    ended: impl FnMut(RenderContext<'_>, &DownloadJob, &Result<DownloadOutcome, GetError>) + Send,
) -> Result<Duration, StartError> {
    let (run_loop, sender) = RunLoop::start()?;
    let engine = TransferEngine::new(haul_net::Client::new(work.client)?, work.options, sender);
    let mut jobs = DownloadTasks {
        running: JoinSet::new(),
        on_end: ended,
    };
    for job in work.jobs {
        let (engine, stop) = (engine.clone(), run_loop.stop());
        jobs.running.spawn(async move {
            let result = engine.get(job.clone(), stop).await;
            Box::new((job, result))
        });
    }
    // The channel of events closes with the engine's last clone.
    drop(engine);
    Ok(run_loop.run(&mut jobs, renderer).await)
}

/// A job and its result.
type EndedDownload = Box<(DownloadJob, Result<DownloadOutcome, GetError>)>;

struct DownloadTasks<F> {
    running: JoinSet<EndedDownload>,
    /// Gets each result.
    on_end: F,
}

impl<F: FnMut(RenderContext<'_>, &DownloadJob, &Result<DownloadOutcome, GetError>) + Send> TaskSet
    for DownloadTasks<F>
{
    type End = EndedDownload;

    fn tasks(&mut self) -> &mut JoinSet<EndedDownload> {
        &mut self.running
    }

    fn on_end(&mut self, context: RenderContext<'_>, end: EndedDownload) {
        let (job, result) = &*end;
        (self.on_end)(context, job, result);
    }
}
