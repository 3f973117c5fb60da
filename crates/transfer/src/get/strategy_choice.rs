//! The strategy for a first response: a part that others can join leads to [`segmented`], everything else to [`sequential`].

use std::ops::Range;

use super::context::JobContext;
use super::download_sources::DownloadSources;
use super::download_totals::DownloadTotals;
use super::expectations::FileExpectations;
use super::first_request::FirstResponse;
use super::host_limits::HostPermit;
use super::partial_claim::PartialClaim;
use super::segmented::{self, SegmentedStart};
use super::sequential::{self, SequentialStart};
use super::strategy::{DownloadedFile, RestartReason, StrategyOutcome};
use crate::error::GetError;
use crate::event::TransferEvent;
use crate::response::ResponseContent;

/// Chooses the strategy by what the first response brings, and runs it.
///
/// # Errors
/// The error that ends the strategy; where it is the source's, another source may do better.
pub(super) async fn run_strategy(
    context: &JobContext<'_>,
    expectations: &FileExpectations<'_>,
    sources: &mut DownloadSources,
    totals: &mut DownloadTotals,
    first: FirstResponse,
    mut claim: PartialClaim,
    permit: HostPermit,
) -> Result<StrategyOutcome, GetError> {
    let part = first_part(context, sources, &first.content);
    let FirstResponse {
        response,
        content,
        connecting: _connecting,
    } = first;
    let may_join = || expectations.may_join(&claim.version, &claim.digests);
    if let Some((range, total)) = part.filter(|_| may_join()) {
        report_destination(context, &claim, Some(total)).await;
        sources.current_mut().may_send_range = true;
        let start = SegmentedStart {
            response,
            range,
            total,
            permit,
        };
        let strategy = segmented::download(context, expectations, sources, totals, claim, start);
        return Box::pin(strategy).await;
    }
    let (length, coding) = match content {
        ResponseContent::NotModified => unreachable!("it has no bytes for a strategy"),
        ResponseContent::Empty { .. } => {
            response.discard().await;
            // An attempt before this one may have left bytes of another version.
            claim.partial.clear()?;
            report_destination(context, &claim, Some(0)).await;
            return Ok(StrategyOutcome::Complete(Box::new(DownloadedFile {
                claim,
                length: 0,
                follower: None,
                unsaved: None,
            })));
        }
        // The versions of several responses cannot be compared (row A7), so one response must bring the file. This one will do if
        // it brings everything; else everything is requested at once.
        ResponseContent::Part { range, total, .. } if range != (0..total) => {
            response.discard().await;
            let reason = RestartReason::NoValidator;
            return Ok(StrategyOutcome::restart(claim.partial, reason));
        }
        ResponseContent::Part { total, .. } => (Some(total), None),
        ResponseContent::Whole { length, coding, .. } => (length, coding),
    };
    report_destination(context, &claim, length).await;
    let start = SequentialStart {
        response,
        length,
        coding,
        permit,
    };
    let strategy = sequential::download(context, expectations, sources, totals, claim, start);
    Box::pin(strategy).await
}

/// The range of a first response that others can join, and the length of the file.
fn first_part(
    context: &JobContext<'_>,
    sources: &DownloadSources,
    content: &ResponseContent,
) -> Option<(Range<u64>, u64)> {
    match content {
        ResponseContent::Part { range, total, .. } => Some((range.clone(), *total)),
        // Parts can be joined now that the length is known. This response brings its share: other connections need not wait to
        // take theirs over.
        ResponseContent::Whole {
            length: Some(total),
            coding: None,
            ..
        } if sources.current().needs_length_first => {
            let connections = context.max_connections(sources);
            Some((0..total.div_ceil(connections as u64), *total))
        }
        _ => None,
    }
}

/// Reports the destination of a claimed file, and how many bytes it has.
async fn report_destination(context: &JobContext<'_>, claim: &PartialClaim, length: Option<u64>) {
    let resumed = claim.partial.resumed.as_ref();
    if let Some(steering) = context.steering {
        steering.note_destination(claim.partial.paths.path(), length);
    }
    context
        .send(TransferEvent::DestinationKnown {
            job: context.job.id,
            path: Some(claim.partial.paths.path().to_owned()),
            length,
            resumed: resumed.map_or(0, |resumed| resumed.done.total_bytes()),
        })
        .await;
}
