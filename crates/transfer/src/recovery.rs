//! What a failed request leads to: one policy, for jobs with one source and for jobs with many.
//!
//! [`classify_response`](crate::response::classify_response) says why a response cannot be used, the transport says how a connection
//! failed. A [`RecoveryPolicy`] knows the history of every source of a job and decides what comes next: the same request again,
//! after which pause, fewer connections, the URL from before its redirects, another source, no If-Range, one stream, the first byte again,
//! or the end of the job. Its callers, a download of one file and a batch of many, carry the decision out.
//!
//! The retry budgets are here, so only this module could make a job go on for ever; property tests assert that it does not.
//!
//! Two kinds of wrong bytes have methods of their own: [`RecoveryPolicy::on_bad_piece`] when a piece does not match its digest, and
//! [`RecoveryPolicy::on_wrong_digest`] when the whole file does not match its digest.
//!
//! All jobs together learn whether a host's 403 is transient: [`ForbiddenPolicy`].

mod forbidden;
mod history;
mod policy;
mod retry;
mod shared_refusal;

use std::time::Duration;

pub(crate) use forbidden::ForbiddenPolicy;
pub(crate) use policy::RecoveryPolicy;
pub(crate) use retry::RetryNumber;
pub use retry::{RequestRetries, RetryOptions};
pub use shared_refusal::RefusalReach;
pub(crate) use shared_refusal::{RefusalAction, SharedRefusal};

/// The situation in which a request failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FailureContext<'a> {
    /// The number of the source that failed.
    pub source: usize,
    /// The time since the job began.
    pub now: Duration,
    /// When the request was sent, counted like `now`. Requests that were sent before the wait after another failure fail
    /// together with that one.
    pub requested_at: Duration,
    /// Bytes of the file that this request brought, where they are kept.
    pub received: u64,
    /// Where the body ended before it was whole, in bytes, if all of them are lost because it cannot be continued.
    pub lost_body: Option<u64>,
    /// Whether the host has answered requests of other jobs: it is more likely restarting than gone.
    pub host_has_answered: bool,
    /// Connections of this source that deliver bytes, the failed one not counted.
    pub delivering: usize,
    /// Whether the request went to the target of a redirect, not to the URL that the source was named by.
    pub redirected: bool,
    /// Whether bytes of this source would be lost if another source took over: a body that is read from front to back.
    pub keeps_source: bool,
    /// Whether a 403 of this host may mean too many requests: see [`ForbiddenPolicy`].
    pub forbidden_may_mean_overload: bool,
    /// Random, in 0..1: spreads the retries of many clients.
    pub jitter: f64,
    /// The failure in words, for a source that is dropped.
    pub reason: &'a str,
}

/// What to do after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecoveryAction {
    /// Send the request again, to the same source, after this time.
    Retry(Duration),
    /// The origin wants fewer connections: go on with those that deliver, and request nothing new before this time has passed.
    FewerConnections(Duration),
    /// The redirect's target is no longer good: request the source's own URL, after this time.
    ResolveAgain(Duration),
    /// The source is paused for this time, or accepts no further connection: use other sources meanwhile.
    UseOtherSources(Duration),
    /// The source was dropped. Nothing more is requested from it, and none of its bytes is taken any more.
    DropSource,
    /// Send the request again at once, and never send If-Range to this origin again.
    WithoutIfRange,
    /// Ranges of this origin cannot be trusted: fetch everything over one stream.
    OneStream,
    /// The resource changed: discard its bytes and begin again with the new version.
    StartOver,
    /// The job ends with this failure, unless [`RecoveryPolicy::fail_over`] finds another source for it.
    GiveUp,
    /// The source was dropped before this request failed: there is nothing left to do.
    Ignore,
}

/// Which source fetches a bad piece again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PieceRetry {
    /// Any source.
    FromAny,
    /// This source alone, all of the piece.
    FromOne(usize),
    /// None: the piece was bad too often.
    GiveUp,
}

#[cfg(test)]
mod tests;
