//! The failures of one source so far.

use std::time::Duration;

use super::retry::RetryBudget;

/// How often in a row a range may be ignored, or a response be unusable, before the job stops sending ranges. With one broken
/// server of ten behind a load balancer, three requests in a row meet it once in a thousand times.
const MAX_UNUSABLE: u32 = 3;

/// How often in a row a body may end at the same byte. A connection that breaks does so at another one each time.
const MAX_SAME_ENDS: u32 = 3;

/// Retries after a response that is not HTTP, until bytes come: a proxy or balancer in trouble may garble one response, but a
/// server that garbles three in a row always does.
const GARBLED_RETRIES: u32 = 2;

/// Bytes that a redirect's target must bring before a 403, while other connections deliver, is taken for an expired token again. After
/// fewer bytes it is a connection limit; otherwise a job with one connection that is always refused would resolve its URL for ever.
const TOKEN_BYTES: u64 = 4 << 20;

/// The failures of one source.
#[derive(Debug, Clone, Default)]
pub(super) struct FailureHistory {
    /// Retries of transient failures.
    pub(super) budget: RetryBudget,
    /// Whether the source has ever sent a usable response.
    pub(super) has_answered: bool,
    /// Whether ranges were given up.
    pub(super) without_ranges: bool,
    /// Ignored ranges and unusable responses since the last usable one.
    unusable: u32,
    /// Responses that were not HTTP since bytes last arrived.
    garbled: u32,
    /// When validators of the source began to be ignored: requests from before were for a version that they named.
    pub(super) validators_ignored_at: Option<Duration>,
    /// Where the last body ended that could not be continued, and how many ended there in a row.
    lost_body: (u64, u32),
    /// How often the file changed under the job.
    changes: u32,
    /// How often the source's own URL was requested again since bytes last arrived.
    resolve_count: u32,
    /// Bytes of the file that this source sent.
    received: u64,
    /// Bytes received when a 403 was last taken for an expired token.
    token_renewed_at: Option<u64>,
}

impl FailureHistory {
    /// A response was accepted.
    pub(super) fn on_usable_response(&mut self) {
        self.unusable = 0;
        self.has_answered = true;
    }

    /// Bytes reached the file.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    pub(super) fn on_bytes(&mut self, bytes: u64) {
        if bytes > 0 {
            self.on_usable_response();
            self.resolve_count = 0;
            self.garbled = 0;
        }
        self.received = self.received.saturating_add(bytes);
        self.budget.on_bytes(bytes);
    }

    /// Counts an unusable response. Returns whether the job should stop sending ranges.
    pub(super) fn count_unusable(&mut self) -> bool {
        self.unusable += 1;
        self.unusable >= MAX_UNUSABLE
    }

    /// Gives ranges up. Responses to requests without them are counted anew.
    pub(super) fn stop_ranges(&mut self) {
        self.without_ranges = true;
        self.unusable = 0;
    }

    /// Counts a response that was not HTTP. Returns whether the limit is exceeded.
    pub(super) fn count_garbled(&mut self) -> bool {
        self.garbled += 1;
        self.garbled > GARBLED_RETRIES
    }

    /// Counts a body that ended after this number of bytes, which are all lost. Returns whether each request would get one like it (row A41).
    pub(super) fn count_lost_body(&mut self, bytes: u64) -> bool {
        let (last, count) = self.lost_body;
        let count = if bytes == last { count + 1 } else { 1 };
        self.lost_body = (bytes, count);
        bytes > 0 && count >= MAX_SAME_ENDS
    }

    /// Counts a change of the file. Returns whether it is the first. One change is a release in the middle of a download. A file that
    /// changes twice cannot be downloaded completely (row A5).
    pub(super) fn count_change(&mut self) -> bool {
        self.changes += 1;
        self.changes == 1
    }

    /// Counts a request of the source's own URL because the redirect's target failed. Returns whether it is the first since bytes arrived.
    pub(super) fn count_resolve(&mut self) -> bool {
        self.resolve_count += 1;
        self.resolve_count == 1
    }

    /// Whether a 403, while other connections deliver, may be an expired token (row A16). Requesting the source's own URL costs one request
    /// and shows it: a valid token brings more than [`TOKEN_BYTES`] before it expires.
    pub(super) fn renew_token(&mut self) -> bool {
        let was_valid = |renewed_at: u64| self.received.saturating_sub(renewed_at) >= TOKEN_BYTES;
        let renew = self.token_renewed_at.is_none_or(was_valid);
        if renew {
            self.token_renewed_at = Some(self.received);
        }
        renew
    }
}
