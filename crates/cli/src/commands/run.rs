//! What commands that transfer have in common: a runtime, an engine, a reader of its events.

use std::io;
use std::num::NonZero;

use haul_net::ClientConfig;
use haul_transfer::{Engine, GetError, GetOptions, Job, Outcome};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::progress::{Renderer, show};

/// Events that may wait for the renderer.
const EVENTS: usize = 1024;

/// Jobs at once.
const JOBS: usize = 16;

/// A runtime with a thread a core, within limits: two, so that one can wait for the disk; no more than four, since a
/// download that needs more is limited elsewhere.
pub(super) fn runtime() -> io::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(2, NonZero::get);
    Builder::new_multi_thread().worker_threads(cores.clamp(2, 4)).enable_all().build()
}

/// Does jobs, several at once; tells each end to `ended` as it comes.
pub(super) async fn transfer(
    (client, options): (ClientConfig, GetOptions),
    jobs: Vec<Job>,
    renderer: Box<dyn Renderer>,
    stop: &CancellationToken,
    mut ended: impl FnMut(&Job, Result<Outcome, GetError>),
) -> Result<(), haul_net::ConfigError> {
    let (sender, receiver) = tokio::sync::mpsc::channel(EVENTS);
    let engine = Engine::new(haul_net::Client::new(client)?, options, sender);
    let mut renderers = JoinSet::new();
    renderers.spawn(show(receiver, renderer));
    let mut waiting = jobs.into_iter();
    let mut running = JoinSet::new();
    let mut results = Vec::new();
    loop {
        while running.len() < JOBS && let Some(job) = waiting.next() {
            let (engine, stop) = (engine.clone(), stop.clone());
            running.spawn(async move {
                let result = engine.get(job.clone(), stop).await;
                (job, result)
            });
        }
        match running.join_next().await {
            Some(Ok(pair)) => results.push(pair),
            // Jobs are never aborted here, so it panicked: the bug is passed on.
            Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
            None => break,
        }
    }
    // With the engine goes the last sender, and the renderer ends; only then is the terminal free for other lines.
    drop(engine);
    let _ = renderers.join_next().await;
    results.sort_by_key(|(job, _)| job.id);
    results.into_iter().for_each(|(job, result)| ended(&job, result));
    Ok(())
}
