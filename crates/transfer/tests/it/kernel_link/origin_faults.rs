//! Origins that refuse or slow down some of the connections that open at once, and a user's own limit (rows A17, A18, A20, A55).

use std::time::Duration;

use haul_lab::{OriginResource, RequestMatcher, faults};

use super::{FarOrigin, assert_fetched_once, case_with_defaults, far};

/// The rate of a connection, in bytes a second. Sixteen do not fill a link of 300 Mbit/s.
const RATE: u64 = 2 << 20;

/// Downloads `megabytes`, which take 3 s over the connections that an origin allows, and asserts that few requests are refused.
#[track_caller]
fn assert_limit_is_learned(
    connections: usize,
    megabytes: u64,
    script: impl FnOnce(OriginResource) -> OriginResource,
) {
    let limited = |resource: OriginResource| {
        script(resource.rule(RequestMatcher::always(), faults::body_rate(RATE)))
    };
    let Some(far_origin) = FarOrigin::start_with(far(300), megabytes, limited) else {
        return;
    };
    let outcome = far_origin.download(&case_with_defaults());
    // All sixteen open in one moment, which shows the limit. One more may try it out later.
    let requests = far_origin.origin.requests();
    let refused = requests.iter().filter(|one| one.status != 206).count();
    assert!(refused <= 16, "{refused} requests were refused");
    assert!(requests.len() <= 32, "{} requests", requests.len());

    assert_fetched_once(&outcome);
    // Two seconds for the start, and for connections that do not end in the same moment.
    let time = outcome.elapsed;
    assert!(time < Duration::from_secs(3 + 2), "{time:?}");
    // Some accident may have shown one less for the moment.
    let chosen = outcome.connections;
    assert!(
        (connections - 1..=connections + 1).contains(&chosen),
        "chose {chosen}"
    );
}

#[test]
fn a18_an_origin_that_resets_all_but_two_connections_on_a_long_path() {
    let above_two = RequestMatcher::above_open_connections(2);
    assert_limit_is_learned(2, 12, |resource| {
        resource.rule(above_two, faults::reset_connection)
    });
}

#[test]
fn a17_an_origin_that_answers_429_to_the_fifth_request_at_once_on_a_long_path() {
    let above_four = RequestMatcher::above_active_requests(4);
    assert_limit_is_learned(4, 24, |resource| {
        resource.rule(above_four, faults::status(429))
    });
}

/// A download with one slow connection of sixteen takes 1.3 times its usual time at most.
#[track_caller]
fn assert_slow_connection_is_no_burden(megabits: u64, rate: u64, slow_rate: u64) {
    let run = |slow: Option<usize>| {
        let script = |resource: OriginResource| {
            let resource = resource.rule(RequestMatcher::always(), faults::body_rate(rate));
            match slow {
                Some(slow) => resource.rule(
                    RequestMatcher::on_connection(slow),
                    faults::body_rate(slow_rate),
                ),
                None => resource,
            }
        };
        let far_origin = FarOrigin::start_with(far(megabits), 24, script)?;
        let outcome = far_origin.download(&case_with_defaults());
        assert_fetched_once(&outcome);
        let requests = far_origin.request_count();
        assert!(requests <= 32, "{requests} requests");
        Some(outcome.elapsed)
    };
    let (Some(usual), Some(time)) = (run(None), run(Some(7))) else {
        return;
    };
    assert!(time < usual.mul_f64(1.3), "{time:?} instead of {usual:?}");
}

#[test]
fn a20_one_slow_connection_of_sixteen_where_the_origin_limits_each() {
    assert_slow_connection_is_no_burden(300, 512 << 10, 5 << 10);
}

#[test]
fn a20_one_slow_connection_of_sixteen_where_they_share_a_full_link() {
    assert_slow_connection_is_no_burden(100, 100 << 20, 8 << 10);
}

/// Downloads over a link that has 24 MiB/s with a limit of 2 MiB/s. Returns the rate as a share of the limit, and the number of requests.
#[track_caller]
fn run_with_rate_limit(megabytes: u64) -> Option<(f64, usize)> {
    const LIMIT: u64 = 2 << 20;
    let far_origin = FarOrigin::start(far(200), megabytes)?;
    let mut case = case_with_defaults();
    case.client.connector.rate_limit = Some(LIMIT);
    let outcome = far_origin.download(&case);
    assert_fetched_once(&outcome);
    let rate = outcome.bytes as f64 / outcome.elapsed.as_secs_f64();
    Some((rate / LIMIT as f64, far_origin.request_count()))
}

#[test]
fn a55_a_rate_limit_below_the_rate_of_the_link_is_kept() {
    let Some((rate, requests)) = run_with_rate_limit(8) else {
        return;
    };
    assert!((0.9..=1.1).contains(&rate), "{rate} of the limit");
    assert!(requests <= 16, "{requests} requests");
}

#[test]
fn a55_a_rate_limit_below_the_rate_of_the_link_needs_few_connections() {
    let Some((_, requests)) = run_with_rate_limit(8) else {
        return;
    };
    assert!(requests <= 4, "{requests} requests");
}
