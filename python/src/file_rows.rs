//! Rows of uploads, copies, deletions and syncs: what the engines' events say about each file or object.

use std::sync::{Arc, Mutex, PoisonError};

use haul_s3::S3Address;
use haul_transfer::bucket::{DeletedFiles, DeletionFailure};
use haul_transfer::manifest::ManifestRow;
use haul_transfer::put::{PutError, UploadInput, UploadJob};
use haul_transfer::sync::PlannedCopy;
use haul_transfer::{InputError, TransferEvent, TransferEventSender, UploadEnd};
use pyo3::prelude::*;
use tokio::sync::mpsc;

use crate::errors::HaulError;
use crate::running::{RunningTask, TaskContext};

/// Events that may wait to become rows, and rows that may wait for Python.
const QUEUE: usize = 1024;

/// What a row is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FileRowKind {
    Upload,
    Download,
    Copy,
    Delete,
}

/// One file or object. A failure may be about something that has no target, or no name at all.
#[derive(Debug)]
pub(crate) struct FileRow {
    pub(crate) kind: FileRowKind,
    /// A path, or a URL without secrets.
    pub(crate) source: Option<String>,
    pub(crate) target: Option<String>,
    /// The size of the file.
    pub(crate) bytes: u64,
    pub(crate) etag: Option<String>,
    pub(crate) error: Option<HaulError>,
    pub(crate) is_dry_run: bool,
}

/// The fields of a row in Python: kind, source, target, state, bytes, etag, error.
type FileRowFields = (
    &'static str,
    Option<String>,
    Option<String>,
    &'static str,
    u64,
    Option<String>,
    Option<Py<PyAny>>,
);

/// Counts of files that have no row: an earlier run has done them, or they were not deleted because something had failed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RowlessCounts {
    pub(crate) skipped: u64,
    pub(crate) not_deleted: u64,
}

/// A running upload, copy, deletion or sync.
#[pyclass(frozen, module = "haul._haul")]
pub(crate) struct TransferHandle {
    task: RunningTask<FileRow>,
    rowless: Arc<Mutex<RowlessCounts>>,
}

/// What the task of such a handle needs.
pub(crate) struct FileTask {
    pub(crate) context: TaskContext<FileRow>,
    /// What its rows are about, but for deletions.
    kind: FileRowKind,
    pub(crate) is_dry_run: bool,
    rowless: Arc<Mutex<RowlessCounts>>,
}

impl FileRowKind {
    fn name(self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::Download => "download",
            Self::Copy => "copy",
            Self::Delete => "delete",
        }
    }
}

impl FileRow {
    fn into_fields(self, py: Python<'_>) -> FileRowFields {
        let state = match (&self.error, self.is_dry_run) {
            (Some(_), _) => "failed",
            (None, true) => "planned",
            (None, false) => "done",
        };
        let error = self
            .error
            .map(|error| PyErr::from(error).into_value(py).into_any());
        let (bytes, etag) = (self.bytes, self.etag);
        let kind = self.kind.name();
        (kind, self.source, self.target, state, bytes, etag, error)
    }
}

impl FileTask {
    fn row(&self, source: Option<String>, target: Option<String>) -> FileRow {
        FileRow {
            kind: self.kind,
            source,
            target,
            bytes: 0,
            etag: None,
            error: None,
            is_dry_run: self.is_dry_run,
        }
    }

    /// Runs an engine, and hands over a row for each event about a file, until the engine has ended.
    pub(crate) async fn with_rows<F: Future>(
        &self,
        engine: impl FnOnce(TransferEventSender) -> F,
    ) -> F::Output {
        let (sender, mut events) = mpsc::channel(QUEUE);
        let forward = async {
            while let Some(event) = events.recv().await {
                self.on_event(event).await;
            }
        };
        tokio::join!(Box::pin(engine(sender)), forward).0
    }

    async fn on_event(&self, event: TransferEvent) {
        match event {
            TransferEvent::UploadEnded { upload, .. } => {
                if let Some(row) = self.upload_row(&upload) {
                    self.context.send(row).await;
                }
            }
            TransferEvent::NotTransferred(error) => self.send_not_transferred(&error).await,
            TransferEvent::CopyPlanned(copy) => self.send_planned_copy(*copy).await,
            TransferEvent::BatchRow(row) => self.context.send(self.download_row(*row)).await,
            TransferEvent::Deleted(deleted) => self.send_deleted(*deleted).await,
            TransferEvent::DeletionFailed(failure) => {
                self.context.send(self.deletion_failure(&failure)).await;
            }
            TransferEvent::BatchProgress(snapshot) => {
                let counts = &snapshot.summary;
                let length = counts.planned_bytes.filter(|_| counts.list_complete);
                let progress = &self.context.running.progress;
                progress.set(counts.ended_bytes, length);
            }
            // The client logs retries and warnings.
            event => {
                let _ = self.context.engine.events.try_send(event);
            }
        }
    }

    /// The row of an upload or a copy. One that was interrupted has none.
    fn upload_row(&self, upload: &UploadEnd) -> Option<FileRow> {
        let row = self.job_row(&upload.job);
        Some(match &upload.result {
            Ok(outcome) => FileRow {
                bytes: outcome.bytes,
                etag: Some(outcome.etag.clone()),
                ..row
            },
            Err(PutError::Interrupted { .. }) => return None,
            Err(error) => FileRow {
                error: Some(HaulError::of_upload(error, upload.job.target.to_string())),
                ..row
            },
        })
    }

    fn job_row(&self, job: &UploadJob) -> FileRow {
        let target = Some(job.target.to_string());
        self.row(Some(job.input.to_string()), target)
    }

    /// Hands over what would be uploaded or copied.
    pub(crate) async fn send_planned(&self, job: &UploadJob) {
        let bytes = match &job.input {
            UploadInput::Object(object) => object.size,
            UploadInput::File(path) => std::fs::metadata(path).map_or(0, |found| found.len()),
            UploadInput::Stdin => 0,
        };
        let row = FileRow {
            bytes,
            ..self.job_row(job)
        };
        self.context.send(row).await;
    }

    /// Hands over a file of a sync that would be copied.
    async fn send_planned_copy(&self, copy: PlannedCopy) {
        let row = FileRow {
            bytes: copy.bytes,
            ..self.row(Some(copy.source), Some(copy.target))
        };
        self.context.send(row).await;
    }

    /// Hands over why something is not transferred.
    pub(crate) async fn send_not_transferred(&self, error: &InputError) {
        let name = error.name();
        let row = match (self.kind, error) {
            // The folder of a download is its target.
            (
                FileRowKind::Download,
                InputError::InFolder(_) | InputError::BehindLink(_) | InputError::FoldedName(_),
            ) => self.row(None, name),
            _ => self.row(name, None),
        };
        let error = Some(HaulError::of_input(error));
        self.context.send(FileRow { error, ..row }).await;
    }

    fn download_row(&self, row: ManifestRow) -> FileRow {
        let error = row.error.map(|error| HaulError {
            status: row.status,
            url: Some(row.url.clone()),
            hint: crate::remedies::remedies_hint(&error.remedies),
            is_retryable: error.is_transient,
            kind: error.cause,
            ..HaulError::of_class(error.class, error.text)
        });
        FileRow {
            bytes: row.bytes,
            etag: row.etag,
            error,
            ..self.row(Some(row.url), row.path)
        }
    }

    async fn send_deleted(&self, deleted: DeletedFiles) {
        match deleted {
            DeletedFiles::Objects { bucket, keys } => {
                for key in keys {
                    let address = S3Address::new(&*bucket, key);
                    self.context.send(self.deletion(address.to_string())).await;
                }
            }
            DeletedFiles::File(path) => {
                let path = path.display().to_string();
                self.context.send(self.deletion(path)).await;
            }
        }
    }

    fn deletion(&self, target: String) -> FileRow {
        FileRow {
            kind: FileRowKind::Delete,
            ..self.row(None, Some(target))
        }
    }

    fn deletion_failure(&self, failure: &DeletionFailure) -> FileRow {
        let target = match failure {
            DeletionFailure::Object { bucket, failure } => {
                S3Address::new(&**bucket, &*failure.key).to_string()
            }
            DeletionFailure::File { path, .. } => path.display().to_string(),
        };
        FileRow {
            error: Some(HaulError::of_deletion(failure, target.clone())),
            ..self.deletion(target)
        }
    }

    /// Changes the counts of files that have no row.
    pub(crate) fn update_rowless_counts(&self, change: impl FnOnce(&mut RowlessCounts)) {
        change(&mut self.rowless.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl TransferHandle {
    /// Starts work on files, whose rows are about this, or about deletions.
    pub(crate) fn start<F>(
        engine: &crate::engine::Engine,
        kind: FileRowKind,
        is_dry_run: bool,
        run: impl FnOnce(FileTask) -> F,
    ) -> Result<Self, HaulError>
    where
        F: Future<Output = Result<(), HaulError>> + Send + 'static,
    {
        let rowless = Arc::default();
        let of_task = Arc::clone(&rowless);
        let task = RunningTask::start(&engine.state, QUEUE, |context| {
            run(FileTask {
                context,
                kind,
                is_dry_run,
                rowless: of_task,
            })
        })?;
        Ok(Self { task, rowless })
    }
}

#[pymethods]
impl TransferHandle {
    /// Rows that have come, after waiting for the first for so many seconds at most. `None` when there will be no more.
    fn next_rows(
        &self,
        py: Python<'_>,
        max_rows: usize,
        seconds: f64,
    ) -> PyResult<Option<Vec<FileRowFields>>> {
        let rows = py.detach(|| self.task.receive(max_rows, seconds))?;
        Ok(rows.map(|rows| rows.into_iter().map(|row| row.into_fields(py)).collect()))
    }

    /// How many files were skipped, and how many not deleted.
    fn rowless_counts(&self) -> (u64, u64) {
        let rowless = self.rowless.lock().unwrap_or_else(PoisonError::into_inner);
        (rowless.skipped, rowless.not_deleted)
    }

    /// Bytes so far, and how many there will be if that is known.
    fn progress(&self) -> (u64, Option<u64>) {
        self.task.progress.get()
    }

    /// Stops it: what is complete stays, and what a later call can continue is kept.
    fn cancel(&self) {
        self.task.cancel();
    }
}
