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
use super::destination::DownloadDestination;
use super::partial_download::PartialDownload;
use super::run::{DownloadStart, download};
use super::snapshot::DownloadSnapshot;
use super::steering::{JobSteering, SteeringStep};
use crate::disk::DownloadPaths;
use crate::error::GetError;
use crate::options::{DownloadJob, DownloadOutcome, JobOutput};
use crate::range_set::RangeSet;

/// A download that is under way. Clones are of the same download; dropping them changes nothing.
#[derive(Debug, Clone)]
pub struct DownloadHandle(Arc<JobSteering>);

impl DownloadHandle {
    #[must_use]
    pub fn snapshot(&self) -> DownloadSnapshot {
        self.0.snapshot()
    }

    /// Ends the requests until [`Self::resume`]. What has arrived is kept if a later run could resume it: the origin sends parts, something
    /// identifies the version, and [`GetOptions::resume`](crate::GetOptions::resume) is set. Otherwise the download begins again, and the
    /// snapshot shows nothing on disk. A download into a pipe or a device ends with [`GetError::Interrupted`]: the bytes that its reader
    /// has cannot be sent again.
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
    /// on disk, or if it sends no parts, the download fails with [`VerificationError::WrongFile`](crate::VerificationError::WrongFile), and
    /// they stay. A checksum of the job shows it only at the end of the file. The job's header fields and logins go to the new URL only if
    /// it has the origin of a URL that the job came with.
    pub fn replace_url(&self, url: Url) {
        self.0.interrupt(|commands| {
            commands.url = url.clone();
            commands.replacement = Some(url);
        });
    }

    /// Ends the download and removes its partial file. The error is [`GetError::Interrupted`], unless the download has just failed by
    /// itself. A file that is whole stays, and so does a partial file of another URL.
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
    let (mut replaces_url, mut is_other_url) = (false, false);
    loop {
        let attempt = stop.child_token();
        if let Some(url) = steering.begin_attempt(&attempt) {
            job.mirrors.drain(..usize::from(is_other_url));
            (replaces_url, is_other_url) = (true, url != job.url);
            if is_other_url {
                if job.credential_urls.is_none() {
                    job.credential_urls = Some(job.source_urls().cloned().collect());
                }
                job.mirrors.insert(0, url);
            }
        }
        // What was commanded before there was a token to cancel.
        if steering.next_step() != SteeringStep::Again {
            attempt.cancel();
        }
        let start = DownloadStart {
            source: usize::from(is_other_url),
            replaces_url,
            steering: Some(steering),
            ..DownloadStart::default()
        };
        let error = match download(engine, &job, start, attempt.clone()).await {
            Err(error) if steering.next_step() == SteeringStep::Remove => {
                return Err(remove_partial(engine, &job, steering, error));
            }
            Err(error @ GetError::Interrupted { .. }) if steering.may_go_on(&attempt, &stop) => {
                error
            }
            result => return result,
        };
        if matches!(error, GetError::Interrupted { resumable: false }) {
            steering.note_on_disk(RangeSet::new());
        }
        if let Some(path) = steering.path() {
            // The bytes are under this name, whatever the next response or URL would call the file.
            job.output = JobOutput::File(path);
        }
        if steering.next_step() == SteeringStep::Wait {
            wait_for_resume(steering, &stop).await;
        }
        if steering.next_step() == SteeringStep::Remove {
            return Err(remove_partial(engine, &job, steering, error));
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

/// Removes the partial file and its journal, and returns the error that the job ends with.
fn remove_partial(
    engine: &EngineState,
    job: &DownloadJob,
    steering: &JobSteering,
    error: GetError,
) -> GetError {
    let existing = engine.options().existing_file;
    // An earlier run may have left bytes, also if this one got no response.
    let guessed = || DownloadDestination::guess(&job.output, existing, &job.url);
    let paths = steering.path().map(DownloadPaths::new).or_else(guessed);
    match paths.map(|paths| PartialDownload::remove(&paths, &job.url)) {
        Some(Err(failed)) => failed,
        _ => error.with_resumable(false),
    }
}
