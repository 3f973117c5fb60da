//! The road to standard output, a FIFO or a device: in order, and with no way back.
//!
//! The first request asks for an open range, so that it is known whether a broken body can be continued; what was handed on is
//! never fetched again. Reading the body is [`sequential`](super::sequential)'s.

use std::path::Path;

use haul_plan::{ResourceVersion, StreamPlan, StreamStart, expected_digests};

use super::attempt_failure::AttemptFailure;
use super::decode_pipe::{DecodePipe, PipeOutput};
use super::first_request::{FirstRequest, FirstResponse, FirstResponseContent};
use super::flow::SequentialDownload;
use super::host_limits::HostPermit;
use super::run::DownloadRun;
use super::sequential::SequentialOutcome;
use crate::checksum::DigestSet;
use crate::disk::StreamSink;
use crate::error::GetError;
use crate::event::TransferEvent;
use crate::options::DownloadOutcome;

impl DownloadRun<'_> {
    /// The first answer, from the first source that gives a usable one of the file meant.
    async fn begin_outward(&mut self) -> Result<(FirstResponse, HostPermit), GetError> {
        loop {
            let permit = self.permit().await?;
            let question = FirstRequest {
                range: Some(0..u64::MAX),
                ..FirstRequest::default()
            };
            let begun = self.begin(question).await;
            let begun = begun.and_then(|begun| self.meant(&begun.brings).map(|()| begun));
            let begun = match begun {
                Ok(begun) => begun,
                Err(error) => {
                    self.forsake(error).await?;
                    continue;
                }
            };
            if begun.answer.redirected {
                self.url = begun.answer.url.clone();
            }
            if let Some(permit) = self.admitted(permit) {
                return Ok((begun, permit));
            }
        }
    }

    /// Downloads into a stream.
    pub(super) async fn outward(mut self, sink: StreamSink) -> Result<DownloadOutcome, GetError> {
        let path = sink.path().map(Path::to_owned);
        let (FirstResponse { answer, brings }, _permit) = self.begin_outward().await?;
        let wanted = self.wanted(&answer.headers, &brings);
        let (version, mut opening) = brought(brings);
        let length = opening.length;
        self.tell(TransferEvent::DestinationKnown {
            job: self.job.id,
            path: path.clone(),
            length,
            resumed: 0,
        })
        .await;
        self.tell_of_stream(length, opening.coding.as_ref()).await;
        let coding = opening.coding.as_ref();
        let decode = coding.filter(|_| self.engine.options.decode_content);
        let hashers = DigestSet::new(wanted.algorithms());
        let pipe = DecodePipe::new(PipeOutput::Stream(sink), decode, hashers);
        let pipe = pipe.map_err(|source| self.cannot_decode(source))?;
        opening.may_join = self.may_join(&version, &wanted);
        opening.announced_digests = expected_digests(&answer.headers, true);
        let etag = version.etag.as_ref().map(ToString::to_string);
        let flow = SequentialDownload {
            pipe,
            version,
            stream: StreamPlan::new(opening),
            follower: None,
        };
        let (bytes, flow) = match length {
            Some(0) => (0, flow),
            _ => match self.flow(flow, answer).await {
                (Ok(SequentialOutcome::Whole(bytes)), flow) => (bytes, flow),
                (Ok(SequentialOutcome::StartOver), _) => {
                    return Err(AttemptFailure::Changed.into_error(&self.url, None, &self.path));
                }
                (Err(error), _) => return Err(of_stream(error)),
            },
        };
        if self.job.expected_size.is_some() {
            self.is_size(bytes)?;
        }
        let found = flow.pipe.into_digests();
        wanted.verify(&self.url, &found)?;
        Ok(DownloadOutcome {
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
        GetError::LocalIo { path, source, .. } => GetError::OutputStream { path, source },
        other => other,
    }
}

/// The version that a first answer is of, and what it says of its body.
fn brought(brings: FirstResponseContent) -> (ResourceVersion, StreamStart) {
    let (version, length, encoding, until) = match brings {
        FirstResponseContent::Part {
            range,
            total,
            version,
        } => (version, Some(total), None, Some(range.end)),
        FirstResponseContent::Whole {
            length,
            version,
            encoding,
        } => (version, length, encoding, None),
        FirstResponseContent::Empty(version) => (version, Some(0), None, None),
        FirstResponseContent::NotModified | FirstResponseContent::OtherVersion => {
            unreachable!("no condition was sent, and nothing was pinned")
        }
    };
    let opening = StreamStart {
        length,
        coding: encoding,
        range_end: until,
        ..StreamStart::default()
    };
    (version, opening)
}
