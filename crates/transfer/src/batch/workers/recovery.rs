//! What follows a failed attempt.

use std::io::ErrorKind;
use std::time::Duration;

use haul_net::Kind;
use haul_plan::dispatch::JobRunResult;
use haul_plan::{FailureContext, RecoveryAction, RequestFailure};
use http::StatusCode;

use super::attempt::Attempt;
use crate::batch::job::BatchJobStrategy;
use crate::batch::outcome::JobOutcome;
use crate::error::{ErrorClass, GetError};
use crate::get::attempt_failure::{AttemptFailure, RedirectedTo};

/// A failure that is retried.
const BUSY: RequestFailure = RequestFailure::Busy { retry_after: None };

impl Attempt<'_> {
    /// The request was granted although an earlier one got a 403.
    pub(super) fn on_usable_response(&mut self) {
        if let Some(host) = self.job.forbidding_host.take() {
            self.pool.host_failures.forbidden().granted(&host);
        }
    }

    /// Does what the job's failure policy decides.
    pub(super) async fn on_failure(mut self, failure: AttemptFailure) {
        if let AttemptFailure::Transport { error, .. } = &failure {
            self.record_unreachable(error);
        }
        let action = self.recovery_action(&failure);
        tracing::debug!(?action, "{failure}");
        let result = self.run_result(&failure);
        let wait = match action {
            RecoveryAction::GiveUp => {
                self.end(0, result);
                // A local error would come back with any source.
                let is_local = matches!(failure, AttemptFailure::Local(_));
                if !is_local && self.job.switch_to_mirror(self.pool.retry()) {
                    return self.try_other_source();
                }
                let error = failure.into_error(&self.job.download.url, None, &self.job.path);
                let outcome = JobOutcome::failed(&self.job, error);
                return self.commit(outcome).await;
            }
            RecoveryAction::Retry(_) if self.switch_after_breaks(&failure) => {
                self.end(0, result);
                return self.try_other_source();
            }
            RecoveryAction::Retry(wait)
            | RecoveryAction::Fewer(wait)
            | RecoveryAction::ResolveAgain(wait) => wait,
            RecoveryAction::OneStream => {
                self.job.strategy = BatchJobStrategy::SingleResponse { ranges: false };
                Duration::ZERO
            }
            RecoveryAction::WithoutIfRange | RecoveryAction::StartOver => Duration::ZERO,
        };
        self.pool.counters.count_retry();
        let Self { pool, ticket, job } = self;
        pool.queue.retry_later(ticket, job, wait, result);
    }

    /// The job has another URL now, and maybe another host.
    fn try_other_source(self) {
        self.pool.counters.count_retry();
        self.pool.queue.add_again(self.job);
    }

    fn switch_after_breaks(&mut self, failure: &AttemptFailure) -> bool {
        let failure = failure.trouble();
        failure.is_some_and(|failure| self.job.switch_after_breaks(failure, self.pool.retry()))
    }

    fn record_unreachable(&self, error: &haul_net::Error) {
        if is_unreachable(error.kind()) {
            let failures = &self.pool.host_failures;
            failures.record_unreachable(self.job.host(), error);
        }
    }

    fn recovery_action(&mut self, failure: &AttemptFailure) -> RecoveryAction {
        let redirect = match failure {
            AttemptFailure::Status { led, .. } => led.as_ref(),
            AttemptFailure::Local(error) if error.kind() == ErrorKind::Unsupported => {
                let switched = self.job.use_partial_file();
                self.pool.unnamed_files.note_unsupported(&self.job);
                return match switched {
                    true => RecoveryAction::Retry(Duration::ZERO),
                    false => RecoveryAction::GiveUp,
                };
            }
            _ => None,
        };
        let request_failure = failure.trouble();
        let is_403 = matches!(
            request_failure,
            Some(RequestFailure::Denied { status: 403 })
        );
        let context = FailureContext {
            flowing: 0,
            redirected: is_403 && redirect.is_some_and(|redirect| redirect.stale),
            jitter: rand::random(),
        };
        if is_403 && !context.redirected {
            // It may be about the number of requests, or about a redirect's signature: each attempt begins with the
            // first URL.
            let host = self.forbidding_host(redirect);
            let is_repeated = self.job.forbidding_host.as_deref() == Some(&*host);
            let is_worth_retrying = self
                .pool
                .host_failures
                .forbidden()
                .denied(&host, is_repeated);
            if is_worth_retrying {
                self.job.forbidding_host = Some(host);
                return self.job.failure_policy.on_trouble(BUSY, context);
            }
        }
        let action = request_failure.map_or(RecoveryAction::GiveUp, |failure| {
            self.job.failure_policy.on_trouble(failure, context)
        });
        if matches!(
            (failure, action),
            (AttemptFailure::Slow(_), RecoveryAction::Retry(_))
        ) {
            self.job.use_partial_file();
        }
        action
    }

    /// The host that sent a 403.
    fn forbidding_host(&self, redirect: Option<&RedirectedTo>) -> String {
        redirect.map_or_else(|| self.job.host(), |redirect| redirect.host.clone())
    }

    /// What the error of a partial download says about the host.
    pub(super) fn host_report(&self, error: &GetError) -> JobRunResult {
        match error {
            GetError::Transport { source, .. } if is_unreachable(source.kind()) => {
                self.record_unreachable(source);
                JobRunResult::Unreachable
            }
            error if error.class() == ErrorClass::Network => JobRunResult::Failed,
            _ => JobRunResult::Done,
        }
    }

    /// What a failure says about the host. A job reports once that its host refuses requests: a request that is refused
    /// again and again is itself at fault.
    fn run_result(&mut self, failure: &AttemptFailure) -> JobRunResult {
        let refused = |overloaded, retry_after| JobRunResult::Refused {
            overloaded,
            retry_after,
        };
        let result = match failure {
            AttemptFailure::Transport { error, answered } => match error.kind() {
                kind if is_unreachable(kind) => JobRunResult::Unreachable,
                Kind::Closed if !answered => refused(false, None),
                _ => JobRunResult::Failed,
            },
            // These two mean too many requests. A 500 is about one request.
            AttemptFailure::Status {
                trouble: RequestFailure::Busy { retry_after },
                status: StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE,
                ..
            } => refused(true, *retry_after),
            AttemptFailure::Status {
                status: StatusCode::FORBIDDEN,
                led,
                ..
            } if led.as_ref().is_none_or(|led| !led.stale)
                && self
                    .pool
                    .host_failures
                    .forbidden()
                    .may_be_crowd(&self.forbidding_host(led.as_ref())) =>
            {
                refused(false, None)
            }
            AttemptFailure::Status { .. }
            | AttemptFailure::Slow(_)
            | AttemptFailure::Unauthorized { .. }
            | AttemptFailure::Unusable { .. }
            | AttemptFailure::Unfit(_) => JobRunResult::Failed,
            AttemptFailure::Changed | AttemptFailure::Unexpected(_) | AttemptFailure::Local(_) => {
                JobRunResult::Done
            }
        };
        match result {
            JobRunResult::Refused {
                retry_after: None, ..
            } if std::mem::replace(&mut self.job.host_refused, true) => JobRunResult::Failed,
            result => result,
        }
    }
}

fn is_unreachable(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Connect(_)
            | Kind::ConnectTimeout(_)
            | Kind::NoSuchHost(_)
            | Kind::NoAddress(..)
            | Kind::Resolve(_)
    )
}
