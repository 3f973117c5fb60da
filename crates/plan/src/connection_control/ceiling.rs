//! What refusals leave: a limit that they lower and time lifts.
//!
//! Refusals come in bursts: a ramp from four to eight meets an origin that takes five, and three are refused in one moment. All
//! of these were asked before the limit was known, so together they say one thing: *those that were not refused are the
//! limit*. A refusal of what was asked for later says more. If the number was beyond the limit (time had lifted it by one),
//! the limit is what it was, and stands longer. If it was within, it may be an accident, since many origins still
//! count a connection for a moment that was closed here: the number is given back soon. Twice within a short time is
//! no accident: then the limit has become lower, and an origin that says that it is overloaded is spared half.

use std::time::Duration;

/// How long a limit stands: at first long enough for an origin to recover, and after refusal upon refusal, each twice as
/// long, so that one that never allows more is hardly asked.
const STANDS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

/// After so long a number is given back that was taken by what may be an accident.
const RESTORE_AFTER: Duration = Duration::from_secs(1);

/// What was asked for and refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionRefusal {
    /// When the refusal came.
    pub now: Duration,
    /// When that was asked for which was refused.
    pub requested_at: Duration,
    /// Connections that are up beside it.
    pub open_connections: usize,
    /// Whether the origin says that it is overloaded (429, 503).
    pub overloaded: bool,
}

/// No more connections than this, learned from refusals.
#[derive(Debug)]
pub(super) struct ConnectionCeiling {
    /// What the settings allow.
    max: usize,
    /// What is allowed now.
    current: usize,
    /// What refusals have shown to be the limit, and when they last lowered it; none before the first.
    known_limit: Option<(usize, Duration)>,
    /// When a number within the known limit was last refused.
    doubted_at: Option<Duration>,
    /// When more is allowed again.
    lift_at: Duration,
    /// How long the next refusal counts.
    limit_duration: Duration,
}

impl ConnectionCeiling {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            current: max,
            known_limit: None,
            doubted_at: None,
            lift_at: Duration::MAX,
            limit_duration: STANDS.0,
        }
    }

    pub(super) fn current(&self) -> usize {
        self.current
    }

    /// Whether less is allowed than the limit, since a number within it was refused.
    pub(super) fn is_doubted(&self) -> bool {
        self.known_limit
            .is_some_and(|(limit, _)| self.current < limit)
    }

    /// One more than `open_connections` was refused.
    pub(super) fn on_refusal(&mut self, refused: ConnectionRefusal) {
        let ConnectionRefusal {
            now,
            open_connections: open,
            ..
        } = refused;
        match self.known_limit {
            // Of the same burst: it counts once, but shows how far down the limit is.
            Some((_, lowered)) if refused.requested_at < lowered => self.set_limit(open, lowered),
            Some(_)
                if self
                    .doubted_at
                    .is_some_and(|then| refused.requested_at < then) =>
            {
                self.current = open.clamp(1, self.current);
            }
            Some((limit, _)) if open < limit => self.doubt(refused),
            _ => {
                self.set_limit(open, now);
                self.schedule_lift(now);
            }
        }
    }

    /// A number within the known limit was refused.
    fn doubt(&mut self, refused: ConnectionRefusal) {
        let ConnectionRefusal {
            now,
            open_connections: open,
            ..
        } = refused;
        let again = self
            .doubted_at
            .is_some_and(|then| now.saturating_sub(then) < STANDS.0);
        self.doubted_at = Some(now);
        if again {
            self.set_limit(
                if refused.overloaded {
                    open.div_ceil(2)
                } else {
                    open
                },
                now,
            );
            self.schedule_lift(now);
        } else {
            self.current = open.clamp(1, self.current);
            self.lift_at = now.saturating_add(RESTORE_AFTER);
        }
    }

    fn set_limit(&mut self, limit: usize, when: Duration) {
        self.current = limit.clamp(1, self.current);
        self.known_limit = Some((self.current, when));
    }

    fn schedule_lift(&mut self, now: Duration) {
        self.lift_at = now.saturating_add(self.limit_duration);
        self.limit_duration = (self.limit_duration * 2).min(STANDS.1);
    }

    /// Allows more when it is time. True when that is a number which had been allowed before, and need not be tried out.
    pub(super) fn lift_if_due(&mut self, now: Duration) -> bool {
        if now < self.lift_at || self.current >= self.max {
            return false;
        }
        let limit = self.known_limit.map_or(self.max, |(limit, _)| limit);
        let back = self.is_doubted();
        self.current = if back { limit } else { self.current + 1 };
        self.lift_at = now.saturating_add(self.limit_duration);
        back
    }
}
