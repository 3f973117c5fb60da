//! What a job and its handle share: what the handle wants, and what a snapshot shows.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::download_sources::DownloadSources;
use super::download_totals::DownloadTotals;
use super::job_rate_limit::JobRateLimit;
use super::snapshot::{
    ConnectionReport, DownloadSnapshot, RequestSnapshot, SnapshotSource, SourceSnapshot,
};
use crate::range_set::RangeSet;

/// What a job and its handle share.
#[derive(Debug)]
pub(crate) struct JobSteering {
    commands: Mutex<JobCommands>,
    /// The job waits for a command.
    pub(super) changed: Notify,
    pub(super) limit: Arc<JobRateLimit>,
    view: Mutex<JobView>,
    earlier: Mutex<EarlierAttempts>,
}

/// What the attempts before this one leave to it.
#[derive(Debug, Default)]
pub(super) struct EarlierAttempts {
    /// How long they took, without the time between them.
    pub(super) elapsed: Duration,
    pub(super) totals: DownloadTotals,
    /// The document that the origin leads to turned out wrong.
    pub(super) disproved_document: bool,
}

/// What the handle wants.
#[derive(Debug)]
pub(super) struct JobCommands {
    pub(super) url: Url,
    pub(super) is_paused: bool,
    pub(super) is_removed: bool,
    pub(super) connections: Option<usize>,
    /// A URL that no attempt has used yet.
    pub(super) replacement: Option<Url>,
    /// Ends the attempt that runs.
    attempt: CancellationToken,
}

/// What a snapshot shows where no segments run.
#[derive(Debug, Default)]
struct JobView {
    path: Option<PathBuf>,
    length: Option<u64>,
    is_stream: bool,
    /// The attempt has ended, its files are closed, and the job waits for [`JobSteering::changed`].
    is_waiting: bool,
    on_disk: RangeSet,
    control: Option<ConnectionReport>,
    /// The request of a file that one response brings.
    request: Option<RequestSnapshot>,
    sources: Vec<SourceSnapshot>,
    segments: Option<Weak<dyn SnapshotSource>>,
}

/// What follows an attempt that a command has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SteeringStep {
    Wait,
    Again,
    Remove,
}

impl JobSteering {
    pub(super) fn new(url: Url) -> Self {
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
            earlier: Mutex::default(),
        }
    }

    pub(super) fn commands(&self) -> MutexGuard<'_, JobCommands> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn view(&self) -> MutexGuard<'_, JobView> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn earlier(&self) -> MutexGuard<'_, EarlierAttempts> {
        self.earlier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn interrupt(&self, command: impl FnOnce(&mut JobCommands)) {
        let mut commands = self.commands();
        command(&mut commands);
        commands.attempt.cancel();
    }

    pub(super) fn next_step(&self) -> SteeringStep {
        let commands = self.commands();
        match (commands.is_removed, commands.is_paused) {
            (true, _) => SteeringStep::Remove,
            (_, true) => SteeringStep::Wait,
            _ => SteeringStep::Again,
        }
    }

    /// Whether an attempt was ended by a command, and can be followed by another. A reader of a stream has its first bytes already.
    pub(super) fn may_go_on(&self, attempt: &CancellationToken, stop: &CancellationToken) -> bool {
        attempt.is_cancelled() && !stop.is_cancelled() && !self.view().is_stream
    }

    /// An attempt begins: it ends when this token is cancelled. Returns the URL that it must use from now on, if that is new.
    pub(super) fn begin_attempt(&self, attempt: &CancellationToken) -> Option<Url> {
        let mut commands = self.commands();
        commands.attempt = attempt.clone();
        commands.replacement.take()
    }

    pub(super) fn snapshot(&self) -> DownloadSnapshot {
        let (view, commands) = (self.view(), self.commands());
        let mut snapshot = DownloadSnapshot {
            url: commands.url.clone(),
            path: view.path.clone(),
            length: view.length,
            on_disk: view.on_disk.clone(),
            is_paused: view.is_waiting,
            limit: self.limit.bytes_per_second(),
            control: view.control,
            requests: view.request.iter().cloned().collect(),
            sources: view.sources.clone(),
        };
        let segments = view.segments.as_ref().and_then(Weak::upgrade);
        drop((view, commands));
        if let Some(segments) = segments {
            segments.fill_snapshot(&mut snapshot);
        }
        snapshot
    }

    /// The final path, once it is known.
    pub(super) fn path(&self) -> Option<PathBuf> {
        self.view().path.clone()
    }

    /// The number of connections that the handle wants.
    pub(super) fn connections(&self) -> Option<usize> {
        self.commands().connections
    }

    /// The bytes go into a pipe or a device.
    pub(super) fn note_stream(&self) {
        self.view().is_stream = true;
    }

    /// The job waits for a command, or goes on.
    pub(super) fn note_waiting(&self, is_waiting: bool) {
        self.view().is_waiting = is_waiting;
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

    /// Bytes from the first one on, where one response brings the file.
    pub(super) fn note_written(&self, written: u64) {
        let mut view = self.view();
        view.on_disk = std::iter::once(0..written).collect();
        if let Some(request) = &mut view.request {
            request.position = written;
        }
    }

    /// The request that runs, where no segments do.
    pub(super) fn note_request(&self, request: Option<RequestSnapshot>) {
        self.view().request = request;
    }

    /// The sources, where no segments run.
    pub(super) fn note_sources(&self, sources: &DownloadSources) {
        let sources = sources.snapshot();
        self.view().sources = sources;
    }

    pub(super) fn note_segments(&self, segments: &Arc<dyn SnapshotSource>) {
        self.view().segments = Some(Arc::downgrade(segments));
    }

    pub(super) fn note_control(&self, control: ConnectionReport) {
        self.view().control = Some(control);
    }
}
