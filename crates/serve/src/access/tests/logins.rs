//! Passwords that must be hashed: the cost, the cache, the queue.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::*;

/// Runs a pending login to its end.
async fn verify(pending: PendingLogin) -> LoginResult {
    pending.acquire_permit().await.expect("a turn").verify()
}

#[tokio::test]
async fn d15_hashed_passwords_are_hashed_once() {
    for hash in [argon2_of("pass"), bcrypt_of("pass")] {
        let access = access(hashed_options(&[format!("alice:{hash}:rw:/a")]));
        let right = || basic("alice", "pass");
        let login_result = verify(pending_login(&access, "GET /a", right())).await;
        assert_eq!(counters::take_counts().0, 1);
        let again = authorize(&access, "GET /a", right(), Some(&login_result));
        assert!(matches!(again, AccessDecision::Granted(_)), "{again:?}");
        assert_eq!(
            permissions_for(&access, "PUT /a/x", right())
                .user
                .as_deref(),
            Some("alice")
        );
        assert_eq!(status(&access, "PUT /b", right()), 403);
        // The result for one login says nothing about another password or another user.
        assert!(matches!(
            authorize(&access, "GET /a", basic("alice", "x"), Some(&login_result)),
            AccessDecision::NeedsHashing(_)
        ));
        assert!(matches!(
            authorize(&access, "GET /a", basic("bob", "pass"), Some(&login_result)),
            AccessDecision::NeedsHashing(_)
        ));
        assert_eq!(counters::take_counts().0, 0);
    }
}

#[tokio::test]
async fn d15_wrong_passwords_are_cached_too() {
    let access = access(hashed_options(&[format!("alice:{}:rw", argon2_of("pass"))]));
    let login_result = verify(pending_login(&access, "GET /", basic("alice", "x"))).await;
    let again = authorize(&access, "GET /", basic("alice", "x"), Some(&login_result));
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
async fn d15_a_login_result_counts_even_if_the_cache_lost_it() {
    let mut options = hashed_options(&[format!("alice:{}:rw", argon2_of("pass"))]);
    options.logins.success_lifetime = Duration::ZERO;
    options.logins.failure_lifetime = Duration::ZERO;
    let access = access(options);
    for (password, wanted) in [("pass", true), ("x", false)] {
        let login = || basic("alice", password);
        let login_result = verify(pending_login(&access, "GET /", login())).await;
        let is_granted = matches!(
            authorize(&access, "GET /", login(), Some(&login_result)),
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
        authorize(access, "GET /", basic(user, "wrong"), None)
    {
        let login_result = verify(pending).await;
        let again = authorize(access, "GET /", basic(user, "wrong"), Some(&login_result));
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
async fn d15_an_unknown_name_costs_as_much_as_a_wrong_password() {
    let plain = access(rule_options(&["alice:pass:ro", "bob:word:ro"]));
    assert_eq!(cost(&plain, "alice").await, (0, 1));
    assert_eq!(cost(&plain, "nobody").await, (0, 1));
    let mut options = hashed_options(&[
        format!("alice:{}:ro", argon2_of("pass")),
        format!("bob:{}:ro", bcrypt_of("word")),
    ]);
    options.users = rule_options(&["carol:pass:ro"]).users;
    let mixed = access(options);
    for user in ["alice", "bob", "carol", "nobody", "somebody", ""] {
        let (hashed, compared) = cost(&mixed, user).await;
        assert_eq!((hashed, compared), (1, 3), "{user}");
    }
}

#[tokio::test]
async fn d15_an_unknown_user_with_a_valid_password_is_refused() {
    // With one user, every name is checked against this hash.
    let access = access(hashed_options(&[format!("alice:{}:rw", argon2_of("pass"))]));
    let login_result = verify(pending_login(&access, "GET /", basic("mallory", "pass"))).await;
    assert_eq!(counters::take_counts().0, 1);
    let again = authorize(
        &access,
        "GET /",
        basic("mallory", "pass"),
        Some(&login_result),
    );
    assert!(matches!(again, AccessDecision::Refused(_)));
    assert_eq!(status(&access, "GET /", basic("mallory", "pass")), 401);
}

#[tokio::test]
async fn d15_another_users_password_is_refused() {
    let mut options = hashed_options(&[format!("alice:{}:rw", argon2_of("pass"))]);
    options.users = rule_options(&["carol:word:rw"]).users;
    let access = access(options);
    // Carol's wrong password is checked against the only hash there is, and matches.
    let login_result = verify(pending_login(&access, "GET /", basic("carol", "pass"))).await;
    assert_eq!(counters::take_counts().0, 1);
    let again = authorize(
        &access,
        "GET /",
        basic("carol", "pass"),
        Some(&login_result),
    );
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
async fn d15_the_login_queue_is_bounded() {
    let mut options = hashed_options(&[format!("alice:{}:rw", argon2_of("pass"))]);
    options.logins.concurrent_hashes = std::num::NonZeroUsize::MIN;
    options.logins.max_waiting = 2;
    let access = access(options);
    let wrong = |number: u32| basic("alice", &number.to_string());
    let first = pending_login(&access, "GET /", wrong(0))
        .acquire_permit()
        .await
        .expect("a turn");
    let second = pending_login(&access, "GET /", wrong(1));
    let third = pending_login(&access, "GET /", wrong(2));
    let AccessDecision::Refused(refusal) = authorize(&access, "GET /", wrong(3), None) else {
        panic!("a fourth place");
    };
    assert_eq!(
        (refusal.reason, refusal.status()),
        (AccessRefusalReason::Busy, StatusCode::SERVICE_UNAVAILABLE)
    );
    assert!(refusal.retry_after().is_some() && refusal.challenges.is_empty());
    // The second gets no permit before the first is done, and a slot that is given back is free.
    let mut turn = std::pin::pin!(second.acquire_permit());
    assert!(futures_util::poll!(turn.as_mut()).is_pending());
    drop(third);
    let fourth = pending_login(&access, "GET /", wrong(3));
    assert!(futures_util::poll!(turn.as_mut()).is_pending());
    let _ = first.verify();
    let second = turn.await.expect("a turn");
    let _ = second.verify();
    let _ = verify(fourth).await;
    // Slots are given back.
    for number in 10..20 {
        let _ = verify(pending_login(&access, "GET /", wrong(number))).await;
    }
    assert_eq!(status(&access, "GET /", wrong(3)), 401);
}

#[test]
fn d15_one_client_does_not_keep_the_others_out() {
    let mut options = hashed_options(&[format!("alice:{}:rw", argon2_of("pass"))]);
    options.logins.max_per_address = std::num::NonZeroUsize::MIN;
    let access = access(options);
    let _held = pending_login(&access, "GET /", basic("alice", "x"));
    assert_eq!(status(&access, "GET /", basic("alice", "pass")), 503);
    let headers = HeaderMap::from_iter([(
        AUTHORIZATION,
        HeaderValue::from_str(&basic("alice", "pass").expect("one")).expect("a value"),
    )]);
    let request = AccessRequest {
        method: &Method::GET,
        path: &request_path("/"),
        query: None,
        headers: &headers,
        now: at(0),
        peer: Some([192, 0, 2, 2].into()),
    };
    assert!(matches!(
        access.authorize(&request),
        AccessDecision::NeedsHashing(_)
    ));
}

#[tokio::test]
async fn many_connections_with_one_login_cost_one_hash() {
    let access = access(hashed_options(&[format!("alice:{}:rw", argon2_of("pass"))]));
    let all: Vec<_> = (0..16)
        .map(|_| pending_login(&access, "GET /", basic("alice", "pass")))
        .collect();
    counters::take_counts();
    for pending in all {
        assert!(verify(pending).await.is_correct);
    }
    assert_eq!(counters::take_counts().0, 1);
}
