//! Decides from a failure and the state of a job's sources what the job does next.
//!
//! A source that has another file, that does not have it, or that fails again and again is dropped while another live source is left.
//! The last live source is never dropped here: for it the policy returns [`RecoveryAction::GiveUp`], and the job ends unless
//! [`RecoveryPolicy::fail_over`] activates a standby source.
//!
//! If the only check is a digest of the whole file, a mix of several sources' bytes may fail it, and nothing shows which bytes were
//! bad. Then each source that the user named fetches the whole file alone, one after another, until the digest matches
//! ([`RecoveryPolicy::on_wrong_digest`]). The others are on standby meanwhile.
//!
//! Order of calls: [`RecoveryPolicy::on_failure`] for each failure, [`RecoveryPolicy::on_bytes`] for bytes that reached the file,
//! [`RecoveryPolicy::on_usable_response`] when a response was accepted. Callers that request from one source at a time call
//! [`RecoveryPolicy::next_source`] after a decision that may change the source.

use std::time::Duration;

use http::StatusCode;

use super::history::FailureHistory;
use super::retry::{FailureTimes, RetryLimit, RetryNumber, RetryOptions};
use super::{FailureContext, PieceRetry, RecoveryAction};
use crate::response::{RequestFailure, UnusableResponse};
use crate::sources::{NextSource, SourceSet};

/// Retries of a source while other sources work: one failure may be an accident, two a coincidence.
const RETRIES_WITH_OTHER_SOURCES: u32 = 2;

/// Bytes that reset the failure count of a source while other sources work.
const REFILL_WITH_OTHER_SOURCES: u64 = 256 << 10;

/// Bytes that reset the failure count of a source if no other source works better: any byte is progress (row A33).
const REFILL_WITHOUT_OTHERS: u64 = 1;

/// Retries without a byte between them after pages in place of the file (row A35).
const ERROR_PAGE_RETRIES: u32 = 2;

/// How often a piece may be bad, in addition to once for each source: the last source, or the path to it, may still recover.
const EXTRA_PIECE_ATTEMPTS: u32 = 3;

/// Decides what follows each failure of one job.
#[derive(Debug, Default)]
pub(crate) struct RecoveryPolicy {
    retry: RetryOptions,
    sources: SourceSet,
    /// The failures of each source, by its number.
    histories: Vec<FailureHistory>,
    /// Failures in a row after which the job switches to another source, if it uses one source at a time.
    switch_after: u32,
}

impl RecoveryPolicy {
    /// A job without sources, and without failures.
    #[must_use]
    pub(crate) fn new(retry: RetryOptions) -> Self {
        Self {
            retry,
            switch_after: 1,
            ..Self::default()
        }
    }

    /// A job without sources whose file comes in one response. A source gets a second try before the job switches to another one,
    /// since a single broken response may be an accident and costs little.
    #[must_use]
    pub(crate) fn for_single_responses(retry: RetryOptions) -> Self {
        Self {
            switch_after: 2,
            ..Self::new(retry)
        }
    }

    /// Adds a source after all others, and returns its number. `user_named`: the user named it as a source of this file.
    pub(crate) fn add_source(&mut self, user_named: bool) -> usize {
        self.histories.push(FailureHistory::default());
        self.sources.add(user_named)
    }

    /// The job's sources.
    #[must_use]
    pub(crate) fn sources(&self) -> &SourceSet {
        &self.sources
    }

    /// The job's sources, to report their connections and responses.
    pub(crate) fn sources_mut(&mut self) -> &mut SourceSet {
        &mut self.sources
    }

    /// Retries of all sources together.
    #[must_use]
    pub(crate) fn retries(&self) -> u32 {
        let retries = self
            .histories
            .iter()
            .map(|history| history.budget.retries());
        retries.fold(0, u32::saturating_add)
    }

    /// The number of a source's last retry.
    #[must_use]
    pub(crate) fn retry_number(&self, source: usize) -> RetryNumber {
        let history = self.histories.get(source);
        history.map_or_else(RetryNumber::default, |history| {
            history.budget.retry_number()
        })
    }

    /// A source sent a response that was accepted.
    pub(crate) fn on_usable_response(&mut self, source: usize) {
        if let Some(history) = self.histories.get_mut(source) {
            history.on_usable_response();
        }
    }

    /// Bytes of a source reached the file.
    pub(crate) fn on_bytes(&mut self, source: usize, bytes: u64) {
        if let Some(history) = self.histories.get_mut(source) {
            history.on_bytes(bytes);
        }
        self.sources.on_bytes(source, bytes);
    }

    /// Bytes that a source sent in this run.
    #[must_use]
    pub(crate) fn received(&self, source: usize) -> u64 {
        self.histories
            .get(source)
            .map_or(0, |history| history.received())
    }

    /// The live source to request from next, and when. If none is live, activates the next standby source. `None` if there is no
    /// standby source either.
    pub(crate) fn next_source(&mut self, now: Duration) -> Option<NextSource> {
        if self.sources.live_count() == 0 {
            self.activate_standby();
        }
        self.sources.soonest(now)
    }

    /// Drops a source that failed for good, and returns the next one. `None` ends the job.
    pub(crate) fn fail_over(
        &mut self,
        source: usize,
        reason: &str,
        now: Duration,
    ) -> Option<NextSource> {
        self.sources.drop_source(source, reason);
        self.next_source(now)
    }

    /// Decides what follows a failure.
    pub(crate) fn on_failure(
        &mut self,
        failure: &RequestFailure,
        context: &FailureContext<'_>,
    ) -> RecoveryAction {
        if *failure == RequestFailure::WrongFile {
            return self.drop_or_give_up(context);
        }
        if !self.sources.is_live(context.source) {
            return RecoveryAction::Ignore;
        }
        if self.ends_at_same_byte(failure, context) {
            return self.drop_or_give_up(context);
        }
        // Only connections that deliver bytes count: one that waits for a response does not show that the origin is up (A34).
        let others_deliver = context.delivering > 0;
        match failure {
            RequestFailure::IfRangeMisread => RecoveryAction::WithoutIfRange,
            RequestFailure::Changed => self.on_change(failure, context),
            RequestFailure::PastEnd if !self.is_only_source(context) => {
                self.drop_or_give_up(context)
            }
            RequestFailure::ErrorPage => self.on_error_page(failure, context),
            RequestFailure::RangeIgnored
            | RequestFailure::PastEnd
            | RequestFailure::Unusable(_) => self.on_unusable(failure, context),
            RequestFailure::Garbled => self.on_garbled(failure, context),
            RequestFailure::Unreachable { transient: false }
            | RequestFailure::Transport {
                transient: false, ..
            }
            | RequestFailure::Unauthorized { .. }
            | RequestFailure::WrongFile => self.drop_or_give_up(context),
            // Connections that deliver show that the origin works: a refusal meanwhile is a connection limit more often than a fault
            // (A18), and costs no retry.
            _ if others_deliver && failure.is_without_response() => {
                self.reduce_connections(Duration::ZERO, context)
            }
            RequestFailure::Unreachable { .. }
            | RequestFailure::Disconnected { .. }
            | RequestFailure::Transport { .. }
            | RequestFailure::TooSlow => self.retry(failure, context),
            RequestFailure::Busy { retry_after, .. } if others_deliver => {
                let wait = self.retry.cap_retry_after(*retry_after);
                self.reduce_connections(wait, context)
            }
            // A request before the time that Retry-After names would be useless, and rude.
            RequestFailure::Busy {
                retry_after: Some(wait),
                ..
            } if *wait > self.retry.max_retry_after => self.drop_or_give_up(context),
            RequestFailure::Busy { .. } => self.wait_for_busy(failure, context),
            RequestFailure::RangeRefused { status } | RequestFailure::Denied { status }
                if *status == StatusCode::FORBIDDEN =>
            {
                self.on_forbidden(failure, context)
            }
            RequestFailure::RangeRefused { .. } => self.on_unusable(failure, context),
            RequestFailure::Denied { .. } if context.redirected => {
                self.resolve_again(failure, context)
            }
            RequestFailure::Denied { .. } => self.drop_or_give_up(context),
        }
    }

    /// Whether a body was lost that ended at the same byte as those before (row A41): each request would get one like it.
    fn ends_at_same_byte(
        &mut self,
        failure: &RequestFailure,
        context: &FailureContext<'_>,
    ) -> bool {
        let ended = matches!(
            failure,
            RequestFailure::Disconnected { answered: true }
                | RequestFailure::Garbled
                | RequestFailure::Unusable(UnusableResponse::TruncatedBody { .. })
        );
        let history = &mut self.histories[context.source];
        let is_same = |bytes| history.count_lost_body(bytes);
        ended && context.lost_body.is_some_and(is_same)
    }

    /// Whether only this source can continue the download.
    fn is_only_source(&self, context: &FailureContext<'_>) -> bool {
        context.keeps_source || self.sources.live_count() == 1
    }

    /// Drops the source if another one is live, else gives up.
    fn drop_or_give_up(&mut self, context: &FailureContext<'_>) -> RecoveryAction {
        let others = self.sources.live_count() > usize::from(self.sources.is_live(context.source));
        if !others {
            return RecoveryAction::GiveUp;
        }
        self.sources.drop_source(context.source, context.reason);
        RecoveryAction::DropSource
    }

    /// Uses fewer connections after the origin refused one.
    fn reduce_connections(
        &mut self,
        wait: Duration,
        context: &FailureContext<'_>,
    ) -> RecoveryAction {
        self.sources.pause(context.source, context.now + wait);
        if self.sources.live_count() == 1 {
            return RecoveryAction::FewerConnections(wait);
        }
        self.sources.limit_connections(context.source, context.now);
        RecoveryAction::UseOtherSources(wait)
    }

    /// Repeats the request after a pause, until the retry budget is spent.
    fn retry(&mut self, failure: &RequestFailure, context: &FailureContext<'_>) -> RecoveryAction {
        if self.made_progress(context) {
            return RecoveryAction::Retry(Duration::ZERO);
        }
        let Some(wait) = self.spend_retry(failure, context) else {
            return self.drop_or_give_up(context);
        };
        let failures = self.histories[context.source].budget.failures_in_row();
        if self.is_only_source(context) || failures < self.switch_after {
            RecoveryAction::Retry(wait)
        } else {
            RecoveryAction::UseOtherSources(wait)
        }
    }

    /// Whether a failed request brought bytes, so that the next one follows at once (row A33). While other sources work, a source that
    /// breaks off again and again is not worth its connections, whatever it brings. A user who wants no retries gets none.
    fn made_progress(&self, context: &FailureContext<'_>) -> bool {
        let bytes_kept = context.received > 0 && self.retry.retries > 0;
        bytes_kept && (self.is_only_source(context) || self.has_no_better_source(context.source))
    }

    /// Takes a retry from the source's budget. Returns the pause before it; `None` if the budget is spent.
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
        self.sources.pause(context.source, context.now + wait);
        Some(wait)
    }

    /// How many failures a source may have. While other sources work it is dropped soon, since nothing is lost by that.
    fn retry_limit(&self, failure: &RequestFailure, context: &FailureContext<'_>) -> RetryLimit {
        if self.is_only_source(context) {
            let answered = self.histories[context.source].has_answered || context.host_has_answered;
            return RetryLimit {
                failures: match failure {
                    RequestFailure::ErrorPage => self.retry.retries.min(ERROR_PAGE_RETRIES),
                    _ if !answered && failure.is_without_response() => {
                        self.retry.retries_before_response
                    }
                    _ => self.retry.retries,
                },
                refill_bytes: REFILL_WITHOUT_OTHERS,
            };
        }
        if self.has_no_better_source(context.source) {
            RetryLimit {
                failures: self.retry.retries.max(RETRIES_WITH_OTHER_SOURCES),
                refill_bytes: REFILL_WITHOUT_OTHERS,
            }
        } else {
            RetryLimit {
                failures: RETRIES_WITH_OTHER_SOURCES,
                refill_bytes: REFILL_WITH_OTHER_SOURCES,
            }
        }
    }

    /// Whether a source has sent a usable response, and no other source works without failures: the fault may be at this end, or in a
    /// part of the network path that all sources share.
    fn has_no_better_source(&self, source: usize) -> bool {
        let works = |other: usize| {
            other != source
                && self.sources.is_live(other)
                && self.sources.pinned_version(other).is_some()
                && self.histories[other]
                    .budget
                    .failures(REFILL_WITH_OTHER_SOURCES)
                    == 0
        };
        let has_responded = self.sources.pinned_version(source).is_some();
        has_responded && !(0..self.histories.len()).any(works)
    }

    /// Repeats the request to a busy origin later, and over fewer connections.
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

    /// Handles a response whose bytes cannot be used: another server behind the load balancer may send a better one (A3), so the request is
    /// repeated a few times.
    fn on_unusable(
        &mut self,
        failure: &RequestFailure,
        context: &FailureContext<'_>,
    ) -> RecoveryAction {
        // If there are other sources, they are used instead.
        if !self.is_only_source(context) || self.made_progress(context) {
            return self.retry(failure, context);
        }
        let history = &mut self.histories[context.source];
        if history.without_ranges {
            // There is no other strategy left. A head that does not fit is the same each time (row A41); a body may break off anywhere.
            let is_head = !matches!(
                failure,
                RequestFailure::Unusable(UnusableResponse::TruncatedBody { .. })
            );
            return if is_head && history.count_unusable() {
                self.drop_or_give_up(context)
            } else {
                self.retry(failure, context)
            };
        }
        let too_many = self.is_same_next_time(failure, context)
            || self.histories[context.source].count_unusable();
        let wait = if too_many {
            None
        } else {
            self.spend_retry(failure, context)
        };
        match wait {
            Some(wait) => RecoveryAction::Retry(wait),
            None => {
                self.histories[context.source].stop_ranges();
                RecoveryAction::OneStream
            }
        }
    }

    /// Whether the same request would get the same response, so that it is not repeated.
    fn is_same_next_time(&self, failure: &RequestFailure, context: &FailureContext<'_>) -> bool {
        match failure {
            // Each server of S3 says the first of an empty object.
            RequestFailure::Unusable(
                UnusableResponse::NoFirstByte
                | UnusableResponse::MissingTotal
                | UnusableResponse::DoubtfulTotal,
            ) => true,
            RequestFailure::RangeRefused { .. } | RequestFailure::PastEnd => {
                !self.histories[context.source].has_answered
            }
            _ => false,
        }
    }

    /// Handles a response that is not HTTP. Mostly a repeated request gets the same one, so it is repeated a few times only.
    fn on_garbled(
        &mut self,
        failure: &RequestFailure,
        context: &FailureContext<'_>,
    ) -> RecoveryAction {
        if self.histories[context.source].count_garbled() {
            self.drop_or_give_up(context)
        } else {
            self.retry(failure, context)
        }
    }

    /// Handles a changed file: the only source may have the complete new version; another source may still have the old one. A source
    /// that changes again has validators that do not name versions (row A39): a digest does instead of them, or one response brings
    /// everything.
    fn on_change(
        &mut self,
        failure: &RequestFailure,
        context: &FailureContext<'_>,
    ) -> RecoveryAction {
        if !self.is_only_source(context) {
            return self.drop_or_give_up(context);
        }
        let history = &mut self.histories[context.source];
        if history.without_ranges {
            let wait = self.spend_retry(failure, context);
            return wait.map_or_else(
                || self.drop_or_give_up(context),
                |_| RecoveryAction::StartOver,
            );
        }
        if history.count_change() {
            return RecoveryAction::StartOver;
        }
        let history = &mut self.histories[context.source];
        let is_old = |since| context.requested_at <= since;
        if history.validators_ignored_at.is_some_and(is_old) {
            return RecoveryAction::Retry(Duration::ZERO);
        }
        if self.sources.ignore_validators(context.source) {
            history.validators_ignored_at = Some(context.now);
            return RecoveryAction::Retry(Duration::ZERO);
        }
        history.without_ranges = true;
        RecoveryAction::OneStream
    }

    /// Handles a page in place of the file (row A35): one among good responses is an accident, or about the number of connections. Where
    /// all are pages, the link or the login has expired, and no further request helps.
    fn on_error_page(
        &mut self,
        failure: &RequestFailure,
        context: &FailureContext<'_>,
    ) -> RecoveryAction {
        if context.delivering > 0 {
            self.renew_token_or_reduce(context)
        } else if context.redirected {
            self.resolve_again(failure, context)
        } else {
            self.retry(failure, context)
        }
    }

    /// Handles a 403: too many requests, too many connections (A18), an expired token (A16), or a refusal of ranges (A38).
    fn on_forbidden(
        &mut self,
        failure: &RequestFailure,
        context: &FailureContext<'_>,
    ) -> RecoveryAction {
        if context.forbidden_may_mean_overload {
            self.wait_for_busy(failure, context)
        } else if context.delivering > 0 {
            self.renew_token_or_reduce(context)
        } else if context.redirected {
            self.resolve_again(failure, context)
        } else if matches!(failure, RequestFailure::RangeRefused { .. }) {
            self.on_unusable(failure, context)
        } else {
            self.drop_or_give_up(context)
        }
    }

    /// Handles a refusal while other connections deliver: it is a connection limit (A18), or after a redirect an expired token (A16).
    fn renew_token_or_reduce(&mut self, context: &FailureContext<'_>) -> RecoveryAction {
        if context.redirected && self.histories[context.source].renew_token() {
            return RecoveryAction::ResolveAgain(Duration::ZERO);
        }
        self.reduce_connections(Duration::ZERO, context)
    }

    /// Handles a failure of a redirect's target. The source's own URL may redirect to one that works (A16): requested at once the first
    /// time, later after a pause, and only once if there are other sources.
    fn resolve_again(
        &mut self,
        failure: &RequestFailure,
        context: &FailureContext<'_>,
    ) -> RecoveryAction {
        if self.histories[context.source].count_resolve() {
            return RecoveryAction::ResolveAgain(Duration::ZERO);
        }
        if matches!(failure, RequestFailure::RangeRefused { .. }) {
            return match self.on_unusable(failure, context) {
                RecoveryAction::Retry(wait) => RecoveryAction::ResolveAgain(wait),
                other => other,
            };
        }
        let wait = if self.is_only_source(context) {
            self.spend_retry(failure, context)
        } else {
            None
        };
        match wait {
            Some(wait) => RecoveryAction::ResolveAgain(wait),
            None => self.drop_or_give_up(context),
        }
    }

    /// Handles a piece that does not match its digest, for the `times`-th time. `senders`: the sources of its bytes in this run, each
    /// once. A source that sent all of it is dropped, unless it is the last.
    ///
    /// If several sent parts of it, nothing shows whose bytes were bad. So one source sends all of it the next time: either the piece is
    /// right then, or that source is dropped. Every round therefore ends with a good piece or one source less. The chosen source is
    /// active ([`SourceSet::candidates`]). It is paused only if all active sources are, and then it is the one whose pause ends first.
    pub(crate) fn on_bad_piece(
        &mut self,
        senders: &[usize],
        times: u32,
        now: Duration,
    ) -> PieceRetry {
        if let [only_sender] = *senders
            && self.sources.is_live(only_sender)
            && self.sources.live_count() > 1
        {
            let reason = "a piece from it does not match its digest";
            self.sources.drop_source(only_sender, reason);
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

    /// Handles a file that does not match its digest. Returns the source that fetches the whole file alone next; `None` if every source
    /// that the user named was tried. `source` is the one that requests went to, if they go to one at a time. `resumed`: some of the
    /// bytes are from an earlier run. `reason`: the failure in words.
    pub(crate) fn on_wrong_digest(
        &mut self,
        source: usize,
        resumed: bool,
        reason: &str,
    ) -> Option<usize> {
        // Every piece is right, so the file's digest contradicts those of the pieces, and no source can help.
        if self.sources.count() < 2 || self.sources.has_piece_digests() {
            return None;
        }
        let mut senders = self.sources.take_senders();
        if senders.is_empty() {
            senders.push(source);
        }
        if let ([only_sender], false) = (&senders[..], resumed) {
            self.sources.drop_source(*only_sender, reason);
        }
        self.sources.put_all_on_standby();
        self.activate_standby()
    }

    /// Activates the next standby source, with a full retry budget.
    fn activate_standby(&mut self) -> Option<usize> {
        let source = self.sources.activate_standby()?;
        self.histories.get_mut(source)?.budget.refill();
        Some(source)
    }
}
