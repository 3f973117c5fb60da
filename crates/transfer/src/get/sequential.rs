//! The sequential road: one connection, from the first byte to the last.
//!
//! Taken when the origin knows no ranges, does not say the length, applied a coding unasked, or when the output can
//! only be written in order. A broken body is continued with a range where that is possible, begun again where the
//! output can be rewound, and an error where it cannot (row A10, A12).

use haul_net::FetchResponse;
use haul_plan::{
    ContentCoding, RequestFailure, StreamEnd, StreamPlan, StreamStart, expected_digests,
};
use http::HeaderMap;

use super::attempt_failure::AttemptFailure;
use super::decode_pipe::{DecodePipe, PipeOutput};
use super::first_request::FirstRequestRetry;
use super::flow::{ReadStop, SequentialDownload};
use super::host_limits::HostPermit;
use super::partial_claim::PartialClaim;
use super::partial_download::PartialDownload;
use super::request::RangeRequest;
use super::run::DownloadRun;
use super::segmented::FirstConnection;
use super::strategy::follower;
use crate::checksum::DigestSet;
use crate::error::GetError;
use crate::event::TransferEvent;
use crate::options::DownloadOutcome;

/// A first answer that is read from front to back.
#[derive(Debug)]
pub(super) struct SequentialBody {
    /// The answer, its body not read yet.
    pub(super) answer: FetchResponse,
    /// Bytes in the resource, if that is said.
    pub(super) length: Option<u64>,
    /// A coding that was applied unasked.
    pub(super) encoding: Option<ContentCoding>,
    /// Leave to hold the connection, kept until the end.
    pub(super) _permit: HostPermit,
}

/// How a sequential download ended, when not with an error.
pub(super) enum SequentialOutcome {
    /// All of it, this many bytes as written.
    Whole(u64),
    /// The resource changed.
    StartOver,
}

impl DownloadRun<'_> {
    /// The sequential road into a file. `None` when the steps must begin again, with the partial file in `held`.
    pub(super) async fn sequential(
        &mut self,
        mut landing: PartialClaim,
        body: SequentialBody,
        held: &mut Option<PartialDownload>,
    ) -> Result<Option<DownloadOutcome>, GetError> {
        self.tell_of_stream(body.length, body.encoding.as_ref())
            .await;
        let decode = body
            .encoding
            .clone()
            .filter(|_| self.engine.options.decode_content);
        let pipe = DecodePipe::new(
            PipeOutput::File(landing.partial.storage()),
            decode.as_ref(),
            DigestSet::new([]),
        );
        let pipe = pipe.map_err(|source| self.cannot_decode(source))?;
        // Nothing of this road is ever resumed: where it can be continued at all, it is so within this run.
        landing.partial.open_journal(None)?;
        let follower = follower(&landing);
        let joins = self.may_join(&landing.version, &landing.wanted);
        let flow = SequentialDownload {
            pipe,
            version: landing.version.clone(),
            stream: StreamPlan::new(StreamStart {
                length: body.length,
                coding: body.encoding,
                range_end: None,
                announced_digests: expected_digests(&body.answer.headers, true),
                may_join: joins,
            }),
            follower,
        };
        let (ended, flow) = self.flow(flow, body.answer).await;
        match ended? {
            SequentialOutcome::Whole(bytes) => {
                self.verify_whole(&landing, bytes).await?;
                let done = self.complete(&mut landing, flow.follower, bytes).await;
                done.map(Some)
            }
            SequentialOutcome::StartOver => self
                .begin_again(landing.partial, false, held)
                .await
                .map(|()| None),
        }
    }

    /// The road of a resource whose versions nothing tells apart (row A7): one answer, which is of one version. The first one
    /// will do if it brings everything; else it is let go, and everything is asked for at once.
    pub(super) async fn unpinned(
        &mut self,
        landing: PartialClaim,
        total: u64,
        FirstConnection {
            response: answer,
            permit,
            ..
        }: FirstConnection,
        held: &mut Option<PartialDownload>,
    ) -> Result<Option<DownloadOutcome>, GetError> {
        match answer {
            Some((answer, range)) if range == (0..total) => {
                self.name(Some(total), &landing).await;
                let body = SequentialBody {
                    answer,
                    length: Some(total),
                    encoding: None,
                    _permit: permit,
                };
                return Box::pin(self.sequential(landing, body, held)).await;
            }
            Some((answer, _)) => answer.discard().await,
            None => {}
        }
        let text = "the origin gives neither ETag nor Last-Modified, so that a change would not be noticed between two requests: \
                    fetching over one connection; -x N takes several all the same";
        self.warn(text.into()).await;
        self.one_stream = true;
        *held = Some(landing.partial);
        Ok(None)
    }

    /// Reads answers until the resource is whole.
    pub(super) async fn flow(
        &mut self,
        mut flow: SequentialDownload,
        first: FetchResponse,
    ) -> (Result<SequentialOutcome, GetError>, SequentialDownload) {
        self.totals.connections = 1;
        let mut answer = Some(first);
        loop {
            let begun = flow.pipe.received();
            let failure = match self.pour(&mut flow, answer.take()).await {
                Ok(StreamEnd::Complete) => {
                    let closed = flow
                        .close()
                        .map(SequentialOutcome::Whole)
                        .map_err(|e| self.local(e));
                    return (closed, flow);
                }
                Ok(_) => {
                    self.course.on_progress(flow.pipe.received() - begun);
                    continue;
                }
                Err(ReadStop::Error(error)) => return (Err(error), flow),
                Err(ReadStop::Failure(failure)) => failure,
            };
            // Without If-Range the same range may still be had (row A4).
            if matches!(failure, AttemptFailure::Unusable { trouble, .. } if trouble != RequestFailure::IfRangeMisread)
            {
                flow.stream.give_up_ranges();
            }
            if !flow.ready() {
                let url = Box::new(haul_net::without_credentials(&self.url));
                let at = flow.pipe.written();
                return (Err(GetError::BrokenStream { url, at }), flow);
            }
            // Only what is kept is progress: a body begun again and again must use up the budget.
            self.course
                .on_progress(flow.pipe.received().saturating_sub(begun));
            match self.heal(failure, None).await {
                Ok(FirstRequestRetry::Again) => {}
                Ok(FirstRequestRetry::StartOver) => {
                    return (Ok(SequentialOutcome::StartOver), flow);
                }
                Err(error) => return (Err(error), flow),
            }
        }
    }

    /// Reads one answer, asking for it first if need be.
    async fn pour(
        &mut self,
        flow: &mut SequentialDownload,
        answer: Option<FetchResponse>,
    ) -> Result<StreamEnd, ReadStop> {
        let asked = async {
            match answer {
                Some(answer) => Ok(answer),
                None => self.ask_on(flow).await,
            }
        };
        let mut answer = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Err(ReadStop::Error(GetError::INTERRUPTED)),
            answer = asked => answer.map_err(ReadStop::Failure)?,
        };
        let started = self.started.elapsed();
        let at = flow.pipe.received();
        let drained = self.drain(flow, &mut answer).await;
        let came = flow.pipe.received() - at;
        if came > 0 {
            self.totals.segments += 1;
            let elapsed = self.started.elapsed().saturating_sub(started);
            let range = at..at + came;
            self.tell(TransferEvent::SegmentEnded {
                job: self.job.id,
                range,
                elapsed,
                worker: 0,
            })
            .await;
        }
        drained?;
        answer.recycle();
        flow.ended(at)
    }

    /// Moves a body into the pipe, telling the progress ten times a second.
    async fn drain(
        &mut self,
        flow: &mut SequentialDownload,
        answer: &mut FetchResponse,
    ) -> Result<(), ReadStop> {
        let mut look = tokio::time::interval(super::PROGRESS_INTERVAL);
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(ReadStop::Error(GetError::INTERRUPTED)),
                _ = look.tick() => self.show(flow),
                piece = answer.chunk() => match piece {
                    Ok(Some(piece)) => {
                        self.totals.fetched += piece.len() as u64;
                        let fits = flow.take(&piece).map_err(|e| ReadStop::Error(self.local(e)))?;
                        if !fits {
                            // What is more than was announced may be without end: it is not read, and its connection goes.
                            return Ok(());
                        }
                    }
                    Ok(None) => return Ok(()),
                    Err(error) => {
                        return Err(ReadStop::Failure(AttemptFailure::Transport { error: Box::new(error), answered: true }));
                    }
                },
            }
        }
    }

    fn show(&self, flow: &SequentialDownload) {
        if let Some(follower) = &flow.follower {
            follower.advance(flow.pipe.written());
        }
        let (job, done) = (self.job.id, flow.pipe.received());
        // A renderer that is behind will see the next one.
        let _ = self.engine.events.try_send(TransferEvent::Progress {
            job,
            done,
            length: flow.stream.length(),
            connections: 1,
        });
    }

    /// Asks for what is missing, or for everything when the pipe was rewound.
    async fn ask_on(&self, flow: &mut SequentialDownload) -> Result<FetchResponse, AttemptFailure> {
        let taken = flow.pipe.received();
        let ask = RangeRequest {
            own: &self.job.headers,
            client: &self.engine.client,
            url: &self.url,
            given: self.given(self.source),
            range: flow.stream.next_range(taken),
            pinned: Some(&flow.version),
            if_range: self.if_range,
            shared: false,
            conditions: HeaderMap::new(),
        };
        let (answer, verdict) = ask.send().await?;
        let announced = expected_digests(&answer.headers, true);
        let failure = match flow.stream.accepts(&verdict, &announced, taken) {
            Some(true) => return Ok(answer),
            Some(false) => AttemptFailure::Changed,
            None => AttemptFailure::from_verdict(verdict, &answer),
        };
        answer.discard().await;
        Err(failure)
    }

    pub(super) async fn tell_of_stream(
        &self,
        length: Option<u64>,
        encoding: Option<&ContentCoding>,
    ) {
        if let Some(coding) = encoding.filter(|_| !self.engine.options.decode_content) {
            let undone = match coding {
                ContentCoding::Other(_) => "",
                _ => ", --decode undoes it",
            };
            self.warn(format!("the origin sent it as {coding}: stored so{undone}"))
                .await;
        }
        if length.is_none() {
            self.warn("the origin does not say how long the file is: it cannot be resumed".into())
                .await;
        }
    }

    pub(super) fn cannot_decode(&self, source: std::io::Error) -> GetError {
        GetError::Decode {
            url: Box::new(haul_net::without_credentials(&self.url)),
            source,
        }
    }

    fn local(&self, source: std::io::Error) -> GetError {
        if source.kind() == std::io::ErrorKind::InvalidData {
            return self.cannot_decode(source);
        }
        GetError::local("write to", self.path.clone(), source)
    }
}
