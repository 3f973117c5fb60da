//! One of several sources of a file.

use std::time::Duration;

use haul_plan::ResourceVersion;

/// How long a refused connection limits the number of connections.
const CONNECTION_LIMIT_DURATION: Duration = Duration::from_secs(30);

/// Seconds over which a rate is an average: long enough for bursts, short enough to notice that a mirror became slow.
const RATE_WINDOW: f64 = 1.5;

/// One source: its version, its connections and its rate.
#[derive(Debug, Clone, Default)]
pub(super) struct SourceState {
    /// The user, or a list of the user's, named it as a source of this very file.
    pub(super) user_named: bool,
    /// The version that it sends, by its own validators: known from its first usable response on.
    pub(super) pinned: Option<ResourceVersion>,
    /// Why the source was dropped.
    pub(super) dropped: Option<String>,
    /// Not used while others are: its file differs from theirs, or one of them is tried alone.
    pub(super) on_standby: bool,
    /// Whether it sent bytes since the download began or restarted.
    pub(super) has_sent: bool,
    /// It gets no new request before this moment.
    pub(super) paused_until: Duration,
    /// Connections in use.
    pub(super) connections: usize,
    /// The most connections that it accepts, and when that was found.
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
        self.dropped.is_none() && !self.on_standby
    }

    pub(super) fn on_bytes(&mut self, bytes: u64) {
        self.has_sent |= bytes > 0;
        self.fresh_bytes = self.fresh_bytes.saturating_add(bytes);
    }

    /// Updates the rate from the bytes since the last sample, if the source has a connection.
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

    /// The source refused a connection: limits it to its present number.
    pub(super) fn limit_connections(&mut self, now: Duration) {
        self.connection_limit = Some((self.connections.max(1), now));
    }

    /// Whether it may have one connection more.
    pub(super) fn has_room(&self, now: Duration) -> bool {
        if !self.is_live() || self.paused_until > now {
            return false;
        }
        // One connection is enough until the first response.
        if self.pinned.is_none() && self.connections > 0 {
            return false;
        }
        let is_recent = |since: Duration| now.saturating_sub(since) < CONNECTION_LIMIT_DURATION;
        self.connection_limit
            .is_none_or(|(most, since)| !is_recent(since) || self.connections < most)
    }
}
