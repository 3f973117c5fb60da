//! Downloads where finding the number costs most: fast links, short jobs, slow responses, connections that
//! hurt.

use std::time::Duration;

use super::download::SimulatedDownload;
use super::race::{fixed, mib, within};
use super::simulated_link::{BurstyLink, CappedLink, DrippingOrigin, MIB};
use crate::connection_control::ConnectionControlOptions;

/// A loopback: 2 GB/s, and a round trip of a quarter of a millisecond.
fn loopback() -> CappedLink {
    CappedLink {
        latency: Duration::from_micros(250),
        step: Duration::from_micros(250),
        total: 2000.0 * MIB,
        loss_per_connection: 0.01,
        ..CappedLink::default()
    }
}

#[test]
fn probing_does_not_slow_a_loopback() {
    for seconds in [1.0, 4.0] {
        assert_eq!(within(1.05, &loopback(), mib(2000.0 * seconds)), 1);
    }
}

#[test]
fn a_loopback_that_two_connections_fill_gets_two() {
    let link = CappedLink {
        rate: 1300.0 * MIB,
        ..loopback()
    };
    let settled = within(1.05, &link, mib(8000.0));
    assert!((2..=3).contains(&settled), "settled on {settled}");
}

/// A link that the processors of both ends limit: each doubling of the connections loses a fifth.
#[test]
fn connections_that_only_cost_are_closed() {
    let link = CappedLink {
        total: 500.0 * MIB,
        loss_per_connection: 0.0,
        loss_per_doubling: 0.2,
        ..loopback()
    };
    assert_eq!(within(1.07, &link, mib(2000.0)), 1);
    assert_eq!(within(1.05, &link, mib(8000.0)), 1);
    // The ramp ends as soon as it has seen that two bring less.
    let outcome =
        SimulatedDownload::new(&link, mib(2000.0), ConnectionControlOptions::default()).run();
    assert!(outcome.connections <= 5, "{outcome:?}");
}

#[test]
fn a_link_where_sixteen_are_worse_than_four_gets_four() {
    let link = CappedLink {
        rate: 10.0 * MIB,
        total: 40.0 * MIB,
        loss_per_connection: 0.2 / 12.0,
        ..CappedLink::default()
    };
    for seconds in [10.0, 30.0] {
        let settled = within(1.05, &link, mib(40.0 * seconds));
        assert!((4..=5).contains(&settled), "settled on {settled}");
    }
}

/// Two and a half windows before the second connection delivers, and as many for each doubling: that much is
/// lost.
#[test]
fn a_file_that_ends_during_the_ramp_loses_no_more_than_the_ramp() {
    let link = CappedLink {
        rate: 8.0 * MIB,
        ..CappedLink::default()
    };
    within(1.9, &link, mib(16.0));
    within(1.5, &link, mib(64.0));
    within(1.1, &link, mib(512.0));
    within(1.15, &BurstyLink::default(), mib(128.0));
}

/// The own number on a link, in seconds.
fn own_time(link: &CappedLink, length: u64) -> f64 {
    let options = ConnectionControlOptions::default();
    SimulatedDownload::new(link, length, options)
        .run()
        .time
        .as_secs_f64()
}

/// 50 ms and 4 MiB/s a connection: 128 MiB take 2.1 s at least, and no longer when no number is told. Each connection leaves a part of its
/// share to those that are faster, and needs a second request.
#[test]
fn on_a_long_path_all_connections_open_at_once() {
    let link = CappedLink {
        latency: Duration::from_millis(50),
        rate: 4.0 * MIB,
        ..CappedLink::default()
    };
    for options in [fixed(16), ConnectionControlOptions::default()] {
        let outcome = SimulatedDownload::with_known_round_trip(&link, mib(128.0), options).run();
        assert!(outcome.time <= Duration::from_millis(2280), "{outcome:?}");
        assert!(outcome.requests <= 32, "{outcome:?}");
    }
}

/// 1 MiB over a path of 100 ms took 1.7 times as long as with one connection: the second began when the first had come up to speed.
#[test]
fn a_small_file_over_a_long_path_is_one_response() {
    let link = CappedLink {
        latency: Duration::from_millis(100),
        rate: 1.0 * MIB,
        ..CappedLink::default()
    };
    for options in [fixed(16), ConnectionControlOptions::default()] {
        let outcome = SimulatedDownload::with_known_round_trip(&link, mib(1.0), options).run();
        assert_eq!(outcome.requests, 1, "{outcome:?}");
    }
}

/// All at once meets a limit with many requests in one moment: they show the limit, and it is seldom tried again.
#[test]
fn a17_a18_an_origin_that_allows_few_connections_gets_few_on_a_long_path_too() {
    let link = CappedLink {
        latency: Duration::from_millis(50),
        rate: 4.0 * MIB,
        ..CappedLink::default()
    };
    let refuses = CappedLink {
        max_connections: 4,
        ..link.clone()
    };
    let responds_503 = CappedLink {
        max_responses: 4,
        ..link
    };
    for link in [refuses, responds_503] {
        let run =
            |options| SimulatedDownload::with_known_round_trip(&link, mib(256.0), options).run();
        let (told, untold) = (run(fixed(4)), run(ConnectionControlOptions::default()));
        assert_eq!(untold.settled, 4, "{untold:?}");
        assert!(
            untold.time <= told.time.mul_f64(1.10),
            "{untold:?} {told:?}"
        );
        assert!(untold.refusals <= 14, "{untold:?}");
    }
}

/// 16 MiB: a fixed split over sixteen takes a second and a quarter, one connection five. Idle workers took nearly all from the one that
/// had just begun, again and again, in 20 s and 300 requests.
#[test]
fn an_origin_whose_responses_begin_slowly_gets_several_and_is_not_asked_again_and_again() {
    for latency in [Duration::from_millis(1), Duration::from_millis(50)] {
        for options in [fixed(16), ConnectionControlOptions::default()] {
            let link = DrippingOrigin { latency };
            let outcome = SimulatedDownload::with_known_round_trip(&link, mib(16.0), options).run();
            assert!(outcome.time <= Duration::from_millis(4700), "{outcome:?}");
            assert!(outcome.requests <= 64, "{outcome:?}");
        }
    }
}

/// A clear gain ends a window early, and a number that pays nothing is still tried only once.
#[test]
fn a_short_ramp_opens_no_connection_where_it_does_not_pay() {
    for latency in [1, 20, 50, 200] {
        let link = CappedLink {
            latency: Duration::from_millis(latency),
            total: 12.0 * MIB,
            loss_per_connection: 0.01,
            ..CappedLink::default()
        };
        let options = ConnectionControlOptions::default();
        let outcome = SimulatedDownload::new(&link, mib(24.0), options).run();
        assert!(outcome.connections <= 3, "{latency} ms: {outcome:?}");
    }
}

/// Each doubling waits for its responses, so on a link that limits each connection the ramp takes four times
/// two seconds; the first connection's second request takes as long. The bounds are seconds: the best fixed number
/// has no ramp, and says nothing about this.
#[test]
fn an_origin_that_responds_after_two_seconds() {
    let late = CappedLink {
        response_latency: Duration::from_secs(2),
        ..CappedLink::default()
    };
    let each = CappedLink {
        rate: 8.0 * MIB,
        ..late.clone()
    };
    assert!(own_time(&each, mib(1000.0)) <= 24.0);
    assert!(own_time(&each, mib(4000.0)) <= 51.6);
    let shared = CappedLink {
        total: 12.0 * MIB,
        loss_per_connection: 0.01,
        ..late
    };
    within(1.10, &shared, mib(1000.0));
}
