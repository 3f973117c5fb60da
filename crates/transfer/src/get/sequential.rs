//! The sequential strategy: one connection, from the first byte to the last.
//!
//! It is used when the origin knows no ranges, does not say the length, applied a coding unasked, or when the output can only be written
//! in order. A broken body is continued with a range where that is possible, restarted where the output can be rewound, and an error
//! where it cannot (row A10, A12). A [`StreamPlan`] decides which.

use std::io;
use std::path::PathBuf;

use haul_net::FetchResponse;
use haul_plan::{ResourceVersion, expected_digests};

use super::attempt_error::AttemptError;
use super::context::{JobContext, PROGRESS_INTERVAL};
use super::decode_pipe::{DecodePipe, PipeOutput};
use super::download_sources::DownloadSources;
use super::download_totals::DownloadTotals;
use super::expectations::FileExpectations;
use super::host_limits::HostPermit;
use super::partial_claim::PartialClaim;
use super::request::send;
use super::snapshot::RequestSnapshot;
use super::source_recovery::{Recovery, recover};
use super::strategy::{DownloadedFile, RestartReason, StrategyOutcome, start_follower};
use super::stream_plan::{StreamContinuation, StreamEnd, StreamPlan, StreamResponseHead};
use crate::checksum::{DigestFollower, DigestSet};
use crate::error::{GetError, NetworkError, OriginError, VerificationError};
use crate::event::TransferEvent;
use crate::response::{BytesOnDisk, ContentCoding, RequestFailure, UnusableResponse};
use crate::warning::TransferWarning;

/// A first response that is read from front to back.
#[derive(Debug)]
pub(super) struct SequentialStart {
    /// The response; its body is not read yet.
    pub(super) response: FetchResponse,
    /// Bytes in the body, where its head says so.
    pub(super) length: Option<u64>,
    /// A coding that the request did not ask for.
    pub(super) coding: Option<ContentCoding>,
    /// The permit for the connection, kept until the end.
    pub(super) permit: HostPermit,
}

/// Downloads into a file.
///
/// # Errors
/// The error that ends the strategy; where it is the source's, another source may do better.
pub(super) async fn download(
    context: &JobContext<'_>,
    expectations: &FileExpectations<'_>,
    sources: &mut DownloadSources,
    totals: &mut DownloadTotals,
    mut claim: PartialClaim,
    start: SequentialStart,
) -> Result<StrategyOutcome, GetError> {
    warn_of_stream(context, start.length, start.coding.as_ref()).await;
    let output = PipeOutput::File(claim.partial.storage());
    let pipe = open_pipe(
        context,
        sources,
        output,
        start.coding.as_ref(),
        DigestSet::new([]),
    )?;
    // No byte of this strategy is ever resumed: a body that can be continued at all is continued within this run. A journal of earlier
    // bytes of the same version stays, for this strategy writes the same bytes over them.
    claim.partial.open_journal(None)?;
    let mut download = SequentialDownload {
        pipe,
        version: claim.digests.pinned(&claim.version),
        stream: StreamPlan::new(StreamResponseHead {
            length: start.length,
            coding: start.coding,
            range_end: None,
            announced_digests: expected_digests(&start.response.headers, true),
            may_join: expectations.may_join(&claim.version, &claim.digests),
        }),
        follower: start_follower(&claim),
        path: claim.partial.paths.path().to_owned(),
        lost_bytes: 0,
    };
    let end = download.run(context, sources, totals, start.response).await;
    drop(start.permit);
    let length = match end? {
        SequentialEnd::Complete(length) => length,
        SequentialEnd::Changed => {
            let reason = RestartReason::Changed;
            return Ok(StrategyOutcome::restart(claim.partial, reason));
        }
    };
    verify_pieces(context, expectations, sources, &claim, length).await?;
    Ok(StrategyOutcome::Complete(Box::new(DownloadedFile {
        claim,
        length,
        follower: download.follower,
        unsaved: None,
    })))
}

/// A pipe that decodes the body's coding if the user requested that.
///
/// # Errors
/// [`VerificationError::Decode`] for an unknown coding.
pub(super) fn open_pipe(
    context: &JobContext<'_>,
    sources: &DownloadSources,
    output: PipeOutput,
    coding: Option<&ContentCoding>,
    digests: DigestSet,
) -> Result<DecodePipe, GetError> {
    let coding = coding.filter(|_| context.options().decode_content);
    let pipe = DecodePipe::new(output, coding, digests);
    pipe.map_err(|source| decode_error(sources, source))
}

fn decode_error(sources: &DownloadSources, source: io::Error) -> GetError {
    let url = haul_net::without_credentials(&sources.current().location);
    match source.kind() {
        io::ErrorKind::Unsupported => GetError::origin(url, OriginError::UnknownCoding { source }),
        _ => GetError::verification(url, VerificationError::Decode { source }),
    }
}

/// Warns of a coding that is stored as it is, and of a length that nobody knows.
pub(super) async fn warn_of_stream(
    context: &JobContext<'_>,
    length: Option<u64>,
    coding: Option<&ContentCoding>,
) {
    if let Some(coding) = coding.filter(|_| !context.options().decode_content) {
        let coding = coding.clone();
        context
            .warn(TransferWarning::StoredEncoded { coding })
            .await;
    }
    if length.is_none() {
        context.warn(TransferWarning::UnknownLength).await;
    }
}

/// Verifies the pieces of a file that was read from front to back: no piece of it can be fetched again but the whole file.
async fn verify_pieces(
    context: &JobContext<'_>,
    expectations: &FileExpectations<'_>,
    sources: &DownloadSources,
    claim: &PartialClaim,
    length: u64,
) -> Result<(), GetError> {
    let url = &sources.current().location;
    expectations.check_size(url, length)?;
    let Some(mut verifier) = expectations.verifier(claim.partial.storage(), length) else {
        return Ok(());
    };
    let (job, bytes) = (context.job.id, length);
    context.send(TransferEvent::Verifying { job, bytes }).await;
    let done = std::iter::once(0..length).collect();
    while !verifier.is_complete() {
        verifier.start_round(&done);
        let checked = match context.unless_stopped(verifier.next_results()).await {
            Ok(checked) => checked,
            Err(interrupted) => {
                verifier.close().await;
                return Err(interrupted);
            }
        };
        let path = || claim.partial.paths.partial();
        let checked = checked.map_err(|source| GetError::io("read", path(), source))?;
        if let Some(bad) = checked.into_iter().find(|piece| piece.bad_count > 0) {
            verifier.close().await;
            return Err(bad.error(url));
        }
    }
    Ok(())
}

/// How a body that is read from front to back ended, when not with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SequentialEnd {
    /// The file is complete, with this number of bytes as written.
    Complete(u64),
    Changed,
}

/// A file that is read from front to back, into a file or a stream.
#[derive(Debug)]
pub(super) struct SequentialDownload {
    pub(super) pipe: DecodePipe,
    /// The version that every response must be of.
    pub(super) version: ResourceVersion,
    /// Decides what may follow what.
    pub(super) stream: StreamPlan,
    /// Computes digests behind the download.
    pub(super) follower: Option<DigestFollower>,
    /// The output, for messages.
    pub(super) path: PathBuf,
    /// Bytes of the last body that was lost.
    pub(super) lost_bytes: u64,
}

/// Why reading a response stopped before its end.
enum ReadError {
    /// The recovery policy decides what follows.
    Attempt(Box<AttemptError>),
    /// There is nothing to decide.
    Final(GetError),
}

impl SequentialDownload {
    /// Reads responses until the file is complete.
    ///
    /// # Errors
    /// [`NetworkError::BrokenStream`] when the output would have to go back and cannot; else the error that ends the strategy.
    pub(super) async fn run(
        &mut self,
        context: &JobContext<'_>,
        sources: &mut DownloadSources,
        totals: &mut DownloadTotals,
        first: FetchResponse,
    ) -> Result<SequentialEnd, GetError> {
        totals.connections = 1;
        let mut response = Some(first);
        loop {
            let started_at = self.pipe.received();
            let read = self.read_response(context, sources, totals, response.take());
            let error = match read.await {
                Ok(StreamEnd::Complete) => return self.finish(context, sources).await,
                Ok(_) => {
                    self.count_progress(sources, started_at);
                    continue;
                }
                Err(ReadError::Final(error)) => return Err(error),
                Err(ReadError::Attempt(error)) => error,
            };
            if shows_that_ranges_fail(&error) {
                self.stream.give_up_ranges();
            }
            let taken = self.pipe.received();
            if !self.prepare_continuation() {
                return Err(GetError::network(
                    haul_net::without_credentials(&sources.current().location),
                    NetworkError::BrokenStream {
                        at: self.pipe.written(),
                    },
                ));
            }
            let received = self.count_progress(sources, started_at);
            let lost = taken.saturating_sub(self.pipe.received());
            let error = self.name_same_end(*error.after_bytes(lost), sources);
            match recover(context, sources, error, true, received).await? {
                Recovery::SendAgain => {}
                Recovery::StartOver => return Ok(SequentialEnd::Changed),
            }
        }
    }

    /// The error of a body that ended where the one before it did says so: no connection breaks twice at the same byte (row A41).
    fn name_same_end(
        &mut self,
        mut error: AttemptError,
        sources: &DownloadSources,
    ) -> AttemptError {
        let last = std::mem::replace(&mut self.lost_bytes, error.lost_bytes);
        let is_same = last > 0 && last == error.lost_bytes;
        if let (
            true,
            GetError::Network {
                error: NetworkError::Transport { .. },
                ..
            },
            Some(length),
        ) = (is_same, &error.error, self.stream.length())
        {
            let received = last;
            let reason = UnusableResponse::TruncatedBody { received, length }.to_string();
            let reason = match self.stream.coding() {
                Some(coding) => {
                    format!("{reason}, in {coding}: that may be the length of the decoded file")
                }
                None => reason,
            };
            let url = Box::new(haul_net::without_credentials(&sources.current().location));
            error.error = GetError::origin(url, OriginError::UnusableResponse { reason });
        }
        error
    }

    async fn finish(
        &mut self,
        context: &JobContext<'_>,
        sources: &DownloadSources,
    ) -> Result<SequentialEnd, GetError> {
        self.pipe
            .flush_all()
            .map_err(|e| self.output_error(sources, e))?;
        self.wait_for_room(context, sources).await?;
        Ok(SequentialEnd::Complete(self.pipe.written()))
    }

    /// Waits until the output has room again.
    async fn wait_for_room(
        &mut self,
        context: &JobContext<'_>,
        sources: &DownloadSources,
    ) -> Result<(), GetError> {
        if !self.pipe.is_full() {
            return Ok(());
        }
        let waited = context.unless_stopped(self.pipe.wait_for_room()).await?;
        waited.map_err(|e| self.output_error(sources, e))
    }

    /// Counts the bytes since `started_at`, and returns how many there are. Only bytes that are kept are progress: a body that is
    /// restarted again and again must use up the budget.
    fn count_progress(&self, sources: &mut DownloadSources, started_at: u64) -> u64 {
        let source = sources.current_number();
        let bytes = self.pipe.received().saturating_sub(started_at);
        sources.recovery.on_bytes(source, bytes);
        bytes
    }

    /// Prepares the output for the next response after a break. False when it would have to go back and cannot.
    fn prepare_continuation(&mut self) -> bool {
        if self.stream.after_break(self.pipe.received()) == StreamContinuation::Continue {
            return true;
        }
        let rewound = self.pipe.rewind();
        if rewound {
            self.follower = self.follower.take().map(DigestFollower::restart);
        }
        rewound
    }

    /// Reads one response, sending a request for it first if need be.
    async fn read_response(
        &mut self,
        context: &JobContext<'_>,
        sources: &DownloadSources,
        totals: &mut DownloadTotals,
        response: Option<FetchResponse>,
    ) -> Result<StreamEnd, ReadError> {
        let mut response = match response {
            Some(response) => response,
            None => context
                .unless_stopped(self.request_rest(context, sources))
                .await
                .map_err(ReadError::Final)?
                .map_err(ReadError::Attempt)?,
        };
        let started = context.elapsed();
        let started_at = self.pipe.received();
        if let Some(steering) = context.steering {
            steering.note_sources(sources);
            steering.note_request(Some(RequestSnapshot {
                connection: 0,
                source: sources.current_number(),
                range: started_at..self.stream.length().unwrap_or(u64::MAX),
                position: started_at,
                rate: None,
                address: response.peer,
                protocol: http::Version::HTTP_11,
            }));
        }
        let read = self
            .read_body(context, sources, totals, &mut response)
            .await;
        if let Some(steering) = context.steering {
            steering.note_request(None);
        }
        let range = started_at..self.pipe.received();
        if !range.is_empty() {
            totals.segments += 1;
            context
                .send(TransferEvent::SegmentEnded {
                    job: context.job.id,
                    range,
                    elapsed: context.elapsed().saturating_sub(started),
                    worker: 0,
                })
                .await;
        }
        read?;
        let end = self.stream.after_end(started_at, self.pipe.received());
        match (end, self.stream.length()) {
            (StreamEnd::Truncated, Some(length)) => {
                let received = self.pipe.received();
                let truncated = UnusableResponse::TruncatedBody { received, length };
                let failure = RequestFailure::Unusable(truncated);
                let url = &sources.current().location;
                let error = AttemptError::response(failure, &response, url);
                response.recycle();
                Err(ReadError::Attempt(error))
            }
            (end, _) => {
                response.recycle();
                Ok(end)
            }
        }
    }

    /// Moves a body into the pipe, and reports the progress ten times a second.
    async fn read_body(
        &mut self,
        context: &JobContext<'_>,
        sources: &DownloadSources,
        totals: &mut DownloadTotals,
        response: &mut FetchResponse,
    ) -> Result<(), ReadError> {
        let mut tick = tokio::time::interval(PROGRESS_INTERVAL);
        loop {
            let waiting = context.meter.waiting();
            let chunk = tokio::select! {
                biased;
                () = context.stop.cancelled() => return Err(ReadError::Final(GetError::INTERRUPTED)),
                _ = tick.tick() => {
                    self.report_progress(context);
                    continue;
                }
                chunk = response.chunk() => chunk,
            };
            drop(waiting);
            let chunk = match chunk {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return Ok(()),
                Err(error) => {
                    let url = &sources.current().location;
                    let error = AttemptError::transport(error, true, url, None);
                    return Err(ReadError::Attempt(error));
                }
            };
            totals.fetched += chunk.len() as u64;
            context.meter.add(chunk.len());
            let throttled = context.meter.throttle(chunk.len() as u64);
            context
                .unless_stopped(throttled)
                .await
                .map_err(ReadError::Final)?;
            let acceptable = self
                .stream
                .acceptable_bytes(self.pipe.received(), chunk.len() as u64);
            let keep = usize::try_from(acceptable).map_or(chunk.len(), |n| n.min(chunk.len()));
            self.pipe
                .push(chunk.slice(..keep))
                .map_err(|e| ReadError::Final(self.output_error(sources, e)))?;
            let waited = self.wait_for_room(context, sources).await;
            waited.map_err(ReadError::Final)?;
            if keep < chunk.len() {
                // A body that is longer than announced may be without end: it is not read on, and its connection goes.
                return Ok(());
            }
        }
    }

    fn report_progress(&self, context: &JobContext<'_>) {
        if let Some(follower) = &self.follower {
            follower.advance(self.pipe.written());
        }
        if let Some(steering) = context.steering {
            steering.note_written(self.pipe.written());
        }
        // A renderer that is behind will see the next one.
        let _ = context.engine.events.try_send(TransferEvent::Progress {
            job: context.job.id,
            done: self.pipe.received(),
            length: self.stream.length(),
            connections: 1,
        });
    }

    /// Requests the missing bytes, or the whole file when the pipe was rewound.
    async fn request_rest(
        &mut self,
        context: &JobContext<'_>,
        sources: &DownloadSources,
    ) -> Result<FetchResponse, Box<AttemptError>> {
        let received = self.pipe.received();
        let source = sources.current();
        let range = self.stream.next_range(received);
        let request = source.request(range, &context.job.headers);
        let client = &context.engine.client;
        let if_range = source.may_send_if_range;
        let on_disk = BytesOnDisk::Joined(&self.version);
        let _waiting = context.meter.waiting();
        let (response, content) = send(client, request, on_disk, if_range).await?;
        let announced = expected_digests(&response.headers, true);
        let failure = match self.stream.accepts(&content, &announced, received) {
            Some(true) => return Ok(response),
            Some(false) => RequestFailure::Changed,
            None => RequestFailure::Unusable(UnusableResponse::Unexpected),
        };
        let error = AttemptError::response(failure, &response, &source.location);
        response.discard().await;
        Err(error)
    }

    /// The output took no more bytes, or the body is not what its coding says.
    fn output_error(&self, sources: &DownloadSources, source: io::Error) -> GetError {
        if source.kind() == io::ErrorKind::InvalidData {
            return decode_error(sources, source);
        }
        GetError::io("write to", self.path.clone(), source)
    }
}

/// Whether a response was useless because of its range. Without If-Range the same range may still be had (row A4).
fn shows_that_ranges_fail(error: &AttemptError) -> bool {
    matches!(
        error.failure,
        Some(
            RequestFailure::RangeIgnored
                | RequestFailure::RangeRefused { .. }
                | RequestFailure::PastEnd
                | RequestFailure::Unusable(_)
        )
    )
}
