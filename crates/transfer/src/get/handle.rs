//! A download that a program watches and steers while it runs: a daemon, a terminal view, Python.
//!
//! The handle and the job share a [`JobSteering`]. A new limit of the rate or of the connections reaches a job at once. A pause, another URL
//! and a removal end the job as a stop would, with everything that is resumable in its place, and [`run_steered`] begins again from there:
//! there is one way to continue a download, whether it was paused, interrupted or killed. What a snapshot shows is what the job keeps
//! anyway: nobody who does not look pays for it.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use haul_plan::RangeSet;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::context::EngineState;
use super::job_rate_limit::JobRateLimit;
use super::run::{DownloadStart, download};
use super::segmented::SegmentedState;
use super::snapshot::{ConnectionReport, DownloadSnapshot};
use crate::disk::{DownloadPaths, blocking, remove_if_exists};
use crate::error::GetError;
use crate::options::{DownloadJob, DownloadOutcome};

/// A download that is under way. Clones are of the same download; dropping them changes nothing.
#[derive(Debug, Clone)]
pub struct DownloadHandle(Arc<JobSteering>);

impl DownloadHandle {
    /// What the download is doing.
    #[must_use]
    pub fn snapshot(&self) -> DownloadSnapshot {
        let (view, commands) = (self.0.view(), self.0.commands());
        let mut snapshot = DownloadSnapshot {
            url: commands.url.clone(),
            path: view.path.clone(),
            length: view.length,
            on_disk: view.on_disk.clone(),
            is_paused: commands.is_paused,
            limit: self.0.limit.bytes_per_second(),
            control: view.control,
            requests: Vec::new(),
            sources: Vec::new(),
        };
        let segments = view.segments.upgrade();
        drop((view, commands));
        if let Some(segments) = segments {
            segments.fill_snapshot(&mut snapshot);
        }
        snapshot
    }

    /// Ends the requests, and keeps what has arrived, until [`Self::resume`].
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

/// What a job and its handle share.
#[derive(Debug)]
pub(crate) struct JobSteering {
    commands: Mutex<JobCommands>,
    /// The job waits for a command.
    changed: Notify,
    pub(super) limit: Arc<JobRateLimit>,
    view: Mutex<JobView>,
}

/// What the handle wants.
#[derive(Debug)]
struct JobCommands {
    /// The present URL.
    url: Url,
    is_paused: bool,
    is_removed: bool,
    connections: Option<usize>,
    /// A URL that no attempt has used yet.
    replacement: Option<Url>,
    /// Ends the attempt that runs.
    attempt: CancellationToken,
}

/// What a snapshot shows beside the segments that run.
#[derive(Debug, Default)]
struct JobView {
    path: Option<PathBuf>,
    length: Option<u64>,
    on_disk: RangeSet,
    control: Option<ConnectionReport>,
    segments: Weak<SegmentedState>,
}

/// What follows an attempt that a command has ended.
#[derive(Debug, PartialEq, Eq)]
enum SteeringStep {
    Wait,
    Again,
    Remove,
}

impl JobSteering {
    fn new(url: Url) -> Self {
        Self {
            commands: Mutex::new(JobCommands {
                url,
                is_paused: false,
                is_removed: false,
                connections: None,
                replacement: None,
                attempt: CancellationToken::new(),
            }),
            changed: Notify::new(),
            limit: Arc::default(),
            view: Mutex::default(),
        }
    }

    fn commands(&self) -> MutexGuard<'_, JobCommands> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn view(&self) -> MutexGuard<'_, JobView> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn interrupt(&self, command: impl FnOnce(&mut JobCommands)) {
        let mut commands = self.commands();
        command(&mut commands);
        commands.attempt.cancel();
    }

    fn next_step(&self) -> SteeringStep {
        let commands = self.commands();
        match (commands.is_removed, commands.is_paused) {
            (true, _) => SteeringStep::Remove,
            (_, true) => SteeringStep::Wait,
            _ => SteeringStep::Again,
        }
    }

    /// An attempt begins: it ends when this token is cancelled. Returns the URL that it must use from now on, if that is new.
    fn begin_attempt(&self, attempt: &CancellationToken) -> Option<Url> {
        let mut commands = self.commands();
        commands.attempt = attempt.clone();
        commands.replacement.take()
    }

    /// The number of connections that the handle wants.
    pub(super) fn connections(&self) -> Option<usize> {
        self.commands().connections
    }

    /// The name and the length of the file are known.
    pub(super) fn note_destination(&self, path: &Path, length: Option<u64>) {
        let mut view = self.view();
        view.path = Some(path.to_owned());
        view.length = length;
    }

    /// The bytes on disk, where no segments run.
    pub(super) fn note_on_disk(&self, on_disk: RangeSet) {
        self.view().on_disk = on_disk;
    }

    pub(super) fn note_segments(&self, segments: &Arc<SegmentedState>) {
        self.view().segments = Arc::downgrade(segments);
    }

    pub(super) fn note_control(&self, control: ConnectionReport) {
        self.view().control = Some(control);
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
        let error = match download(engine, &job, start, attempt).await {
            Err(error @ GetError::Interrupted { .. }) if !stop.is_cancelled() => error,
            result => return result,
        };
        match steering.next_step() {
            SteeringStep::Again => {}
            SteeringStep::Wait => wait_for_resume(steering, &stop).await,
            SteeringStep::Remove => {
                remove_partial(steering)?;
                return Err(error.with_resumable(false));
            }
        }
    }
}

fn wait_for_resume<'a>(
    steering: &'a JobSteering,
    stop: &'a CancellationToken,
) -> impl Future<Output = ()> + use<'a> {
    async move {
        while steering.next_step() == SteeringStep::Wait {
            tokio::select! {
                () = stop.cancelled() => return,
                () = steering.changed.notified() => {}
            }
        }
    }
}

/// Removes the partial file and its journal, if the job came so far.
fn remove_partial(steering: &JobSteering) -> Result<(), GetError> {
    let Some(path) = steering.view().path.clone() else {
        return Ok(());
    };
    let paths = DownloadPaths::new(path);
    blocking(|| {
        remove_if_exists(&paths.journal())?;
        remove_if_exists(&paths.partial())
    })
    .map_err(|error| GetError::io("remove", paths.partial(), error))
}
