//! Peers of all kinds in simulated time: which of them time out.

use super::*;
use proptest::prelude::*;

fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// An event of a connection.
#[derive(Debug, Clone, Copy)]
enum TimeoutEvent {
    HandshakeDone,
    HeadStarted,
    HeadDone,
    BodyStarted,
    BodyReceived(u64),
    BodyDone,
    ResponseStarted,
    ResponseSent(u64),
    ResponseDone,
    Pause,
    Resume,
}
use TimeoutEvent::*;

/// A driver as the documentation describes it: one timer, armed late.
struct TimeoutDriver {
    timeouts: Timeouts,
    armed: Duration,
    /// How often the timer was armed.
    times_armed: usize,
}

impl TimeoutDriver {
    /// A connection accepted at 0.
    fn new(options: TimeoutOptions) -> Self {
        let timeouts = Timeouts::new(options, Duration::ZERO);
        let armed = timeouts.deadline();
        Self {
            timeouts,
            armed,
            times_armed: 1,
        }
    }

    /// A connection without TLS, idle.
    fn plain(options: TimeoutOptions) -> Self {
        let mut driver = Self::new(options);
        assert_eq!(driver.on(Duration::ZERO, HandshakeDone), None);
        driver
    }

    /// Lets time pass. Returns when the peer exceeded a limit, and which.
    fn pass(&mut self, until: Duration) -> Option<(Duration, TimeoutKind)> {
        while self.armed <= until && self.armed < Duration::MAX {
            let now = self.armed;
            if let Some(tired) = self.timeouts.check(now) {
                return Some((now, tired));
            }
            self.armed = self.timeouts.deadline();
            self.times_armed += 1;
            assert!(self.armed > now, "a timer that fires for ever");
        }
        None
    }

    /// Lets time pass until an event.
    fn on(&mut self, now: Duration, event: TimeoutEvent) -> Option<(Duration, TimeoutKind)> {
        if let Some(end) = self.pass(now) {
            return Some(end);
        }
        let timeouts = &mut self.timeouts;
        match event {
            HandshakeDone => timeouts.handshake_done(now),
            HeadStarted => timeouts.head_started(now),
            HeadDone => timeouts.head_done(),
            BodyStarted => timeouts.body_started(now),
            BodyReceived(bytes) => timeouts.body_received(bytes),
            BodyDone => timeouts.body_done(now),
            ResponseStarted => timeouts.response_started(now),
            ResponseSent(bytes) => timeouts.response_sent(bytes),
            ResponseDone => timeouts.response_done(now),
            Pause => timeouts.pause(now),
            Resume => timeouts.resume(now),
        }
        if timeouts.deadline() < self.armed {
            self.armed = timeouts.deadline();
            self.times_armed += 1;
        }
        None
    }

    /// Several events at one moment.
    fn all(&mut self, now: Duration, events: &[TimeoutEvent]) {
        for event in events {
            assert_eq!(self.on(now, *event), None, "{event:?} at {now:?}");
        }
    }

    /// The same event in intervals, from `from` on. Returns when the peer exceeded a limit, if before
    /// `until`.
    fn every(
        &mut self,
        step: Duration,
        from: Duration,
        until: Duration,
        event: TimeoutEvent,
    ) -> Option<(Duration, TimeoutKind)> {
        let mut now = from;
        while now < until {
            if let Some(end) = self.on(now, event) {
                return Some(end);
            }
            now += step;
        }
        None
    }
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn d9_a_handshake_that_does_not_end_times_out() {
    let mut driver = TimeoutDriver::new(TimeoutOptions::default());
    assert_eq!(driver.pass(HOUR), Some((s(10.0), TimeoutKind::Handshake)));
}

#[test]
fn d9_an_idle_peer_times_out_before_the_first_request_and_after_the_last() {
    let mut driver = TimeoutDriver::new(TimeoutOptions::default());
    driver.all(s(3.0), &[HandshakeDone]);
    assert_eq!(driver.pass(HOUR), Some((s(78.0), TimeoutKind::Idle)));

    let mut driver = TimeoutDriver::plain(TimeoutOptions::default());
    driver.all(
        s(20.0),
        &[HeadStarted, HeadDone, ResponseStarted, ResponseSent(100)],
    );
    driver.all(s(21.0), &[ResponseDone]);
    assert_eq!(driver.pass(HOUR), Some((s(96.0), TimeoutKind::Idle)));
}

#[test]
fn d9_slowloris_gains_nothing_by_a_byte_now_and_then() {
    let mut driver = TimeoutDriver::plain(TimeoutOptions::default());
    let end = driver.every(s(1.0), s(70.0), HOUR, HeadStarted);
    assert_eq!(end, Some((s(85.0), TimeoutKind::RequestHead)));
}

#[test]
fn d9_one_byte_a_second_of_body_is_cut_soon_after_the_grace() {
    let mut driver = TimeoutDriver::plain(TimeoutOptions::default());
    driver.all(s(5.0), &[HeadStarted, HeadDone, BodyStarted]);
    let (at, tired) = driver.every(s(1.0), s(5.5), HOUR, BodyReceived(1)).unwrap();
    assert_eq!(tired, TimeoutKind::SlowBody);
    assert!(at >= s(35.0) && at < s(36.0), "{at:?}");
}

#[test]
fn d9_a_body_that_never_begins_is_cut_after_the_grace() {
    let mut driver = TimeoutDriver::plain(TimeoutOptions::default());
    driver.all(s(5.0), &[HeadStarted, HeadDone, BodyStarted]);
    assert_eq!(driver.pass(HOUR), Some((s(35.0), TimeoutKind::SlowBody)));
}

#[test]
fn d9_a_fast_beginning_does_not_pay_for_a_long_silence() {
    let mut driver = TimeoutDriver::plain(TimeoutOptions::default());
    driver.all(s(0.0), &[HeadStarted, HeadDone, BodyStarted]);
    driver.all(s(1.0), &[BodyReceived(1 << 40)]);
    let (at, tired) = driver.pass(HOUR).unwrap();
    assert_eq!(tired, TimeoutKind::SlowBody);
    assert!(s(31.0) <= at && at <= s(61.0), "{at:?}");
}

#[test]
fn d9_a_peer_that_never_reads_is_cut() {
    let mut driver = TimeoutDriver::plain(TimeoutOptions::default());
    driver.all(s(0.0), &[HeadStarted, HeadDone, ResponseStarted]);
    // Bytes that fit into the socket's buffer go, and then no more.
    driver.all(s(0.1), &[ResponseSent(4 << 20)]);
    let (at, tired) = driver.pass(HOUR).unwrap();
    assert_eq!(tired, TimeoutKind::SlowReader);
    assert!(s(30.1) <= at && at <= s(60.1), "{at:?}");
}

#[test]
fn d9_a_slow_but_honest_mobile_client_is_not_cut() {
    let mut driver = TimeoutDriver::plain(TimeoutOptions::default());
    driver.all(
        s(0.0),
        &[HeadStarted, HeadDone, BodyStarted, ResponseStarted],
    );
    let mut now = 0.0;
    // 1 KB a second in both directions, and a tunnel of 25 seconds a minute.
    while now < 3600.0 {
        for second in 0..35 {
            let at = s(now + f64::from(second));
            driver.all(at, &[BodyReceived(1000), ResponseSent(1000)]);
        }
        now += 60.0;
    }
    driver.all(
        s(now),
        &[BodyReceived(1), BodyDone, ResponseSent(1), ResponseDone],
    );
}

#[test]
fn d9_the_servers_own_work_does_not_count() {
    let mut driver = TimeoutDriver::plain(TimeoutOptions::default());
    // An hour between a head and the response.
    driver.all(s(0.0), &[HeadStarted, HeadDone]);
    driver.all(s(3600.0), &[BodyStarted]);
    driver.all(s(3610.0), &[Pause, Pause]);
    driver.all(s(7000.0), &[Resume]);
    driver.all(s(7200.0), &[Resume]);
    // 10 of its 30 seconds were gone.
    assert_eq!(
        driver.pass(s(20_000.0)),
        Some((s(7220.0), TimeoutKind::SlowBody))
    );
}

#[test]
fn an_event_in_a_pause_counts_from_its_end() {
    let mut driver = TimeoutDriver::plain(TimeoutOptions::default());
    driver.all(s(1.0), &[HeadStarted, HeadDone, Pause]);
    driver.all(s(50.0), &[ResponseStarted]);
    driver.all(s(100.0), &[Resume]);
    assert_eq!(driver.pass(HOUR), Some((s(130.0), TimeoutKind::SlowReader)));
}

#[test]
fn one_resume_too_many_changes_nothing() {
    let mut driver = TimeoutDriver::plain(TimeoutOptions::default());
    driver.all(s(10.0), &[Resume]);
    assert_eq!(driver.pass(HOUR), Some((s(75.0), TimeoutKind::Idle)));
}

#[test]
fn d9_pipelined_requests_in_http1s_order() {
    let mut driver = TimeoutDriver::plain(TimeoutOptions::default());
    driver.all(s(1.0), &[HeadStarted, HeadDone, ResponseStarted]);
    // The beginning of the next head arrived with the first; its time begins when it can be read.
    driver.all(s(2.0), &[HeadStarted]);
    driver.all(s(20.0), &[ResponseSent(100_000), ResponseDone]);
    driver.all(
        s(34.0),
        &[HeadDone, ResponseStarted, ResponseSent(1), ResponseDone],
    );
    // One whose head was read along with the one before: no beginning is seen.
    driver.all(
        s(34.0),
        &[HeadDone, ResponseStarted, ResponseSent(1), ResponseDone],
    );
    driver.all(
        s(35.0),
        &[HeadStarted, HeadDone, ResponseStarted, HeadStarted],
    );
    driver.all(s(36.0), &[ResponseDone]);
    assert_eq!(driver.pass(HOUR), Some((s(51.0), TimeoutKind::RequestHead)));
}

#[test]
fn d9_a_response_before_the_end_of_the_body_leaves_the_body_watched() {
    let mut driver = TimeoutDriver::plain(TimeoutOptions::default());
    driver.all(
        s(0.0),
        &[HeadStarted, HeadDone, BodyStarted, ResponseStarted],
    );
    driver.all(s(1.0), &[ResponseSent(100), ResponseDone]);
    assert_eq!(driver.pass(HOUR), Some((s(30.0), TimeoutKind::SlowBody)));

    let mut driver = TimeoutDriver::plain(TimeoutOptions::default());
    driver.all(
        s(0.0),
        &[HeadStarted, HeadDone, BodyStarted, ResponseStarted],
    );
    driver.all(s(1.0), &[ResponseSent(100), ResponseDone]);
    driver.all(s(2.0), &[BodyDone]);
    assert_eq!(driver.pass(HOUR), Some((s(77.0), TimeoutKind::Idle)));
}

#[test]
fn d9_responses_that_overlap_are_watched_until_the_last() {
    let mut driver = TimeoutDriver::plain(TimeoutOptions::default());
    driver.all(
        s(0.0),
        &[HeadDone, HeadDone, ResponseStarted, ResponseStarted],
    );
    driver.all(s(10.0), &[ResponseSent(1 << 20), ResponseDone]);
    let (at, tired) = driver.pass(HOUR).unwrap();
    assert_eq!(tired, TimeoutKind::SlowReader);
    assert!(s(40.0) <= at && at <= s(70.0), "{at:?}");
}

#[test]
fn zero_is_no_limit() {
    let none = TimeoutOptions {
        handshake: Duration::ZERO,
        request_head: Duration::ZERO,
        idle: Duration::ZERO,
        grace: Duration::ZERO,
        ..TimeoutOptions::default()
    };
    let mut driver = TimeoutDriver::new(none);
    assert_eq!(driver.pass(HOUR), None);
    driver.all(HOUR, &[HandshakeDone]);
    assert_eq!(driver.pass(HOUR * 2), None);
    driver.all(HOUR * 2, &[HeadStarted]);
    assert_eq!(driver.pass(HOUR * 3), None);
    driver.all(
        HOUR * 3,
        &[HeadDone, BodyStarted, ResponseStarted, BodyReceived(1)],
    );
    assert_eq!(driver.pass(HOUR * 4), None);
}

#[test]
fn without_a_least_rate_only_standing_still_counts() {
    let options = TimeoutOptions {
        min_body_rate: 0,
        ..TimeoutOptions::default()
    };
    let mut driver = TimeoutDriver::plain(options);
    driver.all(s(0.0), &[HeadStarted, HeadDone, BodyStarted]);
    assert_eq!(driver.every(s(29.0), s(29.0), HOUR, BodyReceived(1)), None);
    let (at, tired) = driver.pass(HOUR * 2).unwrap();
    assert_eq!(tired, TimeoutKind::SlowBody);
    assert!(at <= HOUR + s(60.0));
}

#[test]
fn a_busy_connection_seldom_arms_its_timer() {
    let mut driver = TimeoutDriver::plain(TimeoutOptions::default());
    for request in 0..60_000_u32 {
        let now = s(f64::from(request) * 0.01);
        driver.all(
            now,
            &[HeadStarted, HeadDone, ResponseStarted, ResponseSent(1000)],
        );
        driver.all(now, &[ResponseDone]);
    }
    // Ten minutes, and a limit of 15 seconds.
    assert!(driver.times_armed <= 90, "{}", driver.times_armed);
}

#[test]
fn a_time_that_is_a_little_old_does_no_harm() {
    let mut timeouts = Timeouts::new(TimeoutOptions::default(), s(100.0));
    timeouts.handshake_done(s(99.0));
    timeouts.pause(s(98.0));
    timeouts.resume(s(97.0));
    assert_eq!(timeouts.check(s(0.0)), None);
    assert_eq!(timeouts.deadline(), s(174.0));
}

/// An interval of a body: the peer's pause, the server's, and the bytes after both.
type BodyInterval = (u64, u64, u64);

const MILLI: u64 = 1_000_000;

fn any_interval() -> impl Strategy<Value = BodyInterval> {
    let gap = prop_oneof![8 => 0u64..2000, 1 => 0u64..20_000];
    let pause = prop_oneof![3 => Just(0u64), 1 => 0u64..30_000];
    let bytes = prop_oneof![Just(0u64), Just(1), 0u64..300, 0u64..5000];
    (gap, pause, bytes)
}

fn options(grace: Duration, rate: u64) -> TimeoutOptions {
    TimeoutOptions {
        grace,
        min_body_rate: rate,
        min_reader_rate: rate,
        ..TimeoutOptions::default()
    }
}

/// What a peer sent, by the clock that the server does not pause.
struct TimeoutModel {
    /// Nanoseconds, bytes; sorted.
    arrivals: Vec<(u64, u64)>,
    rate: u64,
}

impl TimeoutModel {
    /// Whether some interval that ends at `now`, from the beginning or from right after some bytes, was
    /// longer than `grace` and the time that its bytes may take.
    fn was_slow(&self, now: u64, grace: u64) -> bool {
        let starts = std::iter::once(0).chain(self.arrivals.iter().map(|(at, _)| *at));
        starts.enumerate().any(|(index, start)| {
            let bytes: u64 = self.arrivals[index..]
                .iter()
                .filter(|(at, _)| *at <= now)
                .map(|(_, bytes)| bytes)
                .sum();
            let spent = u128::from(now.saturating_sub(start).saturating_sub(grace));
            now >= start + grace
                && spent * u128::from(self.rate) >= u128::from(bytes) * 1_000_000_000
        })
    }
}

/// Plays a body, of a request or of a response. Returns when it was cut, by the unpaused clock; the model;
/// and when all was played.
fn play(
    options: TimeoutOptions,
    stretches: &[BodyInterval],
    is_body: bool,
    looks: bool,
) -> (Option<u64>, TimeoutModel, u64) {
    let mut driver = TimeoutDriver::plain(options);
    let begun = if is_body {
        BodyStarted
    } else {
        ResponseStarted
    };
    driver.all(Duration::ZERO, &[HeadStarted, HeadDone, begun]);
    let (mut now, mut lost) = (0, 0);
    let mut model = TimeoutModel {
        arrivals: vec![],
        rate: options.min_body_rate,
    };
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap();
    for (gap, pause, bytes) in stretches {
        now += gap * MILLI;
        let arrivals = if is_body {
            BodyReceived(*bytes)
        } else {
            ResponseSent(*bytes)
        };
        let steps = [(0, Pause), (pause * MILLI, Resume), (0, arrivals)];
        for (wait, event) in steps {
            now += wait;
            if let Some((at, _)) = driver.on(Duration::from_nanos(now), event) {
                return (Some(nanos(at) - lost), model, now - lost);
            }
            lost += wait;
        }
        model.arrivals.push((now - lost, *bytes));
        // Checking more often than needed must not harm a peer, either.
        if looks && driver.timeouts.check(Duration::from_nanos(now)).is_some() {
            return (Some(now - lost), model, now - lost);
        }
    }
    (None, model, now - lost)
}

proptest! {
    #[test]
    fn d9_a_peer_that_keeps_the_least_rate_is_never_cut(
        stretches in prop::collection::vec((0u64..10_000, 0u64..50_000, 0u64..1000), 0..200),
        rate in 1u64..5000, is_body: bool, looks: bool,
    ) {
        // Each chunk pays for the pause before it, and no pause is as long as the grace, except the server's.
        let stretches: Vec<_> = stretches
            .iter()
            .map(|(gap, pause, more)| (*gap, *pause, (gap * rate).div_ceil(1000) + more))
            .collect();
        let (cut, _, _) = play(options(s(10.0), rate), &stretches, is_body, looks);
        prop_assert_eq!(cut, None);
    }

    #[test]
    fn d9_a_peer_is_cut_if_and_only_if_it_was_too_slow(
        stretches in prop::collection::vec(any_interval(), 0..150),
        grace in 1u64..20_000, rate in 1u64..3000, is_body: bool, looks: bool,
    ) {
        let (cut, model, end) = play(options(Duration::from_millis(grace), rate), &stretches, is_body, looks);
        let grace = grace * MILLI;
        if let Some(at) = cut {
            prop_assert!(model.was_slow(at, grace), "cut at {at}");
        }
        // At the latest when twice the grace is gone: each credit rounds in the peer's favour by up to a
        // nanosecond.
        let last = cut.unwrap_or(end);
        let moments = model.arrivals.iter().map(|(at, _)| *at).filter(|at| *at < last);
        for now in moments {
            prop_assert!(!model.was_slow(now, 2 * grace + 1000), "not cut by {now}");
        }
    }

    #[test]
    fn no_order_of_events_panics_or_fires_for_ever(
        events in prop::collection::vec((0u64..40_000, prop_oneof![
            Just(HandshakeDone), Just(HeadStarted), Just(HeadDone), Just(BodyStarted), any::<u64>().prop_map(BodyReceived), Just(BodyDone),
            Just(ResponseStarted), any::<u64>().prop_map(ResponseSent), Just(ResponseDone), Just(Pause), Just(Resume),
        ]), 0..60),
    ) {
        let mut driver = TimeoutDriver::new(TimeoutOptions::default());
        let mut now = Duration::ZERO;
        for (gap, event) in events {
            now += Duration::from_millis(gap);
            if driver.on(now, event).is_some() {
                break;
            }
        }
    }

    #[test]
    fn d9_exchanges_that_go_on_are_never_cut(
        exchanges in prop::collection::vec((0u64..74_000, 0u64..14_000, 0u64..29_000, 0u64..29_000, 0u64..3_600_000), 0..30),
    ) {
        let mut driver = TimeoutDriver::plain(TimeoutOptions::default());
        let mut now = Duration::ZERO;
        for (idle, head, body, reader, work) in exchanges {
            let steps = [
                (idle, vec![HeadStarted]),
                (head, vec![HeadDone]),
                (work, vec![BodyStarted]),
                (body, vec![BodyDone]),
                (work, vec![ResponseStarted]),
                (reader, vec![ResponseDone]),
            ];
            for (wait, events) in steps {
                now += Duration::from_millis(wait);
                driver.all(now, &events);
            }
        }
    }
}
