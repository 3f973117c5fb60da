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
use super::ask::RangeRequest;
use super::elsewhere::given;
use super::failure::AttemptFailure;
use super::finish::ExpectedDigests;
use super::first::{FirstResponse, FirstResponseContent, conditions};
use super::gather::GatheredChunks;
use super::hosts::{HostConnections, HostPermit, RequestPermit};
use super::roads::segment_options;
use crate::disk::{StoredValidators, UnnamedFile, blocking};
use crate::options::DownloadJob;

/// The largest body that is kept in memory until it is written, in bytes. A thread's hand-over costs as much as copying
/// some ten thousand; photographs are larger, and theirs is the file without a name.
const IN_MEMORY: u64 = 256 << 10;

/// What a body in memory is counted in, in bytes.
const UNIT: u64 = 1 << 10;

/// Bytes that bodies in memory may have together: those that are being read, and those that wait to be written. They lie in read
/// buffers that are two or three times as large.
pub(crate) const BUDGET: u64 = 8 << 20;

/// Bytes a second below which a body is too slow to be worth its connection.
const SLOWEST: u64 = 1 << 10;

/// Longer than any batch.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// A budget for bodies in memory.
pub(crate) fn budget() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(units(BUDGET) as usize))
}

/// One try of a job whose file may come whole.
#[derive(Debug)]
pub(crate) struct SingleResponseFetch<'a> {
    /// What all jobs share.
    pub(crate) engine: &'a EngineState,
    /// What is to be fetched.
    pub(crate) job: &'a DownloadJob,
    /// The file that may be new enough (`--update`).
    pub(crate) have: Option<&'a StoredValidators>,
    /// What the answer must be to be the file that is meant.
    pub(crate) expect: ContentExpectation,
    /// Whether a range may be asked for.
    pub(crate) ranges: bool,
    /// A directory of the file system that the file shall lie in.
    pub(crate) directory: &'a Path,
    /// What a body may take however small it is.
    pub(crate) patience: Duration,
    /// Room for bodies in memory.
    pub(crate) budget: &'a Arc<Semaphore>,
    /// Counts bytes as they come.
    pub(crate) fetched: &'a AtomicU64,
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
    pub(crate) head: ResponseInfo,
    /// Its bytes.
    pub(crate) body: UnnamedBody,
    /// How many.
    pub(crate) bytes: u64,
    /// What its digests must be.
    pub(crate) wanted: ExpectedDigests,
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
    Pieces(Vec<Bytes>, OwnedSemaphorePermit),
    /// In a file.
    File(UnnamedFile),
}

/// A first answer that another road goes on with.
#[derive(Debug)]
pub(crate) struct LargeResponse {
    /// The answer.
    pub(super) begun: FirstResponse,
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
        self.begun.answer.status
    }
}

impl SingleResponseFetch<'_> {
    /// Asks once. `heard` is called when the head of a usable answer came.
    ///
    /// Cancel safe: dropped, it closes its connection and leaves nothing on the disk.
    pub(crate) async fn ask(
        self,
        heard: impl FnOnce(&FetchResponse),
    ) -> Result<SingleResponseOutcome, AttemptFailure> {
        let here = self.engine.hosts.of(&self.job.url);
        let leave = here.leave().await;
        let (answer, verdict) = self.send(&self.job.url).await?;
        if !answer.redirected {
            here.share(answer.max_streams.is_some());
        }
        let there = match answer.redirected {
            true => self.engine.hosts.of(&answer.url),
            false => here,
        };
        let (answer, verdict, leave) = match there.leave_for(leave) {
            Ok(leave) => (answer, verdict, leave),
            // The host that delivers has no room for us: its answer is let go, and asked for again when there is.
            Err(()) => {
                let url = answer.url.clone();
                drop(answer);
                let leave = there.leave().await;
                let (answer, verdict) = self.send(&url).await?;
                if !is_usable(&verdict) {
                    let came = self.take(answer, verdict, (there, leave)).await;
                    return came.map_err(|failure| failure.stale(&url));
                }
                (answer, verdict, leave)
            }
        };
        if is_usable(&verdict) {
            heard(&answer);
        }
        self.take(answer, verdict, (there, leave)).await
    }

    /// Asks at a URL: the job's, or where that leads.
    async fn send(&self, url: &Url) -> Result<(FetchResponse, ResponseVerdict), AttemptFailure> {
        let first = || SegmentPlan::first_range(&self.sizes(), &RangeSet::new(), None);
        let ask = RangeRequest {
            own: &self.job.headers,
            client: &self.engine.client,
            url,
            given: given(self.job),
            range: self.ranges.then(first),
            pinned: None,
            if_range: false,
            shared: true,
            conditions: self.have.map(conditions).unwrap_or_default(),
        };
        ask.send().await
    }

    fn sizes(&self) -> SegmentOptions {
        segment_options(self.engine, self.engine.options.connections.most())
    }

    async fn take(
        &self,
        answer: FetchResponse,
        verdict: ResponseVerdict,
        leave: (Arc<HostConnections>, RequestPermit),
    ) -> Result<SingleResponseOutcome, AttemptFailure> {
        let most = self.sizes().first_request;
        let (version, length) = match verdict {
            ResponseVerdict::NotModified => {
                let head = head(&answer, ResourceVersion::default());
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
            other => return self.other(answer, other, leave).await,
        };
        let opened = ReadableResponse {
            answer,
            version,
            length,
        };
        self.read(opened).await
    }

    /// An answer that is not all there is, or of no use.
    async fn other(
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
        let permit = leave.permit(&host).await;
        Ok(SingleResponseOutcome::Large(Box::new(LargeResponse {
            begun,
            permit,
        })))
    }

    /// Reads a body to its end.
    async fn read(
        &self,
        opened: ReadableResponse,
    ) -> Result<SingleResponseOutcome, AttemptFailure> {
        let ReadableResponse {
            mut answer,
            version,
            length,
        } = opened;
        let wanted = ExpectedDigests {
            given: self.job.checksums.clone(),
            announced: expected_digests(&answer.headers, true),
            pieces: false,
        };
        let named = answer.headers.get(CONTENT_TYPE);
        if let Err(unexpected) = self.expect.check_head(named, length) {
            answer.discard().await;
            return Err(AttemptFailure::Unexpected(unexpected));
        }
        let head = head(&answer, version);
        let body = async {
            match length {
                Some(length) if length > IN_MEMORY => {
                    self.spill(&mut answer, Vec::new(), length).await
                }
                _ => self.keep(&mut answer, length).await,
            }
        };
        let Ok(came) = timeout(self.patience(length), body).await else {
            return Err(AttemptFailure::Slow(Box::new(answer.truncated_error())));
        };
        let (body, bytes) = came?;
        self.expect
            .check_length(bytes)
            .map_err(AttemptFailure::Unexpected)?;
        match length {
            // Framed so that its end is no error, yet not what the head said (row A10).
            Some(length) if bytes < length => return Err(broken(answer.truncated_error())),
            _ => answer.recycle(),
        }
        Ok(SingleResponseOutcome::Whole(Box::new(WholeFile {
            head,
            body,
            bytes,
            wanted,
        })))
    }

    /// Reads a body that is small, or of a length that nobody told: what turns out to be larger goes into a file. So does all of it
    /// when there is no room in memory: who waited for some with an answer in his hands could hold up those that have it.
    async fn keep(
        &self,
        answer: &mut FetchResponse,
        length: Option<u64>,
    ) -> Result<(UnnamedBody, u64), AttemptFailure> {
        let most = length.unwrap_or(IN_MEMORY);
        let room = Arc::clone(self.budget).try_acquire_many_owned(units(most));
        let Ok(room) = room else {
            return self.spill(answer, Vec::new(), self.most(length)).await;
        };
        let (mut pieces, mut bytes) = (Vec::new(), 0);
        while let Some(piece) = answer.chunk().await.map_err(broken)? {
            bytes += piece.len() as u64;
            self.count(piece.len());
            pieces.push(piece);
            if bytes > most {
                return match length {
                    Some(_) => Err(surplus()),
                    None => self.spill(answer, pieces, self.most(None)).await,
                };
            }
        }
        Ok((UnnamedBody::Pieces(pieces, room), bytes))
    }

    /// How many bytes are read: what the head said, or what the user expects at most.
    fn most(&self, length: Option<u64>) -> u64 {
        length
            .or_else(|| self.expect.longest_allowed())
            .unwrap_or(u64::MAX)
    }

    /// Reads a body into a file without a name, what came already first.
    async fn spill(
        &self,
        answer: &mut FetchResponse,
        came: Vec<Bytes>,
        most: u64,
    ) -> Result<(UnnamedBody, u64), AttemptFailure> {
        let layer = &self.engine.options.layer;
        let file = blocking(|| layer.unnamed_in(self.directory)).map_err(AttemptFailure::Local)?;
        let mut bytes = came.iter().map(|piece| piece.len() as u64).sum();
        blocking(|| file.write_at(0, &came)).map_err(AttemptFailure::Local)?;
        let mut gathered = GatheredChunks::new();
        loop {
            let more = gathered
                .gather(answer, self.fetched)
                .await
                .map_err(broken)?;
            blocking(|| file.write_at(bytes, gathered.pieces())).map_err(AttemptFailure::Local)?;
            bytes += gathered.bytes();
            gathered.clear();
            if bytes > most {
                self.expect
                    .check_length(bytes)
                    .map_err(AttemptFailure::Unexpected)?;
                return Err(surplus());
            }
            if !more {
                return Ok((UnnamedBody::File(file), bytes));
            }
        }
    }

    /// How long a body may take on this road, on which what came of it is lost when it breaks: one that drips is asked for again on
    /// the roads that keep what comes, however slowly (row A19).
    fn patience(&self, length: Option<u64>) -> Duration {
        length.map_or(FOR_EVER, |length| {
            self.patience + Duration::from_secs(length / SLOWEST)
        })
    }

    fn count(&self, bytes: usize) {
        use std::sync::atomic::Ordering;
        self.fetched.fetch_add(bytes as u64, Ordering::Relaxed);
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

fn head(answer: &FetchResponse, version: ResourceVersion) -> ResponseInfo {
    ResponseInfo {
        status: answer.status,
        version,
        url: answer.url.clone(),
        timings: answer.timings,
    }
}

fn broken(error: haul_net::Error) -> AttemptFailure {
    AttemptFailure::Transport {
        error: Box::new(error),
        answered: true,
    }
}

/// More than was asked for (row A11): what came is not the file that the head spoke of, and its connection goes.
fn surplus() -> AttemptFailure {
    AttemptFailure::Unusable {
        trouble: haul_plan::RequestFailure::Refused,
        why: "more bytes came than the head of the answer said".into(),
    }
}

/// What so many bytes count as.
fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}
