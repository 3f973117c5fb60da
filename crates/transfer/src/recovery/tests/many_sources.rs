//! The policy for a job with several sources: which one rests, which one is dropped, and which one has its turn. The effect on a
//! whole download is shown in `tests/it/mirrors.rs`.

use std::time::Duration;

use haul_plan::ResourceVersion;
use http::StatusCode;
use proptest::prelude::*;

use super::super::*;
use crate::recovery::RetryOptions;
use crate::response::{RequestFailure, UnusableResponse};
use crate::sources::{IntegrityEvidence, NextSource, SourceContent};

pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) const REFUSED: RequestFailure = RequestFailure::Transport {
    transient: true,
    answered: false,
};

/// A digest of the whole file is compared.
pub(super) const VERIFIED: IntegrityEvidence = IntegrityEvidence {
    verified: true,
    piece_digests: false,
    user_allows_joining: false,
};

pub(super) fn version(etag: Option<&str>) -> ResourceVersion {
    ResourceVersion {
        length: Some(10),
        etag: etag.map(|tag| tag.parse().unwrap()),
        ..ResourceVersion::default()
    }
}

/// A policy with this number of sources. The first one has begun to send a file of ten bytes.
pub(super) fn begun(count: usize, user_named: bool, evidence: IntegrityEvidence) -> RecoveryPolicy {
    let retry = RetryOptions {
        base_delay: Duration::from_millis(250),
        max_delay: Duration::from_secs(8),
        ..RetryOptions::default()
    };
    let mut policy = RecoveryPolicy::new(retry);
    for _ in 0..count {
        policy.add_source(user_named);
    }
    let content = SourceContent {
        version: &version(Some("\"v\"")),
        digests: &[],
    };
    policy.sources_mut().begin(0, &content, evidence);
    policy
}

pub(super) fn admit(policy: &mut RecoveryPolicy, source: usize) {
    let content = SourceContent {
        version: &version(None),
        digests: &[],
    };
    policy.sources_mut().admit(source, &content).unwrap();
}

fn context(policy: &RecoveryPolicy, source: usize, now: Duration) -> FailureContext<'static> {
    FailureContext {
        source,
        now,
        // Sent after every wait: each failure counts.
        requested_at: Duration::MAX,
        received: 0,
        lost_body: None,
        host_has_answered: false,
        delivering: policy.sources().connections(source),
        redirected: false,
        keeps_source: false,
        forbidden_may_mean_overload: false,
        jitter: 1.0,
        reason: "it failed",
    }
}

/// A failure of a source whose open connections all deliver.
pub(super) fn fail(
    policy: &mut RecoveryPolicy,
    source: usize,
    failure: &RequestFailure,
    now: Duration,
) -> RecoveryAction {
    let context = context(policy, source, now);
    policy.on_failure(failure, &context)
}

pub(super) fn busy(retry_after: Option<Duration>) -> RequestFailure {
    RequestFailure::Busy {
        status: StatusCode::TOO_MANY_REQUESTS,
        retry_after,
    }
}

fn denied(status: StatusCode) -> RequestFailure {
    RequestFailure::Denied { status }
}

#[test]
fn a_failure_that_cannot_pass_drops_a_source_at_once_and_others_after_three() {
    let final_ones = [
        denied(StatusCode::NOT_FOUND),
        RequestFailure::Unauthorized {
            status: StatusCode::UNAUTHORIZED,
            realm: None,
        },
        RequestFailure::Changed,
        RequestFailure::PastEnd,
        RequestFailure::WrongFile,
        RequestFailure::Unreachable { transient: false },
        RequestFailure::Transport {
            transient: false,
            answered: false,
        },
    ];
    for failure in final_ones {
        let mut policy = begun(2, true, VERIFIED);
        assert_eq!(
            fail(&mut policy, 1, &failure, SECOND),
            RecoveryAction::DropSource,
            "{failure:?}"
        );
        let dropped: Vec<_> = policy.sources().dropped().collect();
        assert_eq!(dropped, [(1, "it failed")]);
    }
    let passing = [
        REFUSED,
        RequestFailure::Unreachable { transient: true },
        RequestFailure::Disconnected { answered: true },
        RequestFailure::TooSlow,
        RequestFailure::Garbled,
        RequestFailure::RangeIgnored,
        RequestFailure::Unusable(UnusableResponse::WrongRange),
        busy(None),
    ];
    for failure in passing {
        let mut policy = begun(2, true, VERIFIED);
        let actions: Vec<RecoveryAction> = (0..3)
            .map(|_| fail(&mut policy, 1, &failure, SECOND))
            .collect();
        let rest = |ms| RecoveryAction::UseOtherSources(Duration::from_millis(ms));
        assert_eq!(
            actions,
            [rest(250), rest(500), RecoveryAction::DropSource],
            "{failure:?}"
        );
    }
}

/// Two that answered, and then a network that is down for both.
#[test]
fn when_all_sources_fail_none_is_blamed_for_a_while() {
    let mut policy = begun(3, true, VERIFIED);
    admit(&mut policy, 1);
    let mut actions = Vec::new();
    for round in 0..9 {
        for source in [0, 1] {
            actions.push(fail(&mut policy, source, &REFUSED, SECOND * round));
        }
    }
    let rests = |action: &RecoveryAction| matches!(action, RecoveryAction::UseOtherSources(_));
    assert!(actions.iter().all(rests), "{actions:?}");
    // A source that never answered is not worth waiting for.
    let never = (0..3).map(|_| fail(&mut policy, 2, &REFUSED, SECOND * 9));
    assert_eq!(never.last(), Some(RecoveryAction::DropSource));
    // The network is back for one source: the failures of the other are its own again.
    policy.on_bytes(0, 1 << 20);
    assert_eq!(
        fail(&mut policy, 1, &REFUSED, SECOND * 9),
        RecoveryAction::DropSource
    );
}

#[test]
fn the_last_source_is_treated_as_the_only_one() {
    let mut policy = begun(2, true, VERIFIED);
    fail(&mut policy, 0, &RequestFailure::Changed, SECOND);
    assert!(policy.sources().is_live(1) && !policy.sources().is_live(0));
    for (failure, action) in [
        (REFUSED, RecoveryAction::Retry(Duration::from_millis(250))),
        (RequestFailure::Changed, RecoveryAction::StartOver),
        (denied(StatusCode::NOT_FOUND), RecoveryAction::GiveUp),
    ] {
        assert_eq!(fail(&mut policy, 1, &failure, SECOND), action);
    }
    // A late failure of the source that was dropped changes nothing.
    assert_eq!(
        fail(&mut policy, 0, &REFUSED, SECOND),
        RecoveryAction::Ignore
    );
    assert!(policy.sources().is_live(1));
}

#[test]
fn bytes_forgive_failures_and_a_trickle_does_not() {
    let mut policy = begun(2, true, VERIFIED);
    for _ in 0..20 {
        assert_ne!(
            fail(&mut policy, 1, &REFUSED, SECOND),
            RecoveryAction::DropSource
        );
        policy.on_bytes(1, 256 << 10);
    }
    let trickled = (0..3).map(|_| {
        policy.on_bytes(1, 1000);
        fail(&mut policy, 1, &REFUSED, SECOND)
    });
    assert_eq!(trickled.last(), Some(RecoveryAction::DropSource));
}

#[test]
fn a_refusal_while_connections_deliver_limits_a_source_until_time_lifts_the_limit() {
    let busy = busy(Some(SECOND * 5));
    for failure in [REFUSED, denied(StatusCode::FORBIDDEN), busy.clone()] {
        let mut policy = begun(2, true, VERIFIED);
        policy.sources_mut().connection_opened(0);
        policy.sources_mut().connection_opened(0);
        assert!(
            matches!(
                fail(&mut policy, 0, &failure, SECOND),
                RecoveryAction::UseOtherSources(_)
            ),
            "{failure:?}"
        );
        assert_eq!(policy.retries(), 0);
        assert_eq!(policy.sources().candidates(SECOND * 7), [1]);
        policy.sources_mut().connection_closed(0);
        let rests = failure == busy;
        assert_eq!(policy.sources().candidates(SECOND * 2).contains(&0), !rests);
        policy.sources_mut().connection_opened(0);
        assert_eq!(policy.sources().candidates(SECOND * 40), [1, 0]);
    }
}

#[test]
fn waiting_connections_of_a_dead_source_do_not_count_as_delivering() {
    let mut policy = begun(2, true, VERIFIED);
    policy.sources_mut().connection_opened(1);
    policy.sources_mut().connection_opened(1);
    let waiting = FailureContext {
        delivering: 0,
        ..context(&policy, 1, SECOND)
    };
    let actions = (0..3).map(|_| policy.on_failure(&REFUSED, &waiting));
    assert_eq!(actions.last(), Some(RecoveryAction::DropSource));
}

/// A source that breaks off again and again is not worth its connections while another works. If all break off, each byte is progress.
#[test]
fn a33_a_request_that_brought_bytes_is_followed_at_once_if_no_other_source_works() {
    let mut policy = begun(2, true, VERIFIED);
    admit(&mut policy, 1);
    let broken = RequestFailure::Disconnected { answered: true };
    let mut fail_after_bytes = |source| {
        policy.on_bytes(source, 1000);
        let context = FailureContext {
            received: 1000,
            ..context(&policy, source, SECOND)
        };
        policy.on_failure(&broken, &context)
    };
    let pause = RecoveryAction::UseOtherSources(Duration::from_millis(250));
    assert_eq!(fail_after_bytes(1), pause);
    let at_once = RecoveryAction::Retry(Duration::ZERO);
    assert_eq!(fail_after_bytes(0), at_once);
}

#[test]
fn an_expired_redirect_of_one_source_is_resolved_again_once() {
    let mut policy = begun(2, true, VERIFIED);
    let redirected = FailureContext {
        redirected: true,
        ..context(&policy, 1, SECOND)
    };
    let forbidden = denied(StatusCode::FORBIDDEN);
    for _ in 0..2 {
        assert_eq!(
            policy.on_failure(&forbidden, &redirected),
            RecoveryAction::ResolveAgain(Duration::ZERO)
        );
        policy.on_bytes(1, 1 << 20);
    }
    policy.on_failure(&forbidden, &redirected);
    assert_eq!(
        policy.on_failure(&forbidden, &redirected),
        RecoveryAction::DropSource
    );
}

/// A body that is read from front to back would be lost with another source: its own gets the whole budget first.
#[test]
fn a_source_with_progress_at_stake_gets_the_whole_budget_before_it_is_dropped() {
    let mut policy = begun(2, true, VERIFIED);
    policy.on_usable_response(0);
    let stays = FailureContext {
        keeps_source: true,
        ..context(&policy, 0, SECOND)
    };
    let broken = RequestFailure::Disconnected { answered: true };
    let retries = (0..100)
        .map(|_| policy.on_failure(&broken, &stays))
        .take_while(|action| matches!(action, RecoveryAction::Retry(_)));
    assert_eq!(retries.count(), 10);
    assert!(!policy.sources().is_live(0) && policy.sources().is_live(1));
}

#[test]
fn a_paused_source_is_used_only_if_there_is_no_other() {
    let mut policy = begun(2, true, VERIFIED);
    let turn = |source, wait| Some(NextSource { source, wait });
    fail(&mut policy, 0, &REFUSED, SECOND);
    assert_eq!(policy.next_source(SECOND), turn(1, Duration::ZERO));
    fail(&mut policy, 1, &REFUSED, SECOND + SECOND / 10);
    let wait = Duration::from_millis(250);
    assert_eq!(policy.next_source(SECOND), turn(0, wait));
    assert_eq!(policy.next_source(SECOND * 2), turn(0, Duration::ZERO));
    assert_eq!(
        policy.fail_over(0, "gone", SECOND * 2),
        turn(1, Duration::ZERO)
    );
    assert_eq!(policy.fail_over(1, "gone", SECOND * 2), None);
}

#[test]
fn a_file_of_one_response_is_requested_twice_from_a_source_before_another_is_tried() {
    for failure in [
        REFUSED,
        RequestFailure::Garbled,
        RequestFailure::Disconnected { answered: true },
        busy(None),
    ] {
        let mut policy = RecoveryPolicy::for_single_responses(RetryOptions::default());
        policy.add_source(true);
        policy.add_source(true);
        let first = fail(&mut policy, 0, &failure, SECOND);
        assert!(
            matches!(
                first,
                RecoveryAction::Retry(_) | RecoveryAction::FewerConnections(_)
            ),
            "{failure:?}: {first:?}"
        );
        assert!(matches!(
            fail(&mut policy, 0, &failure, SECOND),
            RecoveryAction::UseOtherSources(_)
        ));
        let next = policy.next_source(SECOND);
        assert_eq!(next.map(|next| next.source), Some(1));
        // The other does not have it: the first is there again, with all the patience there is.
        fail(&mut policy, 1, &denied(StatusCode::NOT_FOUND), SECOND);
        let next = policy.next_source(SECOND);
        assert_eq!(next.map(|next| next.source), Some(0));
        assert!(matches!(
            fail(&mut policy, 0, &failure, SECOND),
            RecoveryAction::Retry(_) | RecoveryAction::FewerConnections(_) | RecoveryAction::GiveUp
        ));
    }
}

#[derive(Debug, Clone)]
enum PolicyStep {
    Opened(usize),
    Closed(usize),
    Bytes(usize, u64),
    Failed(usize, RequestFailure),
    Bad(Vec<usize>, u32),
    Sample,
}

fn step() -> impl Strategy<Value = PolicyStep> {
    let source = 0usize..5;
    let failure = prop::sample::select(vec![
        REFUSED,
        RequestFailure::Garbled,
        RequestFailure::RangeIgnored,
        RequestFailure::Changed,
        RequestFailure::IfRangeMisread,
        RequestFailure::WrongFile,
        denied(StatusCode::FORBIDDEN),
        busy(Some(Duration::MAX)),
    ]);
    prop_oneof![
        source.clone().prop_map(PolicyStep::Opened),
        source.clone().prop_map(PolicyStep::Closed),
        (source.clone(), 0u64..1 << 20).prop_map(|(s, b)| PolicyStep::Bytes(s, b)),
        (source.clone(), failure).prop_map(|(s, f)| PolicyStep::Failed(s, f)),
        (prop::collection::vec(source, 0..3), 0u32..9).prop_map(|(s, t)| PolicyStep::Bad(s, t)),
        Just(PolicyStep::Sample),
    ]
}

proptest! {
    /// Whatever happens in whatever order: one source always lives, and no dropped source is named again for anything.
    #[test]
    fn one_source_always_lives_and_dropped_sources_stay_dropped(steps in prop::collection::vec(step(), 0..120)) {
        let mut policy = begun(4, true, VERIFIED);
        let (mut now, mut gone) = (Duration::ZERO, Vec::new());
        for step in steps {
            now += Duration::from_millis(50);
            match step {
                PolicyStep::Opened(source) => policy.sources_mut().connection_opened(source),
                PolicyStep::Closed(source) => policy.sources_mut().connection_closed(source),
                PolicyStep::Bytes(source, bytes) => policy.on_bytes(source, bytes),
                PolicyStep::Failed(source, failure) => {
                    let was_live = policy.sources().is_live(source);
                    let was_last = was_live && policy.sources().live_count() == 1;
                    let action = fail(&mut policy, source, &failure, now);
                    let only_for_several = matches!(action, RecoveryAction::DropSource | RecoveryAction::UseOtherSources(_));
                    prop_assert!(!only_for_several || !was_last);
                    prop_assert!(action != RecoveryAction::GiveUp || was_last);
                    prop_assert!(action != RecoveryAction::DropSource || !policy.sources().is_live(source));
                    prop_assert!(was_live || matches!(action, RecoveryAction::Ignore | RecoveryAction::DropSource));
                }
                PolicyStep::Bad(senders, times) => {
                    if let PieceRetry::FromOne(source) = policy.on_bad_piece(&senders, times, now) {
                        prop_assert!(policy.sources().is_live(source));
                    }
                }
                PolicyStep::Sample => policy.sources_mut().on_sample(now),
            }
            let dropped: Vec<usize> = policy.sources().dropped().map(|(source, _)| source).collect();
            prop_assert!(gone.iter().all(|source| dropped.contains(source)));
            gone = dropped;
            prop_assert!(policy.sources().live_count() >= 1);
            prop_assert!(policy.next_source(now).is_some());
            let sources = policy.sources();
            prop_assert!(sources.candidates(now).iter().all(|source| sources.is_live(*source)));
            prop_assert!(gone.iter().all(|source| !sources.should_stay(*source, now)));
        }
    }

    /// Requests go to one source at a time, and each fails: the job ends.
    #[test]
    fn no_history_of_failing_sources_goes_on_for_ever(count in 1usize..6, single: bool, choice in prop::collection::vec(0usize..4, 200)) {
        let mut policy = if single { RecoveryPolicy::for_single_responses(RetryOptions::default()) } else { RecoveryPolicy::new(RetryOptions::default()) };
        for _ in 0..count {
            policy.add_source(true);
        }
        let failures = [REFUSED, RequestFailure::Garbled, busy(None), RequestFailure::Disconnected { answered: true }];
        let mut now = Duration::ZERO;
        let ended = choice.into_iter().any(|choice| {
            let Some(next) = policy.next_source(now) else { return true };
            now += next.wait;
            fail(&mut policy, next.source, &failures[choice], now) == RecoveryAction::GiveUp
        });
        prop_assert!(ended);
    }
}
