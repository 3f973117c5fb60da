//! The table of [`FailurePolicy`], row by row, and that no history makes a job go on for ever.

use super::*;
use proptest::prelude::*;

const ALONE: FailureContext = FailureContext {
    flowing: 0,
    redirected: false,
    jitter: 0.5,
};
const AMONG: FailureContext = FailureContext {
    flowing: 3,
    redirected: false,
    jitter: 0.5,
};
const REDIRECTED: FailureContext = FailureContext {
    flowing: 0,
    redirected: true,
    jitter: 0.5,
};

fn course() -> FailurePolicy {
    FailurePolicy::new(RetryOptions::default())
}

#[test]
fn a5_the_first_change_starts_over_and_the_second_ends_the_job() {
    let mut course = course();
    assert_eq!(
        course.on_trouble(RequestFailure::Changed, AMONG),
        RecoveryAction::StartOver
    );
    course.on_progress(1 << 40);
    assert_eq!(
        course.on_trouble(RequestFailure::Changed, AMONG),
        RecoveryAction::GiveUp
    );
}

#[test]
fn a3_an_ignored_range_is_asked_again_and_then_one_stream_takes_over() {
    let mut course = course();
    assert!(matches!(
        course.on_trouble(RequestFailure::RangeIgnored, ALONE),
        RecoveryAction::Retry(_)
    ));
    assert!(matches!(
        course.on_trouble(RequestFailure::RangeIgnored, ALONE),
        RecoveryAction::Retry(_)
    ));
    assert_eq!(
        course.on_trouble(RequestFailure::RangeIgnored, ALONE),
        RecoveryAction::OneStream
    );
}

#[test]
fn a9_answers_that_stay_unusable_over_one_stream_end_the_job() {
    for trouble in [RequestFailure::Refused, RequestFailure::RangeIgnored] {
        let mut course = course();
        let actions: Vec<RecoveryAction> = (0..100)
            .map(|_| course.on_trouble(trouble, ALONE))
            .collect();
        assert_eq!(
            actions
                .iter()
                .filter(|a| **a == RecoveryAction::OneStream)
                .count(),
            1
        );
        assert_eq!(actions.last(), Some(&RecoveryAction::GiveUp));
    }
}

#[test]
fn a3_a_usable_answer_between_ignored_ranges_keeps_the_job_parallel() {
    let mut course = course();
    for _ in 0..20 {
        assert!(matches!(
            course.on_trouble(RequestFailure::RangeIgnored, ALONE),
            RecoveryAction::Retry(_)
        ));
        course.on_usable_answer();
        course.on_progress(64 << 20);
    }
}

#[test]
fn a4_a_misread_if_range_is_dropped_at_once() {
    assert_eq!(
        course().on_trouble(RequestFailure::IfRangeMisread, ALONE),
        RecoveryAction::WithoutIfRange
    );
}

#[test]
fn a16_a_redirect_that_expired_is_resolved_again_at_once_then_with_pauses_then_given_up() {
    let mut course = course();
    let denied = RequestFailure::Denied { status: 403 };
    assert_eq!(
        course.on_trouble(denied, REDIRECTED),
        RecoveryAction::ResolveAgain(Duration::ZERO)
    );
    let RecoveryAction::ResolveAgain(wait) = course.on_trouble(denied, REDIRECTED) else {
        panic!("not resolved again")
    };
    assert!(wait > Duration::ZERO);
    let last = (0..100)
        .map(|_| course.on_trouble(denied, REDIRECTED))
        .last();
    assert_eq!(last, Some(RecoveryAction::GiveUp));
}

#[test]
fn a16_a_redirect_denied_while_others_flow_is_resolved_again_before_it_counts_as_a_limit() {
    let mut course = course();
    let (denied, among) = (
        RequestFailure::Denied { status: 403 },
        FailureContext {
            redirected: true,
            ..AMONG
        },
    );
    for _ in 0..3 {
        course.on_progress(4 << 20);
        assert_eq!(
            course.on_trouble(denied, among),
            RecoveryAction::ResolveAgain(Duration::ZERO)
        );
        course.on_progress(1);
        assert_eq!(
            course.on_trouble(denied, among),
            RecoveryAction::Fewer(Duration::ZERO)
        );
    }
}

#[test]
fn a17_busy_alone_waits_as_told_and_busy_among_others_goes_on_with_fewer() {
    let busy = RequestFailure::Busy {
        retry_after: Some(Duration::from_secs(3)),
    };
    let RecoveryAction::Retry(wait) = course().on_trouble(busy, ALONE) else {
        panic!("no retry")
    };
    assert!(wait >= Duration::from_secs(3));
    assert_eq!(
        course().on_trouble(busy, AMONG),
        RecoveryAction::Fewer(Duration::from_secs(3))
    );
}

#[test]
fn a17_an_absurd_retry_after_is_capped_also_among_others() {
    let busy = RequestFailure::Busy {
        retry_after: Some(Duration::from_secs(1 << 40)),
    };
    let cap = RetryOptions::default().max_retry_after;
    assert_eq!(course().on_trouble(busy, AMONG), RecoveryAction::Fewer(cap));
}

#[test]
fn a18_a_refusal_beside_flowing_connections_means_fewer_and_costs_no_budget() {
    let mut course = course();
    let refused = RequestFailure::Transport {
        transient: true,
        answered: false,
    };
    for _ in 0..1000 {
        assert_eq!(
            course.on_trouble(refused, AMONG),
            RecoveryAction::Fewer(Duration::ZERO)
        );
        assert_eq!(
            course.on_trouble(RequestFailure::Denied { status: 403 }, AMONG),
            RecoveryAction::Fewer(Duration::ZERO)
        );
    }
    assert_eq!(course.retries(), 0);
}

#[test]
fn a_host_that_never_answers_is_given_up_soon_and_one_that_did_is_not() {
    let refused = RequestFailure::Transport {
        transient: true,
        answered: false,
    };
    let tries = |course: &mut FailurePolicy| {
        (0..100)
            .take_while(|_| course.on_trouble(refused, ALONE) != RecoveryAction::GiveUp)
            .count()
    };
    assert_eq!(tries(&mut course()), 3);
    let mut begun = course();
    begun.on_usable_answer();
    assert_eq!(tries(&mut begun), 10);
}

#[test]
fn a23_answers_that_are_no_http_are_asked_for_twice_more_and_bytes_forgive_them() {
    for standing in [ALONE, AMONG] {
        let mut course = course();
        let tries = |course: &mut FailurePolicy| {
            (0..100)
                .take_while(|_| {
                    course.on_trouble(RequestFailure::Garbled, standing) != RecoveryAction::GiveUp
                })
                .count()
        };
        assert_eq!(tries(&mut course), 2);
        // An answer that only began well forgives nothing.
        course.on_usable_answer();
        assert_eq!(tries(&mut course), 0);
        course.on_progress(1);
        assert_eq!(tries(&mut course), 2);
    }
}

#[test]
fn what_cannot_heal_ends_the_job_at_once() {
    for trouble in [
        RequestFailure::Transport {
            transient: false,
            answered: false,
        },
        RequestFailure::Unauthorized,
        RequestFailure::Denied { status: 404 },
        RequestFailure::Denied { status: 403 },
    ] {
        assert_eq!(
            course().on_trouble(trouble, ALONE),
            RecoveryAction::GiveUp,
            "{trouble:?}"
        );
    }
}

fn any_trouble() -> impl Strategy<Value = RequestFailure> {
    prop_oneof![
        any::<(bool, bool)>().prop_map(|(transient, answered)| RequestFailure::Transport {
            transient,
            answered
        }),
        Just(RequestFailure::Garbled),
        any::<Option<Duration>>().prop_map(|retry_after| RequestFailure::Busy { retry_after }),
        any::<u16>().prop_map(|status| RequestFailure::Denied { status }),
        Just(RequestFailure::RangeIgnored),
        Just(RequestFailure::Refused),
        Just(RequestFailure::Changed),
        Just(RequestFailure::PastEnd),
    ]
}

proptest! {
    /// Whatever goes wrong in whatever order: a lone connection without progress ends, or takes the one-stream road.
    #[test]
    fn no_history_without_progress_goes_on_for_ever(troubles in prop::collection::vec(any_trouble(), 64)) {
        let mut course = course();
        let ended = troubles.into_iter().any(|trouble| {
            matches!(course.on_trouble(trouble, ALONE), RecoveryAction::GiveUp | RecoveryAction::OneStream)
        });
        prop_assert!(ended);
    }
}

#[test]
fn an_opening_is_given_up_early_unless_a_number_was_given() {
    let refused = RequestFailure::Transport {
        transient: true,
        answered: false,
    };
    let tried = |options| {
        let mut course = FailurePolicy::new(options);
        (0..100)
            .take_while(|_| course.on_trouble(refused, ALONE) != RecoveryAction::GiveUp)
            .count()
    };
    let defaults = RetryOptions::default();
    assert_eq!(tried(defaults.clone()), 3);
    for n in [0, 1, 8] {
        let given = RetryOptions {
            retries: n,
            retries_before_response: n,
            ..defaults.clone()
        };
        assert_eq!(tried(given), n as usize);
    }
}
