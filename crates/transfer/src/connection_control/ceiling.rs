//! The limit on connections that refusals lower and time lifts.
//!
//! Refusals come in bursts: a ramp from four to eight meets an origin that takes five, and three are refused
//! in one moment. All of these were requested before the limit was known, so together they show one
//! thing: *the connections that were not refused are the limit*. A later refusal shows more. If the number was beyond
//! the limit (which had been raised by one after some time), the limit is unchanged, and holds longer. If the number was within
//! the limit, the refusal may be an accident, since many origins still count a connection for a moment after
//! it was closed here: the number is restored soon. Twice within a short time is not an accident: then the limit
//! has become lower, and an origin that says that it is overloaded gets half.

use std::time::Duration;

/// How long a limit holds: at first long enough for an origin to recover, then after each refusal twice as
/// long, so that an origin that never allows more is seldom tried.
const LIMIT_DURATION: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

/// After this time a number is restored that was lowered by what may be an accident.
const RESTORE_AFTER: Duration = Duration::from_secs(1);

/// A connection, or a request on one, that the origin refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionRefusal {
    /// When the refusal arrived.
    pub now: Duration,
    /// When the refused connection or request was made.
    pub requested_at: Duration,
    /// Other connections that are open.
    pub open_connections: usize,
    /// Whether the origin says that it is overloaded (429, 503).
    pub overloaded: bool,
}

/// The limit on connections, learned from refusals.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionCeiling {
    /// The limit of the options.
    max: usize,
    /// Connections that are allowed now.
    current: usize,
    /// The limit that refusals have shown, and when they last lowered it; `None` before the first.
    known_limit: Option<(usize, Duration)>,
    /// When a number within the known limit was last refused.
    doubted_at: Option<Duration>,
    /// When more connections are allowed again.
    lift_at: Duration,
    /// How long the limit holds after the next refusal.
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
            limit_duration: LIMIT_DURATION.0,
        }
    }

    pub(super) fn current(&self) -> usize {
        self.current
    }

    /// Whether fewer connections than the known limit are allowed, because a number within it was refused.
    pub(super) fn is_doubted(&self) -> bool {
        self.known_limit
            .is_some_and(|(limit, _)| self.current < limit)
    }

    /// A connection was refused while `open_connections` others were open.
    pub(super) fn on_refusal(&mut self, refusal: ConnectionRefusal) {
        let ConnectionRefusal {
            now,
            open_connections: open,
            ..
        } = refusal;
        match self.known_limit {
            // Of the same burst: counts once, but shows how far down the limit is.
            Some((_, lowered)) if refusal.requested_at < lowered => self.set_limit(open, lowered),
            Some(_)
                if self
                    .doubted_at
                    .is_some_and(|then| refusal.requested_at < then) =>
            {
                self.current = open.clamp(1, self.current);
            }
            Some((limit, _)) if open < limit => self.doubt(refusal),
            _ => {
                self.set_limit(open, now);
                self.schedule_lift(now);
            }
        }
    }

    /// A number within the known limit was refused.
    fn doubt(&mut self, refusal: ConnectionRefusal) {
        let ConnectionRefusal {
            now,
            open_connections: open,
            ..
        } = refusal;
        let is_repeated = self
            .doubted_at
            .is_some_and(|then| now.saturating_sub(then) < LIMIT_DURATION.0);
        self.doubted_at = Some(now);
        if is_repeated {
            self.set_limit(
                if refusal.overloaded {
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
        self.limit_duration = (self.limit_duration * 2).min(LIMIT_DURATION.1);
    }

    /// Allows more connections when it is time. Returns whether the number had been allowed before, and need
    /// not be tried out.
    pub(super) fn lift_if_due(&mut self, now: Duration) -> bool {
        if now < self.lift_at || self.current >= self.max {
            return false;
        }
        let limit = self.known_limit.map_or(self.max, |(limit, _)| limit);
        let restores = self.is_doubted();
        self.current = if restores { limit } else { self.current + 1 };
        self.lift_at = now.saturating_add(self.limit_duration);
        restores
    }
}
