//! Carries out what the recovery policy decides, for requests that go to one source at a time.

use super::attempt_error::AttemptError;
use super::context::JobContext;
use super::download_sources::DownloadSources;
use crate::error::GetError;
use crate::recovery::{FailureContext, RecoveryAction};
use crate::warning::TransferWarning;

/// What follows a failure that did not end the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recovery {
    /// Send the next request, to the current source.
    SendAgain,
    /// The resource changed: discard its bytes.
    StartOver,
}

/// Waits, switches to another source or changes what requests say, as the policy decides about a failure of the current source.
/// `keeps_source`: bytes of this source would be lost if another took over. `received`: bytes that the failed request brought, where
/// they are kept.
///
/// # Errors
/// The failure's own error, when the policy gives up, or where it has nothing to decide. [`GetError::Interrupted`].
pub(super) async fn recover(
    context: &JobContext<'_>,
    sources: &mut DownloadSources,
    failed: AttemptError,
    keeps_source: bool,
    received: u64,
) -> Result<Recovery, GetError> {
    let Some(failure) = &failed.failure else {
        return Err(failed.error);
    };
    let (source, reason) = (sources.current_number(), failed.reason());
    let now = context.elapsed();
    let action = sources.recovery.on_failure(
        failure,
        &FailureContext {
            source,
            now,
            // One request at a time: each is sent when the wait before it is over.
            requested_at: now,
            received,
            lost_body: Some(failed.lost_bytes).filter(|bytes| *bytes > 0),
            host_has_answered: false,
            delivering: 0,
            redirected: sources.current().is_redirected(),
            keeps_source,
            forbidden_may_mean_overload: false,
            jitter: rand::random(),
            reason: &reason,
        },
    );
    tracing::debug!(source, ?action, "{reason}");
    let hosts = &context.engine.host_limits;
    let wait = match action {
        RecoveryAction::GiveUp => return Err(failed.error),
        RecoveryAction::DropSource if keeps_source => return Err(failed.error),
        RecoveryAction::StartOver => return Ok(Recovery::StartOver),
        RecoveryAction::WithoutIfRange => {
            sources.current_mut().may_send_if_range = false;
            return Ok(Recovery::SendAgain);
        }
        RecoveryAction::OneStream => {
            sources.current_mut().give_up_ranges(failure);
            return Ok(Recovery::SendAgain);
        }
        RecoveryAction::Retry(wait) | RecoveryAction::FewerConnections(wait) => wait,
        RecoveryAction::ResolveAgain(wait) => {
            sources.current_mut().resolve_again(hosts);
            wait
        }
        RecoveryAction::DropSource
        | RecoveryAction::UseOtherSources(_)
        | RecoveryAction::Ignore => {
            if action == RecoveryAction::DropSource {
                warn_of_dropped(context, sources, source, &reason).await;
            }
            let Some(wait) = sources.advance(context.elapsed(), hosts) else {
                return Err(failed.error);
            };
            wait
        }
    };
    if !wait.is_zero() || source == sources.current_number() {
        let retry = sources.recovery.retry_number(source);
        context.wait_for_retry(wait, retry, reason).await?;
    }
    Ok(Recovery::SendAgain)
}

/// A strategy ended with an error of the current source: the next source has its turn.
///
/// # Errors
/// The same error, where another source could not do better, or there is none. With several sources it names all of them.
pub(super) async fn fail_over(
    context: &JobContext<'_>,
    sources: &mut DownloadSources,
    error: GetError,
) -> Result<(), GetError> {
    if !error.is_source_failure() || sources.is_single() {
        return Err(error);
    }
    let (failed, reason) = (sources.current_number(), error.reason());
    sources.recovery.sources_mut().drop_source(failed, &reason);
    let hosts = &context.engine.host_limits;
    let Some(wait) = sources.advance(context.elapsed(), hosts) else {
        return Err(sources.all_failed(error));
    };
    warn_of_dropped(context, sources, failed, &reason).await;
    context.unless_stopped(tokio::time::sleep(wait)).await
}

async fn warn_of_dropped(
    context: &JobContext<'_>,
    sources: &DownloadSources,
    source: usize,
    reason: &str,
) {
    let url = haul_net::redacted_url(&sources.get(source).url);
    let reason = reason.to_owned();
    context
        .warn(TransferWarning::SourceDropped { url, reason })
        .await;
}
