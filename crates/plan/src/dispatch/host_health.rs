//! Whether a host can be reached at all.
//!
//! A host that nobody could connect to is *suspect*: one of its jobs at a time, after a rest that doubles, and none of the
//! places that others could use. After three failures in a row it is given up: what is queued fails at once instead of
//! waiting for a timeout each, and only after a pause may one job find out whether it is back.
//!
//! One that has answered in this run is more likely restarting than gone, and giving it up may fail a list of a million: it
//! gets the two minutes that a single download gets. Failures of one moment count once, as refusals do: sixteen connections
//! that one router drops say one thing.

use std::time::Duration;

/// Failures in a row until a host is given up that has never answered. One may be a lost packet, two a name server's trouble.
const NEVER_ANSWERED: u8 = 3;

/// The same for one that has: with the rests below that is about two minutes.
const HAS_ANSWERED: u8 = 11;

/// Between two tries of a suspect host: at first, and at most.
const REST: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// How long a host is given up: at first, and at most. A run of hours should not miss that a host has come back; and one that
/// is gone costs a connect timeout each time.
const GIVEN_UP: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(3600));

/// What is known about reaching a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct HostHealth {
    /// Failures in a row, those of one moment counted once.
    failures: u8,
    /// How many times it was given up since it last answered.
    times_opened: u8,
    /// When the last failure was counted; of one that is given up, until when.
    when: Duration,
    /// Whether it is given up.
    is_open: bool,
}

/// What a failure led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostFailureEffect {
    /// It is of the same moment as the one before.
    AlreadyCounted,
    /// The host rests for so long.
    RetryAfter(Duration),
    /// It is given up.
    CircuitOpened,
}

impl HostHealth {
    /// Nothing speaks against the host.
    pub(super) fn is_healthy(&self) -> bool {
        self.failures == 0
    }

    pub(super) fn is_half_open(&self) -> bool {
        self.failures > 0 && !self.is_open
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Failures in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures.into()
    }

    /// Until when a dead host is given up.
    pub(super) fn open_until(&self) -> Duration {
        self.when
    }

    /// It was reached.
    pub(super) fn on_reached(&mut self) {
        *self = Self::default();
    }

    /// A connection that was begun at `started` could not be made. `answered`: whether the host has ever answered; `pressed`:
    /// too many hosts that have not are suspect for each to get all its tries.
    pub(super) fn on_failure(
        &mut self,
        (started, now): (Duration, Duration),
        answered: bool,
        pressed: bool,
    ) -> HostFailureEffect {
        if self.is_open || (self.failures > 0 && started <= self.when) {
            return HostFailureEffect::AlreadyCounted;
        }
        let tries = match (answered, pressed) {
            (true, _) => HAS_ANSWERED,
            (false, false) => NEVER_ANSWERED,
            (false, true) => 1,
        };
        self.failures = self.failures.saturating_add(1);
        self.when = now;
        if self.failures >= tries || self.times_opened > 0 {
            self.is_open = true;
            self.when = now.saturating_add(doubled(GIVEN_UP, self.times_opened));
            self.times_opened = self.times_opened.saturating_add(1);
            return HostFailureEffect::CircuitOpened;
        }
        HostFailureEffect::RetryAfter(doubled(REST, self.failures - 1))
    }

    /// Lets one job through when the pause is over. True if it has just ended.
    pub(super) fn half_open_if_due(&mut self, now: Duration) -> bool {
        if !self.is_open || now < self.when {
            return false;
        }
        self.is_open = false;
        // Whatever begins from now on is news.
        self.when = Duration::ZERO;
        true
    }
}

fn doubled((first, most): (Duration, Duration), times: u8) -> Duration {
    first
        .saturating_mul(1 << u32::from(times).min(20))
        .min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_third_failure_in_a_row_is_the_last_and_the_pauses_double() {
        let mut standing = HostHealth::default();
        let tries: Vec<HostFailureEffect> = (0..3)
            .map(|n| standing.on_failure((at(n * 10 + 1), at(n * 10 + 10)), false, false))
            .collect();
        let rests = [200, 400].map(|ms| HostFailureEffect::RetryAfter(Duration::from_millis(ms)));
        assert_eq!(
            tries,
            [rests[0], rests[1], HostFailureEffect::CircuitOpened]
        );
        assert_eq!(standing.open_until(), at(60));
        assert!(!standing.half_open_if_due(at(59)) && standing.is_open());
        assert!(standing.half_open_if_due(at(60)) && standing.is_half_open());
        assert_eq!(
            standing.on_failure((at(60), at(70)), false, false),
            HostFailureEffect::CircuitOpened
        );
        assert_eq!(standing.open_until(), at(130));
        assert!(standing.half_open_if_due(at(200)));
        standing.on_reached();
        assert!(standing.is_healthy());
        assert!(matches!(
            standing.on_failure((at(200), at(201)), false, false),
            HostFailureEffect::RetryAfter(_)
        ));
    }

    #[test]
    fn failures_of_one_moment_count_once() {
        let mut standing = HostHealth::default();
        standing.on_failure((at(0), at(10)), false, false);
        for _ in 0..15 {
            assert_eq!(
                standing.on_failure((at(10), at(11)), false, false),
                HostFailureEffect::AlreadyCounted
            );
        }
        assert_eq!(standing.failures(), 1);
    }

    #[test]
    fn one_that_has_answered_gets_two_minutes_and_under_pressure_each_gets_less() {
        let mut standing = HostHealth::default();
        let mut now = Duration::ZERO;
        while let HostFailureEffect::RetryAfter(rest) = standing.on_failure((now, now), true, false)
        {
            now += rest + Duration::from_nanos(1);
        }
        assert!((at(90)..at(180)).contains(&now), "{now:?}");
        let pressed = HostHealth::default().on_failure((at(0), at(1)), false, true);
        assert_eq!(pressed, HostFailureEffect::CircuitOpened);
    }
}
