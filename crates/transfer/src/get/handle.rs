//! A download that a program watches and steers while it runs: a daemon, a terminal view, Python.
//!
//! The handle and the job share a [`JobSteering`]. A new limit of the rate or of the connections reaches a job at once. A pause, another URL
//! and a removal end the job as a stop would, with everything that is resumable in its place, and [`run_steered`] begins again from there:
//! there is one way to continue a download, whether it was paused, interrupted or killed. What a snapshot shows is what the job keeps
//! anyway: nobody who does not look pays for it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use url::Url;

use super::context::EngineState;
use super::partial_download::PartialDownload;
use super::run::{DownloadStart, download};
use super::snapshot::DownloadSnapshot;
use super::steering::{JobSteering, SteeringStep};
use crate::disk::DownloadPaths;
use crate::error::GetError;
use crate::options::{DownloadJob, DownloadOutcome};

/// A download that is under way. Clones are of the same download; dropping them changes nothing.
#[derive(Debug, Clone)]
pub struct DownloadHandle(Arc<JobSteering>);

impl DownloadHandle {
    #[must_use]
    pub fn snapshot(&self) -> DownloadSnapshot {
        self.0.snapshot()
    }

    /// Ends the requests, and keeps what has arrived, until [`Self::resume`]. A download into a pipe or a device ends with
    /// [`GetError::Interrupted`]: the bytes that its reader has cannot be sent again.
    pub fn pause(&self) {
        self.0.interrupt(|commands| commands.is_paused = true);
    }

    /// Goes on after [`Self::pause`].
    pub fn resume(&self) {
        self.0.commands().is_paused = false;
        self.0.changed.notify_one();
    }

    /// The most bytes a second that this download receives; `None`: no limit of its own. That of the client holds as well.
    pub fn set_limit(&self, bytes_per_second: Option<u64>) {
        self.0.limit.set(bytes_per_second);
    }

    /// How many connections this download uses from now on, but no more than the engine allows to one host.
    pub fn set_connections(&self, connections: usize) {
        self.0.commands().connections = Some(connections.max(1));
    }

    /// Fetches the rest from another URL, for example since the link has expired. If nothing shows that it has the version of the bytes
    /// on disk, the download fails with [`VerificationError::WrongFile`](crate::VerificationError::WrongFile), and they stay.
    pub fn replace_url(&self, url: Url) {
        self.0.interrupt(|commands| {
            commands.url = url.clone();
            commands.replacement = Some(url);
        });
    }

    /// Ends the download with [`GetError::Interrupted`] and removes its partial file. A file that is whole stays.
    pub fn remove(&self) {
        self.0.interrupt(|commands| commands.is_removed = true);
        self.0.changed.notify_one();
    }
}

/// A job and the handle that steers it.
pub(super) fn steer(job: &DownloadJob) -> (DownloadHandle, Arc<JobSteering>) {
    let steering = Arc::new(JobSteering::new(job.url.clone()));
    (DownloadHandle(Arc::clone(&steering)), steering)
}

/// Downloads the file of a job that is steered.
///
/// # Errors
/// See [`GetError`].
pub(super) async fn run_steered(
    engine: &EngineState,
    mut job: DownloadJob,
    steering: &Arc<JobSteering>,
    stop: CancellationToken,
) -> Result<DownloadOutcome, GetError> {
    let mut is_replaced = false;
    loop {
        let attempt = stop.child_token();
        if let Some(url) = steering.begin_attempt(&attempt) {
            job.mirrors.drain(..usize::from(is_replaced));
            is_replaced = url != job.url;
            if is_replaced {
                job.mirrors.insert(0, url);
            }
        }
        // What was commanded before there was a token to cancel.
        if steering.next_step() != SteeringStep::Again {
            attempt.cancel();
        }
        let start = DownloadStart {
            replaces_url: is_replaced,
            steering: Some(steering),
            ..DownloadStart::default()
        };
        let error = match download(engine, &job, start, attempt.clone()).await {
            Err(error @ GetError::Interrupted { .. }) if steering.may_go_on(&attempt, &stop) => {
                error
            }
            result => return result,
        };
        match steering.next_step() {
            SteeringStep::Again => {}
            SteeringStep::Wait => wait_for_resume(steering, &stop).await,
            SteeringStep::Remove => {
                remove_partial(engine, &job, steering)?;
                return Err(error.with_resumable(false));
            }
        }
    }
}

async fn wait_for_resume(steering: &JobSteering, stop: &CancellationToken) {
    steering.note_waiting(true);
    while steering.next_step() == SteeringStep::Wait && !stop.is_cancelled() {
        tokio::select! {
            () = stop.cancelled() => {}
            () = steering.changed.notified() => {}
        }
    }
    steering.note_waiting(false);
}

/// Removes the partial file and its journal, if the job came so far. Under the lock of the file: while the job was paused, another process
/// may have begun to download to the same name.
fn remove_partial(
    engine: &EngineState,
    job: &DownloadJob,
    steering: &JobSteering,
) -> Result<(), GetError> {
    let Some(path) = steering.path() else {
        return Ok(());
    };
    let (paths, options) = (DownloadPaths::new(path), engine.options());
    // What is empty goes when it is dropped.
    PartialDownload::open(paths, &job.url, options, options.existing_file)?.clear()
}
