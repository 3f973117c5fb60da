//! The policy for a job with one source: each kind of failure, and that every job ends.

use std::time::Duration;

use haul_plan::ResourceVersion;
use http::StatusCode;
use proptest::prelude::*;

use super::super::*;
use crate::recovery::RetryOptions;
use crate::response::{RequestFailure, UnusableResponse};
use crate::sources::{IntegrityEvidence, SourceContent};

/// No other connection delivers.
const ALONE: FailureContext<'_> = FailureContext {
    source: 0,
    now: Duration::ZERO,
    // Sent after every wait: each failure counts.
    requested_at: Duration::MAX,
    received: 0,
    lost_body: None,
    host_has_answered: false,
    delivering: 0,
    redirected: false,
    keeps_source: false,
    forbidden_may_mean_overload: false,
    jitter: 0.5,
    reason: "it failed",
};

/// Three other connections deliver.
const OTHERS_DELIVER: FailureContext<'_> = FailureContext {
    delivering: 3,
    ..ALONE
};

/// The request went to a redirect's target.
const REDIRECTED: FailureContext<'_> = FailureContext {
    redirected: true,
    ..ALONE
};

const REFUSED: RequestFailure = RequestFailure::Transport {
    transient: true,
    answered: false,
};

const UNUSABLE: RequestFailure = RequestFailure::Unusable(UnusableResponse::WrongRange);

fn policy_with(options: RetryOptions) -> RecoveryPolicy {
    let mut policy = RecoveryPolicy::new(options);
    policy.add_source(true);
    policy
}

fn policy() -> RecoveryPolicy {
    policy_with(RetryOptions::default())
}

fn denied(status: u16) -> RequestFailure {
    let status = StatusCode::from_u16(status).unwrap();
    RequestFailure::Denied { status }
}

fn refused_range(status: u16) -> RequestFailure {
    let status = StatusCode::from_u16(status).unwrap();
    RequestFailure::RangeRefused { status }
}

fn busy(retry_after: Option<Duration>) -> RequestFailure {
    RequestFailure::Busy {
        status: StatusCode::SERVICE_UNAVAILABLE,
        retry_after,
    }
}

/// How often a failure is followed by another request.
fn retries(
    policy: &mut RecoveryPolicy,
    failure: &RequestFailure,
    context: &FailureContext<'_>,
) -> usize {
    (0..100)
        .take_while(|_| policy.on_failure(failure, context) != RecoveryAction::GiveUp)
        .count()
}

#[test]
fn a5_the_first_change_starts_over_and_a39_after_the_second_one_response_brings_everything() {
    let mut policy = policy();
    let mut change = || policy.on_failure(&RequestFailure::Changed, &OTHERS_DELIVER);
    assert_eq!(change(), RecoveryAction::StartOver);
    assert_eq!(change(), RecoveryAction::OneStream);
    // A response that broke off and comes again may be of any version, as often as retries last.
    let again = (0..100).take_while(|_| change() == RecoveryAction::StartOver);
    assert_eq!(again.count(), 10);
    assert_eq!(change(), RecoveryAction::GiveUp);
}

#[test]
fn a39_a_digest_identifies_the_version_where_validators_do_not() {
    let mut policy = policy();
    let version = ResourceVersion {
        length: Some(100),
        etag: Some("\"1\"".parse().unwrap()),
        ..ResourceVersion::default()
    };
    let content = SourceContent {
        version: &version,
        digests: &[],
    };
    let evidence = IntegrityEvidence {
        verified: true,
        ..IntegrityEvidence::default()
    };
    policy.sources_mut().begin(0, &content, evidence);
    let mut change = || policy.on_failure(&RequestFailure::Changed, &OTHERS_DELIVER);
    assert_eq!(change(), RecoveryAction::StartOver);
    assert_eq!(change(), RecoveryAction::Retry(Duration::ZERO));
    // A change that shows by the length is still one.
    assert_eq!(change(), RecoveryAction::OneStream);
    let pinned = policy.sources().pinned_version(0).unwrap();
    assert_eq!((pinned.length, pinned.has_validator()), (Some(100), false));
}

#[test]
fn a35_a_page_among_good_responses_costs_nothing_and_pages_alone_end_the_job_soon() {
    let page = RequestFailure::ErrorPage;
    let mut others = policy();
    for _ in 0..100 {
        assert_eq!(
            others.on_failure(&page, &OTHERS_DELIVER),
            RecoveryAction::FewerConnections(Duration::ZERO)
        );
    }
    assert_eq!(retries(&mut policy(), &page, &ALONE), 2);
    // The URL's own redirect may lead elsewhere by now.
    let mut redirected = policy();
    assert_eq!(
        redirected.on_failure(&page, &REDIRECTED),
        RecoveryAction::ResolveAgain(Duration::ZERO)
    );
    assert_eq!(retries(&mut redirected, &page, &REDIRECTED), 2);
    let mut mirrors = policy();
    mirrors.add_source(true);
    let actions: Vec<_> = (0..3).map(|_| mirrors.on_failure(&page, &ALONE)).collect();
    assert_eq!(actions.last(), Some(&RecoveryAction::DropSource));
}

#[test]
fn a38_a_refused_range_is_asked_again_and_then_as_one_response() {
    for status in [400, 403, 406, 416, 501] {
        let refused = refused_range(status);
        // Of an origin that has sent parts.
        let mut known = policy();
        known.on_usable_response(0);
        let actions: Vec<_> = (0..3).map(|_| known.on_failure(&refused, &ALONE)).collect();
        assert!(matches!(
            actions[..],
            [
                RecoveryAction::Retry(_),
                RecoveryAction::Retry(_),
                RecoveryAction::OneStream
            ]
        ));
        // Of one that has sent nothing yet.
        assert_eq!(
            policy().on_failure(&refused, &ALONE),
            RecoveryAction::OneStream
        );
    }
    // A redirect's target may be another the next time.
    let mut redirected = policy();
    redirected.on_usable_response(0);
    let mut fail = || redirected.on_failure(&refused_range(403), &REDIRECTED);
    assert_eq!(fail(), RecoveryAction::ResolveAgain(Duration::ZERO));
    assert!(matches!(fail(), RecoveryAction::ResolveAgain(_)));
    assert!(matches!(fail(), RecoveryAction::ResolveAgain(_)));
    assert_eq!(fail(), RecoveryAction::OneStream);
    let overloaded = FailureContext {
        forbidden_may_mean_overload: true,
        ..ALONE
    };
    assert!(matches!(
        policy().on_failure(&refused_range(403), &overloaded),
        RecoveryAction::FewerConnections(_)
    ));
}

#[test]
fn a40_a_part_without_the_total_length_leads_to_one_response_that_has_it() {
    let failure = RequestFailure::Unusable(UnusableResponse::MissingTotal);
    assert_eq!(
        policy().on_failure(&failure, &ALONE),
        RecoveryAction::OneStream
    );
}

#[test]
fn a41_a_body_that_always_ends_at_the_same_byte_ends_the_job() {
    let failures = [
        RequestFailure::Disconnected { answered: true },
        RequestFailure::Unusable(UnusableResponse::TruncatedBody {
            received: 7,
            length: 9,
        }),
    ];
    let lost = |bytes| FailureContext {
        lost_body: Some(bytes),
        ..ALONE
    };
    for failure in failures {
        let mut irregular = policy();
        irregular.on_usable_response(0);
        for bytes in [7, 7, 8, 7, 7, 0, 0, 0] {
            let action = irregular.on_failure(&failure, &lost(bytes));
            assert_ne!(action, RecoveryAction::GiveUp);
        }
        assert_eq!(retries(&mut policy(), &failure, &lost(7)), 2);
    }
}

#[test]
fn a41_a_head_that_never_fits_ends_the_job_also_without_ranges() {
    let failure = RequestFailure::Unusable(UnusableResponse::UnrequestedNotModified);
    let truncated = RequestFailure::Unusable(UnusableResponse::TruncatedBody {
        received: 0,
        length: 9,
    });
    let mut policy = policy();
    let mut fail = |failure| policy.on_failure(failure, &ALONE);
    assert!(matches!(fail(&failure), RecoveryAction::Retry(_)));
    assert!(matches!(fail(&failure), RecoveryAction::Retry(_)));
    assert_eq!(fail(&failure), RecoveryAction::OneStream);
    // A body that breaks off says nothing about the next one.
    for failure in [&failure, &truncated, &failure, &truncated] {
        assert!(matches!(fail(failure), RecoveryAction::Retry(_)));
    }
    assert_eq!(fail(&failure), RecoveryAction::GiveUp);
}

#[test]
fn a3_an_ignored_range_is_sent_again_and_then_one_stream_takes_over() {
    let mut policy = policy();
    let mut fail = || policy.on_failure(&RequestFailure::RangeIgnored, &ALONE);
    assert!(matches!(fail(), RecoveryAction::Retry(_)));
    assert!(matches!(fail(), RecoveryAction::Retry(_)));
    assert_eq!(fail(), RecoveryAction::OneStream);
}

#[test]
fn a14_a_file_without_a_first_byte_is_one_stream_at_once() {
    let failure = RequestFailure::Unusable(UnusableResponse::NoFirstByte);
    let mut policy = policy();
    assert_eq!(
        policy.on_failure(&failure, &ALONE),
        RecoveryAction::OneStream
    );
    assert!(matches!(
        policy.on_failure(&failure, &ALONE),
        RecoveryAction::Retry(_)
    ));
}

#[test]
fn a3_without_a_budget_an_ignored_range_leads_to_one_stream_at_once() {
    let options = RetryOptions {
        retries: 0,
        ..RetryOptions::default()
    };
    let mut policy = policy_with(options);
    assert_eq!(
        policy.on_failure(&RequestFailure::RangeIgnored, &ALONE),
        RecoveryAction::OneStream
    );
}

#[test]
fn a9_responses_that_stay_unusable_over_one_stream_end_the_job() {
    for failure in [UNUSABLE, RequestFailure::RangeIgnored] {
        let mut policy = policy();
        let actions: Vec<RecoveryAction> = (0..100)
            .map(|_| policy.on_failure(&failure, &ALONE))
            .collect();
        let one_stream = |action: &&RecoveryAction| **action == RecoveryAction::OneStream;
        assert_eq!(actions.iter().filter(one_stream).count(), 1);
        assert_eq!(actions.last(), Some(&RecoveryAction::GiveUp));
    }
}

#[test]
fn a3_a_usable_response_between_ignored_ranges_keeps_the_job_parallel() {
    let mut policy = policy();
    for _ in 0..20 {
        assert!(matches!(
            policy.on_failure(&RequestFailure::RangeIgnored, &ALONE),
            RecoveryAction::Retry(_)
        ));
        policy.on_usable_response(0);
        policy.on_bytes(0, 64 << 20);
    }
}

#[test]
fn a4_a_misread_if_range_is_left_out_at_once() {
    assert_eq!(
        policy().on_failure(&RequestFailure::IfRangeMisread, &ALONE),
        RecoveryAction::WithoutIfRange
    );
}

#[test]
fn a16_an_expired_redirect_is_resolved_again_at_once_then_with_pauses_then_given_up() {
    let mut policy = policy();
    let mut fail = || policy.on_failure(&denied(403), &REDIRECTED);
    assert_eq!(fail(), RecoveryAction::ResolveAgain(Duration::ZERO));
    let RecoveryAction::ResolveAgain(wait) = fail() else {
        panic!("not resolved again")
    };
    assert!(wait > Duration::ZERO);
    let last = (0..100).map(|_| fail()).last();
    assert_eq!(last, Some(RecoveryAction::GiveUp));
}

#[test]
fn a16_a_403_of_a_redirect_while_others_deliver_is_resolved_again_before_it_counts_as_a_limit() {
    let mut policy = policy();
    let context = FailureContext {
        redirected: true,
        ..OTHERS_DELIVER
    };
    for _ in 0..3 {
        policy.on_bytes(0, 4 << 20);
        assert_eq!(
            policy.on_failure(&denied(403), &context),
            RecoveryAction::ResolveAgain(Duration::ZERO)
        );
        policy.on_bytes(0, 1);
        assert_eq!(
            policy.on_failure(&denied(403), &context),
            RecoveryAction::FewerConnections(Duration::ZERO)
        );
    }
}

#[test]
fn a17_a_busy_origin_is_waited_for_and_gets_fewer_connections() {
    let failure = busy(Some(Duration::from_secs(3)));
    let mut alone = policy();
    let RecoveryAction::FewerConnections(wait) = alone.on_failure(&failure, &ALONE) else {
        panic!("no retry")
    };
    assert!(wait >= Duration::from_secs(3));
    assert_eq!(alone.retries(), 1);
    let mut delivering = policy();
    assert_eq!(
        delivering.on_failure(&failure, &OTHERS_DELIVER),
        RecoveryAction::FewerConnections(Duration::from_secs(3))
    );
    assert_eq!(delivering.retries(), 0);
    // Until then nothing new is requested from the origin.
    for policy in [&alone, &delivering] {
        assert!(
            policy
                .sources()
                .candidates(Duration::from_secs(2))
                .is_empty()
        );
        assert_eq!(policy.sources().candidates(Duration::from_secs(4)), [0]);
    }
}

#[test]
fn a17_an_origin_that_stays_busy_ends_the_job() {
    assert_eq!(retries(&mut policy(), &busy(None), &ALONE), 10);
}

#[test]
fn a17_a_retry_after_beyond_the_limit_ends_the_job_unless_others_deliver() {
    let failure = busy(Some(Duration::from_secs(1 << 40)));
    assert_eq!(
        policy().on_failure(&failure, &ALONE),
        RecoveryAction::GiveUp
    );
    let longest = RetryOptions::default().max_retry_after;
    assert_eq!(
        policy().on_failure(&failure, &OTHERS_DELIVER),
        RecoveryAction::FewerConnections(longest)
    );
    let obeyed = policy().on_failure(&busy(Some(longest)), &ALONE);
    assert_eq!(obeyed, RecoveryAction::FewerConnections(longest));
}

#[test]
fn a34_sixteen_connections_that_break_in_one_moment_cost_one_retry() {
    let closed = RequestFailure::Disconnected { answered: true };
    for failure in [
        closed,
        REFUSED,
        RequestFailure::Unreachable { transient: true },
    ] {
        let mut policy = policy();
        policy.on_usable_response(0);
        let mut now = Duration::from_secs(9);
        for number in 1..=10 {
            let requested_at = now;
            now += Duration::from_millis(1);
            let mut resume_at = now;
            for _ in 0..16 {
                let context = FailureContext {
                    now,
                    requested_at,
                    ..ALONE
                };
                let action = policy.on_failure(&failure, &context);
                let RecoveryAction::Retry(wait) = action else {
                    panic!("{failure:?}, retry {number}: {action:?}")
                };
                resume_at = resume_at.max(now + wait);
                assert_eq!(resume_at, now + wait, "all wait for the same moment");
                assert!(policy.sources().candidates(now).is_empty());
                now += Duration::from_micros(10);
            }
            assert_eq!(
                (policy.retries(), policy.retry_number(0).number),
                (number, number)
            );
            now = resume_at;
        }
        let context = FailureContext {
            now,
            requested_at: now,
            ..ALONE
        };
        assert_eq!(
            policy.on_failure(&failure, &context),
            RecoveryAction::GiveUp
        );
    }
}

#[test]
fn a33_a_request_that_brought_any_byte_is_followed_at_once_and_forgives_all_failures() {
    for failure in [
        RequestFailure::Disconnected { answered: true },
        RequestFailure::TooSlow,
        RequestFailure::Garbled,
        UNUSABLE,
    ] {
        let mut policy = policy();
        for _ in 0..1000 {
            policy.on_bytes(0, 1);
            let context = FailureContext {
                received: 1,
                ..ALONE
            };
            assert_eq!(
                policy.on_failure(&failure, &context),
                RecoveryAction::Retry(Duration::ZERO),
                "{failure:?}"
            );
        }
        assert_eq!(policy.retries(), 0);
    }
}

#[test]
fn a18_a_refusal_while_others_deliver_means_fewer_connections_and_costs_no_retry() {
    let mut policy = policy();
    let closed = RequestFailure::Disconnected { answered: false };
    for _ in 0..1000 {
        for failure in [&REFUSED, &closed, &denied(403)] {
            assert_eq!(
                policy.on_failure(failure, &OTHERS_DELIVER),
                RecoveryAction::FewerConnections(Duration::ZERO)
            );
        }
    }
    assert_eq!(policy.retries(), 0);
}

/// Connections that only wait for a response do not show that the origin is there.
#[test]
fn a34_a_refusal_while_nothing_delivers_costs_a_retry_and_no_connections() {
    let mut policy = policy();
    policy.sources_mut().connection_opened(0);
    assert!(matches!(
        policy.on_failure(&REFUSED, &ALONE),
        RecoveryAction::Retry(_)
    ));
}

#[test]
fn a18_a_403_that_may_mean_too_many_requests_is_sent_again_while_the_budget_lasts() {
    let context = FailureContext {
        forbidden_may_mean_overload: true,
        ..ALONE
    };
    assert_eq!(retries(&mut policy(), &denied(403), &context), 10);
    assert_eq!(retries(&mut policy(), &denied(404), &context), 0);
}

#[test]
fn a_host_that_never_answers_is_given_up_soon_and_one_that_did_is_not() {
    let unreachable = RequestFailure::Unreachable { transient: true };
    for failure in [REFUSED, unreachable] {
        assert_eq!(retries(&mut policy(), &failure, &ALONE), 3);
        let mut begun = policy();
        begun.on_usable_response(0);
        assert_eq!(retries(&mut begun, &failure, &ALONE), 10);
        let known_host = FailureContext {
            host_has_answered: true,
            ..ALONE
        };
        assert_eq!(retries(&mut policy(), &failure, &known_host), 10);
    }
}

#[test]
fn a23_responses_that_are_not_http_are_requested_twice_more_and_bytes_forgive_them() {
    for context in [ALONE, OTHERS_DELIVER] {
        let mut policy = policy();
        let garbled = RequestFailure::Garbled;
        assert_eq!(retries(&mut policy, &garbled, &context), 2);
        // A response that only began well forgives nothing.
        policy.on_usable_response(0);
        assert_eq!(retries(&mut policy, &garbled, &context), 0);
        policy.on_bytes(0, 1);
        assert_eq!(retries(&mut policy, &garbled, &context), 2);
    }
}

#[test]
fn failures_that_cannot_pass_end_the_job_at_once() {
    for failure in [
        RequestFailure::Unreachable { transient: false },
        RequestFailure::Transport {
            transient: false,
            answered: false,
        },
        RequestFailure::Unauthorized {
            status: StatusCode::UNAUTHORIZED,
            realm: None,
        },
        RequestFailure::WrongFile,
        denied(404),
        denied(403),
    ] {
        assert_eq!(
            policy().on_failure(&failure, &ALONE),
            RecoveryAction::GiveUp,
            "{failure:?}"
        );
    }
}

#[test]
fn a_job_is_given_up_early_before_its_first_response_unless_the_user_gave_a_number() {
    let tried = |options| retries(&mut policy_with(options), &REFUSED, &ALONE);
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

fn any_failure() -> impl Strategy<Value = RequestFailure> {
    prop_oneof![
        any::<(bool, bool)>().prop_map(|(transient, answered)| RequestFailure::Transport {
            transient,
            answered
        }),
        any::<bool>().prop_map(|transient| RequestFailure::Unreachable { transient }),
        any::<bool>().prop_map(|answered| RequestFailure::Disconnected { answered }),
        Just(RequestFailure::TooSlow),
        Just(RequestFailure::Garbled),
        any::<Option<Duration>>().prop_map(busy),
        (100u16..1000).prop_map(denied),
        prop::sample::select(vec![400, 403, 416]).prop_map(refused_range),
        Just(RequestFailure::ErrorPage),
        Just(RequestFailure::RangeIgnored),
        Just(UNUSABLE),
        Just(RequestFailure::Changed),
        Just(RequestFailure::PastEnd),
    ]
}

proptest! {
    /// Whatever fails in whatever order: a lone connection without progress ends, or turns to one stream.
    #[test]
    fn no_history_without_progress_goes_on_for_ever(
        failures in prop::collection::vec(any_failure(), 64), redirected: bool, forbidden_may_mean_overload: bool,
    ) {
        let mut policy = policy();
        let context = FailureContext { redirected, forbidden_may_mean_overload, ..ALONE };
        let ended = failures.into_iter().any(|failure| {
            matches!(policy.on_failure(&failure, &context), RecoveryAction::GiveUp | RecoveryAction::OneStream)
        });
        prop_assert!(ended);
    }

    /// The same over one stream, which is the last strategy: it ends.
    #[test]
    fn no_history_without_progress_goes_on_for_ever_over_one_stream(failures in prop::collection::vec(any_failure(), 64)) {
        let mut policy = policy();
        let without_ranges = (0..3).map(|_| policy.on_failure(&RequestFailure::RangeIgnored, &ALONE)).last();
        prop_assert_eq!(without_ranges, Some(RecoveryAction::OneStream));
        let context = FailureContext { keeps_source: true, ..ALONE };
        let ended = failures.into_iter().any(|failure| policy.on_failure(&failure, &context) == RecoveryAction::GiveUp);
        prop_assert!(ended);
    }
}
