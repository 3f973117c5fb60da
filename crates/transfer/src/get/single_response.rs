//! The quick road: a file that one answer brings whole, with no partial file and no journal.
//!
//! A batch goes it with every job whose first answer is all there is. A small body stays in memory, a larger one goes into a file
//! without a name; either is handed on as it is, for others to hash, to write and to name in groups. There is nothing to resume
//! here: what breaks is asked for again from the beginning, and a kill leaves nothing. What is too much for that, or needs more
//! than one answer, leads to the other roads with the answer that is there ([`SingleResponseOutcome::Large`]).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use haul_net::{FetchResponse, RequestTimings};
use haul_plan::{
    ContentExpectation, RangeSet, ResourceVersion, ResponseVerdict, SegmentOptions, SegmentPlan,
    expected_digests,
};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use url::Url;

use super::EngineState;
use super::attempt_failure::AttemptFailure;
use super::first_request::{FirstResponse, FirstResponseContent, conditions};
use super::gathered_chunks::GatheredChunks;
use super::host_limits::{HostConnections, HostPermit, RequestPermit};
use super::publish::ExpectedDigests;
use super::request::RangeRequest;
use super::source_failover::given;
use super::strategy::segment_options;
use crate::disk::{StoredValidators, UnnamedFile, blocking};
use crate::options::DownloadJob;

/// The largest body that is kept in memory until it is written, in bytes. A thread's hand-over costs as much as copying
/// some ten thousand; photographs are larger, and theirs is the file without a name.
const MAX_IN_MEMORY: u64 = 256 << 10;

/// What a body in memory is counted in, in bytes.
const BUDGET_UNIT: u64 = 1 << 10;

/// Bytes that bodies in memory may have together: those that are being read, and those that wait to be written. They lie in read
/// buffers that are two or three times as large.
pub(crate) const MEMORY_BUDGET: u64 = 8 << 20;

/// Bytes a second below which a body is too slow to be worth its connection.
const MIN_RATE: u64 = 1 << 10;

/// Longer than any batch.
const NO_TIME_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// A budget for bodies in memory.
pub(crate) fn memory_budget() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(budget_units(MEMORY_BUDGET) as usize))
}

/// One try of a job whose file may come whole.
#[derive(Debug)]
pub(crate) struct SingleResponseFetch<'a> {
    /// What all jobs share.
    pub(crate) engine: &'a EngineState,
    /// What is to be fetched.
    pub(crate) job: &'a DownloadJob,
    /// The file that may be new enough (`--update`).
    pub(crate) stored_validators: Option<&'a StoredValidators>,
    /// What the answer must be to be the file that is meant.
    pub(crate) expected_content: ContentExpectation,
    /// Whether a range may be asked for.
    pub(crate) send_range: bool,
    /// A directory of the file system that the file shall lie in.
    pub(crate) directory: &'a Path,
    /// What a body may take however small it is.
    pub(crate) min_time_limit: Duration,
    /// Room for bodies in memory.
    pub(crate) memory_budget: &'a Arc<Semaphore>,
    /// Counts bytes as they come.
    pub(crate) fetched_bytes: &'a AtomicU64,
}

/// What came.
#[derive(Debug)]
pub(crate) enum SingleResponseOutcome {
    /// The whole file.
    Whole(Box<WholeFile>),
    /// The file that is there is the newest.
    NotModified(Box<ResponseInfo>),
    /// More than this road takes: an answer that another goes on with.
    Large(Box<LargeResponse>),
}

/// A file that came whole.
#[derive(Debug)]
pub(crate) struct WholeFile {
    /// What its answer said.
    pub(crate) response: ResponseInfo,
    /// Its bytes.
    pub(crate) body: UnnamedBody,
    /// How many.
    pub(crate) bytes: u64,
    /// What its digests must be.
    pub(crate) expected_digests: ExpectedDigests,
}

/// What an answer said before its body.
#[derive(Debug)]
pub(crate) struct ResponseInfo {
    /// Its status.
    pub(crate) status: StatusCode,
    /// Which version it brings.
    pub(crate) version: ResourceVersion,
    /// Where it came from.
    pub(crate) url: Url,
    /// How long the steps of the request took.
    pub(crate) timings: RequestTimings,
}

/// The bytes of a file that has no name yet.
#[derive(Debug)]
pub(crate) enum UnnamedBody {
    /// In memory, and room for that, given back when they are dropped.
    Memory(Vec<Bytes>, OwnedSemaphorePermit),
    /// In a file.
    File(UnnamedFile),
}

/// A first answer that another road goes on with.
#[derive(Debug)]
pub(crate) struct LargeResponse {
    /// The answer.
    pub(super) first_response: FirstResponse,
    /// Leave to hold its connection.
    pub(super) permit: HostPermit,
}

/// The head of an answer whose body is to be read, and what is known of that.
struct ReadableResponse {
    answer: FetchResponse,
    version: ResourceVersion,
    /// Bytes to come, if that is said.
    length: Option<u64>,
}

impl LargeResponse {
    /// The answer's status.
    pub(crate) fn status(&self) -> StatusCode {
        self.first_response.answer.status
    }
}

impl SingleResponseFetch<'_> {
    /// Asks once. `heard` is called when the head of a usable answer came.
    ///
    /// Cancel safe: dropped, it closes its connection and leaves nothing on the disk.
    pub(crate) async fn fetch(
        self,
        heard: impl FnOnce(&FetchResponse),
    ) -> Result<SingleResponseOutcome, AttemptFailure> {
        let here = self.engine.host_limits.host(&self.job.url);
        let leave = here.acquire_for_request().await;
        let (answer, verdict) = self.send(&self.job.url).await?;
        if !answer.redirected {
            here.set_multiplexed(answer.max_streams.is_some());
        }
        let there = match answer.redirected {
            true => self.engine.host_limits.host(&answer.url),
            false => here,
        };
        let (answer, verdict, leave) = match there.try_move_permit(leave) {
            Ok(leave) => (answer, verdict, leave),
            // The host that delivers has no room for us: its answer is let go, and asked for again when there is.
            Err(()) => {
                let url = answer.url.clone();
                drop(answer);
                let leave = there.acquire_for_request().await;
                let (answer, verdict) = self.send(&url).await?;
                if !is_usable(&verdict) {
                    let came = self.handle_response(answer, verdict, (there, leave)).await;
                    return came.map_err(|failure| failure.stale(&url));
                }
                (answer, verdict, leave)
            }
        };
        if is_usable(&verdict) {
            heard(&answer);
        }
        self.handle_response(answer, verdict, (there, leave)).await
    }

    /// Asks at a URL: the job's, or where that leads.
    async fn send(&self, url: &Url) -> Result<(FetchResponse, ResponseVerdict), AttemptFailure> {
        let first = || SegmentPlan::first_range(&self.segment_sizes(), &RangeSet::new(), None);
        let ask = RangeRequest {
            own: &self.job.headers,
            client: &self.engine.client,
            url,
            given: given(self.job),
            range: self.send_range.then(first),
            pinned: None,
            if_range: false,
            shared: true,
            conditions: self.stored_validators.map(conditions).unwrap_or_default(),
        };
        ask.send().await
    }

    fn segment_sizes(&self) -> SegmentOptions {
        segment_options(self.engine, self.engine.options.connections.max())
    }

    async fn handle_response(
        &self,
        answer: FetchResponse,
        verdict: ResponseVerdict,
        leave: (Arc<HostConnections>, RequestPermit),
    ) -> Result<SingleResponseOutcome, AttemptFailure> {
        let most = self.segment_sizes().first_request;
        let (version, length) = match verdict {
            ResponseVerdict::NotModified => {
                let head = response_info(&answer, ResourceVersion::default());
                answer.discard().await;
                return Ok(SingleResponseOutcome::NotModified(Box::new(head)));
            }
            ResponseVerdict::Empty { version } => (version, Some(0)),
            ResponseVerdict::Part {
                range,
                total,
                version,
            } if range == (0..total) => (version, Some(total)),
            ResponseVerdict::Whole {
                length,
                version,
                encoding: None,
            } if length.is_none_or(|length| length <= most) => (version, length),
            other => return self.hand_over(answer, other, leave).await,
        };
        let opened = ReadableResponse {
            answer,
            version,
            length,
        };
        self.read_body(opened).await
    }

    /// An answer that is not all there is, or of no use.
    async fn hand_over(
        &self,
        answer: FetchResponse,
        verdict: ResponseVerdict,
        (host, leave): (Arc<HostConnections>, RequestPermit),
    ) -> Result<SingleResponseOutcome, AttemptFailure> {
        let brings = match FirstResponseContent::of(verdict) {
            Ok(brings) => brings,
            Err(verdict) => {
                let failure = AttemptFailure::from_verdict(*verdict, &answer);
                // A host may say it to the connection and not to the file (row A18): on that one it would say so again.
                if answer.status != StatusCode::FORBIDDEN {
                    answer.discard().await;
                }
                return Err(failure);
            }
        };
        let begun = FirstResponse { answer, brings };
        let permit = leave.into_host_permit(&host).await;
        Ok(SingleResponseOutcome::Large(Box::new(LargeResponse {
            first_response: begun,
            permit,
        })))
    }

    /// Reads a body to its end.
    async fn read_body(
        &self,
        opened: ReadableResponse,
    ) -> Result<SingleResponseOutcome, AttemptFailure> {
        let ReadableResponse {
            mut answer,
            version,
            length,
        } = opened;
        let wanted = ExpectedDigests {
            user: self.job.checksums.clone(),
            announced: expected_digests(&answer.headers, true),
            piece_digests: false,
        };
        let named = answer.headers.get(CONTENT_TYPE);
        if let Err(unexpected) = self.expected_content.check_head(named, length) {
            answer.discard().await;
            return Err(AttemptFailure::Unexpected(unexpected));
        }
        let head = response_info(&answer, version);
        let body = async {
            match length {
                Some(length) if length > MAX_IN_MEMORY => {
                    self.read_into_file(&mut answer, Vec::new(), length).await
                }
                _ => self.read_into_memory(&mut answer, length).await,
            }
        };
        let Ok(came) = timeout(self.time_limit(length), body).await else {
            return Err(AttemptFailure::Slow(Box::new(answer.truncated_error())));
        };
        let (body, bytes) = came?;
        self.expected_content
            .check_length(bytes)
            .map_err(AttemptFailure::Unexpected)?;
        match length {
            // Framed so that its end is no error, yet not what the head said (row A10).
            Some(length) if bytes < length => return Err(broken_body(answer.truncated_error())),
            _ => answer.recycle(),
        }
        Ok(SingleResponseOutcome::Whole(Box::new(WholeFile {
            response: head,
            body,
            bytes,
            expected_digests: wanted,
        })))
    }

    /// Reads a body that is small, or of a length that nobody told: what turns out to be larger goes into a file. So does all of it
    /// when there is no room in memory: who waited for some with an answer in his hands could hold up those that have it.
    async fn read_into_memory(
        &self,
        answer: &mut FetchResponse,
        length: Option<u64>,
    ) -> Result<(UnnamedBody, u64), AttemptFailure> {
        let most = length.unwrap_or(MAX_IN_MEMORY);
        let room = Arc::clone(self.memory_budget).try_acquire_many_owned(budget_units(most));
        let Ok(room) = room else {
            return self
                .read_into_file(answer, Vec::new(), self.max_bytes(length))
                .await;
        };
        let (mut pieces, mut bytes) = (Vec::new(), 0);
        while let Some(piece) = answer.chunk().await.map_err(broken_body)? {
            bytes += piece.len() as u64;
            self.count_bytes(piece.len());
            pieces.push(piece);
            if bytes > most {
                return match length {
                    Some(_) => Err(surplus_bytes()),
                    None => {
                        self.read_into_file(answer, pieces, self.max_bytes(None))
                            .await
                    }
                };
            }
        }
        Ok((UnnamedBody::Memory(pieces, room), bytes))
    }

    /// How many bytes are read: what the head said, or what the user expects at most.
    fn max_bytes(&self, length: Option<u64>) -> u64 {
        length
            .or_else(|| self.expected_content.longest_allowed())
            .unwrap_or(u64::MAX)
    }

    /// Reads a body into a file without a name, what came already first.
    async fn read_into_file(
        &self,
        answer: &mut FetchResponse,
        came: Vec<Bytes>,
        most: u64,
    ) -> Result<(UnnamedBody, u64), AttemptFailure> {
        let layer = &self.engine.options.storage_layer;
        let file =
            blocking(|| layer.create_unnamed(self.directory)).map_err(AttemptFailure::Local)?;
        let mut bytes = came.iter().map(|piece| piece.len() as u64).sum();
        blocking(|| file.write_at(0, &came)).map_err(AttemptFailure::Local)?;
        let mut gathered = GatheredChunks::new();
        loop {
            let more = gathered
                .gather(answer, self.fetched_bytes)
                .await
                .map_err(broken_body)?;
            blocking(|| file.write_at(bytes, gathered.chunks())).map_err(AttemptFailure::Local)?;
            bytes += gathered.bytes();
            gathered.clear();
            if bytes > most {
                self.expected_content
                    .check_length(bytes)
                    .map_err(AttemptFailure::Unexpected)?;
                return Err(surplus_bytes());
            }
            if !more {
                return Ok((UnnamedBody::File(file), bytes));
            }
        }
    }

    /// How long a body may take on this road, on which what came of it is lost when it breaks: one that drips is asked for again on
    /// the roads that keep what comes, however slowly (row A19).
    fn time_limit(&self, length: Option<u64>) -> Duration {
        length.map_or(NO_TIME_LIMIT, |length| {
            self.min_time_limit + Duration::from_secs(length / MIN_RATE)
        })
    }

    fn count_bytes(&self, bytes: usize) {
        use std::sync::atomic::Ordering;
        self.fetched_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Whether a verdict brings bytes, or the word that there are no newer ones.
fn is_usable(verdict: &ResponseVerdict) -> bool {
    matches!(
        verdict,
        ResponseVerdict::Part { .. }
            | ResponseVerdict::Whole { .. }
            | ResponseVerdict::Empty { .. }
            | ResponseVerdict::NotModified
    )
}

fn response_info(answer: &FetchResponse, version: ResourceVersion) -> ResponseInfo {
    ResponseInfo {
        status: answer.status,
        version,
        url: answer.url.clone(),
        timings: answer.timings,
    }
}

fn broken_body(error: haul_net::Error) -> AttemptFailure {
    AttemptFailure::Transport {
        error: Box::new(error),
        answered: true,
    }
}

/// More than was asked for (row A11): what came is not the file that the head spoke of, and its connection goes.
fn surplus_bytes() -> AttemptFailure {
    AttemptFailure::Unusable {
        trouble: haul_plan::RequestFailure::Refused,
        why: "more bytes came than the head of the answer said".into(),
    }
}

/// What so many bytes count as.
fn budget_units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(BUDGET_UNIT)).unwrap_or(u32::MAX)
}
