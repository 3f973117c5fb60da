//! The strategy of a batch's small files: one response brings the file whole, without a partial file and a journal.
//!
//! A batch uses it for every job whose first response is all there is. A small body stays in memory, a larger one goes into a file without
//! a name; the batch hashes, writes and names either of them in groups. There is nothing to resume here: a broken body is requested again
//! from its first byte, and a kill leaves nothing. A file that is too large for that, or needs more than one response, goes on with another
//! strategy and the response that is there ([`SingleResponseOutcome::Large`]).

use std::future::{Future as _, poll_fn};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use haul_net::{ConnectObserver, FetchRequest, FetchResponse, RequestTimings};
use haul_plan::ResourceVersion;
use http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use url::Url;

use super::attempt_error::AttemptError;
use super::context::EngineState;
use super::download_monitor::DownloadMonitor;
use super::download_sources::credential_url;
use super::expectations::announced_digests;
use super::expected_digests::ExpectedDigests;
use super::first_request::FirstResponse;
use super::gathered_chunks::GatheredChunks;
use super::host_limits::{HostConnections, HostPermit, RequestPermit};
use super::page_check::PageCheck;
use super::request::{check_robots_tag, check_total, conditions, send};
use super::segment_plan::SegmentPlan;
use crate::disk::{StoredValidators, UnnamedFile, blocking, directory_of, file_beginning};
use crate::options::DownloadJob;
use crate::range_set::RangeSet;
use crate::response::{
    BytesOnDisk, ContentExpectation, DOCUMENT_BEGINNING, RequestFailure, ResponseContent,
    UnusableResponse, begins_other_document,
};

/// The largest body that is kept in memory until it is written, in bytes. Handing a thread over costs as much as copying some ten
/// thousand bytes; photographs are larger, and go into a file without a name.
const MAX_IN_MEMORY: u64 = 256 << 10;

/// The unit in which bodies in memory are counted, in bytes.
const BUDGET_UNIT: u64 = 1 << 10;

/// Bytes that all bodies in memory may take together: those that are being read, and those that wait to be written. They are in read
/// buffers that are two or three times as large.
const MEMORY_BUDGET: u64 = 8 << 20;

/// A body that brings fewer bytes a second is not worth its connection.
const MIN_RATE: u64 = 1 << 10;

/// Longer than any batch.
const NO_TIME_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// The budget for bodies in memory.
pub(crate) fn memory_budget() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(budget_units(MEMORY_BUDGET) as usize))
}

/// One attempt of a job whose file may come in one response.
#[derive(Debug)]
pub(crate) struct SingleResponseFetch<'a> {
    pub(crate) engine: &'a EngineState,
    pub(crate) job: &'a DownloadJob,
    /// The URL of the job's current source.
    pub(crate) url: &'a Url,
    /// The file that may be new enough (`--update`).
    pub(crate) stored_validators: Option<&'a StoredValidators>,
    pub(crate) expected_content: ContentExpectation,
    /// Whether the request may ask for a range.
    pub(crate) send_range: bool,
    /// Whether another source may have the file.
    pub(crate) has_other_sources: bool,
    /// The final path, for messages.
    pub(crate) path: &'a Path,
    /// A path in the file system of the final file.
    pub(crate) written_path: &'a Path,
    /// The time that any body may take, however small it is.
    pub(crate) min_time_limit: Duration,
    pub(crate) memory_budget: &'a Arc<Semaphore>,
    /// Counts bytes of the batch as they come.
    pub(crate) fetched_bytes: &'a AtomicU64,
    pub(crate) monitor: &'a DownloadMonitor,
    /// Learns the round trip from a new connection.
    pub(crate) on_connected: ConnectObserver<'a>,
}

/// What an attempt brought.
#[derive(Debug)]
pub(crate) enum SingleResponseOutcome {
    Whole(Box<WholeFile>),
    /// The existing file is the newest.
    NotModified(Box<ResponseInfo>),
    /// More than this strategy takes: another goes on with the response.
    Large(Box<HandedOverResponse>),
}

#[derive(Debug)]
pub(crate) struct WholeFile {
    pub(crate) response: ResponseInfo,
    pub(crate) body: UnnamedBody,
    /// Bytes in the body.
    pub(crate) bytes: u64,
    pub(crate) expected_digests: ExpectedDigests,
}

/// The head of a response.
#[derive(Debug)]
pub(crate) struct ResponseInfo {
    pub(crate) status: StatusCode,
    pub(crate) version: ResourceVersion,
    /// Where the response came from.
    pub(crate) url: Url,
    pub(crate) timings: RequestTimings,
}

/// The bytes of a file that has no name yet.
#[derive(Debug)]
pub(crate) enum UnnamedBody {
    /// In memory, and the share of the budget for that.
    Memory(Vec<Bytes>, OwnedSemaphorePermit),
    File(UnnamedFile),
}

impl UnnamedBody {
    /// The first bytes.
    fn beginning(&self) -> Vec<u8> {
        let mut beginning = vec![0; DOCUMENT_BEGINNING];
        let read = match self {
            Self::Memory(chunks, _) => {
                let bytes = chunks.iter().flatten().take(DOCUMENT_BEGINNING);
                return bytes.copied().collect();
            }
            Self::File(file) => blocking(|| file.read_at(0, &mut beginning)).unwrap_or(0),
        };
        beginning.truncate(read);
        beginning
    }
}

impl WholeFile {
    /// Whether it is a page although its names say otherwise.
    pub(crate) fn is_page(&self, url: &Url, path: &Path) -> bool {
        let beginning = match &self.body {
            UnnamedBody::Memory(chunks, _) => chunks.first().map_or(&[][..], |first| first),
            // No page has as many bytes.
            UnnamedBody::File(_) => &[],
        };
        let page = PageCheck {
            url,
            path,
            media_type: self.response.version.media_type.as_deref(),
            beginning,
        };
        page.is_page()
    }
}

/// A first response that another strategy goes on with.
#[derive(Debug)]
pub(crate) struct HandedOverResponse {
    pub(super) first: FirstResponse,
    pub(super) permit: HostPermit,
}

impl HandedOverResponse {
    pub(crate) fn status(&self) -> StatusCode {
        self.first.response.status
    }
}

/// A response whose body is to be read.
struct ReadableResponse {
    response: FetchResponse,
    version: ResourceVersion,
    /// Bytes to come, where the head says so.
    length: Option<u64>,
}

/// The permit for a request, and its host.
struct PermittedRequest {
    host: Arc<HostConnections>,
    permit: RequestPermit,
}

impl SingleResponseFetch<'_> {
    /// Sends one request. `on_head` is called when the head of a usable response comes.
    ///
    /// Cancel safe: dropped, it closes its connection and leaves nothing on the disk.
    pub(crate) async fn fetch(
        self,
        on_head: impl FnOnce(&FetchResponse),
    ) -> Result<SingleResponseOutcome, Box<AttemptError>> {
        let host = self.engine.host_limits.host(self.url);
        let permit = host.acquire_for_request().await;
        let (response, content) = self.send(self.url).await?;
        if !response.redirected {
            host.set_multiplexed(response.max_streams.is_some());
        }
        let responder = if response.redirected {
            self.engine.host_limits.host(&response.url)
        } else {
            host
        };
        let (response, content, permit) = match responder.try_move_permit(permit) {
            Ok(permit) => (response, content, permit),
            // The host that delivers has no room for this job. Its response is dropped, and requested again when there is room.
            Err(()) => {
                let url = response.url.clone();
                drop(response);
                let permit = responder.acquire_for_request().await;
                let sent = self.send(&url).await;
                let (response, content) = sent.map_err(|error| error.from_stale_redirect(&url))?;
                (response, content, permit)
            }
        };
        on_head(&response);
        let permitted = PermittedRequest {
            host: responder,
            permit,
        };
        self.handle_response(response, content, permitted).await
    }

    /// Sends a request to the source's URL, or to where that redirects.
    async fn send(&self, url: &Url) -> Result<(FetchResponse, ResponseContent), Box<AttemptError>> {
        let sizes = || {
            let connections = self.engine.options.connections.max();
            self.engine.segment_options(connections)
        };
        let first_range =
            || SegmentPlan::first_range(&sizes(), &RangeSet::new(), None, Duration::ZERO, false);
        let request = FetchRequest {
            user_url: credential_url(self.job, self.url),
            range: self.send_range.then(first_range),
            user_headers: Some(&self.job.headers).filter(|headers| !headers.is_empty()),
            headers: self.stored_validators.map(conditions).unwrap_or_default(),
            may_multiplex: true,
            is_replaceable: self.has_other_sources,
            on_connected: Some(self.on_connected),
            ..FetchRequest::get(url)
        };
        let (response, content) =
            send(&self.engine.client, request, BytesOnDisk::None, false).await?;
        let policy = self.engine.options.robots_tag;
        let checked = check_robots_tag(policy, &response, self.url);
        if let Err(error) = checked.and_then(|()| check_total(&response, &content, self.url)) {
            response.discard().await;
            return Err(error);
        }
        Ok((response, content))
    }

    async fn handle_response(
        &self,
        response: FetchResponse,
        content: ResponseContent,
        permitted: PermittedRequest,
    ) -> Result<SingleResponseOutcome, Box<AttemptError>> {
        let connections = self.engine.options.connections.max();
        let max_length = self.engine.segment_options(connections).first_request;
        let (version, length) = match content {
            ResponseContent::NotModified => {
                let info = response_info(&response, ResourceVersion::default());
                response.discard().await;
                return Ok(SingleResponseOutcome::NotModified(Box::new(info)));
            }
            ResponseContent::Empty { version } => (version, Some(0)),
            ResponseContent::Part {
                range,
                total,
                version,
            } if range == (0..total) => (version, Some(total)),
            ResponseContent::Whole {
                length,
                version,
                coding: None,
            } if length.is_none_or(|length| length <= max_length) => (version, length),
            content => {
                let first = FirstResponse::new(response, content);
                let permit = permitted.permit.into_host_permit(&permitted.host).await;
                let large = HandedOverResponse { first, permit };
                return Ok(SingleResponseOutcome::Large(Box::new(large)));
            }
        };
        self.read_body(ReadableResponse {
            response,
            version,
            length,
        })
        .await
    }

    /// Reads a body to its end.
    async fn read_body(
        &self,
        readable: ReadableResponse,
    ) -> Result<SingleResponseOutcome, Box<AttemptError>> {
        let ReadableResponse {
            mut response,
            version,
            length,
        } = readable;
        let expected_digests = ExpectedDigests {
            announced: announced_digests(&response, true),
            ..ExpectedDigests::of_user(&self.job.checksums)
        };
        let checked = self.expected_content.check_head(&response.headers, length);
        if let Err(unexpected) = checked {
            let error = AttemptError::unexpected(unexpected, &response, self.url);
            response.discard().await;
            return Err(error);
        }
        let info = response_info(&response, version);
        let read = {
            let mut body = pin!(self.read_to_end(&mut response, length));
            // A body that came with its head needs no timer.
            match poll_fn(|cx| Poll::Ready(body.as_mut().poll(cx))).await {
                Poll::Ready(read) => Ok(read),
                Poll::Pending => tokio::select! {
                    biased;
                    read = body => Ok(read),
                    limit = self.monitor.exceeded() => Err(Some(limit)),
                    () = sleep(self.time_limit(length)) => Err(None),
                },
            }
        };
        let (body, bytes) = match read {
            Ok(read) => read?,
            Err(None) => {
                let error = response.truncated_error();
                return Err(AttemptError::too_slow(error, self.url));
            }
            Err(Some(limit)) => {
                return Err(AttemptError::limit_exceeded(limit, length, self.url));
            }
        };
        self.check_update(&info, &body, bytes)
            .map_err(|page| AttemptError::error_page(&response, &page, self.url))?;
        self.expected_content
            .check_length(bytes)
            .map_err(|unexpected| AttemptError::unexpected(unexpected, &response, self.url))?;
        match length {
            // Its framing says that the body ended properly, and yet it is shorter than its head said (row A10).
            Some(length) if bytes < length => {
                return Err(self.broken(response.truncated_error(), bytes));
            }
            _ => response.recycle(),
        }
        Ok(SingleResponseOutcome::Whole(Box::new(WholeFile {
            response: info,
            body,
            bytes,
            expected_digests,
        })))
    }

    /// Checks that a body that would replace an older version of its file is not a page. Returns the page's first bytes.
    fn check_update(
        &self,
        info: &ResponseInfo,
        body: &UnnamedBody,
        bytes: u64,
    ) -> Result<(), Vec<u8>> {
        if self.stored_validators.is_none() {
            return Ok(());
        }
        let on_disk = blocking(|| file_beginning(self.path, DOCUMENT_BEGINNING));
        let Some(on_disk) = on_disk.filter(|on_disk| !on_disk.is_empty()) else {
            return Ok(());
        };
        let found = body.beginning();
        let media_type = info.version.media_type.as_deref();
        let is_nothing = bytes == 0 && !info.version.has_validator();
        if is_nothing || begins_other_document(Some(&on_disk), media_type, &found) {
            Err(found)
        } else {
            Ok(())
        }
    }

    async fn read_to_end(
        &self,
        response: &mut FetchResponse,
        length: Option<u64>,
    ) -> Result<(UnnamedBody, u64), Box<AttemptError>> {
        match length {
            Some(length) if length > MAX_IN_MEMORY => {
                self.read_into_file(response, Vec::new(), length).await
            }
            _ => self.read_into_memory(response, length).await,
        }
    }

    /// Reads a body that is small, or of unknown length: if it turns out to be larger it goes into a file. So does every body when the
    /// budget is spent: a job that waited for memory while it holds a response could block those that have some.
    async fn read_into_memory(
        &self,
        response: &mut FetchResponse,
        length: Option<u64>,
    ) -> Result<(UnnamedBody, u64), Box<AttemptError>> {
        let most = length.unwrap_or(MAX_IN_MEMORY);
        let memory = Arc::clone(self.memory_budget).try_acquire_many_owned(budget_units(most));
        let Ok(memory) = memory else {
            let max_bytes = self.max_bytes(length);
            return self.read_into_file(response, Vec::new(), max_bytes).await;
        };
        let (mut chunks, mut bytes) = (Vec::new(), 0);
        let waiting = self.monitor.meter.waiting();
        while let Some(chunk) = response.chunk().await.map_err(|e| self.broken(e, bytes))? {
            bytes += chunk.len() as u64;
            self.monitor.meter.add(chunk.len());
            self.fetched_bytes
                .fetch_add(chunk.len() as u64, Ordering::Relaxed);
            chunks.push(chunk);
            if bytes > most {
                drop(waiting);
                return match length {
                    Some(_) => Err(self.surplus(response)),
                    None => {
                        let max_bytes = self.max_bytes(None);
                        self.read_into_file(response, chunks, max_bytes).await
                    }
                };
            }
        }
        Ok((UnnamedBody::Memory(chunks, memory), bytes))
    }

    /// The most bytes that are read: the length of the head, or the most that the user expects.
    fn max_bytes(&self, length: Option<u64>) -> u64 {
        length
            .or_else(|| self.expected_content.longest_allowed())
            .unwrap_or(u64::MAX)
    }

    /// Reads a body into a file without a name, after the chunks that arrived already.
    async fn read_into_file(
        &self,
        response: &mut FetchResponse,
        chunks: Vec<Bytes>,
        max_bytes: u64,
    ) -> Result<(UnnamedBody, u64), Box<AttemptError>> {
        let wrapping = &self.engine.options.storage_wrapping;
        let local = |error| AttemptError::local(self.path.to_owned(), error);
        let directory = directory_of(self.written_path);
        let file = blocking(|| wrapping.create_unnamed(directory)).map_err(local)?;
        let mut bytes = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        blocking(|| file.write_at(0, &chunks)).map_err(local)?;
        drop(chunks);
        let mut gathered = GatheredChunks::new();
        loop {
            let more = gathered.gather(response, &self.monitor.meter).await;
            self.fetched_bytes
                .fetch_add(gathered.bytes(), Ordering::Relaxed);
            let more = more.map_err(|e| self.broken(e, bytes + gathered.bytes()))?;
            blocking(|| file.write_at(bytes, gathered.chunks())).map_err(local)?;
            bytes += gathered.bytes();
            gathered.clear();
            if bytes > max_bytes {
                self.expected_content
                    .check_length(bytes)
                    .map_err(|unexpected| {
                        AttemptError::unexpected(unexpected, response, self.url)
                    })?;
                return Err(self.surplus(response));
            }
            if !more {
                return Ok((UnnamedBody::File(file), bytes));
            }
        }
    }

    /// The time that a body may take with this strategy, which loses its bytes when it breaks. A body that drips is requested again with
    /// a strategy that keeps its bytes, however slowly they come (row A19).
    fn time_limit(&self, length: Option<u64>) -> Duration {
        length.map_or(NO_TIME_LIMIT, |length| {
            self.min_time_limit + Duration::from_secs(length / MIN_RATE)
        })
    }

    fn broken(&self, error: haul_net::Error, received: u64) -> Box<AttemptError> {
        AttemptError::transport(error, true, self.url, None).after_bytes(received)
    }

    /// More bytes arrived than the head said (row A11): they are not the file that it announced. The connection is closed.
    fn surplus(&self, response: &FetchResponse) -> Box<AttemptError> {
        let failure = RequestFailure::Unusable(UnusableResponse::SurplusBody);
        AttemptError::response(failure, response, self.url)
    }
}

fn response_info(response: &FetchResponse, version: ResourceVersion) -> ResponseInfo {
    ResponseInfo {
        status: response.status,
        version,
        url: response.url.clone(),
        timings: response.timings,
    }
}

/// The units of the budget for this number of bytes.
fn budget_units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(BUDGET_UNIT)).unwrap_or(u32::MAX)
}
