//! The sequential road: one connection, from the first byte to the last.
//!
//! Taken when the origin knows no ranges, does not say the length, applied a coding unasked, or when the output can
//! only be written in order. A broken body is continued with a range where that is possible, begun again where the
//! output can be rewound, and an error where it cannot (row A10, A12).

use std::ops::Range;
use std::time::SystemTime;

use haul_net::{Answer, Fetch};
use haul_plan::{Asked, ContentCoding, Verdict, Version, judge};
use http::HeaderMap;

use super::failure::Failure;
use super::first::Healed;
use super::hosts::Permit;
use super::job::{Landing, Run};
use super::partial::Partial;
use super::pipe::{Ends, Pipe};
use super::roads::follower;
use crate::checksum::{Follower, Hashers};
use crate::error::GetError;
use crate::event::Event;
use crate::options::Outcome;

/// A first answer that is read from front to back.
#[derive(Debug)]
pub(super) struct Body {
    /// The answer, its body not read yet.
    pub(super) answer: Answer,
    /// Bytes in the resource, if that is said.
    pub(super) length: Option<u64>,
    /// A coding that was applied unasked.
    pub(super) encoding: Option<ContentCoding>,
    /// Leave to hold the connection, kept until the end.
    pub(super) _permit: Permit,
}

/// How a sequential download ended, when not with an error.
pub(super) enum Ended {
    /// All of it, this many bytes as written.
    Whole(u64),
    /// The resource changed.
    StartOver,
}

impl Run<'_> {
    /// The sequential road into a file. `None` when the steps must begin again, with the partial file in `held`.
    pub(super) async fn sequential(
        &mut self,
        landing: Landing,
        body: Body,
        held: &mut Option<Partial>,
    ) -> Result<Option<Outcome>, GetError> {
        self.tell_of_stream(body.length, body.encoding.as_ref())
            .await;
        let decode = body.encoding.clone().filter(|_| self.engine.options.decode);
        let pipe = Pipe::new(
            Ends::File(landing.partial.storage()),
            decode.as_ref(),
            Hashers::new([]),
        );
        let pipe = pipe.map_err(|source| self.cannot_decode(source))?;
        let follower = follower(&landing);
        let flow = Flow {
            pipe,
            version: landing.version.clone(),
            length: body.length,
            follower,
            ranges: decode.is_none(),
        };
        let (ended, flow) = self.flow(flow, body.answer).await;
        match ended {
            Ok(Ended::Whole(bytes)) => self.complete(landing, flow.follower, bytes).await.map(Some),
            Ok(Ended::StartOver) => self
                .begin_again(landing.partial, false, held)
                .await
                .map(|()| None),
            Err(error) => {
                landing.partial.abandon();
                Err(without_resume(error))
            }
        }
    }

    /// Reads answers until the resource is whole.
    pub(super) async fn flow(
        &mut self,
        mut flow: Flow,
        first: Answer,
    ) -> (Result<Ended, GetError>, Flow) {
        self.tally.connections = 1;
        let mut answer = Some(first);
        loop {
            let at = flow.pipe.taken();
            let failure = match self.pour(&mut flow, answer.take()).await {
                Ok(()) => {
                    return (
                        flow.close().map(Ended::Whole).map_err(|e| self.local(e)),
                        flow,
                    );
                }
                Err(Stop::Error(error)) => return (Err(error), flow),
                Err(Stop::Failure(failure)) => failure,
            };
            self.course
                .on_progress(flow.pipe.taken().saturating_sub(at));
            flow.ranges &= !matches!(failure, Failure::Unusable { .. });
            if !flow.can_go_on() && !flow.rewind() {
                let url = Box::new(haul_net::without_credentials(&self.url));
                return (
                    Err(GetError::BrokenStream {
                        url,
                        at: flow.pipe.written(),
                    }),
                    flow,
                );
            }
            match self.heal(failure, None, false).await {
                Ok(Healed::Again) => {}
                Ok(Healed::StartOver) => return (Ok(Ended::StartOver), flow),
                Err(error) => return (Err(error), flow),
            }
        }
    }

    /// Reads one answer, asking for it first if need be.
    async fn pour(&mut self, flow: &mut Flow, answer: Option<Answer>) -> Result<(), Stop> {
        let asked = async {
            match answer {
                Some(answer) => Ok(answer),
                None => self.ask_on(flow).await,
            }
        };
        let mut answer = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Err(Stop::Error(GetError::Interrupted { resumable: false })),
            answer = asked => answer.map_err(Stop::Failure)?,
        };
        let started = self.started.elapsed();
        let at = flow.pipe.taken();
        let result = self.drain(flow, &mut answer).await;
        let came = flow.pipe.taken() - at;
        if came > 0 {
            self.tally.segments += 1;
            let elapsed = self.started.elapsed().saturating_sub(started);
            let range = at..at + came;
            self.tell(Event::Segment {
                job: self.job.id,
                range,
                elapsed,
                connection: 0,
            })
            .await;
        }
        result?;
        answer.recycle();
        Ok(())
    }

    /// Moves a body into the pipe, telling the progress ten times a second.
    async fn drain(&mut self, flow: &mut Flow, answer: &mut Answer) -> Result<(), Stop> {
        let mut look = tokio::time::interval(super::LOOK);
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(Stop::Error(GetError::Interrupted { resumable: false })),
                _ = look.tick() => self.show(flow),
                piece = answer.chunk() => match piece {
                    Ok(Some(piece)) => {
                        self.tally.fetched += piece.len() as u64;
                        flow.take(&piece).map_err(|e| Stop::Error(self.local(e)))?;
                    }
                    Ok(None) => return flow.check_length(),
                    Err(error) => {
                        return Err(Stop::Failure(Failure::Transport { error: Box::new(error), answered: true }));
                    }
                },
            }
        }
    }

    fn show(&self, flow: &Flow) {
        if let Some(follower) = &flow.follower {
            follower.advance(flow.pipe.written());
        }
        let (job, done) = (self.job.id, flow.pipe.taken());
        // A renderer that is behind will see the next one.
        let _ = self.engine.events.try_send(Event::Progress {
            job,
            done,
            length: flow.length,
            connections: 1,
        });
    }

    /// Asks for what is missing, or for everything when the pipe was rewound.
    async fn ask_on(&self, flow: &Flow) -> Result<Answer, Failure> {
        let at = flow.pipe.taken();
        let range: Option<Range<u64>> = (at > 0).then_some(at..u64::MAX);
        let mut headers = HeaderMap::new();
        let condition = flow
            .version
            .if_range()
            .filter(|_| range.is_some() && self.if_range);
        let if_range_sent = condition.is_some();
        if let Some(value) = condition {
            headers.insert(http::header::IF_RANGE, value);
        }
        let asked = Asked {
            range: range.clone(),
            pinned: Some(&flow.version),
            if_range_sent,
            conditional: false,
        };
        let fetch = Fetch {
            url: &self.url,
            given: &self.job.url,
            range: range.clone(),
            headers,
        };
        let transport = |error| Failure::Transport {
            error: Box::new(error),
            answered: false,
        };
        let answer = self.engine.client.fetch(fetch).await.map_err(transport)?;
        match judge(&asked, answer.status, &answer.headers, SystemTime::now()) {
            Verdict::Part { .. } if range.is_some() => Ok(answer),
            Verdict::Whole { .. } if range.is_none() => Ok(answer),
            verdict => {
                let failure = Failure::from_verdict(verdict, &answer);
                answer.discard().await;
                Err(failure)
            }
        }
    }

    pub(super) async fn tell_of_stream(
        &self,
        length: Option<u64>,
        encoding: Option<&ContentCoding>,
    ) {
        if let Some(coding) = encoding.filter(|_| !self.engine.options.decode) {
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
        GetError::Local {
            action: "write to",
            path: self.path.clone(),
            source,
        }
    }
}

/// A sequential download under way.
#[derive(Debug)]
pub(super) struct Flow {
    /// Where bytes go.
    pub(super) pipe: Pipe,
    /// The version that every answer must be of.
    pub(super) version: Version,
    /// Bytes in the resource, if that is known.
    pub(super) length: Option<u64>,
    /// Hashes behind the download.
    pub(super) follower: Option<Follower>,
    /// Whether a range may continue a broken body.
    pub(super) ranges: bool,
}

impl Flow {
    fn take(&mut self, piece: &bytes::Bytes) -> std::io::Result<()> {
        // No byte beyond the announced length is taken (row A11); the length check then refuses the answer.
        let room = self
            .length
            .map_or(u64::MAX, |length| length.saturating_sub(self.pipe.taken()));
        let keep = usize::try_from(room).map_or(piece.len(), |room| room.min(piece.len()));
        self.pipe.take(piece.slice(..keep))
    }

    fn can_go_on(&self) -> bool {
        self.pipe.taken() == 0 || (self.ranges && self.length.is_some())
    }

    /// Goes back to the beginning, if the output can.
    fn rewind(&mut self) -> bool {
        let rewound = self.pipe.rewind();
        if rewound {
            self.follower = self.follower.take().map(|follower| follower.restart());
        }
        rewound
    }

    fn check_length(&self) -> Result<(), Stop> {
        match self.length {
            Some(length) if length != self.pipe.taken() => Err(Stop::Failure(Failure::Unusable {
                trouble: haul_plan::Trouble::Refused,
                why: format!(
                    "the body has {} bytes of {length} announced",
                    self.pipe.taken()
                ),
            })),
            _ => Ok(()),
        }
    }

    fn close(&mut self) -> std::io::Result<u64> {
        self.pipe.close()?;
        Ok(self.pipe.written())
    }
}

/// Why reading an answer stopped.
enum Stop {
    /// The course decides.
    Failure(Failure),
    /// There is nothing to decide.
    Error(GetError),
}

/// An interrupted sequential download left nothing to resume.
pub(super) fn without_resume(error: GetError) -> GetError {
    match error {
        GetError::Interrupted { .. } => GetError::Interrupted { resumable: false },
        other => other,
    }
}
