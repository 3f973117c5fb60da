//! Downloads that are watched one by one: a task each, all at once. More than a few are a batch.

use std::time::Duration;

use haul_net::ClientConfig;
use haul_transfer::{Engine, GetError, GetOptions, Job, Outcome};
use tokio::task::JoinSet;

use super::run::{CannotBegin, Crew, Stage, Watch};
use crate::progress::Renderer;

/// What is to be done.
#[derive(Debug)]
pub(super) struct Work {
    /// For `net`.
    pub(super) client: ClientConfig,
    /// For `transfer`.
    pub(super) options: GetOptions,
    /// A few.
    pub(super) jobs: Vec<Job>,
}

/// Does jobs, all at once; `ended` is told each end as it comes, and when that was, and writes through the renderer. Says how
/// long it took.
///
/// After the first signal jobs are asked to stop; at the second the process ends.
///
/// # Errors
/// See [`CannotBegin`]. A job that fails is no error.
pub(super) async fn transfer(
    work: Work,
    screen: &mut dyn Renderer,
    ended: impl FnMut(Stage<'_>, &Job, &Result<Outcome, GetError>) + Send,
) -> Result<Duration, CannotBegin> {
    let (watch, sender) = Watch::begin()?;
    let engine = Engine::new(haul_net::Client::new(work.client)?, work.options, sender);
    let mut jobs = Jobs {
        running: JoinSet::new(),
        ended,
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
    Ok(watch.over(&mut jobs, screen).await)
}

/// A job and what came of it.
type Ended = Box<(Job, Result<Outcome, GetError>)>;

/// Jobs that run.
struct Jobs<F> {
    /// A task each.
    running: JoinSet<Ended>,
    /// Told each end.
    ended: F,
}

impl<F: FnMut(Stage<'_>, &Job, &Result<Outcome, GetError>) + Send> Crew for Jobs<F> {
    type End = Ended;

    fn tasks(&mut self) -> &mut JoinSet<Ended> {
        &mut self.running
    }

    fn ended(&mut self, stage: Stage<'_>, end: Ended) {
        let (job, result) = &*end;
        (self.ended)(stage, job, result);
    }
}
