//! One of several sources of a file: its version, its connections and its rate.

use std::time::Duration;

use crate::validator::ResourceVersion;

/// How long a number of connections counts as the most that a source takes.
const CONNECTION_LIMIT_LASTS: Duration = Duration::from_secs(30);

/// Seconds over which a rate is an average: long enough for bursts, short enough to notice that a mirror became slow.
const RATE_WINDOW: f64 = 1.5;

/// One source, and how it does.
#[derive(Debug, Clone, Default)]
pub(super) struct SourceState {
    /// The user, or a list of the user's, named it as a source of this very file.
    pub(super) user_named: bool,
    /// The version that it sends, by its own validators: known from its first usable response on.
    pub(super) pinned: Option<ResourceVersion>,
    /// Why it was dropped.
    pub(super) dropped: Option<String>,
    /// It is not used as long as others are: its file differs from theirs, or one of them is tried alone.
    pub(super) benched: bool,
    /// Whether it sent bytes since the last beginning.
    pub(super) has_sent: bool,
    /// Nothing new is requested from it before this moment.
    pub(super) rests_until: Duration,
    /// Connections in use.
    pub(super) connections: usize,
    /// The most connections that it takes, and since when that is known.
    connection_limit: Option<(usize, Duration)>,
    /// Bytes since the last sample.
    fresh_bytes: u64,
    /// Bytes a second over all its connections, once it has sent any.
    rate: Option<f64>,
}

impl SourceState {
    pub(super) fn new(user_named: bool) -> Self {
        Self {
            user_named,
            ..Self::default()
        }
    }

    pub(super) fn is_live(&self) -> bool {
        self.dropped.is_none() && !self.benched
    }

    pub(super) fn on_bytes(&mut self, bytes: u64) {
        self.has_sent |= bytes > 0;
        self.fresh_bytes = self.fresh_bytes.saturating_add(bytes);
    }

    /// Takes the rate of the time since the last sample. Without a connection there is nothing to learn.
    pub(super) fn sample(&mut self, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        let bytes = std::mem::take(&mut self.fresh_bytes);
        if seconds <= 0.0 || self.connections == 0 {
            return;
        }
        let current = bytes as f64 / seconds;
        self.rate = match self.rate {
            None if bytes == 0 => None,
            None => Some(current),
            Some(rate) => Some(rate + (current - rate) * (1.0 - (-seconds / RATE_WINDOW).exp())),
        };
    }

    /// Bytes a second that each of its connections brings.
    pub(super) fn connection_rate(&self) -> Option<f64> {
        Some(self.rate? / self.connections.max(1) as f64)
    }

    /// Bytes a second that each connection would bring with one more, if they shared the present rate.
    pub(super) fn rate_with_one_more(&self) -> Option<f64> {
        Some(self.rate? / (self.connections + 1) as f64)
    }

    /// It took no more connections than it has now.
    pub(super) fn limit_connections(&mut self, now: Duration) {
        self.connection_limit = Some((self.connections.max(1), now));
    }

    /// Whether it may have one connection more.
    pub(super) fn has_room(&self, now: Duration) -> bool {
        if !self.is_live() || self.rests_until > now {
            return false;
        }
        // One request is enough until it has answered.
        if self.pinned.is_none() && self.connections > 0 {
            return false;
        }
        let holds = |since: Duration| now.saturating_sub(since) < CONNECTION_LIMIT_LASTS;
        self.connection_limit
            .is_none_or(|(most, since)| !holds(since) || self.connections < most)
    }
}
