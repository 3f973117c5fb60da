//! The first request of a download: a ranged GET that already carries data.
//!
//! It learns the length, the version and whether ranges work, and costs no round trip of its own.

use std::ops::Range;

use haul_net::FetchResponse;
use haul_plan::{BytesOnDisk, RangeSet, RequestFailure, ResponseContent, SegmentPlan};

use super::attempt_error::AttemptError;
use super::context::JobContext;
use super::download_sources::DownloadSources;
use super::host_limits::HostPermit;
use super::partial_download::ResumedDownload;
use super::request::{check_robots_tag, conditions, send};
use super::source_recovery::recover;
use crate::disk::StoredValidators;
use crate::error::GetError;

/// A first response that a strategy can begin with. Its body is not read yet.
#[derive(Debug)]
pub(super) struct FirstResponse {
    pub(super) response: FetchResponse,
    pub(super) content: ResponseContent,
}

/// What the first request brought.
#[derive(Debug)]
pub(super) enum FirstRequestOutcome {
    /// A response to begin with.
    Response(Box<FirstResponse>),
    /// The bytes on disk are of another version, or lie beyond the end of the file.
    OtherVersion,
}

/// What the first request depends on.
#[derive(Debug, Default)]
pub(super) struct FirstRequest<'a> {
    /// The bytes to ask for, where ranges can be trusted.
    pub(super) range: Option<Range<u64>>,
    /// What is on disk already.
    pub(super) resumed: Option<&'a ResumedDownload>,
    /// Whether the response begins again, and replaces what is on disk.
    pub(super) replaces: bool,
    /// The file that may be new enough (`--update`).
    pub(super) stored_validators: Option<&'a StoredValidators>,
}

impl FirstRequest<'_> {
    /// Sends requests until a usable response comes. The next source has its turn when one fails.
    ///
    /// # Errors
    /// The error of the request that ends the job; [`GetError::Interrupted`].
    pub(super) async fn send(
        &self,
        context: &JobContext<'_>,
        sources: &mut DownloadSources,
    ) -> Result<FirstRequestOutcome, GetError> {
        loop {
            let sent = context.unless_stopped(self.send_once(context, sources));
            match sent.await? {
                Ok(outcome) => {
                    let source = sources.current_number();
                    sources.recovery.on_usable_response(source);
                    return Ok(outcome);
                }
                Err(error) => recover(context, sources, *error, false, 0).await?,
            };
        }
    }

    /// Sends one request.
    pub(super) async fn send_once(
        &self,
        context: &JobContext<'_>,
        sources: &DownloadSources,
    ) -> Result<FirstRequestOutcome, Box<AttemptError>> {
        let source = sources.current();
        // Another host's validators say nothing about this source.
        let of_source = |resumed: &&ResumedDownload| resumed.header.has_validators_of(&source.url);
        let saved = self.resumed.filter(of_source);
        let saved_version = saved.map(|saved| saved.header.version());
        // On one stream everything comes anew.
        let on_disk = match &saved_version {
            Some(version) if self.replaces || !source.may_send_range => {
                BytesOnDisk::Replaced(version)
            }
            joined => joined.as_ref().into(),
        };
        let range = self.range.clone().filter(|_| source.may_send_range);
        let mut request = source.request(range, &context.job.headers);
        request.is_replaceable = sources.recovery.sources().live_count() > 1;
        if let Some(stored) = self.stored_validators {
            request.headers = conditions(stored);
        }
        let client = &context.engine.client;
        let if_range = source.may_send_if_range;
        match send(client, request, on_disk, if_range).await {
            Ok((response, content)) => {
                let policy = context.options().robots_tag;
                check_robots_tag(policy, &response, &source.location)?;
                let first = FirstResponse { response, content };
                Ok(FirstRequestOutcome::Response(Box::new(first)))
            }
            Err(error) if on_disk.joined().is_some() && is_other_version(&error) => {
                Ok(FirstRequestOutcome::OtherVersion)
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether the origin no longer has the version that an earlier run left bytes of.
fn is_other_version(error: &AttemptError) -> bool {
    matches!(
        error.failure,
        Some(RequestFailure::Changed | RequestFailure::PastEnd)
    )
}

/// The bytes that the first request asks for.
pub(super) fn first_range(
    context: &JobContext<'_>,
    sources: &DownloadSources,
    resumed: Option<&ResumedDownload>,
) -> Range<u64> {
    let connections = sources.max_connections(context.options().connections.max());
    let options = context.engine.segment_options(connections);
    match resumed {
        // Only the origin's word is missing that this is still its version: one byte brings that.
        Some(resumed) if resumed.is_whole() => {
            let length = resumed.header.length;
            length.saturating_sub(1)..length.max(1)
        }
        Some(resumed) => {
            SegmentPlan::first_range(&options, &resumed.done, Some(resumed.header.length))
        }
        None => SegmentPlan::first_range(&options, &RangeSet::new(), None),
    }
}

/// A permit for the job's first connection, which goes to the current source.
pub(super) async fn first_permit(
    context: &JobContext<'_>,
    sources: &DownloadSources,
) -> Result<HostPermit, GetError> {
    let permit = context.unless_stopped(sources.current().host.acquire());
    let permit = permit.await?.ok_or(GetError::INTERRUPTED)?;
    context.meter.note_request();
    Ok(permit)
}

/// A permit for a connection to the host that sent the response, which after a redirect is not the one that got the request: the limit
/// of the host that delivers counts. `None` when that host has none to give. The job then waits for it without holding a connection.
pub(super) fn permit_of_responder(
    sources: &DownloadSources,
    permit: HostPermit,
) -> Option<HostPermit> {
    let responder = &sources.current().host;
    if permit.is_for(responder) {
        return Some(permit);
    }
    drop(permit);
    responder.try_acquire()
}
