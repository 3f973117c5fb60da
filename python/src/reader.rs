//! Bodies that Python reads itself: whole, as they come, or at any place.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use haul_transfer::{
    DownloadOutcome, GetError, JobOutput, NetworkError, RemoteFile, RequestRetries, body_channel,
};
use http::HeaderMap;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::download::DownloadArguments;
use crate::engine::{Engine, PythonEngine};
use crate::errors::{HaulError, bug, chain_text};
use crate::operation::{CallHandle, ResultMaker};
use crate::settings::{AuthArgument, parse_headers, parse_url};

/// How often a read looks for Ctrl-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// Where a file is that is read without being downloaded.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct RemoteFileArguments {
    url: String,
    headers: Vec<(String, String)>,
    auth: Option<AuthArgument>,
}

impl RemoteFileArguments {
    fn parse(&self) -> Result<(Url, HeaderMap), HaulError> {
        let mut headers = parse_headers(&self.headers)?;
        let mut url = parse_url(&self.url)?;
        if let Some(auth) = &self.auth {
            auth.apply(&mut url, &mut headers)?;
        }
        Ok((url, headers))
    }
}

/// A body as it comes.
#[pyclass(frozen, module = "haul._haul")]
pub(crate) struct BodyChunks {
    engine: Arc<PythonEngine>,
    stream: Mutex<ChunkStream>,
    stop: CancellationToken,
}

struct ChunkStream {
    chunks: mpsc::Receiver<Bytes>,
    /// Until its result was taken.
    task: Option<JoinHandle<Result<(), HaulError>>>,
}

/// A file that is read at any place.
#[pyclass(frozen, module = "haul._haul")]
pub(crate) struct RemoteReader {
    engine: Arc<PythonEngine>,
    #[pyo3(get)]
    size: u64,
    url: Url,
    /// `None` when it was closed.
    file: tokio::sync::Mutex<Option<RemoteFile>>,
    stop: CancellationToken,
}

/// A download into a channel, and how it ends.
struct ChannelDownload {
    url: Url,
    chunks: mpsc::Receiver<Bytes>,
    ended: std::pin::Pin<Box<dyn Future<Output = Result<DownloadOutcome, GetError>> + Send>>,
}

impl PythonEngine {
    fn channel_download(
        self: &Arc<Self>,
        download: &DownloadArguments,
        stop: &CancellationToken,
    ) -> Result<ChannelDownload, HaulError> {
        let running = self.begin_job();
        let (sender, chunks) = body_channel();
        let job = download.job(running.id, JobOutput::Channel(sender))?;
        let engine = self.transfer_engine(None, false);
        let stop = stop.clone();
        Ok(ChannelDownload {
            url: job.url.clone(),
            chunks,
            ended: Box::pin(async move {
                let result = engine.get(job, stop).await;
                drop(running);
                result
            }),
        })
    }

    /// A whole body. One that broke off and cannot be continued is fetched anew, since nobody has seen a part of it.
    async fn whole_body(
        self: &Arc<Self>,
        download: &DownloadArguments,
        stop: &CancellationToken,
    ) -> Result<Vec<Bytes>, HaulError> {
        let mut retries = RequestRetries::new(self.retry.clone());
        let began = Instant::now();
        loop {
            let ChannelDownload {
                url,
                mut chunks,
                ended,
            } = self.channel_download(download, stop)?;
            let collect = async {
                let mut pieces = Vec::new();
                while let Some(piece) = chunks.recv().await {
                    pieces.push(piece);
                }
                pieces
            };
            let (pieces, result) = tokio::join!(collect, ended);
            let Err(error) = result else {
                return Ok(pieces);
            };
            drop(pieces);
            let wait = match &error {
                GetError::Network {
                    error: NetworkError::BrokenStream { .. },
                    ..
                } => retries.on_failure(began.elapsed(), None, true, rand::random()),
                _ => None,
            };
            let Some(wait) = wait else {
                return Err(HaulError::of_download(&error, &url));
            };
            // A call that is stopped ends with the next attempt.
            let _ = timeout(wait, stop.cancelled()).await;
        }
    }
}

impl Engine {
    /// Starts a read without an open file.
    fn start_read<T: Send + 'static>(
        &self,
        url: Url,
        stop: CancellationToken,
        reading: impl Future<Output = Result<T, GetError>> + Send + 'static,
        make: impl FnOnce(T) -> ResultMaker + Send + 'static,
    ) -> PyResult<CallHandle> {
        let runtime = self.state.runtime()?;
        let call = async move {
            let read = reading.await;
            Ok(make(
                read.map_err(|error| HaulError::of_download(&error, &url))?,
            ))
        };
        Ok(CallHandle::start(runtime, Arc::default(), stop, call))
    }
}

#[pymethods]
impl Engine {
    /// Starts a download whose result is its body.
    fn bytes(&self, download: DownloadArguments) -> PyResult<CallHandle> {
        let runtime = self.state.runtime()?;
        let stop = self.state.stop_token();
        let state = Arc::clone(&self.state);
        let stopping = stop.clone();
        let call = async move {
            let pieces = state.whole_body(&download, &stopping).await?;
            Ok(Box::new(move |py: Python<'_>| Ok(joined(py, &pieces)?.into_any())) as _)
        };
        Ok(CallHandle::start(runtime, Arc::default(), stop, call))
    }

    /// Starts a download whose body is read as it comes.
    fn stream(&self, download: DownloadArguments) -> PyResult<BodyChunks> {
        let runtime = self.state.runtime()?;
        let stop = self.state.stop_token();
        let ChannelDownload { url, chunks, ended } =
            self.state.channel_download(&download, &stop)?;
        let task = runtime.spawn(async move {
            let ended = ended.await.map(drop);
            ended.map_err(|error| HaulError::of_download(&error, &url))
        });
        Ok(BodyChunks {
            engine: Arc::clone(&self.state),
            stream: Mutex::new(ChunkStream {
                chunks,
                task: Some(task),
            }),
            stop,
        })
    }

    /// Opens a file to read at any place.
    fn open(&self, py: Python<'_>, file: RemoteFileArguments) -> PyResult<RemoteReader> {
        let runtime = self.state.runtime()?;
        let stop = self.state.stop_token();
        let (url, headers) = file.parse()?;
        let opening = RemoteFile::open(
            self.state.http.clone(),
            url.clone(),
            headers,
            self.state.retry.clone(),
            stop.clone(),
        );
        let file = wait(py, runtime, &url, opening)?;
        Ok(RemoteReader {
            engine: Arc::clone(&self.state),
            size: file.size(),
            url,
            file: tokio::sync::Mutex::new(Some(file)),
            stop,
        })
    }

    /// Starts to read a range of a file, up to its end without an `end`.
    #[pyo3(signature = (file, start, end))]
    fn read_range(
        &self,
        file: RemoteFileArguments,
        start: u64,
        end: Option<u64>,
    ) -> PyResult<CallHandle> {
        let (url, headers) = file.parse()?;
        let stop = self.state.stop_token();
        let reading = RemoteFile::read_range(
            self.state.http.clone(),
            url.clone(),
            headers,
            self.state.retry.clone(),
            stop.clone(),
            start..end.unwrap_or(u64::MAX),
        );
        self.start_read(url, stop, reading, |bytes| {
            Box::new(move |py| Ok(PyBytes::new(py, &bytes).unbind().into_any()))
        })
    }

    /// Starts to ask for the size, the ETag and the Last-Modified of a file.
    fn fetch_metadata(&self, file: RemoteFileArguments) -> PyResult<CallHandle> {
        let (url, headers) = file.parse()?;
        let stop = self.state.stop_token();
        let asking = RemoteFile::fetch_metadata(
            self.state.http.clone(),
            url.clone(),
            headers,
            self.state.retry.clone(),
            stop.clone(),
        );
        self.start_read(url, stop, asking, |metadata| {
            let etag = metadata.version.etag_text();
            let found = (metadata.size, etag, metadata.version.last_modified);
            Box::new(move |py| Ok(found.into_pyobject(py)?.unbind().into_any()))
        })
    }
}

#[pymethods]
impl BodyChunks {
    /// The next piece: `None` at the end, empty if none has come within so many seconds.
    fn next_chunk<'py>(
        &self,
        py: Python<'py>,
        seconds: f64,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let wait = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let chunk = py.detach(|| {
            let runtime = self.engine.runtime()?;
            let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
            match runtime.block_on(async { timeout(wait, stream.chunks.recv()).await }) {
                Err(_) => Ok(Some(Bytes::new())),
                Ok(Some(chunk)) => Ok(Some(chunk)),
                Ok(None) => stream.end(runtime).map(|()| None),
            }
        });
        let chunk: Option<Bytes> = chunk?;
        Ok(chunk.map(|chunk| PyBytes::new(py, &chunk)))
    }

    /// Ends the download.
    fn cancel(&self) {
        self.stop.cancel();
    }
}

impl ChunkStream {
    /// Raises why the body is not whole or not right.
    fn end(&mut self, runtime: &Handle) -> PyResult<()> {
        match self.task.take() {
            None => Ok(()),
            Some(task) => match runtime.block_on(task) {
                Ok(result) => Ok(result?),
                Err(error) => Err(bug(&chain_text(&error))),
            },
        }
    }
}

impl Drop for BodyChunks {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[pymethods]
impl RemoteReader {
    /// Bytes at this place. Fewer at the end of the file only.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        length: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let runtime = self.engine.runtime()?;
        let read = async {
            match self.file.lock().await.as_mut() {
                Some(file) => file.read_at(offset, length).await.map(Some),
                None => Ok(None),
            }
        };
        match wait(py, runtime, &self.url, read)? {
            Some(bytes) => Ok(PyBytes::new(py, &bytes)),
            None => Err(HaulError::usage("the file is closed").into()),
        }
    }

    /// Closes its connection.
    fn close(&self, py: Python<'_>) {
        if !self.engine.belongs_to_this_process() {
            return;
        }
        self.stop.cancel();
        py.detach(|| {
            self.file.blocking_lock().take();
        });
    }
}

impl Drop for RemoteReader {
    fn drop(&mut self) {
        // A connection of the parent's would be taken out of its epoll.
        if !self.engine.belongs_to_this_process() {
            std::mem::forget(self.file.get_mut().take());
        }
    }
}

/// Waits for a future without the interpreter's lock, and gives up on it when a signal raises an exception.
fn wait<T: Send>(
    py: Python<'_>,
    runtime: &Handle,
    url: &Url,
    future: impl Future<Output = Result<T, GetError>> + Send,
) -> PyResult<T> {
    let mut future = pin!(future);
    loop {
        let waited = py
            .detach(|| runtime.block_on(async { timeout(SIGNAL_INTERVAL, future.as_mut()).await }));
        match waited {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => return Err(HaulError::of_download(&error, url).into()),
            Err(_) => py.check_signals()?,
        }
    }
}

/// Pieces as one object.
fn joined(py: Python<'_>, pieces: &[Bytes]) -> PyResult<Py<PyBytes>> {
    let length = pieces.iter().map(Bytes::len).sum();
    let bytes = PyBytes::new_with(py, length, |mut buffer| {
        for piece in pieces {
            let (part, rest) = buffer.split_at_mut(piece.len());
            part.copy_from_slice(piece);
            buffer = rest;
        }
        Ok(())
    })?;
    Ok(bytes.unbind())
}
