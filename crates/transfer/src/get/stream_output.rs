//! Downloads into standard output, a FIFO, a device or a channel: in order, and with no way back.
//!
//! The first request asks for an open range, which shows whether a broken body can be continued; bytes that were handed on are never
//! fetched again. The body is read by [`sequential`](super::sequential).

use std::path::{Path, PathBuf};

use haul_plan::{ResourceVersion, expected_digests};

use super::context::JobContext;
use super::decode_pipe::PipeOutput;
use super::download_sources::DownloadSources;
use super::download_totals::DownloadTotals;
use super::expectations::FileExpectations;
use super::first_request::{
    FirstRequest, FirstRequestOutcome, FirstResponse, first_permit, permit_of_responder,
};
use super::host_limits::HostPermit;
use super::sequential::{SequentialDownload, SequentialEnd, open_pipe, warn_of_stream};
use super::source_recovery::fail_over;
use super::stream_plan::{StreamPlan, StreamResponseHead};
use crate::checksum::DigestSet;
use crate::error::{GetError, LocalError, VerificationError};
use crate::event::TransferEvent;
use crate::options::{DownloadOutcome, JobOutput};
use crate::response::ResponseContent;

/// Downloads into a stream.
pub(super) async fn download(
    context: &JobContext<'_>,
    expectations: &FileExpectations<'_>,
    sources: &mut DownloadSources,
    output: PipeOutput,
) -> Result<DownloadOutcome, GetError> {
    let mut totals = DownloadTotals::default();
    let path = output.path().map(Path::to_owned);
    let (first, _permit) = first_response(context, expectations, sources).await?;
    let FirstResponse {
        response, content, ..
    } = first;
    let digests = expectations.digests(&response, &content);
    let (version, mut start) = stream_start(content);
    let length = start.length;
    context
        .send(TransferEvent::DestinationKnown {
            job: context.job.id,
            path: path.clone(),
            length,
            resumed: 0,
        })
        .await;
    warn_of_stream(context, length, start.coding.as_ref()).await;
    let hashers = DigestSet::new(digests.algorithms());
    let pipe = open_pipe(context, sources, output, start.coding.as_ref(), hashers)?;
    start.may_join = expectations.may_join(&version, &digests);
    start.announced_digests = expected_digests(&response.headers, true);
    let etag = version.etag_text();
    let mut download = SequentialDownload {
        pipe,
        version: digests.pinned(&version),
        stream: StreamPlan::new(start),
        follower: None,
        path: shown_path(context, path.as_deref()),
        lost_bytes: 0,
    };
    let bytes = match length {
        Some(0) => 0,
        _ => match Box::pin(download.run(context, sources, &mut totals, response)).await {
            Ok(SequentialEnd::Complete(bytes)) => bytes,
            Ok(SequentialEnd::Changed) => {
                let url = haul_net::without_credentials(&sources.current().location);
                let error = VerificationError::ResourceChanged;
                return Err(GetError::verification(url, error));
            }
            // The stop ends a write that waits for a reader.
            Err(GetError::Local { .. }) if context.stop.is_cancelled() => {
                return Err(GetError::INTERRUPTED);
            }
            Err(error) => return Err(stream_error(error)),
        },
    };
    let url = &sources.current().location;
    expectations.check_listed_size(url, bytes)?;
    let computed = download.pipe.into_digests();
    digests.verify(url, &computed)?;
    Ok(DownloadOutcome {
        path,
        etag,
        checksums: digests.report(&computed),
        ..context.outcome(&totals, sources, bytes)
    })
}

/// The version of a first response, and the head of its stream.
fn stream_start(content: ResponseContent) -> (ResourceVersion, StreamResponseHead) {
    let start = |length, range_end, coding| StreamResponseHead {
        length,
        range_end,
        coding,
        ..StreamResponseHead::default()
    };
    match content {
        ResponseContent::Part {
            range,
            total,
            version,
        } => (version, start(Some(total), Some(range.end), None)),
        ResponseContent::Whole {
            length,
            version,
            coding,
        } => (version, start(length, None, coding)),
        ResponseContent::Empty { version } => (version, start(Some(0), None, None)),
        ResponseContent::NotModified => unreachable!("no condition was sent"),
    }
}

/// The first response, from the first source that sends a usable one of the file meant.
async fn first_response(
    context: &JobContext<'_>,
    expectations: &FileExpectations<'_>,
    sources: &mut DownloadSources,
) -> Result<(FirstResponse, HostPermit), GetError> {
    loop {
        let permit = first_permit(context, sources).await?;
        let request = FirstRequest {
            asks_for_all: true,
            ..FirstRequest::default()
        };
        let first = match request.send(context, sources).await {
            Ok(FirstRequestOutcome::Response(first)) => {
                let length = first.content.file_length();
                let url = &sources.current().location;
                let checked = length.map(|length| expectations.check_size(url, length));
                checked.unwrap_or(Ok(())).map(|()| first)
            }
            Ok(FirstRequestOutcome::OtherVersion) => unreachable!("no version was expected"),
            Err(error) => Err(error),
        };
        let first = match first {
            Ok(first) => first,
            Err(error) => {
                fail_over(context, sources, error).await?;
                continue;
            }
        };
        sources.follow_redirect(&first.response, &context.engine.host_limits);
        if let Some(permit) = permit_of_responder(sources, permit) {
            return Ok((*first, permit));
        }
    }
}

/// The output's name, for messages.
fn shown_path(context: &JobContext<'_>, path: Option<&Path>) -> PathBuf {
    let named = match &context.job.output {
        JobOutput::File(path) => Some(&**path),
        JobOutput::Channel(_) => Some(Path::new("the reader's channel")),
        JobOutput::Directory(_) | JobOutput::Stdout => path,
    };
    named
        .unwrap_or_else(|| Path::new("standard output"))
        .to_owned()
}

/// An error of a disk would say too much about a stream: there is no room to make, and nothing to resume.
fn stream_error(error: GetError) -> GetError {
    match error {
        GetError::Local {
            path,
            error: LocalError::Io { source, .. },
            ..
        } => GetError::local(path, LocalError::Output { source }),
        other => other,
    }
}
