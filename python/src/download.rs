//! `get` and `put`: one file, by the engines of the command.
#![expect(
    clippy::too_many_arguments,
    reason = "PyO3 makes constructors of all fields"
)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_plan::Checksum;
use haul_transfer::put::{
    PutOptions, UploadEngine, UploadInput, UploadJob, UploadOutcome, UploadTarget,
};
use haul_transfer::{DownloadJob, DownloadOutcome, JobOutput};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use pyo3::prelude::*;

use crate::engine::Engine;
use crate::errors::HaulError;
use crate::operation::{CallHandle, NewArguments, ResultMaker, new_arguments};
use crate::settings::{AuthArgument, argument, parse_all, parse_headers, parse_url};
use crate::upload_arguments::UploadArguments;

/// The arguments of a download.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct DownloadArguments {
    url: String,
    mirrors: Vec<String>,
    checksum: Vec<String>,
    headers: Vec<(String, String)>,
    auth: Option<AuthArgument>,
}

impl DownloadArguments {
    /// A job with this output.
    ///
    /// # Errors
    /// An argument that cannot be used.
    pub(crate) fn job(&self, id: u64, output: JobOutput) -> Result<DownloadJob, HaulError> {
        let mut headers = parse_headers(&self.headers)?;
        let mut url = parse_url(&self.url)?;
        if let Some(auth) = &self.auth {
            auth.apply(&mut url, &mut headers)?;
        }
        let mirrors = self.mirrors.iter().map(|mirror| parse_url(mirror));
        Ok(DownloadJob {
            checksums: parse_all::<Checksum>("checksum", &self.checksum)?,
            mirrors: mirrors.collect::<Result<_, _>>()?,
            headers,
            ..DownloadJob::new(id, url, output)
        })
    }
}

/// The arguments of `get` beside those of every download.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct GetArguments {
    path: Option<PathBuf>,
    directory: Option<PathBuf>,
    connections: Option<u16>,
    overwrite: bool,
}

/// The arguments of `put`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct PutArguments {
    path: PathBuf,
    url: String,
    auth: Option<AuthArgument>,
    upload: UploadArguments,
}

/// A file that was downloaded. Its constructor is for pickle.
#[pyclass(frozen, get_all, new = "from_fields", name = "File", module = "haul")]
pub(crate) struct FileResult {
    path: PathBuf,
    url: String,
    bytes: u64,
    fetched: u64,
    resumed: u64,
    seconds: f64,
    connections: usize,
    retries: u32,
    etag: Option<String>,
    checksums: Vec<(String, String)>,
}

#[pymethods]
impl FileResult {
    fn __getnewargs_ex__<'py>(slf: &Bound<'py, Self>) -> PyResult<NewArguments<'py>> {
        new_arguments(
            slf,
            &[
                "path",
                "url",
                "bytes",
                "fetched",
                "resumed",
                "seconds",
                "connections",
                "retries",
                "etag",
                "checksums",
            ],
        )
    }

    fn __repr__(&self) -> String {
        format!("haul.File(path={:?}, bytes={})", self.path, self.bytes)
    }

    fn __fspath__(&self) -> OsString {
        self.path.clone().into_os_string()
    }
}

/// A file that was uploaded. Its constructor is for pickle.
#[pyclass(frozen, get_all, new = "from_fields", name = "Upload", module = "haul")]
pub(crate) struct UploadResult {
    url: String,
    bytes: u64,
    resumed: u64,
    seconds: f64,
    etag: String,
    version_id: Option<String>,
    parts: u32,
}

#[pymethods]
impl UploadResult {
    fn __getnewargs_ex__<'py>(slf: &Bound<'py, Self>) -> PyResult<NewArguments<'py>> {
        let names = [
            "url",
            "bytes",
            "resumed",
            "seconds",
            "etag",
            "version_id",
            "parts",
        ];
        new_arguments(slf, &names)
    }

    fn __repr__(&self) -> String {
        format!("haul.Upload(url={:?}, bytes={})", self.url, self.bytes)
    }
}

#[pymethods]
impl Engine {
    /// Starts a download into a file.
    fn get(&self, download: DownloadArguments, arguments: GetArguments) -> PyResult<CallHandle> {
        let state = &self.state;
        let runtime = state.runtime()?;
        let running = state.begin_job();
        let output = match (arguments.path, arguments.directory) {
            (Some(path), Some(directory)) => JobOutput::File(directory.join(path)),
            (Some(path), None) => JobOutput::File(path),
            (None, directory) => JobOutput::Directory(directory.unwrap_or_default()),
        };
        let job = download.job(running.id, output)?;
        let engine = state.transfer_engine(arguments.connections, arguments.overwrite);
        let stop = state.stop_token();
        let progress = Arc::clone(&running.progress);
        Ok(CallHandle::start(
            runtime,
            progress,
            stop.clone(),
            async move {
                let url = job.url.clone();
                create_directories(&job.output)?;
                let result = engine.get(job, stop).await;
                engine.release_names(running.id);
                let outcome = result.map_err(|error| HaulError::of_download(&error, &url))?;
                running.progress.set(outcome.bytes, Some(outcome.bytes));
                drop(running);
                Ok(file_maker(outcome))
            },
        ))
    }

    /// Starts an upload.
    fn put(&self, arguments: PutArguments) -> PyResult<CallHandle> {
        let state = Arc::clone(&self.state);
        let runtime = self.state.runtime()?;
        let running = state.begin_job();
        let mut headers = arguments.upload.headers()?;
        let target = upload_target(&arguments, &mut headers)?;
        let job = UploadJob {
            id: running.id,
            input: UploadInput::File(arguments.path),
            target,
            headers,
            conditions: HeaderMap::new(),
        };
        let options = PutOptions {
            is_batch: false,
            ..arguments.upload.put_options(&state)?
        };
        let stop = state.stop_token();
        let progress = Arc::clone(&running.progress);
        Ok(CallHandle::start(
            runtime,
            progress,
            stop.clone(),
            async move {
                let is_store = matches!(job.target, UploadTarget::Object(_));
                let store = state.store(is_store).await?;
                let engine = UploadEngine::new(store, options, state.events.clone());
                let target = job.target.to_string();
                let result = engine.put(job, stop).await;
                let outcome = result.map_err(|error| HaulError::of_upload(&error, target))?;
                running.progress.set(outcome.bytes, Some(outcome.bytes));
                drop(running);
                Ok(upload_maker(outcome))
            },
        ))
    }
}

/// The directory of the file, as the command creates it.
fn create_directories(output: &JobOutput) -> Result<(), HaulError> {
    let directory = match output {
        JobOutput::File(path) => path.parent(),
        JobOutput::Directory(directory) => Some(directory.as_path()),
        _ => None,
    };
    match directory.filter(|directory| !directory.as_os_str().is_empty()) {
        None => Ok(()),
        Some(directory) => std::fs::create_dir_all(directory).map_err(|error| {
            HaulError::local(&format!("cannot create {}", directory.display()), &error)
        }),
    }
}

fn upload_target(
    arguments: &PutArguments,
    headers: &mut HeaderMap,
) -> Result<UploadTarget, HaulError> {
    let target = arguments
        .upload
        .target(&arguments.url, arguments.auth.as_ref(), headers)?;
    if matches!(target, UploadTarget::Object(_)) && !headers.contains_key(CONTENT_TYPE) {
        let unknown = http::HeaderValue::from_static("application/octet-stream");
        headers.insert(CONTENT_TYPE, unknown);
    }
    if !target.is_prefix() {
        return Ok(target);
    }
    let name = arguments
        .path
        .file_name()
        .ok_or_else(|| HaulError::usage("path: it has no name for the upload"))?;
    argument("path", target.below(Path::new(name)))
}

fn file_maker(outcome: DownloadOutcome) -> ResultMaker {
    Box::new(move |py| {
        let checksums = outcome.checksums.into_iter();
        let file = FileResult {
            path: outcome.path.unwrap_or_default(),
            url: haul_net::redacted_url(&outcome.final_url),
            bytes: outcome.bytes,
            fetched: outcome.fetched,
            resumed: outcome.resumed,
            seconds: outcome.elapsed.as_secs_f64(),
            connections: outcome.connections,
            retries: outcome.retries,
            etag: outcome.etag,
            checksums: checksums
                .map(|(algorithm, hex)| (algorithm.name().to_owned(), hex))
                .collect(),
        };
        Ok(Py::new(py, file)?.into_any())
    })
}

fn upload_maker(outcome: UploadOutcome) -> ResultMaker {
    Box::new(move |py| {
        let upload = UploadResult {
            url: outcome.target.to_string(),
            bytes: outcome.bytes,
            resumed: outcome.resumed,
            seconds: outcome.elapsed.as_secs_f64(),
            etag: outcome.etag,
            version_id: outcome.version_id,
            parts: outcome.parts,
        };
        Ok(Py::new(py, upload)?.into_any())
    })
}
