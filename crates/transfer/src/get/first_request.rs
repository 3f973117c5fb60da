//! The first request of a download: a ranged GET that already carries data.
//!
//! It learns the length, the version and whether ranges work, and costs no round trip of its own.

use std::ops::Range;
use std::time::Duration;

use futures_util::future::join;
use haul_net::{FetchResponse, RangeByRoundTrip, ResponseObserver};
use tokio::task::JoinSet;
use url::Url;

use super::attempt_error::AttemptError;
use super::connections_ahead::ConnectionsAhead;
use super::context::JobContext;
use super::download_sources::DownloadSources;
use super::host_limits::HostPermit;
use super::partial_download::ResumedDownload;
use super::request::{check_robots_tag, check_total, conditions, send};
use super::segment_plan::SegmentPlan;
use super::source_recovery::recover;
use crate::disk::StoredValidators;
use crate::error::GetError;
use crate::range_set::RangeSet;
use crate::response::{BytesOnDisk, RequestFailure, ResponseContent};

/// A first response that a strategy can begin with. Its body is not read yet.
#[derive(Debug)]
pub(super) struct FirstResponse {
    pub(super) response: FetchResponse,
    pub(super) content: ResponseContent,
    /// The tasks that make the job's other connections. Dropped, they give up.
    pub(super) connecting: JoinSet<()>,
}

impl FirstResponse {
    pub(super) fn new(response: FetchResponse, content: ResponseContent) -> Self {
        Self {
            response,
            content,
            connecting: JoinSet::new(),
        }
    }

    /// Whether other responses bring what this one does not.
    fn needs_others(&self) -> bool {
        match &self.content {
            ResponseContent::Part { range, total, .. } => range.end < *total,
            _ => false,
        }
    }
}

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
    /// Whether all bytes are to come in one response. Else the range depends on the path, where ranges can be trusted.
    pub(super) asks_for_all: bool,
    /// What is on disk already.
    pub(super) resumed: Option<&'a ResumedDownload>,
    /// Whether the response begins again, and replaces what is on disk.
    pub(super) replaces: bool,
    /// The file that may be new enough (`--update`).
    pub(super) stored_validators: Option<&'a StoredValidators>,
}

impl FirstRequest<'_> {
    /// Sends requests until a usable response comes. The next source has its turn when one fails. Connections for the requests that may
    /// follow are made meanwhile.
    ///
    /// # Errors
    /// The error of the request that ends the job; [`GetError::Interrupted`].
    pub(super) async fn send(
        &self,
        context: &JobContext<'_>,
        sources: &mut DownloadSources,
    ) -> Result<FirstRequestOutcome, GetError> {
        let ahead = ConnectionsAhead::new(context, sources, self.may_need_others(context, sources));
        let on_begun = |url: &Url, round_trip| ahead.on_response_begun(url, round_trip);
        let sending = self.send_until_usable(context, sources, ResponseObserver(&on_begun));
        // In this order: a request that has not begun to connect would wait for one of the others.
        let (outcome, ()) = join(sending, async { ahead.on_request_sent() }).await;
        let mut outcome = outcome?;
        if let FirstRequestOutcome::Response(first) = &mut outcome
            && first.needs_others()
        {
            first.connecting = ahead.into_tasks();
        }
        Ok(outcome)
    }

    /// Whether another request may have to follow.
    fn may_need_others(&self, context: &JobContext<'_>, sources: &DownloadSources) -> bool {
        let brings_rest = |resumed: &ResumedDownload| {
            let range = first_range(context, sources, Some(resumed), Duration::ZERO);
            resumed.header.length - resumed.done.total_bytes() <= range.end - range.start
        };
        !self.asks_for_all
            && self.stored_validators.is_none()
            && sources.current().may_send_range
            && !self.resumed.is_some_and(brings_rest)
    }

    async fn send_until_usable(
        &self,
        context: &JobContext<'_>,
        sources: &mut DownloadSources,
        on_begun: ResponseObserver<'_>,
    ) -> Result<FirstRequestOutcome, GetError> {
        loop {
            let sent = self.send_once(context, sources, Some(on_begun));
            match context.unless_stopped(sent).await? {
                Ok(outcome) => {
                    let source = sources.current_number();
                    sources.recovery.on_usable_response(source);
                    return Ok(outcome);
                }
                Err(error) => recover(context, sources, *error, false, 0).await?,
            };
        }
    }

    /// Sends one request. `on_begun` learns early that a large response has begun.
    pub(super) async fn send_once(
        &self,
        context: &JobContext<'_>,
        sources: &DownloadSources,
        on_begun: Option<ResponseObserver<'_>>,
    ) -> Result<FirstRequestOutcome, Box<AttemptError>> {
        let source = sources.current();
        // Another host's validators say nothing about this source.
        let of_source = |resumed: &&ResumedDownload| resumed.header.has_validators_of(&source.url);
        let saved = self.resumed.filter(of_source);
        let saved_version = saved.map(|saved| saved.header.version());
        // A single response begins with the first byte.
        let on_disk = match &saved_version {
            Some(version) if self.replaces || !source.may_send_range => {
                BytesOnDisk::Replaced(version)
            }
            joined => joined.as_ref().into(),
        };
        let joined = self.resumed.filter(|_| !self.replaces);
        let choose_range = |round_trip| {
            if self.asks_for_all {
                0..u64::MAX
            } else {
                first_range(context, sources, joined, round_trip)
            }
        };
        let range = source.may_send_range.then(|| choose_range(Duration::ZERO));
        let mut request = source.request(range, &context.job.headers);
        request.range_by_round_trip =
            (source.may_send_range).then_some(RangeByRoundTrip(&choose_range));
        request.on_response_begun = on_begun;
        request.is_replaceable = sources.recovery.sources().live_count() > 1;
        if let Some(stored) = self.stored_validators {
            request.headers = conditions(stored);
        }
        let client = &context.engine.client;
        let if_range = source.may_send_if_range;
        match send(client, request, on_disk, if_range).await {
            Ok((response, content)) => {
                check_total(&response, &content, &source.location)?;
                let policy = context.options().robots_tag;
                check_robots_tag(policy, &response, &source.location)?;
                let first = FirstResponse::new(response, content);
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
fn first_range(
    context: &JobContext<'_>,
    sources: &DownloadSources,
    resumed: Option<&ResumedDownload>,
    round_trip: Duration,
) -> Range<u64> {
    let connections = context.max_connections(sources);
    let options = context.engine.segment_options(connections);
    let has_tls = sources.current().location.scheme() == "https";
    match resumed {
        // Only the origin's word is missing that this is still its version: one byte brings that.
        Some(resumed) if resumed.is_whole() => {
            let length = resumed.header.length;
            length.saturating_sub(1)..length.max(1)
        }
        Some(resumed) => SegmentPlan::first_range(
            &options,
            &resumed.done,
            Some(resumed.header.length),
            round_trip,
            has_tls,
        ),
        None => SegmentPlan::first_range(&options, &RangeSet::new(), None, round_trip, has_tls),
    }
}

/// A permit for the job's first connection, which goes to the current source.
pub(super) async fn first_permit(
    context: &JobContext<'_>,
    sources: &DownloadSources,
) -> Result<HostPermit, GetError> {
    let permit = context
        .unless_stopped(sources.current().host.acquire())
        .await?
        .ok_or(GetError::INTERRUPTED)?;
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
