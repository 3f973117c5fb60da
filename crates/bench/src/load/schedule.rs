//! Which request is next, when it is due and when it may start. Pure: times are since the start of the load, and the caller passes the clock.
//!
//! Slots of all threads share one schedule. A slot takes a turn with [`LoadSchedule::next_turn`], waits until it is due, and then asks
//! [`LoadSchedule::reserve_start`] for a moment within the cap of the rate. If a server asked for a pause meanwhile, it asks again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{LoadEnd, LoadPace};

/// The longest pause that a server's Retry-After causes. An experiment's time ends sooner.
const MAX_PAUSE: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(super) struct LoadSchedule {
    next_number: AtomicU64,
    /// How many requests there are.
    requests: u64,
    /// When no further request starts.
    end: Option<Duration>,
    /// Requests a second of a fixed arrival rate.
    rate: Option<f64>,
    /// The time between two starts at the cap of the rate; zero without a cap.
    gap_ns: u64,
    /// When the cap allows the next start.
    next_start_ns: AtomicU64,
    /// Until when a server wants no requests.
    paused_until_ns: AtomicU64,
}

/// A request's number, and when it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestTurn {
    pub(super) number: u64,
    pub(super) due: Duration,
}

impl LoadSchedule {
    pub(super) fn new(pace: LoadPace, end: LoadEnd, max_rate: Option<f64>) -> Self {
        let rate = match pace {
            LoadPace::Closed => None,
            LoadPace::Rate(rate) => Some(max_rate.map_or(rate, |max_rate| rate.min(max_rate))),
        };
        let (requests, end) = match end {
            LoadEnd::Requests(requests) => (requests, None),
            LoadEnd::Seconds(seconds) => (u64::MAX, Some(seconds_or_max(seconds))),
        };
        Self {
            next_number: AtomicU64::new(0),
            requests,
            end,
            rate,
            // At a fixed rate the moments at which requests are due keep the cap, and one that is late makes up for it.
            gap_ns: match (pace, max_rate) {
                (LoadPace::Closed, Some(rate)) => nanoseconds(seconds_or_max(1.0 / rate)),
                _ => 0,
            },
            next_start_ns: AtomicU64::new(0),
            paused_until_ns: AtomicU64::new(0),
        }
    }

    /// Takes the next request; `None` when there are no more.
    pub(super) fn next_turn(&self, now: Duration) -> Option<RequestTurn> {
        if self.rate.is_none() && self.has_ended(now) {
            return None;
        }
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        #[expect(
            clippy::cast_precision_loss,
            reason = "a number of requests is far below 2^52"
        )]
        let due = self
            .rate
            .map_or(now, |rate| seconds_or_max(number as f64 / rate));
        (number < self.requests && !self.has_ended(due)).then_some(RequestTurn { number, due })
    }

    /// Whether requests come at a fixed rate, so that latencies count from the moments at which they were due.
    pub(super) fn is_fixed_rate(&self) -> bool {
        self.rate.is_some()
    }

    /// Whether no request starts any more.
    pub(super) fn has_ended(&self, now: Duration) -> bool {
        self.end.is_some_and(|end| now >= end)
    }

    /// How long a slot may wait from now until `until`: not beyond the end.
    pub(super) fn wait(&self, now: Duration, until: Duration) -> Duration {
        self.end
            .map_or(until, |end| until.min(end))
            .saturating_sub(now)
    }

    /// The first moment from now on at which the cap and pauses allow a start. It is taken: the next one is later by the gap of the cap.
    pub(super) fn reserve_start(&self, now: Duration) -> Duration {
        let earliest = nanoseconds(now).max(self.paused_until_ns.load(Ordering::Relaxed));
        if self.gap_ns == 0 {
            return Duration::from_nanos(earliest);
        }
        let advance = |next: u64| Some(next.max(earliest).saturating_add(self.gap_ns));
        let taken = self
            .next_start_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, advance);
        Duration::from_nanos(taken.unwrap_or_default().max(earliest))
    }

    /// Whether a server wants no requests at this moment.
    pub(super) fn is_paused(&self, now: Duration) -> bool {
        self.paused_until_ns.load(Ordering::Relaxed) > nanoseconds(now)
    }

    /// How long a server wants no more requests.
    pub(super) fn pause_left(&self, now: Duration) -> Duration {
        let until = self.paused_until_ns.load(Ordering::Relaxed);
        Duration::from_nanos(until.saturating_sub(nanoseconds(now)))
    }

    /// Lets no request start for this long, or for an hour if that is shorter.
    pub(super) fn pause(&self, now: Duration, pause: Duration) {
        let until = nanoseconds(now.saturating_add(pause.min(MAX_PAUSE)));
        self.paused_until_ns.fetch_max(until, Ordering::Relaxed);
    }
}

fn seconds_or_max(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn turns(schedule: &LoadSchedule, now: Duration) -> Vec<RequestTurn> {
        std::iter::from_fn(|| schedule.next_turn(now)).collect()
    }

    #[test]
    fn a_closed_loop_ends_at_its_end() {
        let schedule = LoadSchedule::new(LoadPace::Closed, LoadEnd::Seconds(1.0), None);
        let turn = schedule.next_turn(SECOND / 2);
        assert_eq!(
            turn,
            Some(RequestTurn {
                number: 0,
                due: SECOND / 2
            })
        );
        assert_eq!(schedule.next_turn(SECOND), None);
        assert_eq!(schedule.wait(SECOND / 2, SECOND * 5), SECOND / 2);
    }

    #[test]
    fn a_rate_that_never_comes_is_no_panic() {
        let schedule = LoadSchedule::new(
            LoadPace::Rate(1e-300),
            LoadEnd::Requests(2),
            Some(f64::MIN_POSITIVE),
        );
        assert_eq!(turns(&schedule, SECOND).len(), 2);
        schedule.reserve_start(SECOND);
        schedule.pause(Duration::MAX, SECOND);
        schedule.reserve_start(Duration::MAX);
    }

    #[test]
    fn a_pause_is_an_hour_at_most_and_is_not_shortened() {
        let schedule = LoadSchedule::new(LoadPace::Closed, LoadEnd::Requests(1), None);
        schedule.pause(SECOND, Duration::MAX);
        schedule.pause(SECOND, SECOND);
        assert_eq!(schedule.reserve_start(SECOND), SECOND * 3601);
        assert!(schedule.is_paused(SECOND * 3600));
        assert!(!schedule.is_paused(SECOND * 3601));
        assert_eq!(schedule.pause_left(SECOND * 3591), SECOND * 10);
        assert!(schedule.pause_left(SECOND * 3602).is_zero());
    }

    proptest! {
        #[test]
        fn the_number_of_requests_is_exact(requests in 0_u64..500, rate in proptest::option::of(0.1..1e6_f64)) {
            let pace = rate.map_or(LoadPace::Closed, LoadPace::Rate);
            let schedule = LoadSchedule::new(pace, LoadEnd::Requests(requests), None);
            let numbers: Vec<u64> = turns(&schedule, SECOND).iter().map(|turn| turn.number).collect();
            prop_assert_eq!(numbers, (0..requests).collect::<Vec<_>>());
        }

        #[test]
        fn requests_are_due_at_the_rate(rate in 1.0..1000.0_f64, seconds in 0.01..3.0_f64, max_rate in proptest::option::of(1.0..1000.0_f64)) {
            let schedule = LoadSchedule::new(LoadPace::Rate(rate), LoadEnd::Seconds(seconds), max_rate);
            let effective = max_rate.map_or(rate, |max_rate| rate.min(max_rate));
            // The clock is beyond the end: requests that are late have their turns all the same.
            let turns = turns(&schedule, SECOND * 9);
            for turn in &turns {
                prop_assert!((turn.due.as_secs_f64() - turn.number as f64 / effective).abs() < 1e-6);
            }
            prop_assert!((turns.len() as f64 - (effective * seconds).ceil()).abs() < 1.5);
        }

        #[test]
        fn starts_keep_the_gap_and_the_pause(
            max_rate in 1.0..1e5_f64,
            steps in proptest::collection::vec((0_u64..100_000_000, proptest::option::weighted(0.1, 0_u64..1_000_000_000)), 1..100),
        ) {
            let schedule = LoadSchedule::new(LoadPace::Closed, LoadEnd::Requests(1), Some(max_rate));
            let (mut now, mut paused_until) = (Duration::ZERO, Duration::ZERO);
            let mut last: Option<Duration> = None;
            for (step, pause) in steps {
                now += Duration::from_nanos(step);
                if let Some(pause) = pause.map(Duration::from_nanos) {
                    schedule.pause(now, pause);
                    paused_until = paused_until.max(now + pause);
                }
                let start = schedule.reserve_start(now);
                prop_assert!(start >= now && start >= paused_until);
                if let Some(last) = last {
                    prop_assert!((start - last).as_secs_f64() >= 1.0 / max_rate - 2e-9);
                }
                last = Some(start);
            }
        }
    }
}
