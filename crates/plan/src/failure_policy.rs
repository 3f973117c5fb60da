//! What a download does when something goes wrong: one table from trouble to action.
//!
//! [`answer::judge`](crate::answer) says what one answer means, the transport says how a connection failed; a
//! [`FailurePolicy`] knows the job's history and decides what follows: again (when?), with fewer connections, from the first
//! URL, without If-Range, over one stream, from the beginning, or not at all. It holds the retry budget, so that one
//! place, and one only, can make a job go on for ever - and does not.
//!
//! Order of calls: [`FailurePolicy::on_trouble`] for each failure, [`FailurePolicy::on_progress`] for bytes that reached the file,
//! [`FailurePolicy::on_usable_answer`] when an answer was accepted.

use std::time::Duration;

use crate::retry::{RetryBudget, RetryDecision, RetryOptions};

/// How many times in a row a range may be ignored, or an answer refused, before the job stops asking for ranges.
/// One stray server behind a load balancer is met by the third try in all but one of a thousand draws of ten.
const PATIENCE: u32 = 3;

/// How many times an answer that is no HTTP is asked for again before bytes come: a proxy or balancer in trouble may garble one,
/// but what garbles three in a row is made so.
const GARBLED: u32 = 2;

/// Bytes that come at least between two expiries of a redirect's token: 403 after less is taken for a limit, or a job among whose
/// connections one is always refused would ask its first URL again and again.
const TOKEN: u64 = 4 << 20;

/// What went wrong with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFailure {
    /// The connection could not be made, broke or stood still.
    Transport {
        /// Whether the same request may work later.
        transient: bool,
        /// Whether the request had an answer before it broke.
        answered: bool,
    },
    /// What came is no HTTP, or more of it than anyone takes: a head without end, a NUL in it, a chunk that is none.
    Garbled,
    /// 408, 429 or 5xx.
    Busy {
        /// What Retry-After said.
        retry_after: Option<Duration>,
    },
    /// Another 4xx.
    Denied {
        /// The status code.
        status: u16,
    },
    /// 401 or 407, although every credential was offered.
    Unauthorized,
    /// 200 with everything, to a request for a part.
    RangeIgnored,
    /// An answer of which no byte may be used.
    Refused,
    /// Another version of the resource.
    Changed,
    /// 200 to If-Range, though nothing changed.
    IfRangeMisread,
    /// 416 to a range that should exist.
    PastEnd,
}

/// Where the job stands when the trouble is told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FailureContext {
    /// Connections of this job that deliver, the failed one not counted.
    pub flowing: usize,
    /// Whether the request went to where a redirect had led, not to the URL that the user gave.
    pub redirected: bool,
    /// Random, in 0..1: spreads the retries of many clients.
    pub jitter: f64,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryAction {
    /// Ask again after this time.
    Retry(Duration),
    /// The origin does not want this many connections: go on with those that flow, and nothing new before this time.
    Fewer(Duration),
    /// Where the redirect led is no longer good: ask the first URL again, after this time.
    ResolveAgain(Duration),
    /// Ask again at once, and never send If-Range to this origin again.
    WithoutIfRange,
    /// Ranges cannot be trusted here: fetch everything over one stream.
    OneStream,
    /// Discard what came and begin again on the new version.
    StartOver,
    /// The job ends with this trouble.
    GiveUp,
}

/// The history of one job's troubles.
#[derive(Debug)]
pub struct FailurePolicy {
    /// The budget for what may heal.
    retry: RetryBudget,
    /// Retries of openings that got no answer, before there was any.
    opening: u32,
    /// Ignored ranges and refused answers since the last usable one.
    unusable: u32,
    /// How many times the resource changed under the job.
    changes: u32,
    /// How many times the first URL was asked again since bytes last came.
    resolved: u32,
    /// Bytes in all.
    came: u64,
    /// How many of them had come when a 403 beside others was last taken for an expired redirect.
    renewed: Option<u64>,
    /// Answers that were no HTTP since bytes last came.
    garbled: u32,
    /// Whether ranges were given up already.
    one_stream: bool,
    /// Whether the origin has ever answered something usable.
    begun: bool,
}

impl FailurePolicy {
    /// A job that has had no trouble yet.
    #[must_use]
    pub fn new(options: RetryOptions) -> Self {
        Self {
            opening: options.retries_before_response,
            retry: RetryBudget::new(options),
            unusable: 0,
            changes: 0,
            resolved: 0,
            came: 0,
            renewed: None,
            garbled: 0,
            one_stream: false,
            begun: false,
        }
    }

    /// Bytes reached the file.
    pub fn on_progress(&mut self, bytes: u64) {
        if bytes > 0 {
            self.resolved = 0;
            self.garbled = 0;
        }
        self.came = self.came.saturating_add(bytes);
        self.retry.on_progress(bytes);
    }

    /// An answer was accepted.
    pub fn on_usable_answer(&mut self) {
        self.unusable = 0;
        self.begun = true;
    }

    /// How many retries the job has made.
    #[must_use]
    pub fn retries(&self) -> u32 {
        self.retry.retries()
    }

    /// Decides what follows a failure.
    pub fn on_trouble(
        &mut self,
        trouble: RequestFailure,
        standing: FailureContext,
    ) -> RecoveryAction {
        match trouble {
            RequestFailure::Transport {
                transient: false, ..
            }
            | RequestFailure::Unauthorized => RecoveryAction::GiveUp,
            // A connection refused or reset before it answered, while others deliver, is the origin's limit (A18)
            // more often than a fault. Those others vouch for the job, so this costs no budget.
            RequestFailure::Transport {
                answered: false, ..
            } if standing.flowing > 0 => RecoveryAction::Fewer(Duration::ZERO),
            RequestFailure::Denied { status: 403 } if standing.flowing > 0 => {
                self.denied_among(standing)
            }
            RequestFailure::Transport {
                answered: false, ..
            } if !self.begun && self.retries() >= self.opening => RecoveryAction::GiveUp,
            RequestFailure::Transport { .. } => self.again(None, standing, RecoveryAction::Retry),
            RequestFailure::Garbled => self.garbled(standing),
            RequestFailure::Busy { retry_after } if standing.flowing > 0 => {
                RecoveryAction::Fewer(self.capped(retry_after))
            }
            RequestFailure::Busy { retry_after } => {
                self.again(retry_after, standing, RecoveryAction::Retry)
            }
            RequestFailure::Denied { .. } if standing.redirected => self.resolve_again(standing),
            RequestFailure::Denied { .. } => RecoveryAction::GiveUp,
            RequestFailure::RangeIgnored | RequestFailure::Refused => self.unusable(standing),
            RequestFailure::IfRangeMisread => RecoveryAction::WithoutIfRange,
            RequestFailure::Changed | RequestFailure::PastEnd => self.changed(),
        }
    }

    /// A limit (A18), or behind a redirect a token that has expired (A16)? Asking the first URL again costs one request and
    /// tells: a token that is good brings more than [`TOKEN`] before it expires.
    fn denied_among(&mut self, standing: FailureContext) -> RecoveryAction {
        let good = |then: u64| self.came.saturating_sub(then) >= TOKEN;
        if standing.redirected && self.renewed.is_none_or(good) {
            self.renewed = Some(self.came);
            return RecoveryAction::ResolveAgain(Duration::ZERO);
        }
        RecoveryAction::Fewer(Duration::ZERO)
    }

    /// The same request brings the same garbage, but for accidents: a few more tries, others that deliver or not.
    fn garbled(&mut self, standing: FailureContext) -> RecoveryAction {
        if self.garbled >= GARBLED {
            return RecoveryAction::GiveUp;
        }
        self.garbled += 1;
        self.again(None, standing, RecoveryAction::Retry)
    }

    /// Again after a pause, while the budget lasts.
    fn again(
        &mut self,
        after: Option<Duration>,
        standing: FailureContext,
        then: fn(Duration) -> RecoveryAction,
    ) -> RecoveryAction {
        match self.retry.on_failure(after, standing.jitter) {
            RetryDecision::Wait(wait) => then(wait),
            RetryDecision::GiveUp => RecoveryAction::GiveUp,
        }
    }

    /// What an origin may make us wait when others still deliver: no longer than when none does.
    fn capped(&self, retry_after: Option<Duration>) -> Duration {
        self.retry.cap_retry_after(retry_after.unwrap_or_default())
    }

    /// A redirect's target failed: expired tokens heal by asking the first URL again (A16), at once the first time.
    fn resolve_again(&mut self, standing: FailureContext) -> RecoveryAction {
        self.resolved += 1;
        if self.resolved == 1 {
            return RecoveryAction::ResolveAgain(Duration::ZERO);
        }
        self.again(None, standing, RecoveryAction::ResolveAgain)
    }

    /// Answers of which no byte may be used: another server behind the balancer may do better (A3), but not for ever.
    fn unusable(&mut self, standing: FailureContext) -> RecoveryAction {
        self.unusable += 1;
        if self.one_stream {
            // There is no other road left: this one is tried while the budget lasts.
            return self.again(None, standing, RecoveryAction::Retry);
        }
        if self.unusable >= PATIENCE {
            self.one_stream = true;
            return RecoveryAction::OneStream;
        }
        match self.again(None, standing, RecoveryAction::Retry) {
            RecoveryAction::GiveUp => {
                self.one_stream = true;
                RecoveryAction::OneStream
            }
            again => again,
        }
    }

    /// One change is a release in the middle of a download; two are a resource that cannot be had whole (A5).
    fn changed(&mut self) -> RecoveryAction {
        self.changes += 1;
        if self.changes == 1 {
            RecoveryAction::StartOver
        } else {
            RecoveryAction::GiveUp
        }
    }
}

#[cfg(test)]
#[path = "failure_policy_tests.rs"]
mod tests;
