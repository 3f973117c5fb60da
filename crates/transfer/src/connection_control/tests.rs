//! Plain properties of the control; the simulations in `tests/it` show what it achieves.

use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// Samples every window with a rate that depends on the number of connections, for this long.
fn drive(
    control: &mut ConnectionControl,
    from: Duration,
    to: Duration,
    rate: impl Fn(usize) -> u64,
) {
    let (mut now, mut bytes) = (from, 0);
    while now < to {
        let next = control.next_sample_at().max(now + Duration::from_millis(1));
        bytes += rate(control.target()) * u64::try_from((next - now).as_millis()).unwrap() / 1000;
        now = next;
        let flowing = control.target();
        control.on_sample(ProgressSample {
            now,
            bytes,
            delivering: flowing,
            remaining: u64::MAX,
            latency: Duration::ZERO,
        });
    }
}

#[test]
fn a_rate_that_rises_with_every_connection_reaches_the_limit_within_a_third_of_a_second() {
    let mut control = ConnectionControl::new(ConnectionControlOptions::default());
    drive(
        &mut control,
        Duration::ZERO,
        Duration::from_millis(500),
        |n| n as u64 * 4 * MIB,
    );
    assert_eq!(control.target(), 16);
}

/// What a new control wants when the first response begins.
fn wanted_at_once(options: ConnectionControlOptions, remaining: u64, round_trip_ms: u64) -> usize {
    let mut control = ConnectionControl::new(options);
    let round_trip = Duration::from_millis(round_trip_ms);
    control.on_first_response(remaining, round_trip, None, Duration::ZERO);
    control.target()
}

#[test]
fn a_large_file_over_a_long_path_gets_all_connections_at_once() {
    let untold = ConnectionControlOptions::default();
    assert_eq!(wanted_at_once(untold, 64 * MIB, 30), 16);
    // No more than have a share that is worth a connection, and a small file one.
    assert_eq!(wanted_at_once(untold, 5 * MIB, 30), 10);
    assert_eq!(wanted_at_once(untold, 4 * MIB, 30), 1);
    // On a short path a ramp finds the number.
    assert_eq!(wanted_at_once(untold, 64 * MIB, 1), 1);
    let four = ConnectionControlOptions { max: 4, ..untold };
    assert_eq!(wanted_at_once(four, 64 * MIB, 30), 4);
    let told = ConnectionControlOptions {
        max: 2,
        fixed: true,
        ..untold
    };
    assert_eq!(wanted_at_once(told, 64 * MIB, 30), 2);
}

/// Sixteen were opened for 2 MiB/s.
#[test]
fn a_users_rate_limit_gets_the_connections_that_it_needs() {
    let far = Duration::from_millis(50);
    for (limit, expected) in [(2 * MIB, 1), (20 * MIB, 5), (200 * MIB, 16)] {
        let mut control = ConnectionControl::new(ConnectionControlOptions::default());
        control.on_first_response(64 * MIB, far, Some(limit), Duration::ZERO);
        assert_eq!(control.target(), expected, "{limit}");
    }
}

/// What a control wants after half a second of 3 MiB over a path of 20 ms, where each connection brings 1 MiB/s.
fn wanted_by_a_slow_small_file(rate_limit: Option<u64>) -> usize {
    let mut control = ConnectionControl::new(ConnectionControlOptions::default());
    let round_trip = Duration::from_millis(20);
    control.on_first_response(3 * MIB, round_trip, rate_limit, Duration::ZERO);
    let (mut now, mut bytes) = (Duration::ZERO, 0);
    while now < Duration::from_millis(500) {
        let delivering = control.target();
        let sample = ProgressSample {
            now,
            bytes,
            delivering,
            remaining: 3 * MIB - bytes,
            latency: round_trip,
        };
        if now >= control.next_sample_at() {
            control.on_sample(sample);
        }
        now += Duration::from_millis(10);
        bytes += delivering as u64 * MIB / 100;
    }
    control.target()
}

#[test]
fn a_small_file_that_is_slow_gets_more_connections_unless_the_user_limits_the_rate() {
    assert!(wanted_by_a_slow_small_file(None) >= 4);
    assert_eq!(wanted_by_a_slow_small_file(Some(MIB)), 1);
}

/// After twenty seconds without a link one or two of sixteen were left: fewer brought as much, which was nothing.
#[test]
fn a_link_that_is_away_says_nothing_about_the_number() {
    let mut control = ConnectionControl::new(ConnectionControlOptions::default());
    let far = Duration::from_millis(50);
    control.on_first_response(4096 * MIB, far, None, Duration::ZERO);
    let (mut now, mut bytes) = (Duration::ZERO, 0);
    for _ in 0..4000 {
        now += Duration::from_millis(10);
        if now < Duration::from_secs(5) {
            bytes += MIB;
        }
        let sample = ProgressSample {
            now,
            bytes,
            delivering: control.target(),
            remaining: 4096 * MIB - bytes,
            latency: far,
        };
        if now >= control.next_sample_at() {
            control.on_sample(sample);
        }
    }
    assert!(
        control.settled_target() >= 8,
        "{}",
        control.settled_target()
    );
}

#[test]
fn a_rate_that_one_connection_reaches_stays_with_one() {
    let mut control = ConnectionControl::new(ConnectionControlOptions::default());
    drive(&mut control, Duration::ZERO, Duration::from_secs(3), |_| {
        50 * MIB
    });
    assert_eq!(control.settled_target(), 1);
}

#[test]
fn a_hold_notices_that_the_link_has_changed() {
    let mut control = ConnectionControl::new(ConnectionControlOptions::default());
    drive(
        &mut control,
        Duration::ZERO,
        Duration::from_secs(10),
        |_| 10 * MIB,
    );
    assert_eq!(control.settled_target(), 1);
    drive(
        &mut control,
        Duration::from_secs(10),
        Duration::from_secs(40),
        |n| n as u64 * 20 * MIB,
    );
    assert_eq!(control.target(), 16);
}

#[test]
fn a_fixed_number_is_obeyed_until_it_is_refused() {
    let mut control = ConnectionControl::new(ConnectionControlOptions {
        max: 7,
        fixed: true,
        ..ConnectionControlOptions::default()
    });
    assert_eq!(control.target(), 7);
    drive(&mut control, Duration::ZERO, Duration::from_secs(5), |_| {
        MIB
    });
    assert_eq!(control.target(), 7);
    control.on_refused(refused(Duration::from_secs(5), 4, false));
    assert_eq!(control.target(), 4);
    drive(
        &mut control,
        Duration::from_secs(5),
        Duration::from_secs(6),
        |_| MIB,
    );
    assert_eq!(control.target(), 4);
}

fn refused(now: Duration, open: usize, overloaded: bool) -> ConnectionRefusal {
    ConnectionRefusal {
        now,
        requested_at: now,
        open_connections: open,
        overloaded,
    }
}

fn control_of_eight() -> ConnectionControl {
    ConnectionControl::new(ConnectionControlOptions {
        max: 8,
        fixed: true,
        ..ConnectionControlOptions::default()
    })
}

#[test]
fn a17_an_overloaded_origin_that_refuses_twice_within_the_limit_gets_half() {
    let mut control = control_of_eight();
    control.on_refused(refused(Duration::from_secs(1), 7, true));
    assert_eq!(control.target(), 7);
    control.on_refused(refused(Duration::from_secs(2), 6, true));
    assert_eq!(control.target(), 6);
    control.on_refused(refused(Duration::from_secs(3), 5, true));
    assert_eq!(control.target(), 3);
    control.on_refused(refused(Duration::from_secs(4), 0, true));
    assert_eq!(control.target(), 1);
}

#[test]
fn a17_refusals_of_one_moment_lower_the_limit_to_the_connections_not_refused() {
    for overloaded in [false, true] {
        let mut control = control_of_eight();
        for open in [7, 6, 5] {
            control.on_refused(ConnectionRefusal {
                now: Duration::from_millis(1010 + open as u64),
                requested_at: Duration::from_secs(1),
                open_connections: open,
                overloaded,
            });
        }
        assert_eq!(control.target(), 5);
    }
}

#[test]
fn a34_refusals_at_the_beginning_of_an_outage_are_no_limit() {
    for fixed in [true, false] {
        let mut control = ConnectionControl::new(ConnectionControlOptions {
            fixed,
            ..ConnectionControlOptions::default()
        });
        let second = Duration::from_secs(1);
        drive(&mut control, Duration::ZERO, second, |n| n as u64 * 4 * MIB);
        assert_eq!(control.target(), 16);
        // The origin is killed twice within the time of a limit.
        for killed_at in [2 * second, 5 * second] {
            for open in (1..16).rev() {
                let now = killed_at + Duration::from_millis(16 - open as u64);
                control.on_refused(refused(now, open, false));
            }
            assert_eq!(control.target(), 1);
            control.on_failed(killed_at + Duration::from_millis(40), 1);
            assert_eq!(control.target(), 1, "the origin is still there");
            control.on_failed(killed_at + Duration::from_millis(50), 0);
            assert_eq!(control.target(), 16);
            drive(
                &mut control,
                killed_at + second,
                killed_at + 2 * second,
                |n| n as u64 * 4 * MIB,
            );
            assert_eq!(control.target(), 16);
        }
    }
}

#[test]
fn a18_refusals_some_time_before_an_outage_stay_a_limit() {
    let mut control = control_of_eight();
    let second = Duration::from_secs(1);
    control.on_refused(refused(second, 5, false));
    control.on_failed(3 * second, 0);
    assert_eq!(control.target(), 5);
}

#[test]
fn a17_a_number_refused_by_accident_is_restored_soon() {
    let mut control = control_of_eight();
    control.on_refused(refused(Duration::from_secs(1), 5, true));
    control.on_refused(refused(Duration::from_secs(3), 4, true));
    // Of the same moment.
    control.on_refused(ConnectionRefusal {
        requested_at: Duration::from_millis(2900),
        ..refused(Duration::from_millis(3001), 3, true)
    });
    assert_eq!(control.target(), 3);
    let (from, to) = (Duration::from_millis(3001), Duration::from_millis(4100));
    drive(&mut control, from, to, |_| MIB);
    assert_eq!(control.target(), 5);
}

#[test]
fn a18_one_more_than_the_limit_is_tried_now_and_then() {
    let mut control = control_of_eight();
    control.on_refused(refused(Duration::from_secs(1), 5, true));
    for (from, lifted) in [(1, 11), (11, 31)] {
        let (from, lifted) = (Duration::from_secs(from), Duration::from_secs(lifted));
        drive(&mut control, from, lifted, |_| MIB);
        control.on_sample(ProgressSample {
            now: lifted,
            bytes: 1 << 40,
            delivering: 5,
            remaining: 1,
            latency: Duration::ZERO,
        });
        assert_eq!(control.target(), 6);
        control.on_refused(refused(lifted, 5, true));
        assert_eq!(control.target(), 5);
    }
}

#[derive(Debug, Clone)]
enum ControlStep {
    Sample {
        after: u64,
        bytes: u64,
        delivering: usize,
    },
    Refused {
        ago: u64,
        open_connections: usize,
        overloaded: bool,
    },
}

fn any_step() -> impl Strategy<Value = ControlStep> {
    prop_oneof![
        4 => (0u64..3_000, 0u64..1 << 40, 0usize..40).prop_map(|(after, bytes, delivering)| ControlStep::Sample { after, bytes, delivering }),
        2 => (0u64..3_000, 0usize..40, any::<bool>()).prop_map(|(ago, open_connections, overloaded)| ControlStep::Refused { ago, open_connections, overloaded }),
    ]
}

proptest! {
    #[test]
    fn the_target_stays_within_its_limits_whatever_happens(
        max in 0usize..40, fixed: bool, steps in prop::collection::vec(any_step(), 0..80),
    ) {
        let mut control = ConnectionControl::new(ConnectionControlOptions { max, fixed, ..ConnectionControlOptions::default() });
        let (mut now, mut total) = (Duration::ZERO, 0u64);
        for step in steps {
            let before = control.target();
            match step {
                ControlStep::Sample { after, bytes, delivering } => {
                    now += Duration::from_millis(after);
                    total += bytes;
                    control.on_sample(ProgressSample { now, bytes: total, delivering, remaining: 1, latency: Duration::from_millis(after) });
                }
                ControlStep::Refused { ago, open_connections, overloaded } => {
                    let requested_at = now.saturating_sub(Duration::from_millis(ago));
                    control.on_refused(ConnectionRefusal { now, requested_at, open_connections, overloaded });
                    prop_assert!(control.target() <= open_connections.max(1) && control.target() <= before);
                }
            }
            prop_assert!((1..=max.max(1)).contains(&control.target()));
            prop_assert!((1..=max.max(1)).contains(&control.settled_target()));
            prop_assert!(control.next_sample_at() > now || now.is_zero());
        }
    }
}

/// What the report says of each way to end.
#[test]
fn the_limit_is_that_of_the_user_the_origin_the_file_or_the_link() {
    let second = Duration::from_secs(1);
    let options = ConnectionControlOptions::default();
    let limit_after = |options, rate: fn(usize) -> u64| {
        let mut control = ConnectionControl::new(options);
        drive(&mut control, Duration::ZERO, 8 * second, rate);
        control.limit()
    };
    let each = |number| number as u64 * MIB;
    assert_eq!(limit_after(options, each), ConnectionCountLimit::Maximum);
    assert_eq!(
        limit_after(options, |_| 9 * MIB),
        ConnectionCountLimit::SharedRate
    );
    let fixed = ConnectionControlOptions {
        fixed: true,
        ..options
    };
    assert_eq!(limit_after(fixed, each), ConnectionCountLimit::UserNumber);

    let mut control = ConnectionControl::new(options);
    assert_eq!(
        control.limit(),
        ConnectionCountLimit::FileSize,
        "still in its ramp"
    );
    let far = Duration::from_millis(100);
    for (remaining, expected) in [(3 * MIB, 1), (5 * MIB, 10)] {
        control.on_first_response(remaining, far, None, second);
        assert_eq!(
            (control.target(), control.limit()),
            (expected, ConnectionCountLimit::FileSize)
        );
    }
    control.on_first_response(99 * MIB, far, None, second);
    assert_eq!(
        (control.target(), control.limit()),
        (16, ConnectionCountLimit::Maximum)
    );
    control.on_refused(ConnectionRefusal {
        now: 2 * second,
        requested_at: 2 * second,
        open_connections: 5,
        overloaded: true,
    });
    assert_eq!(
        (control.target(), control.limit()),
        (5, ConnectionCountLimit::Refused)
    );
}

#[test]
fn a_number_that_the_user_chooses_later_holds_at_any_rate_until_it_is_refused() {
    let mut control = ConnectionControl::new(ConnectionControlOptions::default());
    let seconds = Duration::from_secs;
    // The connections share one rate, so the control would keep few.
    drive(&mut control, seconds(0), seconds(5), |_| 4 * MIB);
    for number in [7, 3] {
        control.set_number(number);
        drive(&mut control, seconds(5), seconds(20), |_| 4 * MIB);
        assert_eq!(control.target(), number);
        assert_eq!(control.limit(), ConnectionCountLimit::UserNumber);
    }
    control.on_refused(ConnectionRefusal {
        now: seconds(20),
        requested_at: seconds(20),
        open_connections: 2,
        overloaded: false,
    });
    // The same number again changes nothing.
    control.set_number(3);
    assert_eq!(control.target(), 2);
}
