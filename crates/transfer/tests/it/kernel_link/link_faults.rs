//! Links that go away, change their rate, lose large packets or reorder packets during a download (rows A51 to A54).

use std::time::Duration;

use haul_lab::kernel_link::LinkDirectionOptions;
use haul_net::Kind;
use haul_transfer::{GetError, NetworkError};
use tokio::time::Instant;

use super::{FarOrigin, assert_fetched_once, case_with_defaults, far, pause};
use crate::harness::JobCase;

/// Downloads 16 MiB over a link of 50 Mbit/s that goes away for 20 s after 5 MiB. Returns the time in all, of which 3 s are the download's.
#[track_caller]
fn time_with_outage(mut case: JobCase) -> Option<Duration> {
    let far_origin = FarOrigin::start(far(50), 16)?;
    case.limit = Duration::from_secs(60);
    let outcome = far_origin.download_while(&case, || {
        far_origin.wait_for(5);
        far_origin.change_link(|options| options.is_down = true);
        pause(Duration::from_secs(20));
        far_origin.change_link(|options| options.is_down = false);
    });
    assert_fetched_once(&outcome);
    // Each connection is replaced once at most, and what it had left may be divided once.
    let requests = far_origin.request_count();
    assert!(requests <= 48, "{requests} requests");
    assert!(outcome.elapsed > Duration::from_secs(20), "no outage");
    Some(outcome.elapsed)
}

/// TCP sends again after 0.2 s, 0.4 s and so on, some 10 s after the link is back. What is silent for 30 s is replaced, also a request that
/// was sent at the end of the outage.
#[test]
fn a51_a_download_goes_on_after_an_outage_of_20_s() {
    let Some(time) = time_with_outage(case_with_defaults()) else {
        return;
    };
    assert!(time < Duration::from_secs(20 + 30 + 3 + 3), "{time:?}");
}

/// New connections cannot be made until the link is back. A lost SYN is sent again after 1, 3 and 7 s, and given up after 15 s.
#[test]
fn a51_connections_that_an_outage_outlasts_are_replaced() {
    let mut case = case_with_defaults();
    case.client.stall_timeout = Duration::from_secs(5);
    let Some(time) = time_with_outage(case) else {
        return;
    };
    assert!(time < Duration::from_secs(20 + 15 + 3 + 3), "{time:?}");
}

/// A link of 50 Mbit/s has 0.5 for three seconds. At first the queue of the fast link is lost, so all connections wait for TCP to send again.
#[test]
fn a52_a_link_that_is_slow_for_a_while_is_filled_again_afterwards() {
    const SLOW: Duration = Duration::from_secs(3);
    let Some(far_origin) = FarOrigin::start(far(50), 12) else {
        return;
    };
    let steady = far_origin.download(&case_with_defaults()).elapsed;
    let requests_before = far_origin.request_count();
    let outcome = far_origin.download_while(&case_with_defaults(), || {
        far_origin.wait_for(12 + 4);
        far_origin.change_link(|options| options.bits_per_second = Some(500_000));
        pause(SLOW);
        far_origin.change_link(|options| *options = far(50));
    });
    assert_fetched_once(&outcome);
    // TCP may wait longer and longer before it sends again, 1.6 s at the end. And haul knows only the slow link's response times by then,
    // so that what one connection has left is divided late.
    let time = outcome.elapsed;
    assert!(
        time < steady + SLOW + Duration::from_secs(4),
        "{time:?} instead of {steady:?}"
    );
    // The connections that wait are replaced, each once or twice.
    let requests = far_origin.request_count() - requests_before;
    assert!(requests <= 64, "{requests} requests");
}

/// From the middle of the download on, packets above 1300 bytes vanish. Connections are still made and requests arrive, but no response
/// does. The error says so, after the retries of an origin that is silent.
#[test]
fn a53_a_path_that_begins_to_lose_large_packets_is_an_error_with_a_hint() {
    let Some(far_origin) = FarOrigin::start(far(50), 16) else {
        return;
    };
    let mut case = case_with_defaults();
    // Scaled down, to a fifteenth or less.
    case.client.stall_timeout = Duration::from_secs(2);
    case.client.response_timeout = Duration::from_secs(3);
    case.options.retry.max_outage = Duration::from_secs(6);
    let begun = Instant::now();
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            far_origin.wait_for(5);
            far_origin.change_link(|options| options.max_packet = 1300);
        });
        far_origin.get(&case)
    });
    // The stall (2) and a first response that does not come (3); the outage (6); a last attempt, whose connections are begun over 2 s (5).
    let time = begun.elapsed();
    assert!(time < Duration::from_secs(19), "{time:?}");
    let GetError::Network {
        error: NetworkError::Transport { source, .. },
        ..
    } = run.error()
    else {
        panic!("{:?}", run.error());
    };
    assert_eq!(*source.kind(), Kind::ResponseTimeout);
    assert!(run.hints_at_resuming());
    let hint = format!("{:?}", run.error().remedies());
    assert!(hint.contains("lower the MTU"), "{hint}");
    // Idle connections try again for each of the sixteen silent ones, after a second and after twice as long each time.
    let requests = far_origin.request_count();
    assert!(requests <= 160, "{requests} requests");
}

/// Where TCP takes overtaken packets for lost ones, it slows down a little. None of its pauses is a reason to replace a connection.
#[test]
fn a54_a_link_that_reorders_packets_is_hardly_slower() {
    let run = |reordering| {
        let direction = LinkDirectionOptions {
            reordering,
            ..far(100)
        };
        let far_origin = FarOrigin::start(direction, 24)?;
        let outcome = far_origin.download(&case_with_defaults());
        assert_fetched_once(&outcome);
        Some((outcome.elapsed, far_origin.request_count()))
    };
    let (Some((in_order, _)), Some((reordered, requests))) = (run(0.0), run(0.03)) else {
        return;
    };
    assert!(
        reordered < in_order.mul_f64(1.5),
        "{reordered:?} instead of {in_order:?}"
    );
    assert!(requests <= 32, "{requests} requests");
}
