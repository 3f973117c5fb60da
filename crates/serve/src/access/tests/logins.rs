//! Passwords that must be hashed: what that costs, what is remembered of it, and who waits for it.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::*;

/// Runs a pending login to its end.
async fn run(pending: PendingLogin) -> LoginResult {
    pending.acquire_permit().await.expect("a turn").verify()
}

#[tokio::test]
async fn d15_hashed_passwords_are_hashed_once() {
    for hash in [argon2_of("pass"), bcrypt_of("pass")] {
        let access = access(hashed(&[format!("alice:{hash}:rw:/a")]));
        let right = || basic("alice", "pass");
        let checked = run(pending(&access, "GET /a", right())).await;
        assert_eq!(counters::take_counts().0, 1);
        let again = asked(&access, "GET /a", right(), Some(&checked));
        assert!(matches!(again, AccessDecision::Granted(_)), "{again:?}");
        assert_eq!(
            granted(&access, "PUT /a/x", right()).user.as_deref(),
            Some("alice")
        );
        assert_eq!(status(&access, "PUT /b", right()), 403);
        // What was found out of one password says nothing of another, or of another's.
        assert!(matches!(
            asked(&access, "GET /a", basic("alice", "x"), Some(&checked)),
            AccessDecision::NeedsHashing(_)
        ));
        assert!(matches!(
            asked(&access, "GET /a", basic("bob", "pass"), Some(&checked)),
            AccessDecision::NeedsHashing(_)
        ));
        assert_eq!(counters::take_counts().0, 0);
    }
}

#[tokio::test]
async fn d15_wrong_passwords_are_remembered_too() {
    let access = access(hashed(&[format!("alice:{}:rw", argon2_of("pass"))]));
    let checked = run(pending(&access, "GET /", basic("alice", "x"))).await;
    let again = asked(&access, "GET /", basic("alice", "x"), Some(&checked));
    assert!(matches!(
        again,
        AccessDecision::Refused(AccessRefusal {
            reason: AccessRefusalReason::WrongCredentials,
            ..
        })
    ));
    assert_eq!(status(&access, "GET /", basic("alice", "x")), 401);
    assert_eq!(counters::take_counts().0, 1);
}

#[tokio::test]
async fn d15_the_outcome_counts_even_when_it_was_forgotten() {
    let mut options = hashed(&[format!("alice:{}:rw", argon2_of("pass"))]);
    options.logins.success_lifetime = Duration::ZERO;
    options.logins.failure_lifetime = Duration::ZERO;
    let access = access(options);
    for (password, wanted) in [("pass", true), ("x", false)] {
        let login = || basic("alice", password);
        let checked = run(pending(&access, "GET /", login())).await;
        let is_granted = matches!(
            asked(&access, "GET /", login(), Some(&checked)),
            AccessDecision::Granted(_)
        );
        assert_eq!(is_granted, wanted);
        assert_eq!(status(&access, "GET /", login()), 0);
    }
}

/// Hashes and comparisons of a login that fails.
async fn cost(access: &AccessControl, user: &str) -> (usize, usize) {
    counters::take_counts();
    if let AccessDecision::NeedsHashing(pending) =
        asked(access, "GET /", basic(user, "wrong"), None)
    {
        let checked = run(pending).await;
        let again = asked(access, "GET /", basic(user, "wrong"), Some(&checked));
        assert!(matches!(
            again,
            AccessDecision::Refused(AccessRefusal {
                reason: AccessRefusalReason::WrongCredentials,
                ..
            })
        ));
    }
    counters::take_counts()
}

#[tokio::test]
async fn d15_a_name_that_nobody_has_costs_as_much_as_a_wrong_password() {
    let plain = access(rules(&["alice:pass:ro", "bob:word:ro"]));
    assert_eq!(cost(&plain, "alice").await, (0, 1));
    assert_eq!(cost(&plain, "nobody").await, (0, 1));
    let mut options = hashed(&[
        format!("alice:{}:ro", argon2_of("pass")),
        format!("bob:{}:ro", bcrypt_of("word")),
    ]);
    options.users = rules(&["carol:pass:ro"]).users;
    let mixed = access(options);
    for user in ["alice", "bob", "carol", "nobody", "somebody", ""] {
        let (hashed, compared) = cost(&mixed, user).await;
        assert_eq!((hashed, compared), (1, 3), "{user}");
    }
}

#[tokio::test]
async fn d15_a_stranger_with_the_password_of_another_stays_one() {
    // One user, so that every name leads to this hash.
    let access = access(hashed(&[format!("alice:{}:rw", argon2_of("pass"))]));
    let checked = run(pending(&access, "GET /", basic("mallory", "pass"))).await;
    assert_eq!(counters::take_counts().0, 1);
    let again = asked(&access, "GET /", basic("mallory", "pass"), Some(&checked));
    assert!(matches!(again, AccessDecision::Refused(_)));
    assert_eq!(status(&access, "GET /", basic("mallory", "pass")), 401);
}

#[tokio::test]
async fn d15_the_password_of_another_is_nobody_elses() {
    let mut options = hashed(&[format!("alice:{}:rw", argon2_of("pass"))]);
    options.users = rules(&["carol:word:rw"]).users;
    let access = access(options);
    // Carol's wrong password is held against the only hash there is, and fits.
    let checked = run(pending(&access, "GET /", basic("carol", "pass"))).await;
    assert_eq!(counters::take_counts().0, 1);
    let again = asked(&access, "GET /", basic("carol", "pass"), Some(&checked));
    assert!(matches!(
        again,
        AccessDecision::Refused(AccessRefusal {
            reason: AccessRefusalReason::WrongCredentials,
            ..
        })
    ));
    assert_eq!(status(&access, "GET /", basic("carol", "pass")), 401);
    assert_eq!(status(&access, "GET /", basic("carol", "word")), 200);
}

#[tokio::test]
async fn d15_a_crowd_waits_within_bounds() {
    let mut options = hashed(&[format!("alice:{}:rw", argon2_of("pass"))]);
    options.logins.concurrent_hashes = std::num::NonZeroUsize::MIN;
    options.logins.max_waiting = 2;
    let access = access(options);
    let wrong = |number: u32| basic("alice", &number.to_string());
    let first = pending(&access, "GET /", wrong(0))
        .acquire_permit()
        .await
        .expect("a turn");
    let second = pending(&access, "GET /", wrong(1));
    let third = pending(&access, "GET /", wrong(2));
    let AccessDecision::Refused(refusal) = asked(&access, "GET /", wrong(3), None) else {
        panic!("a fourth place");
    };
    assert_eq!(
        (refusal.reason, refusal.status()),
        (AccessRefusalReason::Busy, StatusCode::SERVICE_UNAVAILABLE)
    );
    assert!(refusal.retry_after().is_some() && refusal.challenges.is_empty());
    // The second has no turn before the first is done, and a place that is given up is free.
    let mut turn = std::pin::pin!(second.acquire_permit());
    assert!(futures_util::poll!(turn.as_mut()).is_pending());
    drop(third);
    let fourth = pending(&access, "GET /", wrong(3));
    assert!(futures_util::poll!(turn.as_mut()).is_pending());
    let _ = first.verify();
    let second = turn.await.expect("a turn");
    let _ = second.verify();
    let _ = run(fourth).await;
    // Places come back.
    for number in 10..20 {
        let _ = run(pending(&access, "GET /", wrong(number))).await;
    }
    assert_eq!(status(&access, "GET /", wrong(3)), 401);
}

#[test]
fn d15_one_client_does_not_keep_the_others_out() {
    let mut options = hashed(&[format!("alice:{}:rw", argon2_of("pass"))]);
    options.logins.max_per_address = std::num::NonZeroUsize::MIN;
    let access = access(options);
    let _held = pending(&access, "GET /", basic("alice", "x"));
    assert_eq!(status(&access, "GET /", basic("alice", "pass")), 503);
    let headers = HeaderMap::from_iter([(
        AUTHORIZATION,
        HeaderValue::from_str(&basic("alice", "pass").expect("one")).expect("a value"),
    )]);
    let ask = AccessRequest {
        method: &Method::GET,
        path: &named("/"),
        query: None,
        headers: &headers,
        now: at(0),
        peer: Some([192, 0, 2, 2].into()),
    };
    assert!(matches!(
        access.authorize(&ask),
        AccessDecision::NeedsHashing(_)
    ));
}

#[tokio::test]
async fn many_connections_with_one_login_cost_one_hash() {
    let access = access(hashed(&[format!("alice:{}:rw", argon2_of("pass"))]));
    let all: Vec<_> = (0..16)
        .map(|_| pending(&access, "GET /", basic("alice", "pass")))
        .collect();
    counters::take_counts();
    for pending in all {
        assert!(run(pending).await.is_correct);
    }
    assert_eq!(counters::take_counts().0, 1);
}
