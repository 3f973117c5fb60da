//! What refusals leave: a limit that they lower and time lifts.

use std::time::Duration;

/// How long a limit stands: at first long enough for an origin to recover, and after refusal upon refusal, each twice as
/// long, so that one that never allows more is hardly asked.
const STANDS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

/// No more connections than this, learned from refusals.
#[derive(Debug)]
pub(super) struct Ceiling {
    /// What the settings allow.
    max: usize,
    /// What the origin allows.
    now: usize,
    /// When one more is allowed again.
    lift: Duration,
    /// How long the next refusal counts.
    stands: Duration,
}

impl Ceiling {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            now: max,
            lift: Duration::MAX,
            stands: STANDS.0,
        }
    }

    pub(super) fn now(&self) -> usize {
        self.now
    }

    /// One more than `open` was refused.
    pub(super) fn lower(&mut self, open: usize, now: Duration) {
        self.now = open.clamp(1, self.now);
        self.lift = now.saturating_add(self.stands);
        self.stands = (self.stands * 2).min(STANDS.1);
    }

    /// Allows one more when it is time.
    pub(super) fn lift(&mut self, now: Duration) {
        if now >= self.lift && self.now < self.max {
            self.now += 1;
            self.lift = now.saturating_add(self.stands);
        }
    }
}
