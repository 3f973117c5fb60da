//! Who is asked: how many connections each has, and who comes in for whom.

use super::tests::*;
use super::*;

#[test]
fn whoever_rests_is_asked_first_only_when_nobody_else_is_there() {
    let mut mirrors = begun(2, true, VERIFIED);
    trouble(&mut mirrors, 0, TRANSPORT, SECOND);
    assert_eq!(mirrors.first(SECOND), Some((1, Duration::ZERO)));
    trouble(&mut mirrors, 1, TRANSPORT, SECOND + SECOND / 10);
    let wait = Duration::from_millis(250);
    assert_eq!(mirrors.first(SECOND), Some((0, wait)));
    assert_eq!(mirrors.first(SECOND * 2), Some((0, Duration::ZERO)));
    mirrors.drop_source(0, "gone");
    mirrors.drop_source(1, "gone");
    assert_eq!(mirrors.first(SECOND), None);
}

/// Three sources that all answered, with rates and connections.
fn measured(rates: [u64; 3], connections: [usize; 3]) -> SourceSet {
    let mut mirrors = begun(3, true, VERIFIED);
    for (source, count) in connections.into_iter().enumerate().skip(1) {
        let version = version(10, Some("\"w\""));
        let found = SourceContent {
            version: &version,
            digests: &[],
        };
        mirrors.admit(source, &found).unwrap();
        (0..count).for_each(|_| mirrors.opens(source));
    }
    (0..connections[0]).for_each(|_| mirrors.opens(0));
    for (source, rate) in rates.into_iter().enumerate() {
        mirrors.on_bytes(source, rate);
    }
    mirrors.on_sample(SECOND);
    mirrors
}

#[test]
fn each_has_one_connection_before_any_has_two_and_then_the_fastest_has_more() {
    let mirrors = measured([100, 900, 0], [1, 1, 0]);
    assert_eq!(mirrors.order(SECOND), [2, 1, 0]);
    let mirrors = measured([100, 900, 100], [1, 8, 2]);
    assert_eq!(mirrors.order(SECOND), [1, 0, 2]);
    // One that has not answered yet gets no second one.
    let mut fresh = begun(2, true, VERIFIED);
    fresh.opens(1);
    fresh.opens(0);
    assert_eq!(fresh.order(SECOND), [0]);
}

#[test]
fn a_connection_moves_to_where_it_would_have_twice_as_much() {
    let mirrors = measured([100, 900, 1], [2, 2, 1]);
    assert!(!mirrors.stays(0, SECOND) && mirrors.stays(1, SECOND));
    let even = measured([300, 400, 1], [2, 2, 1]);
    assert!(even.stays(0, SECOND) && even.stays(1, SECOND));
    // The only one of a source stays: that is how a slow one is seen to become fast.
    assert!(measured([1, 900, 0], [1, 2, 0]).stays(0, SECOND));
    // Where one has none at all, the slowest gives up one of several.
    let rested = measured([300, 400, 0], [2, 2, 0]);
    assert!(!rested.stays(0, SECOND) && rested.stays(1, SECOND));
    let mut dropped = measured([900, 1, 0], [2, 2, 0]);
    dropped.drop_source(0, "gone");
    assert!(!dropped.stays(0, SECOND));
}

#[test]
fn when_one_is_too_many_the_slowest_goes_but_none_is_left_without() {
    let mirrors = measured([100, 900, 50], [2, 2, 1]);
    let goes: Vec<bool> = (0..3).map(|source| mirrors.goes_first(source)).collect();
    assert_eq!(goes, [true, false, false]);
    let mirrors = measured([100, 900, 50], [1, 1, 1]);
    let goes: Vec<bool> = (0..3).map(|source| mirrors.goes_first(source)).collect();
    assert_eq!(goes, [false, false, true]);
}

#[test]
fn reserves_come_in_when_others_are_dropped() {
    let mut mirrors = begun(20, true, VERIFIED);
    assert_eq!(mirrors.in_play(), 16);
    assert_eq!(mirrors.order(SECOND), (0..16).collect::<Vec<_>>());
    mirrors.drop_source(3, "gone");
    assert_eq!(mirrors.order(SECOND).last(), Some(&16));
}
