//! A batch: rows go in as they are pulled, results come out as they are there.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haul_plan::Checksum;
use haul_transfer::archive::{ArchiveDestination, ArchiveOptions};
use haul_transfer::batch::{
    Batch, BatchDestination, BatchOptions, BatchOutputError, BatchOutputs, BatchSnapshot,
    BatchSummary, CommitGroupOptions, JobDispatcherOptions, ListEntries, StopReason,
    dispatcher_options,
};
use haul_transfer::disk::StorageWrapping;
use haul_transfer::list::DownloadList;
use haul_transfer::manifest::ManifestRow;
use haul_transfer::{
    ConnectionCount, ContentExpectation, ErrorClass, GetOptions, MediaRange, PathLayout,
    RobotsTagPolicy, TransferEvent,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::bodies::{BodyPlace, SharedBodyColumn};
use crate::columns::ResultColumns;
use crate::engine::{Engine, EventReceiver, PythonEngine};
use crate::errors::{HaulError, bug, chain_text};
use crate::result_row::ResultRow;
use crate::rows::{IteratorFailure, PythonRows};
use crate::settings::parse_all;

/// Results that may wait for Python.
const RESULT_QUEUE: usize = 1024;

/// Results with bodies that may wait for Python, and those of a group.
const BODY_QUEUE: usize = 64;

/// Results are collected as often, so that not each of them wakes a thread.
const COLLECT_PAUSE: Duration = Duration::from_millis(2);

/// Bytes of a group of bodies.
const BODY_GROUP_BYTES: u64 = 8 << 20;

/// The arguments of a batch.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct BatchArguments {
    list: Option<PathBuf>,
    directory: Option<PathBuf>,
    tar: Option<PathBuf>,
    shard_size: Option<u64>,
    manifest: Option<PathBuf>,
    checksum: Vec<String>,
    expect_type: Vec<String>,
    max_size: Option<u64>,
    respect_robots_tag: bool,
    overwrite: bool,
    layout: String,
    /// Whether bodies come with rows. Without this, a directory and an archive they are dropped.
    keep_bodies: bool,
    /// Whether results are collected, and not handed over one by one.
    collects: bool,
    /// Whether messages have the number of a row.
    has_numbers: bool,
}

/// A running batch.
#[pyclass(frozen, module = "haul._haul")]
pub(crate) struct BatchHandle {
    engine: Arc<PythonEngine>,
    results: Mutex<BatchResults>,
    bodies: BodyPlace,
    snapshot: Mutex<BatchSnapshot>,
    /// Why the rows ended.
    failure: IteratorFailure,
    stop: CancellationToken,
}

/// What comes out of a batch.
struct BatchResults {
    events: Arc<EventReceiver>,
    task: Option<JoinHandle<BatchSummary>>,
    summary: Option<BatchSummary>,
    columns: ResultColumns,
}

#[pymethods]
impl Engine {
    /// Starts a batch of rows.
    fn batch(
        &self,
        py: Python<'_>,
        rows: Option<&Bound<'_, PyAny>>,
        arguments: BatchArguments,
    ) -> PyResult<BatchHandle> {
        let engine = Arc::clone(&self.state);
        let runtime = self.state.runtime()?;
        let stop = engine.stop_token();
        let failure = IteratorFailure::default();
        let entries: ListEntries = match (rows, &arguments.list) {
            (Some(rows), _) => Box::new(PythonRows::new(
                rows,
                arguments.has_numbers,
                Arc::clone(&failure),
                stop.clone(),
            )?),
            // A pipe is opened when its writer does, who may need the interpreter's lock.
            (None, Some(path)) => py.detach(|| open_list(path))?,
            (None, None) => return Err(bug("a batch without rows")),
        };
        let column = SharedBodyColumn::default();
        let bodies = match (arguments.keep_bodies, arguments.collects) {
            (false, _) => BodyPlace::Nowhere,
            (true, true) => BodyPlace::Column(column.clone()),
            (true, false) => BodyPlace::Rows(Arc::default()),
        };
        // A manifest of earlier runs and the archive are read for as long as they are large.
        let outputs = py.detach(|| arguments.open_outputs(&bodies))?;
        let queue = if arguments.hands_bodies_over() {
            BODY_QUEUE
        } else {
            RESULT_QUEUE
        };
        let (sender, events) = mpsc::channel(queue);
        let batch = Batch {
            client: engine.http.clone(),
            get_options: arguments.get_options(&engine)?,
            options: arguments.batch_options(&engine)?,
            manifest: outputs.manifest,
            output: outputs.output,
            events: sender,
            host_memory: Some(engine.host_memory.clone()),
        };
        let (running, stopping) = (engine.begin_job(), stop.clone());
        let task = runtime.spawn(async move {
            let summary = batch.run(entries, stopping).await;
            drop(outputs.staging);
            drop(running);
            summary
        });
        let events = Arc::new(EventReceiver::new(events));
        engine.add_receiver(&events);
        Ok(BatchHandle {
            engine,
            results: Mutex::new(BatchResults {
                events,
                task: Some(task),
                summary: None,
                columns: ResultColumns::new(column),
            }),
            bodies,
            snapshot: Mutex::default(),
            failure,
            stop,
        })
    }
}

impl BatchArguments {
    /// Whether bodies wait for Python, so that few of them may.
    fn hands_bodies_over(&self) -> bool {
        self.keep_bodies && !self.collects
    }

    fn get_options(&self, engine: &PythonEngine) -> Result<GetOptions, HaulError> {
        let options = engine.get_options(None, self.overwrite);
        Ok(GetOptions {
            expected_content: ContentExpectation {
                media_types: parse_all::<MediaRange>("expect_type", &self.expect_type)?,
                min_length: None,
                max_length: self.max_size,
                exact_length: None,
                listed: None,
            },
            robots_tag: if self.respect_robots_tag {
                RobotsTagPolicy::Respect
            } else {
                RobotsTagPolicy::Ignore
            },
            ..options
        })
    }

    fn batch_options(&self, engine: &PythonEngine) -> Result<BatchOptions, HaulError> {
        let checksums = parse_all::<Checksum>("checksum", &self.checksum)?;
        if checksums.iter().any(|checksum| checksum.digest.is_some()) {
            let error = HaulError::usage("checksum: it has a digest, but there are several files");
            return Err(error.with_hint("a row can have its own, under the key sha256 or checksum"));
        }
        let connections = engine
            .settings
            .connections_per_host
            .map_or(ConnectionCount::Auto { max: 0 }, |count| {
                ConnectionCount::Fixed(count.into())
            });
        let group = CommitGroupOptions::for_open_files();
        Ok(BatchOptions {
            directory: self.directory.clone().unwrap_or_default(),
            dispatch: JobDispatcherOptions {
                rate_per_host: engine.rate_per_host,
                ..dispatcher_options(None, None, connections)
            },
            checksums,
            layout: match self.layout.as_str() {
                "path" => PathLayout::Path,
                "hash" => PathLayout::Hash,
                _ => PathLayout::Name,
            },
            report_every_row: true,
            repeats_have_results: true,
            commit_group: if self.hands_bodies_over() {
                CommitGroupOptions {
                    max_files: BODY_QUEUE,
                    max_bytes: BODY_GROUP_BYTES,
                    ..group
                }
            } else {
                group
            },
            ..BatchOptions::default()
        })
    }

    /// Opens what is written, before anything is requested.
    fn open_outputs(&self, bodies: &BodyPlace) -> Result<BatchOutputs, HaulError> {
        let destination = match (&self.tar, &self.directory) {
            (Some(tar), _) => {
                create_directory(tar.parent().unwrap_or_else(|| Path::new("")))?;
                BatchDestination::Archive(ArchiveOptions {
                    destination: ArchiveDestination::File(tar.clone()),
                    shard_size: self.shard_size,
                    wrapping: StorageWrapping::default(),
                })
            }
            (None, Some(_)) => BatchDestination::Files,
            (None, None) => BatchDestination::Memory(bodies.clone().receiver()),
        };
        let opened =
            BatchOutputs::open(self.manifest.as_deref(), destination).map_err(|error| {
                let argument = match error {
                    BatchOutputError::Manifest(_) => "manifest: ",
                    BatchOutputError::Archive(_) => "tar: ",
                    BatchOutputError::Staging(_) => "",
                };
                let text = format!("{argument}{}", chain_text(&error));
                HaulError::of_class(ErrorClass::LocalIo, text)
            })?;
        // A manifest that cannot be written leaves no directory behind.
        if let Some(directory) = &self.directory {
            create_directory(directory)?;
        }
        Ok(opened)
    }
}

/// The entries of a list. The batch's thread reads it, from the first byte on.
fn open_list(path: &Path) -> Result<ListEntries, HaulError> {
    let name = path.display().to_string();
    let file = File::open(path)
        .map_err(|error| HaulError::local(&format!("rows: cannot read {name}"), &error))?;
    let list = std::iter::once_with(move || DownloadList::open_file(file, None, &name));
    Ok(Box::new(list.flatten()))
}

fn create_directory(directory: &Path) -> Result<(), HaulError> {
    if directory.as_os_str().is_empty() {
        return Ok(());
    }
    std::fs::create_dir_all(directory).map_err(|error| {
        HaulError::local(&format!("cannot create {}", directory.display()), &error)
    })
}

#[pymethods]
impl BatchHandle {
    /// Results that have come, after waiting for the first for so many seconds at most. `None` when there will be no more.
    fn next_rows(
        &self,
        py: Python<'_>,
        max_rows: usize,
        seconds: f64,
    ) -> PyResult<Option<Vec<ResultRow>>> {
        let found = py.detach(|| self.receive(max_rows, seconds))?;
        match found {
            Some(rows) => {
                let results = rows.into_iter().map(|row| {
                    let body = self.bodies.take(&row);
                    ResultRow::of_manifest_row(py, row, body)
                });
                Ok(Some(results.collect()))
            }
            None => self.raise_failure().map(|()| None),
        }
    }

    /// Collects results for so many seconds at most. Whether all are there.
    fn collect(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let found = py.detach(|| self.receive(usize::MAX, seconds))?;
        let Some(rows) = found else {
            return self.raise_failure().map(|()| true);
        };
        let runtime = self.engine.runtime()?;
        py.detach(|| {
            self.lock().columns.extend(rows);
            runtime.block_on(async { tokio::time::sleep(COLLECT_PAUSE).await });
        });
        Ok(false)
    }

    /// The collected results of so many rows, as columns.
    fn columns<'py>(&self, py: Python<'py>, count: usize) -> PyResult<Bound<'py, PyDict>> {
        let columns = std::mem::take(&mut self.lock().columns);
        columns.into_dict(py, count)
    }

    /// Stops it: complete files are put in place, partial files are kept.
    fn cancel(&self) {
        self.stop.cancel();
    }

    /// The numbers so far.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        // Whoever waits for rows holds the lock, and needs the interpreter's after it.
        let summary = py.detach(|| self.lock().summary.clone());
        let snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        let running = match summary {
            Some(_) => 0,
            None => snapshot.running,
        };
        let summary = summary.as_ref().unwrap_or(&snapshot.summary);
        let dict = PyDict::new(py);
        dict.set_item("listed", summary.listed)?;
        dict.set_item("done", summary.done + summary.done_earlier)?;
        dict.set_item("skipped", summary.skipped)?;
        dict.set_item("failed", summary.failed)?;
        dict.set_item("retries", summary.retries)?;
        dict.set_item("bytes", summary.bytes)?;
        dict.set_item("fetched", summary.fetched)?;
        dict.set_item("running", running)?;
        let causes = summary
            .failure_groups
            .iter()
            .map(|group| (&group.cause, group.count));
        dict.set_item("causes", causes.collect::<Vec<_>>())?;
        Ok(dict)
    }
}

impl BatchHandle {
    fn lock(&self) -> MutexGuard<'_, BatchResults> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives rows; `None` when the batch has ended. Blocks.
    fn receive(&self, max_rows: usize, seconds: f64) -> PyResult<Option<Vec<ManifestRow>>> {
        let runtime = self.engine.runtime()?;
        let wait = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let mut results = self.lock();
        let receiver = Arc::clone(&results.events);
        let mut events = receiver.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = Vec::new();
        let mut next = match runtime.block_on(async { timeout(wait, events.recv()).await }) {
            Ok(Some(event)) => Some(event),
            Ok(None) => {
                results.end(runtime)?;
                return Ok(None);
            }
            Err(_) => None,
        };
        while let Some(event) = next {
            rows.extend(self.on_event(event));
            next = if rows.len() < max_rows {
                // That it has ended is found the next time.
                events.try_recv().ok()
            } else {
                None
            };
        }
        Ok(Some(rows))
    }

    fn on_event(&self, event: TransferEvent) -> Option<ManifestRow> {
        match event {
            TransferEvent::BatchRow(row) => return Some(*row),
            TransferEvent::BatchProgress(found) => {
                *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = *found;
            }
            TransferEvent::Warning { warning, url, .. } => {
                crate::log::log_warning(&warning, url.as_deref());
            }
            _ => {}
        }
        None
    }

    /// Raises why the batch ended before its rows did.
    fn raise_failure(&self) -> PyResult<()> {
        let failure = self
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(failure) = failure {
            return Err(failure);
        }
        let stopped = self
            .lock()
            .summary
            .as_ref()
            .and_then(|summary| summary.stopped.clone());
        match stopped {
            None => Ok(()),
            Some(stopped) => {
                let text = format!("the batch stopped early: {}", stopped.text);
                let error = match stopped.reason {
                    // The caller knows.
                    StopReason::Interrupted => return Ok(()),
                    StopReason::LocalIo | StopReason::ReaderGone => {
                        let error = HaulError::of_class(ErrorClass::LocalIo, text);
                        error.with_hint("once that is fixed, the same call continues")
                    }
                    _ => HaulError::usage(text),
                };
                Err(error.into())
            }
        }
    }
}

impl BatchResults {
    /// Takes the summary of a batch that has ended.
    fn end(&mut self, runtime: &Handle) -> PyResult<()> {
        if let Some(task) = self.task.take() {
            let summary = runtime.block_on(task);
            self.summary = Some(summary.map_err(|error| bug(&chain_text(&error)))?);
        }
        Ok(())
    }
}

impl Drop for BatchHandle {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
