//! The road to standard output, a FIFO or a device: in order, and with no way back.
//!
//! The first request asks for an open range, so that it is known whether a broken body can be continued; what was handed on is
//! never fetched again. Reading the body is [`sequential`](super::sequential)'s.

use std::path::Path;

use haul_plan::{ContentCoding, Stream, Version, expected_digests};

use super::failure::Failure;
use super::first::{Begun, Brings, Question};
use super::flow::Flow;
use super::job::Run;
use super::pipe::{Ends, Pipe};
use super::sequential::Ended;
use crate::checksum::Hashers;
use crate::disk::StreamSink;
use crate::error::GetError;
use crate::event::Event;
use crate::options::Outcome;

impl Run<'_> {
    /// Downloads into a stream.
    pub(super) async fn outward(mut self, sink: StreamSink) -> Result<Outcome, GetError> {
        let path = sink.path().map(Path::to_owned);
        let (Begun { answer, brings }, _permit) = loop {
            let permit = self.permit().await?;
            let question = Question {
                range: Some(0..u64::MAX),
                ..Question::default()
            };
            let begun = self.begin(question).await?;
            if begun.answer.redirected {
                self.url = begun.answer.url.clone();
            }
            if let Some(permit) = self.admitted(permit) {
                break (begun, permit);
            }
        };
        let wanted = self.wanted(&answer.headers, &brings);
        let (until, length, version, encoding) = brought(brings);
        self.tell(Event::Named {
            job: self.job.id,
            path: path.clone(),
            length,
            resumed: 0,
        })
        .await;
        self.tell_of_stream(length, encoding.as_ref()).await;
        let decode = encoding.clone().filter(|_| self.engine.options.decode);
        let hashers = Hashers::new(wanted.algorithms());
        let pipe = Pipe::new(Ends::Stream(sink), decode.as_ref(), hashers);
        let pipe = pipe.map_err(|source| self.cannot_decode(source))?;
        let joins = self.may_join(&version, &wanted);
        let etag = version.etag.as_ref().map(ToString::to_string);
        let flow = Flow {
            pipe,
            version,
            stream: Stream::new(length, encoding, until, joins),
            announced: expected_digests(&answer.headers, true),
            follower: None,
        };
        let (bytes, flow) = match length {
            Some(0) => (0, flow),
            _ => match self.flow(flow, answer).await {
                (Ok(Ended::Whole(bytes)), flow) => (bytes, flow),
                (Ok(Ended::StartOver), _) => {
                    return Err(Failure::Changed.into_error(&self.url, None, &self.path));
                }
                (Err(error), _) => return Err(of_stream(error)),
            },
        };
        let found = flow.pipe.finish();
        wanted.check(&self.url, &found)?;
        Ok(Outcome {
            path,
            etag,
            checksums: wanted.report(&found),
            ..self.outcome(bytes)
        })
    }
}

/// What a disk would be told of says nothing of a stream: there is no room to make, and nothing to go on with.
fn of_stream(error: GetError) -> GetError {
    match error {
        GetError::Local { path, source, .. } => GetError::Stream { path, source },
        other => other,
    }
}

/// Where a first answer ends, and length, version and coding of the resource.
fn brought(brings: Brings) -> (Option<u64>, Option<u64>, Version, Option<ContentCoding>) {
    match brings {
        Brings::Part {
            range,
            total,
            version,
        } => (Some(range.end), Some(total), version, None),
        Brings::Whole {
            length,
            version,
            encoding,
        } => (None, length, version, encoding),
        Brings::Empty(version) => (None, Some(0), version, None),
        // Neither is possible: no condition was sent, and nothing was pinned.
        Brings::NotModified | Brings::OtherVersion => (None, None, Version::default(), None),
    }
}
