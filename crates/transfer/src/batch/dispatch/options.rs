//! The arguments and results of a [`JobDispatcher`](super::JobDispatcher).

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::request_rate::RequestRate;
use super::slab_list::SlabKey;
use crate::recovery::RetryOptions;
use crate::response::RequestFailure;

/// How many requests one origin gets at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostRequestLimit {
    /// Found by measuring the rate at different numbers of requests.
    Auto {
        /// The highest number, unless the origin multiplexes.
        max: usize,
    },
    /// The user's number, whatever the protocol: only refusals lower it.
    Fixed(usize),
}

impl HostRequestLimit {
    /// The highest number of requests for an origin that does not multiplex.
    #[must_use]
    pub fn max(self) -> usize {
        match self {
            Self::Auto { max } | Self::Fixed(max) => max.max(1),
        }
    }
}

/// Limits of a [`JobDispatcher`](super::JobDispatcher).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobDispatcherOptions {
    /// The user's number of files at once. It is never exceeded, so requests to dead hosts take slots like all others.
    /// `None`: as many as the limits of the hosts add up to, at most [`request_slots`](Self::request_slots).
    pub max_jobs: Option<usize>,
    /// Requests at once to one origin.
    pub per_host: HostRequestLimit,
    /// The most jobs that begin to run in a second for each host, retries included. `None`: no limit.
    pub rate_per_host: Option<RequestRate>,
    /// Requests at once to an origin that multiplexes (HTTP/2) and allows as many streams. Streams cost the origin little, so
    /// the dispatcher uses this number at once, without measuring first.
    pub max_streams: usize,
    /// Requests at once that have a response, or may have one soon.
    pub request_slots: usize,
    /// How many of those slots requests to untried hosts may take: such a host may be dead.
    pub untried_host_slots: usize,
    /// The longest time that jobs wait because their host asks for it. A longer one rejects them.
    pub max_retry_after: Duration,
    /// Retries of each job. A host that refuses everything for as many moments in a row, or more if it has ever granted a request, is given
    /// up: its jobs are rejected.
    pub retries: u32,
    /// Jobs that the dispatcher holds, unless others would help: queued, waiting for a retry, or running.
    pub window: usize,
    /// Requests beyond the slots that have waited long for a connection or a response. This many dead hosts can be waited for
    /// without a slot of the living. Where a share `d` of all hosts takes `c` seconds to fail and the others take `t` seconds
    /// to respond, `untried_host_slots * d * c / t` are needed.
    pub max_overdue: usize,
}

impl Default for JobDispatcherOptions {
    fn default() -> Self {
        Self {
            max_jobs: None,
            // Small files wait for round trips, one at a time on each connection: over an ocean sixteen connections bring two
            // hundred files a second. If the host is near or busy, the climb to this number ends earlier. It is below the 150 workers
            // that common servers are set up with.
            per_host: HostRequestLimit::Auto { max: 128 },
            rate_per_host: None,
            // Twice as many streams as most servers allow on a connection.
            max_streams: 256,
            // Two hosts far away, or 256 slow ones: more slots cost memory and bring little.
            request_slots: 256,
            untried_host_slots: 64,
            max_retry_after: RetryOptions::default().max_retry_after,
            retries: RetryOptions::default().retries,
            // Enough that a list which is sorted in runs of hundreds keeps several hosts busy.
            window: 4096,
            // One host in twenty dead for ten seconds each, at six hundred files a second and more.
            max_overdue: 512,
        }
    }
}

/// Identifies one run of a job: a job that is tried again gets another ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct JobTicket {
    /// The job's key, which another job may have after this one.
    pub(super) key: SlabKey,
    /// The number of the run, counted over all jobs.
    pub(super) run: u64,
}

/// What the end of a run says about the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobRunResult {
    /// The host responded as requested: the job is done, as far as the host is concerned.
    Done,
    /// The host responded with something else (404, 500), broke off, or was too slow.
    Failed,
    /// No connection was made: refused, timed out, name unknown.
    Unreachable,
    /// The host does not accept this many requests: 429, 503, a connection that was closed or reset before the response.
    Refused {
        /// The time that the response asks to wait.
        retry_after: Option<Duration>,
    },
    /// The host has refused a request of this job before, and names no time. Perhaps that request is at fault: unless others are refused,
    /// too, this says nothing about the host.
    RefusedAgain,
    /// The run ended for a reason that says nothing about the host, perhaps before a request.
    Inconclusive,
}

impl JobRunResult {
    /// What a failed request says about its host. `forbidden_may_mean_overload`: a 403 of this host may mean too many requests.
    /// `was_refused`: the host refused a request of this job before.
    #[must_use]
    pub(crate) fn of_failure(
        failure: &RequestFailure,
        forbidden_may_mean_overload: bool,
        was_refused: bool,
    ) -> Self {
        let refused = |retry_after: Option<Duration>| {
            let names_time = retry_after.is_some_and(|wait| !wait.is_zero());
            if was_refused && !names_time {
                Self::RefusedAgain
            } else {
                Self::Refused { retry_after }
            }
        };
        match failure {
            RequestFailure::Unreachable { .. } => Self::Unreachable,
            RequestFailure::Disconnected { answered: false } => refused(None),
            // Sent by a host that has too many requests; a 500 is about one of them. A 403 is here only if it names a time.
            RequestFailure::Busy {
                status:
                    StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::FORBIDDEN,
                retry_after,
            } => refused(*retry_after),
            RequestFailure::RangeRefused {
                status: StatusCode::FORBIDDEN,
            }
            | RequestFailure::Denied {
                status: StatusCode::FORBIDDEN,
            } if forbidden_may_mean_overload && !was_refused => refused(None),
            RequestFailure::Changed | RequestFailure::ErrorPage | RequestFailure::WrongFile => {
                Self::Done
            }
            _ => Self::Failed,
        }
    }
}

/// The end of a job's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JobRunReport {
    /// Bytes of the response.
    pub bytes: u64,
    /// How the run ended.
    pub result: JobRunResult,
}

/// A pause of a host, for which it has asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestedPause {
    /// The name of the host.
    pub host: Arc<str>,
    /// Its length.
    pub wait: Duration,
}

/// Why a host has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum HostFailureCause {
    /// Connections to it fail.
    #[default]
    Unreachable,
    /// It refuses all requests.
    RefusesEverything,
    /// It asks for a pause that is too long.
    LongWait,
}

/// The host of a job that is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FailedHost {
    /// Why the host has failed.
    pub cause: HostFailureCause,
    /// Failed connections or refused requests in a row; those of one moment count once.
    pub failures: u32,
    /// When the host will be tried again.
    pub retry_at: Duration,
}

/// The next thing that the driver does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DispatchDecision<T> {
    /// Run this job.
    Run(JobTicket, T),
    /// Fail this job without trying it: the circuit breaker of its host is open. The dispatcher no longer holds the job.
    Reject(T, FailedHost),
    /// Wait for the next event, or until this moment (since the batch began) if there is one.
    Wait(Option<Duration>),
    /// All jobs have ended, and no more will be added.
    Done,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a17_a18_a_refusal_is_distinguished_from_other_failures_and_counts_once_a_job() {
        let busy = |status, retry_after| RequestFailure::Busy {
            status,
            retry_after,
        };
        let refused = |retry_after| JobRunResult::Refused { retry_after };
        let forbidden = RequestFailure::Denied {
            status: StatusCode::FORBIDDEN,
        };
        let of = |failure: &RequestFailure, was_refused| {
            JobRunResult::of_failure(failure, true, was_refused)
        };
        let closed = RequestFailure::Disconnected { answered: false };
        for (failure, again) in [
            (closed, JobRunResult::RefusedAgain),
            (
                busy(StatusCode::SERVICE_UNAVAILABLE, None),
                JobRunResult::RefusedAgain,
            ),
            // This file alone may be forbidden.
            (forbidden.clone(), JobRunResult::Failed),
        ] {
            assert_eq!(of(&failure, false), refused(None));
            assert_eq!(of(&failure, true), again);
        }
        // Every time that is named counts.
        for (seconds, again) in [
            (3, refused(Some(Duration::from_secs(3)))),
            (0, JobRunResult::RefusedAgain),
        ] {
            let named = busy(
                StatusCode::TOO_MANY_REQUESTS,
                Some(Duration::from_secs(seconds)),
            );
            assert_eq!(of(&named, true), again);
        }
        let not_transient = JobRunResult::of_failure(&forbidden, false, false);
        assert_eq!(not_transient, JobRunResult::Failed);
        for (failure, result) in [
            (
                RequestFailure::Unreachable { transient: true },
                JobRunResult::Unreachable,
            ),
            (
                busy(StatusCode::INTERNAL_SERVER_ERROR, None),
                JobRunResult::Failed,
            ),
            (
                RequestFailure::Disconnected { answered: true },
                JobRunResult::Failed,
            ),
            (RequestFailure::WrongFile, JobRunResult::Done),
        ] {
            assert_eq!(of(&failure, false), result, "{failure:?}");
        }
    }
}
