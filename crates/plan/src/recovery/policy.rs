//! The policy: a failure and the state of a job's sources go in, what to do next comes out.
//!
//! A source that has another file, that does not have it, or that fails again and again is dropped as long as another one lives.
//! The last living source is never dropped here: for it the policy says [`RecoveryAction::GiveUp`], and the job ends unless
//! [`RecoveryPolicy::fail_over`] calls a source from the bench.
//!
//! Where only a digest of the whole file can tell, bytes of several sources may make a file that no source has. Nobody can tell
//! then which bytes were bad. So each source that the user named fetches the whole file alone, one after another, until one is
//! right ([`RecoveryPolicy::on_wrong_digest`]). The others wait on the bench.
//!
//! Order of calls: [`RecoveryPolicy::on_failure`] for each failure, [`RecoveryPolicy::on_bytes`] for bytes that reached the file,
//! [`RecoveryPolicy::on_usable_response`] when a response was accepted. Callers that request from one source at a time ask
//! [`RecoveryPolicy::next_source`] after a decision that may change it.

use std::time::Duration;

use http::StatusCode;

use super::history::FailureHistory;
use super::{FailureContext, PieceRetry, RecoveryAction};
use crate::request_failure::RequestFailure;
use crate::retry::{FailureTimes, RetryLimit, RetryNumber, RetryOptions};
use crate::sources::{NextSource, SourceSet};

/// Retries of a source beside which others do well: once may be an accident, twice a coincidence.
const RETRIES_BESIDE_OTHERS: u32 = 2;

/// Bytes that forgive the failures of a source beside which others are there.
const REFILL_BESIDE_OTHERS: u64 = 256 << 10;

/// Bytes that forgive the failures of a source for which no other does better: any byte is progress (row A33).
const REFILL_ALONE: u64 = 1;

/// How often a piece may be bad beyond once for each source: the last source, or the path to it, may still recover.
const EXTRA_PIECE_ATTEMPTS: u32 = 3;

/// Decides what the failures of one job lead to.
#[derive(Debug, Default)]
pub struct RecoveryPolicy {
    retry: RetryOptions,
    sources: SourceSet,
    /// The failures of each source, by its number.
    histories: Vec<FailureHistory>,
    /// Failures in a row after which another source has its turn, where one is asked at a time.
    switch_after: u32,
}

impl RecoveryPolicy {
    /// A job without sources, and without failures.
    #[must_use]
    pub fn new(retry: RetryOptions) -> Self {
        Self {
            retry,
            switch_after: 1,
            ..Self::default()
        }
    }

    /// The same for a file that comes in one response: its source gets another try before other sources have their turn, since one
    /// broken response may be an accident and costs little.
    #[must_use]
    pub fn for_single_responses(retry: RetryOptions) -> Self {
        Self {
            switch_after: 2,
            ..Self::new(retry)
        }
    }

    /// Adds a source after all others, and returns its number. `user_named`: the user says that it has this file.
    pub fn add_source(&mut self, user_named: bool) -> usize {
        self.histories.push(FailureHistory::default());
        self.sources.add(user_named)
    }

    /// The job's sources.
    #[must_use]
    pub fn sources(&self) -> &SourceSet {
        &self.sources
    }

    /// The job's sources, to tell what became of their connections and responses.
    pub fn sources_mut(&mut self) -> &mut SourceSet {
        &mut self.sources
    }

    /// Retries of all sources together.
    #[must_use]
    pub fn retries(&self) -> u32 {
        let retries = self
            .histories
            .iter()
            .map(|history| history.budget.retries());
        retries.fold(0, u32::saturating_add)
    }

    /// The number of a source's last retry.
    #[must_use]
    pub fn retry_number(&self, source: usize) -> RetryNumber {
        let history = self.histories.get(source);
        history.map_or_else(RetryNumber::default, |history| {
            history.budget.retry_number()
        })
    }

    /// A source sent a response that was accepted.
    pub fn on_usable_response(&mut self, source: usize) {
        if let Some(history) = self.histories.get_mut(source) {
            history.on_usable_response();
        }
    }

    /// Bytes of a source reached the file.
    pub fn on_bytes(&mut self, source: usize, bytes: u64) {
        if let Some(history) = self.histories.get_mut(source) {
            history.on_bytes(bytes);
        }
        self.sources.on_bytes(source, bytes);
    }

    /// The living source to request from next, and when. Where none lives, the next one from the bench is called. `None` when
    /// there is none there either.
    pub fn next_source(&mut self, now: Duration) -> Option<NextSource> {
        if self.sources.live_count() == 0 {
            self.recall_benched();
        }
        self.sources.soonest(now)
    }

    /// A source failed for good: drops it, and says which one has its turn. `None` ends the job.
    pub fn fail_over(&mut self, source: usize, reason: &str, now: Duration) -> Option<NextSource> {
        self.sources.drop_source(source, reason);
        self.next_source(now)
    }

    /// Decides what follows a failure.
    pub fn on_failure(
        &mut self,
        failure: &RequestFailure,
        context: &FailureContext<'_>,
    ) -> RecoveryAction {
        if *failure == RequestFailure::WrongFile {
            return self.abandon(context);
        }
        if !self.sources.is_live(context.source) {
            return RecoveryAction::Ignore;
        }
        // With connections that only wait for a response it is not known that the origin is there at all (A34).
        let beside_others = context.delivering > 0;
        match failure {
            RequestFailure::IfRangeMisread => RecoveryAction::WithoutIfRange,
            RequestFailure::Changed | RequestFailure::PastEnd => self.on_change(context),
            RequestFailure::RangeIgnored | RequestFailure::Unusable(_) => {
                self.on_unusable(failure, context)
            }
            RequestFailure::Garbled => self.on_garbled(failure, context),
            RequestFailure::Unreachable { transient: false }
            | RequestFailure::Transport {
                transient: false, ..
            }
            | RequestFailure::Unauthorized { .. }
            | RequestFailure::WrongFile => self.abandon(context),
            // Connections that deliver vouch for the origin: a refusal beside them is a limit more often than a fault (A18),
            // and costs no retry.
            _ if beside_others && failure.is_without_response() => {
                self.fewer_connections(Duration::ZERO, context)
            }
            RequestFailure::Unreachable { .. }
            | RequestFailure::Disconnected { .. }
            | RequestFailure::Transport { .. }
            | RequestFailure::TooSlow => self.retry(failure, context),
            RequestFailure::Busy { retry_after, .. } if beside_others => {
                let wait = self.retry.cap_retry_after(*retry_after);
                self.fewer_connections(wait, context)
            }
            // To ask earlier than the origin says would be of no use, and rude.
            RequestFailure::Busy {
                retry_after: Some(wait),
                ..
            } if *wait > self.retry.max_retry_after => self.abandon(context),
            RequestFailure::Busy { .. } => self.wait_for_busy(failure, context),
            RequestFailure::Denied { status } => {
                let forbidden = *status == StatusCode::FORBIDDEN;
                if forbidden && context.forbidden_may_pass {
                    self.wait_for_busy(failure, context)
                } else if forbidden && beside_others {
                    self.on_forbidden(context)
                } else if context.redirected {
                    self.resolve_again(failure, context)
                } else {
                    self.abandon(context)
                }
            }
        }
    }

    /// Whether only this source can go on with what has begun.
    fn is_alone(&self, context: &FailureContext<'_>) -> bool {
        context.keeps_source || self.sources.live_count() == 1
    }

    /// The source is of no more use: drops it where another one lives.
    fn abandon(&mut self, context: &FailureContext<'_>) -> RecoveryAction {
        let others = self.sources.live_count() > usize::from(self.sources.is_live(context.source));
        if !others {
            return RecoveryAction::GiveUp;
        }
        self.sources.drop_source(context.source, context.reason);
        RecoveryAction::DropSource
    }

    /// The origin takes no more connections than it has.
    fn fewer_connections(
        &mut self,
        wait: Duration,
        context: &FailureContext<'_>,
    ) -> RecoveryAction {
        self.sources.rest(context.source, context.now + wait);
        if self.sources.live_count() == 1 {
            return RecoveryAction::FewerConnections(wait);
        }
        self.sources.limit_connections(context.source, context.now);
        RecoveryAction::UseOtherSources(wait)
    }

    /// The same request again after a pause, while the budget lasts.
    fn retry(&mut self, failure: &RequestFailure, context: &FailureContext<'_>) -> RecoveryAction {
        if self.is_progress(context) {
            return RecoveryAction::Retry(Duration::ZERO);
        }
        let Some(wait) = self.spend_retry(failure, context) else {
            return self.abandon(context);
        };
        let failures = self.histories[context.source].budget.failures_in_row();
        if self.is_alone(context) || failures < self.switch_after {
            RecoveryAction::Retry(wait)
        } else {
            RecoveryAction::UseOtherSources(wait)
        }
    }

    /// Whether a failed request brought the job on, so that the next one follows at once (row A33). Beside others that do well, a
    /// source that breaks off again and again is not worth its connections, whatever it brings. A user who wants no retries gets none.
    fn is_progress(&self, context: &FailureContext<'_>) -> bool {
        let is_kept = context.received > 0 && self.retry.retries > 0;
        is_kept && (self.is_alone(context) || self.is_patient(context.source))
    }

    /// Takes a retry from the source's budget: how long the source rests before it. `None` when the budget is spent.
    fn spend_retry(
        &mut self,
        failure: &RequestFailure,
        context: &FailureContext<'_>,
    ) -> Option<Duration> {
        let limit = self.retry_limit(failure, context);
        let retry_after = match failure {
            RequestFailure::Busy { retry_after, .. } => *retry_after,
            _ => None,
        };
        let history = self.histories.get_mut(context.source)?;
        let budget = &mut history.budget;
        let times = FailureTimes {
            requested_at: context.requested_at,
            now: context.now,
            retry_after,
        };
        let wait = budget.on_failure(limit, &self.retry, times, context.jitter)?;
        self.sources.rest(context.source, context.now + wait);
        Some(wait)
    }

    /// How patient the policy is with a source. Beside others that do well it is soon dropped, since nothing is lost by that.
    fn retry_limit(&self, failure: &RequestFailure, context: &FailureContext<'_>) -> RetryLimit {
        if self.is_alone(context) {
            let answered = self.histories[context.source].has_answered || context.host_has_answered;
            return RetryLimit {
                failures: match !answered && failure.is_without_response() {
                    true => self.retry.retries_before_response,
                    false => self.retry.retries,
                },
                refill_bytes: REFILL_ALONE,
            };
        }
        match self.is_patient(context.source) {
            true => RetryLimit {
                failures: self.retry.retries.max(RETRIES_BESIDE_OTHERS),
                refill_bytes: REFILL_ALONE,
            },
            false => RetryLimit {
                failures: RETRIES_BESIDE_OTHERS,
                refill_bytes: REFILL_BESIDE_OTHERS,
            },
        }
    }

    /// Whether a source is known and no other does well: the fault may be on this side, or on a stretch of the path that all have
    /// in common.
    fn is_patient(&self, source: usize) -> bool {
        let does_well = |other: usize| {
            other != source
                && self.sources.is_live(other)
                && self.sources.pinned_version(other).is_some()
                && self.histories[other].budget.failures(REFILL_BESIDE_OTHERS) == 0
        };
        let known = self.sources.pinned_version(source).is_some();
        known && !(0..self.histories.len()).any(does_well)
    }

    /// A busy origin, or one that refuses so many requests: it is asked again later, and by fewer connections.
    fn wait_for_busy(
        &mut self,
        failure: &RequestFailure,
        context: &FailureContext<'_>,
    ) -> RecoveryAction {
        match self.retry(failure, context) {
            RecoveryAction::Retry(wait) => RecoveryAction::FewerConnections(wait),
            other => other,
        }
    }

    /// A response of which no byte may be used: another server behind the balancer may do better (A3), but not for ever.
    fn on_unusable(
        &mut self,
        failure: &RequestFailure,
        context: &FailureContext<'_>,
    ) -> RecoveryAction {
        let history = &self.histories[context.source];
        // Without ranges there is no other strategy left; with others there, they are used instead.
        if history.without_ranges || !self.is_alone(context) || self.is_progress(context) {
            return self.retry(failure, context);
        }
        let too_many = self.histories[context.source].count_unusable();
        let wait = match too_many {
            true => None,
            false => self.spend_retry(failure, context),
        };
        match wait {
            Some(wait) => RecoveryAction::Retry(wait),
            None => {
                self.histories[context.source].without_ranges = true;
                RecoveryAction::OneStream
            }
        }
    }

    /// The same request mostly brings the same garbage, so it is sent again a few times only.
    fn on_garbled(
        &mut self,
        failure: &RequestFailure,
        context: &FailureContext<'_>,
    ) -> RecoveryAction {
        match self.histories[context.source].count_garbled() {
            true => self.abandon(context),
            false => self.retry(failure, context),
        }
    }

    /// The file changed: the only source may have the new version whole; another source may still have the old one.
    fn on_change(&mut self, context: &FailureContext<'_>) -> RecoveryAction {
        if self.is_alone(context) && self.histories[context.source].count_change() {
            RecoveryAction::StartOver
        } else {
            self.abandon(context)
        }
    }

    /// A 403 while other connections deliver: a connection limit (A18), or behind a redirect an expired token (A16).
    fn on_forbidden(&mut self, context: &FailureContext<'_>) -> RecoveryAction {
        if context.redirected && self.histories[context.source].renew_token() {
            return RecoveryAction::ResolveAgain(Duration::ZERO);
        }
        self.fewer_connections(Duration::ZERO, context)
    }

    /// A redirect's target failed. The source's own URL may lead to a better place (A16): at once the first time, later after a
    /// pause, and with other sources there only once.
    fn resolve_again(
        &mut self,
        failure: &RequestFailure,
        context: &FailureContext<'_>,
    ) -> RecoveryAction {
        if self.histories[context.source].count_resolve() {
            return RecoveryAction::ResolveAgain(Duration::ZERO);
        }
        let wait = match self.is_alone(context) {
            true => self.spend_retry(failure, context),
            false => None,
        };
        match wait {
            Some(wait) => RecoveryAction::ResolveAgain(wait),
            None => self.abandon(context),
        }
    }

    /// A piece does not match its digest, for the `times`-th time. `senders`: the sources of its bytes in this run, each once. A
    /// source that sent all of it is to blame and is dropped, unless it is the last.
    ///
    /// Where several sent parts of it, nobody can tell whose bytes were bad. So one source sends all of it the next time, and either
    /// the piece is right then or that source is to blame. Every round therefore ends with a good piece or one source less. The one
    /// is an active source ([`SourceSet::candidates`]); it rests only where all of them do, and then not longer than any.
    pub fn on_bad_piece(&mut self, senders: &[usize], times: u32, now: Duration) -> PieceRetry {
        if let [only] = *senders
            && self.sources.is_live(only)
            && self.sources.live_count() > 1
        {
            let reason = "a piece from it does not match its digest";
            self.sources.drop_source(only, reason);
        }
        let sources = u32::try_from(self.sources.count()).unwrap_or(u32::MAX);
        if times >= EXTRA_PIECE_ATTEMPTS.saturating_add(sources) {
            return PieceRetry::GiveUp;
        }
        if senders.len() < 2 || self.sources.live_count() < 2 {
            return PieceRetry::FromAny;
        }
        self.sources
            .best_for_piece(senders, now)
            .map_or(PieceRetry::FromAny, PieceRetry::FromOne)
    }

    /// The whole file does not match its digest, `reason` in words: the source that fetches everything alone next, from the first
    /// byte. `None` when every source that the user named was tried. `source` is the one that requests went to, where they go to
    /// one at a time; `resumed`: an earlier run left some of the bytes.
    pub fn on_wrong_digest(&mut self, source: usize, resumed: bool, reason: &str) -> Option<usize> {
        // Where every piece is right, the one digest contradicts the others, and no source can help.
        if self.sources.count() < 2 || self.sources.has_piece_digests() {
            return None;
        }
        let mut senders = self.sources.take_senders();
        if senders.is_empty() {
            senders.push(source);
        }
        if let ([only], false) = (&senders[..], resumed) {
            self.sources.drop_source(*only, reason);
        }
        self.sources.bench_all();
        self.recall_benched()
    }

    /// Calls the next source from the bench, with a full budget.
    fn recall_benched(&mut self) -> Option<usize> {
        let source = self.sources.recall_benched()?;
        self.histories.get_mut(source)?.budget.refill();
        Some(source)
    }
}
