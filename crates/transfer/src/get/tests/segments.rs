//! Every byte is written exactly once, under any order of claims, failures and take-overs.

use std::time::Duration;

use proptest::prelude::*;

use crate::get::segment_plan::{Claim, ClaimRequest, SegmentOptions, SegmentPlan};
use crate::range_set::RangeSet;

/// Small sizes, so that a file of thousands of bytes has many segments.
fn options(fixed: Option<u64>, connections: usize) -> SegmentOptions {
    SegmentOptions {
        first_request: 64,
        min_size: 16,
        min_takeover: 8,
        max_size: 512,
        fixed_size: fixed,
        connections,
        rate_limit: None,
    }
}

/// The next step of a worker.
#[derive(Debug, Clone)]
enum SegmentStep {
    /// An idle worker claims.
    Claim,
    /// The n-th claim's worker has received this number of bytes and writes as many as it may.
    Write(usize, u64),
    /// The n-th claim's worker reserves bytes and fails before the write.
    Fail(usize, u64),
    /// The n-th claim's worker gives up.
    Release(usize),
    /// Time passes.
    Wait(u64),
}

fn any_step() -> impl Strategy<Value = SegmentStep> {
    prop_oneof![
        4 => Just(SegmentStep::Claim),
        8 => (0usize..8, 1u64..700).prop_map(|(n, bytes)| SegmentStep::Write(n, bytes)),
        1 => (0usize..8, 1u64..700).prop_map(|(n, bytes)| SegmentStep::Fail(n, bytes)),
        1 => (0usize..8).prop_map(SegmentStep::Release),
        2 => (1u64..3000).prop_map(SegmentStep::Wait),
    ]
}

/// A plan, with a count of how many times each byte was written.
struct CountedSegmentPlan {
    plan: SegmentPlan,
    active: Vec<(Claim, u64)>,
    written: Vec<u8>,
    now: Duration,
}

impl CountedSegmentPlan {
    fn new(length: u64, done: &RangeSet, options: SegmentOptions) -> Self {
        let written = (0..length).map(|at| u8::from(done.contains(at))).collect();
        Self {
            plan: SegmentPlan::new(length, done, options),
            active: Vec::new(),
            written,
            now: Duration::ZERO,
        }
    }

    fn claim(&mut self) -> bool {
        let Some(claim) = self.plan.claim(self.now) else {
            return false;
        };
        assert!(!claim.range.is_empty());
        self.plan.response_started(claim.id, self.now);
        let at = claim.range.start;
        self.active.push((claim, at));
        true
    }

    fn write(&mut self, n: usize, bytes: u64) {
        if self.active.is_empty() {
            return;
        }
        let n = n % self.active.len();
        let (claim, at) = &mut self.active[n];
        let granted = self.plan.reserve(claim.id, bytes, self.now);
        assert!(granted <= bytes);
        for byte in *at..*at + granted {
            self.written[usize::try_from(byte).unwrap()] += 1;
        }
        *at += granted;
        self.plan.mark_written(claim.id, granted);
        if *at >= self.plan.claim_end(claim.id) {
            self.release(n);
        }
    }

    fn fail(&mut self, n: usize, bytes: u64) {
        if !self.active.is_empty() {
            let n = n % self.active.len();
            self.plan.reserve(self.active[n].0.id, bytes, self.now);
            self.release(n);
        }
    }

    fn release(&mut self, n: usize) {
        if !self.active.is_empty() {
            let n = n % self.active.len();
            let (claim, _) = self.active.swap_remove(n);
            self.plan.release(claim.id);
        }
    }

    fn step(&mut self, step: &SegmentStep) {
        match step {
            SegmentStep::Claim => drop(self.claim()),
            SegmentStep::Write(n, bytes) => self.write(*n, *bytes),
            SegmentStep::Fail(n, bytes) => self.fail(*n, *bytes),
            SegmentStep::Release(n) => self.release(*n),
            SegmentStep::Wait(ms) => self.now += Duration::from_millis(*ms),
        }
    }

    /// Checks the plan against the counts.
    fn check(&self) {
        for (at, times) in self.written.iter().enumerate() {
            assert!(*times <= 1, "byte {at} was written {times} times");
            assert_eq!(
                self.plan.done().contains(at as u64),
                *times == 1,
                "byte {at}"
            );
        }
        let missing = self.written.iter().filter(|times| **times == 0).count() as u64;
        assert_eq!(self.plan.remaining(), missing);
        assert!(self.plan.unclaimed() <= missing);
    }

    /// Workers finish the file.
    fn finish(&mut self) {
        for round in 0.. {
            assert!(round < 100_000, "never finished");
            if self.plan.is_complete() {
                break;
            }
            if self.active.is_empty() {
                assert!(self.claim(), "bytes are missing, and nobody may fetch them");
            }
            self.write(0, 100);
            self.now += Duration::from_millis(1);
        }
        self.check();
        // By the counts and not by the plan, which might end with a byte missing.
        assert!(
            self.written.iter().all(|times| *times == 1),
            "it ended without being whole"
        );
    }
}

fn any_done(length: u64) -> impl Strategy<Value = RangeSet> {
    prop::collection::vec((0..=length, 0..=length), 0..5)
        .prop_map(|pairs| pairs.into_iter().map(|(a, b)| a.min(b)..a.max(b)).collect())
}

proptest! {
    #[test]
    fn every_byte_is_written_exactly_once(
        (length, done) in (0u64..4000).prop_flat_map(|length| (Just(length), any_done(length))),
        fixed in prop::option::of(1u64..300),
        connections in 1usize..20,
        steps in prop::collection::vec(any_step(), 0..200),
    ) {
        let mut counted = CountedSegmentPlan::new(length, &done, options(fixed, connections));
        for step in &steps {
            counted.step(step);
            counted.check();
        }
        counted.finish();
    }

    #[test]
    fn fixed_sizes_are_obeyed(length in 1u64..10_000, fixed in 1u64..2000) {
        let mut plan = SegmentPlan::new(length, &RangeSet::new(), options(Some(fixed), 4));
        let mut at = 0;
        while let Some(claim) = plan.claim(Duration::ZERO) {
            prop_assert_eq!(claim.range.clone(), at..(at + fixed).min(length));
            at = claim.range.end;
        }
        prop_assert_eq!(at, length);
    }

    #[test]
    fn claims_go_from_front_to_back_and_shrink_towards_the_end(length in 10_000u64..100_000) {
        let mut plan = SegmentPlan::new(length, &RangeSet::new(), SegmentOptions { connections: 4, ..options(None, 4) });
        let mut claims = Vec::new();
        while let Some(claim) = plan.claim(Duration::ZERO) {
            claims.push(claim.range.clone());
        }
        prop_assert!(claims.windows(2).all(|pair| pair[0].end == pair[1].start));
        let (first, last) = (&claims[0], &claims[claims.len() - 1]);
        prop_assert!(last.end - last.start <= first.end - first.start);
        prop_assert!(claims.len() >= 8);
    }
}

#[test]
fn a14_lengths_around_a_segment_are_exact() {
    for length in [0, 1, 15, 16, 17, 63, 64, 65, 128] {
        CountedSegmentPlan::new(length, &RangeSet::new(), options(None, 4)).finish();
        CountedSegmentPlan::new(length, &RangeSet::new(), options(Some(64), 4)).finish();
    }
}

#[test]
fn the_largest_possible_file_does_not_overflow() {
    let mut plan = SegmentPlan::new(u64::MAX, &RangeSet::new(), SegmentOptions::default());
    let claim = plan.claim(Duration::ZERO).unwrap();
    plan.reserve(claim.id, u64::MAX, Duration::MAX);
    plan.mark_written(claim.id, u64::MAX);
    plan.release(claim.id);
    assert_eq!(
        plan.remaining(),
        u64::MAX - (claim.range.end - claim.range.start)
    );
    let fixed = SegmentOptions {
        fixed_size: Some(u64::MAX),
        ..SegmentOptions::default()
    };
    assert_eq!(
        SegmentPlan::first_range(&fixed, &RangeSet::new(), None, Duration::MAX, false),
        0..u64::MAX
    );
}

#[test]
fn the_first_request_over_a_long_path_is_for_what_one_connection_brings_alone() {
    let far = Duration::from_millis(50);
    for (connections, round_trip, has_tls, expected) in [
        (16, Duration::from_millis(1), true, 16 << 20),
        (16, far, false, 2 << 20),
        (16, far, true, 1 << 20),
        (1, far, true, 16 << 20),
    ] {
        let options = SegmentOptions {
            connections,
            ..SegmentOptions::default()
        };
        let range = SegmentPlan::first_range(&options, &RangeSet::new(), None, round_trip, has_tls);
        assert_eq!(
            range,
            0..expected,
            "{connections}, {round_trip:?}, {has_tls}"
        );
    }
}

#[test]
fn the_first_request_is_for_the_first_gap() {
    let options = options(None, 4);
    let done: RangeSet = [0..100, 150..1000].into_iter().collect();
    assert_eq!(
        SegmentPlan::first_range(&options, &RangeSet::new(), None, Duration::ZERO, false),
        0..64
    );
    assert_eq!(
        SegmentPlan::first_range(&options, &done, Some(2000), Duration::ZERO, false),
        100..150
    );
    assert_eq!(
        SegmentPlan::first_range(&options, &RangeSet::new(), Some(10), Duration::ZERO, false),
        0..10
    );
}

#[test]
fn the_first_response_is_claimed_as_far_as_it_is_needed() {
    let done: RangeSet = std::iter::once(100..200).collect();
    let mut plan = SegmentPlan::new(1000, &done, options(None, 4));
    assert_eq!(plan.claim_first_response(150..300, Duration::ZERO), None);
    assert_eq!(
        plan.claim_first_response(0..300, Duration::ZERO)
            .unwrap()
            .range,
        0..100
    );
    assert_eq!(
        plan.claim_first_response(200..u64::MAX, Duration::ZERO)
            .unwrap()
            .range,
        200..1000
    );
    assert_eq!(plan.unclaimed(), 0);
}

/// A worker that may not fetch some bytes claims around them, and takes none of them over.
#[test]
fn excluded_bytes_are_for_other_workers() {
    let options = SegmentOptions {
        fixed_size: Some(10),
        ..SegmentOptions::default()
    };
    let mut plan = SegmentPlan::new(40, &RangeSet::new(), options);
    let excluded: RangeSet = std::iter::once(5..20).collect();
    let request = ClaimRequest {
        rate: None,
        excluded: Some(&excluded),
    };
    let now = Duration::from_secs(1);
    assert_eq!(plan.claim_for(&request, now).unwrap().range, 0..5);
    assert_eq!(plan.claim_for(&request, now).unwrap().range, 20..30);
    assert_eq!(plan.claim(now).unwrap().range, 5..15);
    assert_eq!(plan.claim_for(&request, now).unwrap().range, 30..40);
    // All workers are silent by now: this worker takes the rests that it may fetch, and then has no work.
    let late = now + Duration::from_secs(600);
    let taken: Vec<_> = (0..3)
        .filter_map(|_| Some(plan.claim_for(&request, late)?.range))
        .collect();
    assert!(
        taken
            .iter()
            .all(|range| range.end <= 5 || range.start >= 20),
        "{taken:?}"
    );
    assert!(!plan.has_work_for(&request, late) && plan.has_work(late));
}

/// A slow source claims little.
#[test]
fn a_slow_source_is_given_small_claims_and_takes_over_what_it_can_do_sooner() {
    let plan = || SegmentPlan::new(1 << 32, &RangeSet::new(), SegmentOptions::default());
    let of = |rate| ClaimRequest {
        rate,
        excluded: None,
    };
    let now = Duration::from_secs(1);
    let slow = plan().claim_for(&of(Some(100_000.0)), now).unwrap().range;
    let fast = plan().claim_for(&of(Some(20e6)), now).unwrap().range;
    assert_eq!(
        (slow.end - slow.start, fast.end - fast.start),
        (1 << 20, 40_000_000)
    );
}

proptest! {
    /// Invalidated bytes are fetched again, whichever worker has claims meanwhile; no other bytes are.
    #[test]
    fn invalidated_bytes_and_only_those_are_claimed_again(invalidated in prop::collection::vec((0u64..100, 0u64..40), 1..6), held in 0u64..3) {
        let options = SegmentOptions { fixed_size: Some(10), ..SegmentOptions::default() };
        let mut plan = SegmentPlan::new(100, &RangeSet::new(), options);
        let now = Duration::from_secs(1);
        let write = |plan: &mut SegmentPlan, release: bool| {
            let claim = plan.claim(now)?;
            let bytes = claim.range.end - claim.range.start;
            assert_eq!(plan.reserve(claim.id, bytes, now), bytes);
            plan.mark_written(claim.id, bytes);
            if release {
                plan.release(claim.id);
                return Some((None, claim.range));
            }
            Some((Some(claim.id), claim.range))
        };
        let mut open = Vec::new();
        for n in 0..10 {
            open.extend(write(&mut plan, n >= held).unwrap().0);
        }
        prop_assert!(plan.is_complete());
        let mut expected = RangeSet::new();
        for (start, bytes) in invalidated {
            let range = start..(start + bytes).min(100);
            plan.invalidate(range.clone());
            expected.insert(range);
        }
        open.into_iter().for_each(|id| plan.release(id));
        prop_assert_eq!(plan.remaining(), expected.total_bytes());
        let mut again = RangeSet::new();
        while let Some((_, range)) = write(&mut plan, true) {
            again.insert(range);
        }
        prop_assert_eq!(again, expected);
        prop_assert!(plan.is_complete());
    }
}
