//! Downloads that are watched one by one: a task each, all at once. More than a few are a batch.

use std::time::Duration;

use haul_net::ClientConfig;
use haul_transfer::{DownloadJob, DownloadOutcome, GetError, GetOptions, TransferEngine};
use tokio::task::JoinSet;

use super::run_loop::{RenderContext, RunLoop, StartError, TaskSet};
use crate::progress::Renderer;

/// What is to be done.
#[derive(Debug)]
pub(super) struct DownloadWork {
    /// For `net`.
    pub(super) client: ClientConfig,
    /// For `run_downloads`.
    pub(super) options: GetOptions,
    /// A few.
    pub(super) jobs: Vec<DownloadJob>,
}

/// Does jobs, all at once; `on_end` is told each end as it comes, and when that was, and writes through the renderer. Says how
/// long it took.
///
/// After the first signal jobs are asked to stop; at the second the process ends.
///
/// # Errors
/// See [`StartError`]. A job that fails is no error.
pub(super) async fn run_downloads(
    work: DownloadWork,
    screen: &mut dyn Renderer,
    ended: impl FnMut(RenderContext<'_>, &DownloadJob, &Result<DownloadOutcome, GetError>) + Send,
) -> Result<Duration, StartError> {
    let (watch, sender) = RunLoop::start()?;
    let engine = TransferEngine::new(haul_net::Client::new(work.client)?, work.options, sender);
    let mut jobs = DownloadTasks {
        running: JoinSet::new(),
        on_end: ended,
    };
    for job in work.jobs {
        let (engine, stop) = (engine.clone(), watch.stop());
        jobs.running.spawn(async move {
            let result = engine.get(job.clone(), stop).await;
            Box::new((job, result))
        });
    }
    // With the last job's the channel of events closes.
    drop(engine);
    Ok(watch.run(&mut jobs, screen).await)
}

/// A job and what came of it.
type EndedDownload = Box<(DownloadJob, Result<DownloadOutcome, GetError>)>;

/// Jobs that run.
struct DownloadTasks<F> {
    /// A task each.
    running: JoinSet<EndedDownload>,
    /// Told each end.
    on_end: F,
}

impl<F: FnMut(RenderContext<'_>, &DownloadJob, &Result<DownloadOutcome, GetError>) + Send> TaskSet
    for DownloadTasks<F>
{
    type End = EndedDownload;

    fn tasks(&mut self) -> &mut JoinSet<EndedDownload> {
        &mut self.running
    }

    fn on_end(&mut self, stage: RenderContext<'_>, end: EndedDownload) {
        let (job, result) = &*end;
        (self.on_end)(stage, job, result);
    }
}
