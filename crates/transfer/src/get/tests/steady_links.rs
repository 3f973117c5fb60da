//! Whole downloads over steady links: with control and plan they take at most 5 % longer than with the best
//! fixed number of connections.

use std::time::Duration;

use super::download::{SimulatedDownload, SimulatedDownloadOutcome};
use super::race::{fixed, mib, race, within};
use super::simulated_link::{BurstyLink, CappedLink, MIB, SimulatedLink};
use crate::connection_control::ConnectionControlOptions;

/// The goal, for jobs that are longer than the ramp.
#[track_caller]
fn near_the_best(link: &dyn SimulatedLink, length: u64) -> usize {
    within(1.05, link, length)
}

#[test]
fn a_limit_on_each_connection() {
    let link = CappedLink {
        rate: 8.0 * MIB,
        ..CappedLink::default()
    };
    assert_eq!(near_the_best(&link, mib(1536.0)), 16);
}

#[test]
fn a_limit_shared_by_all_where_surplus_connections_cost() {
    let link = CappedLink {
        total: 12.0 * MIB,
        loss_per_connection: 0.01,
        ..CappedLink::default()
    };
    assert!(near_the_best(&link, mib(240.0)) <= 2);
}

#[test]
fn a_limit_on_each_and_one_on_all() {
    let link = CappedLink {
        rate: 5.0 * MIB,
        total: 20.0 * MIB,
        loss_per_connection: 0.01,
        ..CappedLink::default()
    };
    let settled = near_the_best(&link, mib(600.0));
    assert!((4..=6).contains(&settled), "settled on {settled}");
}

#[test]
fn a18_an_origin_that_refuses_the_fifth_connection() {
    let link = CappedLink {
        rate: 8.0 * MIB,
        max_connections: 4,
        ..CappedLink::default()
    };
    assert_eq!(near_the_best(&link, mib(960.0)), 4);
    // Nor is a fifth connection tried again and again: in half a minute twice, since a limit may have been
    // lifted.
    let outcome =
        SimulatedDownload::new(&link, mib(960.0), ConnectionControlOptions::default()).run();
    assert!((1..=3).contains(&outcome.refusals), "{outcome:?}");
}

#[test]
fn a17_an_origin_that_responds_503_beyond_a_number_of_connections_gets_that_number() {
    for answers in [2, 3, 5] {
        for lingers in [0, 30, 300] {
            let link = CappedLink {
                rate: 4.0 * MIB,
                max_responses: answers,
                counts_closed_for: Duration::from_millis(lingers),
                ..CappedLink::default()
            };
            let length = mib(4.0 * 60.0 * answers as f64);
            let (ratio, settled) = race(&link, length, [answers]);
            assert!(
                ratio <= 1.10,
                "{answers} {lingers}: {ratio:.3} times the best"
            );
            assert_eq!(settled, answers, "{lingers}");
        }
    }
}

#[test]
fn a20_one_slow_connection_costs_next_to_nothing() {
    let link = CappedLink {
        rate: 8.0 * MIB,
        slow_connection: Some(1),
        ..CappedLink::default()
    };
    near_the_best(&link, mib(1536.0));
    // And the total is that of the fast connections: fifteen and a tenth, where sixteen would be without the
    // slow one.
    let SimulatedDownloadOutcome { time, .. } =
        SimulatedDownload::new(&link, mib(1536.0), fixed(16)).run();
    assert!(
        time.as_secs_f64() < 1536.0 / (15.1 * 8.0) * 1.05,
        "{time:?}"
    );
}

#[test]
fn a19_a_stalled_connection_costs_next_to_nothing() {
    let link = CappedLink {
        rate: 8.0 * MIB,
        stalled_connection: Some(2),
        ..CappedLink::default()
    };
    let SimulatedDownloadOutcome { time, .. } =
        SimulatedDownload::new(&link, mib(1536.0), fixed(16)).run();
    assert!(
        time.as_secs_f64() < 1536.0 / (15.0 * 8.0) * 1.10,
        "{time:?}"
    );
}

#[test]
fn a_link_that_becomes_wider_half_way() {
    let later = CappedLink {
        rate: 4.0 * MIB,
        ..CappedLink::default()
    };
    let early = CappedLink {
        total: 4.0 * MIB,
        loss_per_connection: 0.01,
        ..CappedLink::default()
    };
    let link = CappedLink {
        changes_to: Some((Duration::from_secs(40), Box::new(later))),
        ..early
    };
    near_the_best(&link, mib(160.0 + 64.0 * 240.0));
}

#[test]
fn a_link_that_becomes_narrower_half_way() {
    let later = CappedLink {
        total: 8.0 * MIB,
        loss_per_connection: 0.01,
        ..CappedLink::default()
    };
    let early = CappedLink {
        rate: 4.0 * MIB,
        ..CappedLink::default()
    };
    let link = CappedLink {
        changes_to: Some((Duration::from_secs(20), Box::new(later))),
        ..early
    };
    near_the_best(&link, mib(64.0 * 20.0 + 8.0 * 60.0));
}

#[test]
fn an_origin_that_paces_in_bursts() {
    let link = BurstyLink::default();
    assert_eq!(near_the_best(&link, mib(1024.0)), 16);
}

/// A probe of one connection seemed no worse for seven seconds, since the rates of sixteen scattered so much, and a pause in which the last
/// bytes trickled in was taken for the rate of two.
#[test]
fn an_origin_whose_bursts_share_a_link() {
    let mut ratios = Vec::new();
    for total in (8..32).map(|n| 25.0 * f64::from(n)) {
        for trickle in [0.0, MIB / 50.0] {
            let link = BurstyLink {
                total: total * MIB,
                trickle,
            };
            for length in [192.0, 256.0, 512.0, 1024.0] {
                let fixed = ConnectionControlOptions {
                    fixed: true,
                    ..ConnectionControlOptions::default()
                };
                let [untold, sixteen] =
                    [ConnectionControlOptions::default(), fixed].map(|options| {
                        SimulatedDownload::new(&link, mib(length), options)
                            .run()
                            .time
                    });
                let ratio = untold.div_duration_f64(sixteen);
                let case = format!("{length} MiB at {total} MiB/s, {trickle} B/s between bursts");
                assert!(ratio <= 1.25, "{case}: {untold:?} instead of {sixteen:?}");
                ratios.push(ratio);
            }
        }
    }
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    assert!(mean <= 1.05, "{mean}");
}

#[test]
fn an_origin_that_paces_in_bursts_gets_sixteen_connections_at_once() {
    let SimulatedDownloadOutcome {
        time,
        settled,
        sixteen,
        ..
    } = SimulatedDownload::new(
        &BurstyLink::default(),
        mib(256.0),
        ConnectionControlOptions::default(),
    )
    .run();
    assert_eq!(settled, 16);
    assert!(
        sixteen.unwrap() <= Duration::from_millis(400),
        "sixteen after {sixteen:?}"
    );
    // Sixteen even shares would take three and a half seconds.
    assert!(time <= Duration::from_millis(3600), "{time:?}");
}

#[test]
fn sixteen_connections_are_reached_within_a_third_of_a_second() {
    let link = CappedLink {
        latency: Duration::from_millis(1),
        rate: 4.0 * MIB,
        ..CappedLink::default()
    };
    let SimulatedDownloadOutcome { sixteen, .. } =
        SimulatedDownload::new(&link, mib(256.0), ConnectionControlOptions::default()).run();
    assert!(
        sixteen.unwrap() <= Duration::from_millis(350),
        "sixteen after {sixteen:?}"
    );
}
