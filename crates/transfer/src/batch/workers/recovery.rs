//! What follows a failed attempt: the job's recovery policy decides, and this module does it.

use std::io::ErrorKind;
use std::time::Duration;

use http::StatusCode;

use super::attempt::Attempt;
use crate::batch::dispatch::JobRunResult;
use crate::batch::job::BatchJobStrategy;
use crate::batch::outcome::JobOutcome;
use crate::error::{ErrorClass, GetError, LocalError, NetworkError};
use crate::get::{AttemptError, RedirectTarget, is_unreachable};
use crate::recovery::{FailureContext, RecoveryAction};
use crate::response::RequestFailure;

/// A body that breaks off after at least this number of bytes is requested again with a partial file. A smaller one is requested whole, which costs
/// less, and leaves nothing when it fails.
const WORTH_KEEPING: u64 = 16 << 10;

impl Attempt<'_> {
    /// The request was granted, perhaps although an earlier one got a 403.
    pub(super) fn on_usable_response(&mut self) {
        self.pool.counters.note_response();
        if let Some((host, _)) = self.job.forbidding_host.take() {
            self.pool.host_failures.forbidden().on_success(&host);
        }
    }

    /// Does what the recovery policy decides.
    pub(super) async fn on_failure(mut self, failed: AttemptError) {
        if let GetError::Network {
            error: NetworkError::Transport { source, .. },
            ..
        } = &failed.error
        {
            self.record_unreachable(source);
        }
        if is_unsupported(&failed.error) {
            let switched = self.job.use_partial_file();
            self.pool.unnamed_files.note_unsupported(&self.job);
            if switched {
                return self.run_again(Duration::ZERO, JobRunResult::Done);
            }
        }
        let Some(failure) = &failed.failure else {
            let result = self.host_report(&failed.error);
            return self.give_up(failed.error, result).await;
        };
        let action = self.recovery_action(&failed, failure);
        let result = self.run_result(&failed, failure);
        let wait = match action {
            RecoveryAction::GiveUp => return self.give_up(failed.error, result).await,
            RecoveryAction::DropSource
            | RecoveryAction::UseOtherSources(_)
            | RecoveryAction::Ignore => {
                let (source, now) = (self.job.source(), self.pool.queue.now());
                if !self.job.use_next_source(self.pool.retry(), now) {
                    return self.give_up(failed.error, result).await;
                }
                if self.job.source() != source {
                    return self.use_other_source(result);
                }
                match action {
                    RecoveryAction::UseOtherSources(wait) => wait,
                    _ => Duration::ZERO,
                }
            }
            RecoveryAction::Retry(wait)
            | RecoveryAction::FewerConnections(wait)
            | RecoveryAction::ResolveAgain(wait) => wait,
            RecoveryAction::OneStream => {
                self.job.strategy = BatchJobStrategy::SingleResponse { ranges: false };
                Duration::ZERO
            }
            RecoveryAction::WithoutIfRange | RecoveryAction::StartOver => Duration::ZERO,
        };
        if matches!(failure, RequestFailure::RangeRefused { .. })
            && matches!(self.job.strategy, BatchJobStrategy::SingleResponse { .. })
        {
            // Perhaps it is the range that is refused (row A38).
            self.job.strategy = BatchJobStrategy::SingleResponse { ranges: false };
        }
        if *failure == RequestFailure::TooSlow || failed.lost_bytes >= WORTH_KEEPING {
            // A partial file keeps the bytes, however slowly they come and however often the body breaks off (row A33).
            self.job.use_partial_file();
        }
        match action {
            // So comes each empty file of a store that refuses its range with 416: nothing failed.
            RecoveryAction::OneStream => self.run_again(wait, result),
            _ => self.retry_later(wait, result),
        }
    }

    /// Ends the job with an error.
    async fn give_up(self, error: GetError, result: JobRunResult) {
        self.end(0, result);
        let outcome = JobOutcome::failed(&self.job, error);
        self.commit(outcome).await;
    }

    /// The job has another URL now, and maybe another host.
    fn use_other_source(self, result: JobRunResult) {
        self.end(0, result);
        self.pool.counters.count_retry();
        self.pool.queue.add_again(self.job);
    }

    /// Puts the job back into the queue for another attempt at the same source.
    fn retry_later(self, wait: Duration, result: JobRunResult) {
        self.pool.counters.count_retry();
        self.run_again(wait, result);
    }

    /// The same for a job whose request did not fail.
    fn run_again(self, wait: Duration, result: JobRunResult) {
        let Self { pool, ticket, job } = self;
        pool.queue.retry_later(ticket, job, wait, result);
    }

    fn record_unreachable(&self, error: &haul_net::Error) {
        if is_unreachable(error) {
            let failures = &self.pool.host_failures;
            failures.record_unreachable(self.job.host().into_owned(), error);
        }
    }

    fn recovery_action(
        &mut self,
        failed: &AttemptError,
        failure: &RequestFailure,
    ) -> RecoveryAction {
        let is_403 = is_forbidden(failure);
        let is_stale = failed.redirect.as_ref().is_some_and(|to| to.is_stale);
        let reason = failed.reason();
        let now = self.pool.queue.now();
        let context = FailureContext {
            source: self.job.source(),
            now,
            // One request at a time: each is sent when the wait before it is over.
            requested_at: now,
            // A response that broke off is requested again from its first byte.
            received: 0,
            lost_body: Some(failed.lost_bytes).filter(|bytes| *bytes > 0),
            host_has_answered: self.pool.queue.host_has_answered(&self.job.host()),
            delivering: 0,
            // Each attempt begins with the source's own URL, so only a redirect that is some time old can have expired.
            redirected: is_403 && is_stale,
            keeps_source: false,
            forbidden_may_mean_overload: is_403
                && !is_stale
                && self.is_403_worth_retrying(failed.redirect.as_ref()),
            jitter: rand::random(),
            reason: &reason,
        };
        // Where a host's repeated requests got a 403 too, without a range, it is not about the range.
        let denied = match failure {
            RequestFailure::RangeRefused { status }
                if is_403 && !is_stale && !context.forbidden_may_mean_overload =>
            {
                Some(RequestFailure::Denied { status: *status })
            }
            _ => None,
        };
        let recovery = self.job.recovery(self.pool.retry());
        let action = recovery.on_failure(denied.as_ref().unwrap_or(failure), &context);
        tracing::debug!(?action, "{reason}");
        action
    }

    /// Whether a 403 is worth another request. It may be about the number of requests, or about a redirect's signature,
    /// which another request renews.
    fn is_403_worth_retrying(&mut self, redirect: Option<&RedirectTarget>) -> bool {
        let host = self.forbidding_host(redirect);
        let before = self.job.forbidding_host.take();
        let repeated = before
            .filter(|(before, _)| *before == host)
            .map_or(0, |(_, repeated)| repeated);
        let mut forbidden = self.pool.host_failures.forbidden();
        let is_worth_retrying = forbidden.on_forbidden(&host, repeated);
        drop(forbidden);
        if is_worth_retrying {
            self.job.forbidding_host = Some((host, repeated + 1));
        }
        is_worth_retrying
    }

    /// The host that sent a 403.
    fn forbidding_host(&self, redirect: Option<&RedirectTarget>) -> String {
        redirect.map_or_else(
            || self.job.host().into_owned(),
            |redirect| redirect.host.clone(),
        )
    }

    /// What an error that ends the job says about the host.
    pub(super) fn host_report(&self, error: &GetError) -> JobRunResult {
        match error {
            GetError::Network {
                error: NetworkError::Transport { source, .. },
                ..
            } if is_unreachable(source) => {
                self.record_unreachable(source);
                JobRunResult::Unreachable
            }
            GetError::Network {
                error: NetworkError::LimitExceeded { .. },
                ..
            } => JobRunResult::Inconclusive,
            error if error.class() == ErrorClass::Network => JobRunResult::Failed,
            _ => JobRunResult::Done,
        }
    }

    /// What a failure says about the host.
    fn run_result(&mut self, failed: &AttemptError, failure: &RequestFailure) -> JobRunResult {
        let redirect = failed.redirect.as_ref();
        let may_mean_overload =
            is_forbidden(failure) && redirect.is_none_or(|redirect| !redirect.is_stale) && {
                let host = self.forbidding_host(redirect);
                self.pool.host_failures.forbidden().may_mean_overload(&host)
            };
        let result = JobRunResult::of_failure(failure, may_mean_overload, self.job.host_refused);
        if matches!(result, JobRunResult::Refused { .. }) {
            self.job.host_refused = true;
            let host = self.job.host().into_owned();
            let failures = &self.pool.host_failures;
            failures.record_refusal(host, failed.reason());
        }
        result
    }
}

/// Whether the file system has no unnamed files.
fn is_unsupported(error: &GetError) -> bool {
    matches!(error, GetError::Local { error: LocalError::Io { source, .. }, .. } if source.kind() == ErrorKind::Unsupported)
}

fn is_forbidden(failure: &RequestFailure) -> bool {
    matches!(
        failure,
        RequestFailure::RangeRefused { status } | RequestFailure::Denied { status }
            if *status == StatusCode::FORBIDDEN
    )
}
