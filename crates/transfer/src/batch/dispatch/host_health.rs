//! Whether a host can be reached: a circuit breaker per host.
//!
//! A host that could not be connected to is *half-open*: it gets one job at a time, after a pause that doubles, and none of
//! the slots that other hosts could use. After three failures in a row the breaker is *open*: queued jobs fail at once
//! instead of waiting for a timeout each, and only after a long pause one job tests whether the host is back.
//!
//! A host that has responded in this batch is more likely restarting than gone, and opening the breaker may fail a list of a
//! million jobs: such a host gets the two minutes that a single download gets. Failures of one moment count once: sixteen
//! connections that one router drops are one failure.
//!
//! A host that refuses all requests (429, 503) has failed in the same way (row A46). It gets as many tries as each of its jobs would, and
//! if it has ever granted a request as many as any host that has responded.

use std::time::Duration;

use super::options::HostFailureCause;

/// Failures in a row that open the breaker of a host that has never responded. One may be a lost packet, two a name server's
/// trouble.
const MAX_FAILURES_UNTRIED: u8 = 3;

/// The same for a host that has responded: with the pauses below that is about two minutes.
const MAX_FAILURES: u8 = 11;

/// Moments of refusals that a host is always allowed if it has never granted a request.
const MIN_REFUSALS: u8 = 3;

/// The pause between two tries of a half-open host: the first one, and the longest.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// How long the breaker stays open: at first, and at most. A batch of hours should notice that a host has come back; and a
/// host that is gone costs a connect timeout each time.
const OPEN_TIME: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(3600));

/// The circuit breaker of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct HostHealth {
    /// Failures in a row, those of one moment counted once.
    failures: u8,
    /// How many times the breaker has opened since the host last responded.
    times_opened: u8,
    /// When the last failure was counted; while the breaker is open, until when.
    last_failure_or_open_until: Duration,
    is_open: bool,
    /// The cause of the last failure.
    cause: HostFailureCause,
    /// How many failures open the breaker, as of the last one.
    max_failures: u8,
}

/// A failure of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostFailure {
    /// A connection failed; the host has never responded. `one_try`: too many jobs wait for such hosts, so each gets a single try.
    NeverReached { one_try: bool },
    /// A connection failed; the host has responded before.
    Unreachable,
    /// The host refuses everything. How many retries each job has.
    RefusesEverything { retries: u32, has_granted: bool },
}

impl HostFailure {
    /// Such failures in a row that open the breaker.
    fn max_failures(self) -> u8 {
        match self {
            Self::NeverReached { one_try: true } => 1,
            Self::NeverReached { one_try: false } => MAX_FAILURES_UNTRIED,
            Self::Unreachable => MAX_FAILURES,
            Self::RefusesEverything {
                retries,
                has_granted,
            } => {
                let tries = u8::try_from(retries.saturating_add(1)).unwrap_or(u8::MAX);
                tries.max(if has_granted {
                    MAX_FAILURES
                } else {
                    MIN_REFUSALS
                })
            }
        }
    }

    fn cause(self) -> HostFailureCause {
        match self {
            Self::NeverReached { .. } | Self::Unreachable => HostFailureCause::Unreachable,
            Self::RefusesEverything { .. } => HostFailureCause::RefusesEverything,
        }
    }
}

/// What follows a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostFailureEffect {
    /// The failure is of the same moment as the one before.
    AlreadyCounted,
    /// The host gets no job for this long.
    RetryAfter(Duration),
    /// The breaker has opened.
    CircuitOpened,
}

impl HostHealth {
    /// Whether there is no failure since the last response.
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

    /// Until when an open breaker stays open.
    pub(super) fn open_until(&self) -> Duration {
        self.last_failure_or_open_until
    }

    /// The cause of the last failure.
    pub(super) fn cause(&self) -> HostFailureCause {
        self.cause
    }

    /// Whether the host is half-open since it refuses all requests.
    pub(super) fn refuses_everything(&self) -> bool {
        self.is_half_open() && self.cause == HostFailureCause::RefusesEverything
    }

    /// Whether half of the failures that open the breaker have happened.
    pub(super) fn is_half_way_to_open(&self) -> bool {
        self.failures >= self.max_failures / 2
    }

    /// Opens the breaker for the time of the host's Retry-After.
    pub(super) fn open_for(&mut self, wait: Duration, now: Duration) {
        *self = Self {
            failures: 1,
            times_opened: 0,
            last_failure_or_open_until: now.saturating_add(wait),
            is_open: true,
            cause: HostFailureCause::LongWait,
            max_failures: 1,
        };
    }

    pub(super) fn on_reached(&mut self) {
        *self = Self::default();
    }

    /// Counts a request that began at `started` and failed.
    pub(super) fn on_failure(
        &mut self,
        failure: HostFailure,
        started: Duration,
        now: Duration,
    ) -> HostFailureEffect {
        if self.is_open || (self.failures > 0 && started <= self.last_failure_or_open_until) {
            return HostFailureEffect::AlreadyCounted;
        }
        (self.cause, self.max_failures) = (failure.cause(), failure.max_failures());
        self.failures = self.failures.saturating_add(1);
        self.last_failure_or_open_until = now;
        if self.failures >= self.max_failures || self.times_opened > 0 {
            self.is_open = true;
            self.last_failure_or_open_until =
                now.saturating_add(doubled(OPEN_TIME.0, OPEN_TIME.1, self.times_opened));
            self.times_opened = self.times_opened.saturating_add(1);
            return HostFailureEffect::CircuitOpened;
        }
        HostFailureEffect::RetryAfter(doubled(RETRY_PAUSE.0, RETRY_PAUSE.1, self.failures - 1))
    }

    /// Lets one job through when the breaker has been open long enough. Returns whether it has just become half-open.
    pub(super) fn half_open_if_due(&mut self, now: Duration) -> bool {
        if !self.is_open || now < self.last_failure_or_open_until {
            return false;
        }
        self.is_open = false;
        // Every attempt from now on counts by itself.
        self.last_failure_or_open_until = Duration::ZERO;
        true
    }
}

fn doubled(first: Duration, longest: Duration, times: u8) -> Duration {
    first
        .saturating_mul(1 << u32::from(times).min(20))
        .min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER_REACHED: HostFailure = HostFailure::NeverReached { one_try: false };

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_third_failure_in_a_row_opens_the_breaker_and_the_pauses_double() {
        let mut health = HostHealth::default();
        let effects: Vec<HostFailureEffect> = (0..3)
            .map(|n| health.on_failure(NEVER_REACHED, at(n * 10 + 1), at(n * 10 + 10)))
            .collect();
        let pauses = [200, 400].map(|ms| HostFailureEffect::RetryAfter(Duration::from_millis(ms)));
        assert_eq!(
            effects,
            [pauses[0], pauses[1], HostFailureEffect::CircuitOpened]
        );
        assert_eq!(health.open_until(), at(60));
        assert!(!health.half_open_if_due(at(59)) && health.is_open());
        assert!(health.half_open_if_due(at(60)) && health.is_half_open());
        assert_eq!(
            health.on_failure(NEVER_REACHED, at(60), at(70)),
            HostFailureEffect::CircuitOpened
        );
        assert_eq!(health.open_until(), at(130));
        assert!(health.half_open_if_due(at(200)));
        health.on_reached();
        assert!(health.is_healthy());
        assert!(matches!(
            health.on_failure(NEVER_REACHED, at(200), at(201)),
            HostFailureEffect::RetryAfter(_)
        ));
    }

    #[test]
    fn a46_a_host_that_refuses_everything_gets_the_tries_of_a_job_and_two_minutes_if_it_granted_any()
     {
        for (retries, has_granted, tries) in [
            (0, false, 3),
            (3, false, 4),
            (3, true, 11),
            (10, false, 11),
            (10, true, 11),
            (1000, true, 255),
        ] {
            let failure = HostFailure::RefusesEverything {
                retries,
                has_granted,
            };
            let mut health = HostHealth::default();
            let failures = (1u64..).find(|n| {
                let effect = health.on_failure(failure, at(n * 100), at(n * 100));
                effect == HostFailureEffect::CircuitOpened
            });
            assert_eq!(failures, Some(tries), "{retries}");
        }
    }

    #[test]
    fn failures_of_one_moment_count_once() {
        let mut health = HostHealth::default();
        health.on_failure(NEVER_REACHED, at(0), at(10));
        for _ in 0..15 {
            assert_eq!(
                health.on_failure(NEVER_REACHED, at(10), at(11)),
                HostFailureEffect::AlreadyCounted
            );
        }
        assert_eq!(health.failures(), 1);
    }

    #[test]
    fn a_host_that_has_responded_gets_two_minutes_and_an_untried_one_may_get_a_single_try() {
        let mut health = HostHealth::default();
        let mut now = Duration::ZERO;
        while let HostFailureEffect::RetryAfter(pause) =
            health.on_failure(HostFailure::Unreachable, now, now)
        {
            now += pause + Duration::from_nanos(1);
        }
        assert!((at(90)..at(180)).contains(&now), "{now:?}");
        let effect = HostHealth::default().on_failure(
            HostFailure::NeverReached { one_try: true },
            at(0),
            at(1),
        );
        assert_eq!(effect, HostFailureEffect::CircuitOpened);
    }
}
