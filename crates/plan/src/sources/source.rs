//! What is known of one of several sources of a file.

use std::time::Duration;

use crate::validator::ResourceVersion;

/// Bytes that give a source its strikes back: its link works, what failed was an accident.
const REDEEMS: u64 = 256 << 10;

/// How long a number of connections counts as the most that a source takes.
const LIMITED_FOR: Duration = Duration::from_secs(30);

/// Seconds over which a rate is an average: long enough for bursts, short enough to see a mirror become slow.
const MEMORY: f64 = 1.5;

/// One source, and how it has done so far.
#[derive(Debug, Clone, Default)]
pub(super) struct SourceState {
    /// The user, or a list of the user's, named it as a source of this very file.
    pub(super) named: bool,
    /// The version that it gives, by its own validators: from its first usable answer on.
    pub(super) pinned: Option<ResourceVersion>,
    /// Why it is asked no more.
    pub(super) dropped: Option<String>,
    /// It is not asked as long as others are: it is unlike them, or one of them is tried alone.
    pub(super) benched: bool,
    /// Whether any of what came since the last beginning is from here.
    pub(super) delivered: bool,
    /// Failures since it last brought something.
    pub(super) strikes: u32,
    /// Nothing new is asked of it before this moment.
    pub(super) rests: Duration,
    /// Connections in use.
    pub(super) connections: usize,
    /// No more connections than this, and since when that is known.
    limit: Option<(usize, Duration)>,
    /// Whether where a redirect of it led was given up since it last brought something.
    pub(super) resolved: bool,
    /// Bytes since the last strike.
    since_strike: u64,
    /// Bytes since the last look.
    fresh: u64,
    /// Bytes a second over all its connections, once it has brought any.
    rate: Option<f64>,
}

impl SourceState {
    pub(super) fn new(named: bool) -> Self {
        Self {
            named,
            ..Self::default()
        }
    }

    pub(super) fn is_living(&self) -> bool {
        self.dropped.is_none() && !self.benched
    }

    /// Bytes came from it.
    pub(super) fn brought(&mut self, bytes: u64) {
        self.delivered |= bytes > 0;
        self.fresh = self.fresh.saturating_add(bytes);
        self.since_strike = self.since_strike.saturating_add(bytes);
        if self.since_strike >= REDEEMS {
            self.strikes = 0;
            self.resolved = false;
        }
    }

    /// One more failure; how many there are now.
    pub(super) fn strike(&mut self) -> u32 {
        self.since_strike = 0;
        self.strikes += 1;
        self.strikes
    }

    /// Takes the rate of the time since the last look. Without a connection there is nothing to learn.
    pub(super) fn sample(&mut self, during: Duration) {
        let seconds = during.as_secs_f64();
        let bytes = std::mem::take(&mut self.fresh);
        if seconds <= 0.0 || self.connections == 0 {
            return;
        }
        let now = bytes as f64 / seconds;
        self.rate = match self.rate {
            None if bytes == 0 => None,
            None => Some(now),
            Some(rate) => Some(rate + (now - rate) * (1.0 - (-seconds / MEMORY).exp())),
        };
    }

    /// Bytes a second that one of its connections brings.
    pub(super) fn each(&self) -> Option<f64> {
        Some(self.rate? / self.connections.max(1) as f64)
    }

    /// Bytes a second that one connection more would have, were all that it has shared.
    pub(super) fn share(&self) -> Option<f64> {
        Some(self.rate? / (self.connections + 1) as f64)
    }

    /// It took no more connections than it has now.
    pub(super) fn limited(&mut self, now: Duration) {
        self.limit = Some((self.connections.max(1), now));
    }

    /// Whether it may have one connection more.
    pub(super) fn has_room(&self, now: Duration) -> bool {
        if !self.is_living() || self.rests > now {
            return false;
        }
        // As long as it has not answered, one request is as much as it is trusted with.
        if self.pinned.is_none() && self.connections > 0 {
            return false;
        }
        let stands = |since: &Duration| now.saturating_sub(*since) < LIMITED_FOR;
        self.limit
            .is_none_or(|(most, since)| !stands(&since) || self.connections < most)
    }
}
