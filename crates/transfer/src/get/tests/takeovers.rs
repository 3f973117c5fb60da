//! When an idle worker takes over bytes of another worker's claim, and how many.

use std::time::Duration;

use crate::get::segment_plan::{Claim, SegmentOptions, SegmentPlan};
use crate::range_set::RangeSet;

/// A slow worker has a claim of 64 MiB and got 1 MiB in a second. Returns the claim of an idle worker.
fn claim_of_idle_worker(options: SegmentOptions) -> Option<Claim> {
    let mut plan = SegmentPlan::new(64 << 20, &RangeSet::new(), options);
    let slow = plan
        .claim_first_response(0..64 << 20, Duration::ZERO)
        .unwrap();
    let granted = plan.reserve(slow.id, 1 << 20, Duration::from_secs(1));
    plan.mark_written(slow.id, granted);
    plan.claim(Duration::from_secs(1))
}

#[test]
fn a_slow_worker_shares_its_claim_unless_that_gains_nothing_or_the_user_forbids_it() {
    // A rate limit that one connection does not reach is as none.
    for rate_limit in [None, Some(5 << 20)] {
        let half = claim_of_idle_worker(SegmentOptions {
            rate_limit,
            ..SegmentOptions::default()
        });
        let start = half.unwrap().range.start;
        assert!((30 << 20..34 << 20).contains(&start), "{start}");
    }
    let refused = [
        // All connections share a rate limit: the other one is slow because this one would be.
        SegmentOptions {
            rate_limit: Some(1 << 20),
            ..SegmentOptions::default()
        },
        // The user sets how large segments are, or how small they may be.
        SegmentOptions {
            fixed_size: Some(64 << 20),
            ..SegmentOptions::default()
        },
        SegmentOptions {
            min_takeover: 40 << 20,
            ..SegmentOptions::default()
        },
    ];
    for options in refused {
        assert_eq!(claim_of_idle_worker(options), None, "{options:?}");
    }
}

/// A rest too small to share goes to a worker that is much faster, or the file would wait for it: 200 KiB at 8 KiB/s take 25 s.
#[test]
fn a20_a_small_rest_of_a_slow_worker_is_taken_whole_and_one_that_ends_soon_is_not() {
    for (slow_rate, is_taken) in [(8 << 10, true), (400 << 10, false)] {
        let mut plan = SegmentPlan::new(4 << 20, &RangeSet::new(), SegmentOptions::default());
        let fetch = |plan: &mut SegmentPlan, range, steps: &[(u64, u64)]| {
            let claim = plan.claim_first_response(range, Duration::ZERO).unwrap();
            for (bytes, at_ms) in steps {
                let granted = plan.reserve(claim.id, *bytes, Duration::from_millis(*at_ms));
                plan.mark_written(claim.id, granted);
            }
            claim
        };
        let (got, rest) = (2 * slow_rate, 200 << 10);
        let begin = (64 << 10, 10);
        let fast = fetch(&mut plan, got + rest..4 << 20, &[begin, (4 << 20, 2000)]);
        plan.release(fast.id);
        let slow = fetch(&mut plan, 0..got + rest, &[(got, 2000)]);
        let taken = plan.claim(Duration::from_secs(2)).map(|claim| claim.range);
        assert_eq!(taken, is_taken.then_some(got..got + rest), "{slow:?}");
    }
}

#[test]
fn a19_a_silent_worker_loses_all_remaining_bytes_and_a_fast_one_none() {
    let mut plan = SegmentPlan::new(
        4 << 20,
        &RangeSet::new(),
        SegmentOptions {
            fixed_size: Some(4 << 20),
            ..SegmentOptions::default()
        },
    );
    let silent = plan.claim(Duration::ZERO).unwrap();
    plan.response_started(silent.id, Duration::from_millis(10));
    let granted = plan.reserve(silent.id, 1 << 20, Duration::from_millis(20));
    plan.mark_written(silent.id, granted);
    assert!(!plan.has_work(Duration::from_millis(30)));
    let takeover = plan.claim(Duration::from_secs(5)).unwrap();
    assert_eq!(takeover.range, 1 << 20..4 << 20);
    assert!(takeover.taken_from.unwrap().victim_emptied);
    assert_eq!(plan.reserve(silent.id, 1000, Duration::from_secs(6)), 0);
}

/// A download by idle workers that look every 100 ms, against an origin whose responses begin so late and
/// then come at once. Returns when the file was whole, and how many requests that took.
fn download_with_late_responses(
    mut plan: SegmentPlan,
    response_latency: Duration,
    workers: usize,
) -> (Duration, usize) {
    let mut claims: Vec<(Claim, Duration)> = Vec::new();
    let (mut now, mut requests) = (Duration::ZERO, 0);
    while !plan.is_complete() {
        assert!(
            now < Duration::from_secs(3600),
            "{requests} requests, and never done"
        );
        claims.retain(|(claim, requested_at)| {
            if now < *requested_at + response_latency {
                // A worker whose claim is empty is cut.
                let cut = plan.claim_end(claim.id) == claim.range.start;
                if cut {
                    plan.release(claim.id);
                }
                return !cut;
            }
            plan.response_started(claim.id, now);
            let granted = plan.reserve(claim.id, u64::MAX, now);
            plan.mark_written(claim.id, granted);
            plan.release(claim.id);
            false
        });
        while claims.len() < workers && plan.has_work(now) {
            let claim = plan.claim(now).unwrap();
            requests += 1;
            claims.push((claim, now));
        }
        now += Duration::from_millis(100);
    }
    (now, requests)
}

/// A file whose first 16 MiB arrived with the first response: the rest is one claim.
fn plan_after_first_response(length: u64) -> SegmentPlan {
    let mut plan = SegmentPlan::new(length, &RangeSet::new(), SegmentOptions::default());
    let first = plan
        .claim_first_response(0..16 << 20, Duration::ZERO)
        .unwrap();
    plan.response_started(first.id, Duration::ZERO);
    let granted = plan.reserve(first.id, 16 << 20, Duration::from_millis(10));
    plan.mark_written(first.id, granted);
    plan.release(first.id);
    plan
}

#[test]
fn a19_an_origin_that_responds_late_gets_enough_time_in_the_end() {
    // Each second an idle worker takes the rest of one whose response has not begun. If all were given the
    // same second, no response would ever begin.
    for seconds in [1, 2, 3, 8, 25] {
        let late = Duration::from_secs(seconds);
        let plan = plan_after_first_response(17 << 20);
        let (took, requests) = download_with_late_responses(plan, late, 2);
        assert!(
            took <= late * 3 + Duration::from_secs(1),
            "{took:?} for answers after {late:?}"
        );
        assert!(
            requests <= 6,
            "{requests} requests for answers after {late:?}"
        );
    }
}

/// Workers without work took silent claims from each other every second and a half, for ever: a request that nobody lets stall never fails.
#[test]
fn a19_responses_that_begin_and_bring_nothing_are_left_to_their_timeout_in_the_end() {
    const STALL: Duration = Duration::from_secs(30);
    let mut plan = plan_after_first_response(28 << 20);
    let mut claims: Vec<(Claim, Duration)> = Vec::new();
    let (mut requests, mut stalls) = (0, 0);
    for now in (0..3000).map(|n| Duration::from_millis(100 * n)) {
        claims.retain(|(claim, since)| {
            let is_cut = plan.claim_end(claim.id) == claim.range.start;
            let is_stalled = now - *since >= STALL;
            if is_cut || is_stalled {
                plan.release(claim.id);
            }
            stalls += usize::from(is_stalled);
            !is_cut && !is_stalled
        });
        while claims.len() < 16 && plan.has_work(now) {
            let claim = plan.claim(now).unwrap();
            plan.response_started(claim.id, now + Duration::from_millis(1));
            requests += 1;
            claims.push((claim, now));
        }
    }
    assert!(
        requests <= 80 && stalls > 5,
        "{requests} requests, {stalls} timeouts"
    );
}

#[test]
fn the_first_response_does_not_measure_the_latency() {
    // Its request was sent before there was a plan.
    assert_eq!(
        plan_after_first_response(17 << 20).latency(),
        Duration::ZERO
    );
    let mut plan = plan_after_first_response(64 << 20);
    let claim = plan.claim(Duration::from_secs(1)).unwrap();
    plan.response_started(claim.id, Duration::from_secs(3));
    assert_eq!(plan.latency(), Duration::from_secs(2));
}

/// Two segments of a MiB: one arrived in a tenth of a second, the other trickles ten bytes a second.
fn claim_of_idle_worker_during_trickle(seconds: u64) -> Option<Claim> {
    let options = SegmentOptions {
        fixed_size: Some(1 << 20),
        ..SegmentOptions::default()
    };
    let mut plan = SegmentPlan::new(2 << 20, &RangeSet::new(), options);
    let (trickling, quick) = (
        plan.claim(Duration::ZERO).unwrap(),
        plan.claim(Duration::ZERO).unwrap(),
    );
    for (claim, at) in [(&trickling, 0), (&quick, 0), (&quick, 100)] {
        plan.response_started(claim.id, Duration::from_millis(at));
    }
    let granted = plan.reserve(quick.id, 1 << 20, Duration::from_millis(100));
    plan.mark_written(quick.id, granted);
    plan.release(quick.id);
    for tenths in 1..=seconds * 10 {
        let granted = plan.reserve(trickling.id, 1, Duration::from_millis(tenths * 100));
        plan.mark_written(trickling.id, granted);
    }
    plan.claim(Duration::from_secs(seconds))
}

#[test]
fn a19_a_trickling_worker_loses_its_remaining_bytes_and_one_that_pauses_for_a_second_does_not() {
    assert_eq!(claim_of_idle_worker_during_trickle(1), None);
    let takeover = claim_of_idle_worker_during_trickle(3).unwrap();
    assert!(takeover.range.start < 100 && takeover.range.end == 1 << 20);
}

/// Two connections on a long path: each has an even share, and the second one's response has only just begun.
#[test]
fn a_response_that_has_only_just_begun_is_not_taken_over() {
    let options = SegmentOptions {
        connections: 2,
        ..SegmentOptions::default()
    };
    let mut plan = SegmentPlan::new(64 << 20, &RangeSet::new(), options);
    plan.set_round_trip(Duration::from_millis(100));
    let first = plan
        .claim_first_response(0..64 << 20, Duration::ZERO)
        .unwrap();
    let second = plan.claim(Duration::from_millis(1900)).unwrap();
    assert_eq!(first.range, 0..32 << 20);
    assert_eq!(second.range.start, 32 << 20);
    // The rest is for the one that is faster: others have it for now.
    while plan.unclaimed() > 0 {
        plan.claim(Duration::from_millis(1900)).unwrap();
    }
    plan.reserve(first.id, 16 << 20, Duration::from_secs(2));
    plan.response_started(second.id, Duration::from_secs(2));
    // By what it has brought so far the second one is slow, and would lose nearly everything.
    plan.reserve(second.id, 100, Duration::from_millis(2100));
    assert!(!plan.has_work(Duration::from_millis(2100)));
    // When it should have begun, it loses half.
    let taken = plan.claim(Duration::from_millis(2900)).unwrap();
    assert_eq!(taken.taken_from.unwrap().victim, second.id);
    let half = (second.range.end - second.range.start) / 2;
    assert!(taken.range.start >= second.range.start + half, "{taken:?}");
}

/// The end of a download over 100 ms: one connection has fetched its claim in a second. The other one began to fetch 2 MiB 0.3 s ago, at a
/// third of that rate. While no claim has ended, such a rest is left alone.
#[test]
fn connections_that_are_up_to_speed_divide_what_one_has_only_just_begun_to_fetch() {
    for has_ended in [true, false] {
        let mut plan = SegmentPlan::new(
            6 << 20,
            &RangeSet::new(),
            SegmentOptions {
                connections: 2,
                ..SegmentOptions::default()
            },
        );
        plan.set_round_trip(Duration::from_millis(100));
        let fast = plan
            .claim_first_response(2 << 20..6 << 20, Duration::ZERO)
            .unwrap();
        for at_ms in (100..=1000).step_by(100) {
            let granted = plan.reserve(fast.id, 420 << 10, Duration::from_millis(at_ms));
            plan.mark_written(fast.id, granted);
        }
        let slow = plan
            .claim_first_response(0..2 << 20, Duration::from_millis(1000))
            .unwrap();
        if has_ended {
            plan.release(fast.id);
        }
        plan.reserve(slow.id, 400 << 10, Duration::from_millis(1300));
        let mut taken_from = Vec::new();
        while let Some(claim) = plan.claim(Duration::from_millis(1300)) {
            taken_from.extend(claim.taken_from.map(|taken| taken.victim));
        }
        assert_eq!(taken_from.contains(&slow.id), has_ended);
    }
}

/// 300 ms, and 8 MB/s a connection: what a slow one has left is less than a fast one brings in a round trip, so that to share it does not
/// pay; but at 0.1 MB/s it would take 24 s.
#[test]
fn a20_a_rest_of_a_slow_worker_that_does_not_pay_to_be_shared_is_taken_whole() {
    // One that needs a second is left alone.
    for (slow_rate, is_taken) in [(100_000, true), (1_900_000, false)] {
        let options = SegmentOptions {
            connections: 2,
            ..SegmentOptions::default()
        };
        let mut plan = SegmentPlan::new(16 << 20, &RangeSet::new(), options);
        plan.set_round_trip(Duration::from_millis(300));
        let [fast, slow] = [0..8 << 20, 8 << 20..16 << 20]
            .map(|range| plan.claim_first_response(range, Duration::ZERO).unwrap());
        let rest = (16 << 20) - 2_400_000..16 << 20;
        let before = rest.start - slow.range.start - 3 * slow_rate;
        plan.reserve(slow.id, before, Duration::from_millis(1));
        for at_ms in (100..=1000).step_by(100) {
            plan.reserve(fast.id, 840_000, Duration::from_millis(at_ms));
        }
        for at_ms in (1100..=4000).step_by(100) {
            plan.reserve(slow.id, slow_rate / 10, Duration::from_millis(at_ms));
        }
        plan.mark_written(fast.id, 8 << 20);
        plan.release(fast.id);
        let taken = plan.claim(Duration::from_secs(4));
        assert_eq!(taken.map(|taken| taken.range), is_taken.then_some(rest));
    }
}

/// Four connections fill a link of 30 ms, and one of them is slow. A new one would only share it, and come up to speed first; one that has
/// just brought a whole response goes on at its speed.
#[test]
fn on_a_full_link_only_an_idle_connection_takes_bytes_over() {
    let options = SegmentOptions {
        connections: 4,
        ..SegmentOptions::default()
    };
    let mut plan = SegmentPlan::new(64 << 20, &RangeSet::new(), options);
    plan.set_round_trip(Duration::from_millis(30));
    let claims = [0, 16, 32, 48].map(|start| {
        plan.claim_first_response(start << 20..(start + 16) << 20, Duration::ZERO)
            .unwrap()
    });
    for at_ms in (100..=2000).step_by(100) {
        for (claim, kib) in claims.iter().zip([840, 700, 700, 200]) {
            let granted = plan.reserve(claim.id, kib << 10, Duration::from_millis(at_ms));
            plan.mark_written(claim.id, granted);
        }
    }
    let now = Duration::from_secs(2);
    assert!(!plan.has_work(now));
    plan.release(claims[0].id);
    let taken = plan.claim(now).unwrap();
    assert_eq!(taken.taken_from.unwrap().victim, claims[3].id);
    // All would end in a second: the fast one takes what it brings until then, and not 10 MB, so that both end together.
    let bytes = taken.range.end - taken.range.start;
    assert!((8_500_000..9_500_000).contains(&bytes), "{bytes}");
}

/// A connection that has begun and pauses for longer than ever loses its rest sooner than one that has not begun.
#[test]
fn a_connection_that_has_begun_may_pause_twice_as_long_as_it_did() {
    let plan = |bytes| {
        let options = SegmentOptions {
            fixed_size: Some(4 << 20),
            ..SegmentOptions::default()
        };
        let mut plan = SegmentPlan::new(4 << 20, &RangeSet::new(), options);
        let claim = plan.claim(Duration::ZERO).unwrap();
        plan.response_started(claim.id, Duration::from_millis(10));
        plan.reserve(claim.id, bytes, Duration::from_millis(20));
        plan.reserve(claim.id, bytes, Duration::from_millis(120));
        plan
    };
    let silent_for = |ms: u64| Duration::from_millis(120 + ms);
    assert!(!plan(1 << 20).has_work(silent_for(380)));
    assert!(plan(1 << 20).has_work(silent_for(450)));
    assert!(!plan(100).has_work(silent_for(900)));
    assert!(plan(100).has_work(silent_for(1100)));
}

/// Five connections fill a link, and one of them brings less than the others. An idle worker would only share the link with them, until most
/// of them have ended.
#[test]
fn a_full_link_is_not_divided_further_before_most_connections_have_ended() {
    let options = SegmentOptions {
        connections: 5,
        // All of an even share.
        min_size: 8 << 20,
        ..SegmentOptions::default()
    };
    let mut plan = SegmentPlan::new(40 << 20, &RangeSet::new(), options);
    plan.set_round_trip(Duration::from_millis(50));
    let claims: Vec<Claim> = (0..5)
        .map(|_| plan.claim(Duration::ZERO).unwrap())
        .collect();
    assert_eq!(plan.unclaimed(), 0);
    for claim in &claims {
        plan.response_started(claim.id, Duration::from_millis(50));
    }
    let mut now = Duration::from_millis(50);
    while now < Duration::from_secs(3) {
        now += Duration::from_millis(50);
        for (claim, rate) in claims.iter().zip([18, 20, 20, 20, 20]) {
            let granted = plan.reserve(claim.id, (rate << 20) / 400, now);
            plan.mark_written(claim.id, granted);
        }
    }
    assert!(!plan.has_work(now));
    for claim in &claims[1..3] {
        let granted = plan.reserve(claim.id, u64::MAX, now);
        plan.mark_written(claim.id, granted);
        plan.release(claim.id);
    }
    // Nothing shows yet that the others do not get what these leave.
    assert!(!plan.has_work(now));
    for _ in 0..20 {
        now += Duration::from_millis(50);
        for (claim, rate) in [(&claims[0], 18), (&claims[3], 20), (&claims[4], 20)] {
            let granted = plan.reserve(claim.id, (rate << 20) / 400, now);
            plan.mark_written(claim.id, granted);
        }
    }
    let taken = plan.claim(now).unwrap();
    assert_eq!(taken.taken_from.unwrap().victim, claims[0].id);
}
