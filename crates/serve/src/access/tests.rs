//! Judgements, as a server would ask for them.

use std::path::Path;
use std::time::{Duration, SystemTime};

use argon2::password_hash::{PasswordHasher as _, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use proptest::prelude::*;

use super::*;
use crate::{Key, Named};

/// The cheapest argon2 that there is.
pub(super) fn argon2_of(password: &str) -> String {
    let params = Params::new(8, 1, 1, None).expect("parameters");
    let salt = SaltString::encode_b64(b"of the sea").expect("a salt");
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash = hasher.hash_password(password.as_bytes(), &salt);
    hash.expect("a hash").to_string()
}

/// The cheapest bcrypt that there is.
pub(super) fn bcrypt_of(password: &str) -> String {
    bcrypt::hash_with_salt(password, 4, [7; 16])
        .expect("a hash")
        .to_string()
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
}

fn named(path: &str) -> Named {
    Key::parse(path).expect("a key")
}

fn key(path: &str) -> Key {
    named(path).key
}

fn basic(user: &str, password: &str) -> Option<String> {
    Some(format!(
        "Basic {}",
        STANDARD.encode(format!("{user}:{password}"))
    ))
}

fn bearer(token: &str) -> Option<String> {
    Some(format!("Bearer {token}"))
}

/// A request: method, path with query, Authorization.
fn asked(
    access: &Access,
    line: &str,
    authorization: Option<String>,
    again: Option<&Checked>,
) -> Judged {
    let (method, target) = line.split_once(' ').expect("a line");
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let fields = authorization.map(|text| {
        (
            AUTHORIZATION,
            HeaderValue::from_str(&text).expect("a value"),
        )
    });
    let ask = Ask {
        method: &method.parse().expect("a method"),
        named: &named(path),
        query,
        headers: &HeaderMap::from_iter(fields),
        now: at(0),
        peer: Some([192, 0, 2, 1].into()),
    };
    match again {
        Some(checked) => access.judge_again(&ask, checked),
        None => access.judge(&ask),
    }
}

fn status(access: &Access, line: &str, authorization: Option<String>) -> u16 {
    match asked(access, line, authorization, None) {
        Judged::Granted(_) => 200,
        Judged::Refused(refusal) => refusal.status().as_u16(),
        Judged::NeedsHashing(_) => 0,
    }
}

fn granted(access: &Access, line: &str, authorization: Option<String>) -> Grant {
    match asked(access, line, authorization, None) {
        Judged::Granted(grant) => grant,
        other => panic!("{line}: {other:?}"),
    }
}

fn pending(access: &Access, line: &str, authorization: Option<String>) -> PendingLogin {
    match asked(access, line, authorization, None) {
        Judged::NeedsHashing(pending) => pending,
        other => panic!("{line}: {other:?}"),
    }
}

fn rules(rules: &[&str]) -> AccessOptions {
    AccessOptions {
        rules: rules
            .iter()
            .map(|rule| rule.parse().expect("a rule"))
            .collect(),
        ..AccessOptions::default()
    }
}

fn hashed(lines: &[String]) -> AccessOptions {
    let file = AuthFile::parse(Path::new("logins"), &lines.join("\n")).expect("a file");
    AccessOptions {
        files: vec![file],
        ..AccessOptions::default()
    }
}

fn access(options: AccessOptions) -> Access {
    Access::new(options).expect("rules that agree")
}

#[test]
fn d15_without_rules_everybody_may_do_everything() {
    let access = access(AccessOptions::default());
    assert!(access.is_open());
    assert_eq!(status(&access, "DELETE /a", None), 200);
    assert_eq!(status(&access, "PUT /a", Some("nonsense".to_owned())), 200);
    assert!(!granted(&access, "GET /", None).is_personal());
}

#[test]
fn d15_credentials_decide() {
    let access = access(rules(&[
        "alice:pass:rw:/a",
        "alice:pass:ro:/b",
        "bob:pass:ro",
    ]));
    let cases = [
        ("GET /a/x", None, 401),
        ("GET /a/x", basic("alice", "pass"), 200),
        ("PUT /a/x", basic("alice", "pass"), 200),
        ("DELETE /a", basic("alice", "pass"), 200),
        ("GET /b/x", basic("alice", "pass"), 200),
        ("PUT /b/x", basic("alice", "pass"), 403),
        ("GET /ab", basic("alice", "pass"), 403),
        // Nothing above or beside what is hers, not even its names.
        ("GET /", basic("alice", "pass"), 403),
        ("GET /c/", basic("alice", "pass"), 403),
        ("GET /a/", basic("alice", "pass"), 200),
        ("HEAD /", basic("bob", "pass"), 200),
        ("PUT /x", basic("bob", "pass"), 403),
        ("BREW /x", basic("bob", "pass"), 403),
        ("GET /a/x", basic("alice", "Pass"), 401),
        ("GET /a/x", basic("alice", "pas"), 401),
        ("GET /a/x", basic("alice", ""), 401),
        ("GET /a/x", basic("Alice", "pass"), 401),
        ("GET /a/x", basic("", "pass"), 401),
        ("GET /a/x", basic("carol", "pass"), 401),
        ("GET /a/x", bearer("pass"), 401),
        ("GET /a/x", Some("Basic !".to_owned()), 401),
        // A preflight has no credentials.
        ("OPTIONS /a/x", None, 200),
    ];
    for (line, authorization, wanted) in cases {
        assert_eq!(
            status(&access, line, authorization.clone()),
            wanted,
            "{line} {authorization:?}"
        );
    }
    let grant = granted(&access, "GET /a/x", basic("alice", "pass"));
    assert_eq!(
        (grant.user.as_deref(), grant.how),
        (Some("alice"), How::Login)
    );
    assert!(grant.may(Right::Write, &key("/a/y")) && !grant.may(Right::Write, &key("/b")));
    assert!(grant.may_list(&key("/b")) && !grant.may_list(&Key::root()));
    let grant = granted(&access, "OPTIONS /a", None);
    assert!(!grant.may(Right::Read, &key("/a")));
}

#[test]
fn d15_refusals_say_how_to_log_in_and_nothing_more() {
    let mut options = rules(&["alice:pass:rw:/a"]);
    options.tokens = vec!["secret:ro:/t".parse().expect("a rule")];
    let access = access(options);
    let refused = |authorization| match asked(&access, "GET /b", authorization, None) {
        Judged::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    };
    let wrong = refused(basic("alice", "x"));
    let unknown = refused(basic("x", "x"));
    assert_eq!(wrong.to_string(), unknown.to_string());
    assert_eq!(
        (wrong.status(), &wrong.challenges),
        (unknown.status(), &unknown.challenges)
    );
    assert_eq!(
        wrong.challenges[0],
        r#"Basic realm="haul", charset="UTF-8""#
    );
    assert_eq!(wrong.challenges[1], r#"Bearer realm="haul""#);
    let known = refused(basic("alice", "pass"));
    assert_eq!(known.status(), StatusCode::FORBIDDEN);
    assert!(known.challenges.is_empty() && known.retry_after().is_none());
}

#[test]
fn d15_tokens_decide() {
    let access = access(AccessOptions {
        tokens: vec![
            "one:rw:/a".parse().expect("a rule"),
            "one:ro:/b".parse().expect("a rule"),
        ],
        token_files: vec![TokenFile::parse(Path::new("tokens"), "two:ro").expect("a file")],
        ..AccessOptions::default()
    });
    let cases = [
        ("PUT /a/x", bearer("one"), 200),
        ("GET /b/x", bearer("one"), 200),
        ("PUT /b/x", bearer("one"), 403),
        ("GET /c", bearer("one"), 403),
        ("GET /c", bearer("two"), 200),
        ("PUT /c", bearer("two"), 403),
        ("GET /c", bearer("three"), 401),
        ("GET /c", bearer("tw"), 401),
        ("GET /c", basic("two", "two"), 401),
        ("GET /c", None, 401),
    ];
    for (line, authorization, wanted) in cases {
        assert_eq!(
            status(&access, line, authorization.clone()),
            wanted,
            "{line} {authorization:?}"
        );
    }
    let grant = granted(&access, "GET /c", bearer("two"));
    assert_eq!((grant.user, grant.how), (None, How::Token));
}

#[test]
fn d15_strangers_may_what_was_granted_to_all() {
    let mut options = rules(&["alice:pass:rw:/a"]);
    options.anonymous = Anonymous::Some(vec!["ro:/pub".parse().expect("a scope")]);
    let access = access(options);
    assert_eq!(status(&access, "GET /pub/x", None), 200);
    assert_eq!(status(&access, "PUT /pub/x", None), 401);
    assert_eq!(status(&access, "GET /a/x", None), 401);
    // Who is known may do no less; who is mistaken is told.
    assert_eq!(status(&access, "GET /pub/x", basic("alice", "pass")), 200);
    assert_eq!(status(&access, "PUT /pub/x", basic("alice", "pass")), 403);
    assert_eq!(status(&access, "GET /pub/x", basic("alice", "x")), 401);
    assert!(!granted(&access, "GET /pub/x", None).is_personal());
}

#[test]
fn d15_what_names_nobody_opens_nothing() {
    let file = hashed(&["# nobody yet".to_owned()]);
    let tokens = AccessOptions {
        token_files: vec![TokenFile::default()],
        ..AccessOptions::default()
    };
    let nobody = AccessOptions {
        anonymous: Anonymous::Some(Vec::new()),
        ..AccessOptions::default()
    };
    let signed = AccessOptions {
        signing: Some(SigningKey::new(&[1; 16]).expect("a key")),
        ..AccessOptions::default()
    };
    for options in [file, tokens, nobody, signed] {
        let access = access(options);
        assert!(!access.is_open());
        // There is nobody to log in as, so there is no challenge, and thus no 401.
        assert_eq!(status(&access, "GET /", None), 403);
        assert_eq!(status(&access, "GET /", basic("", "")), 403);
    }
}

#[test]
fn two_passwords_for_one_user_are_a_mistake() {
    let twice = |options| Access::new(options).map(|_| ());
    let wrong = Err(AccessError::TwoPasswords {
        user: "alice".to_owned(),
    });
    assert_eq!(twice(rules(&["alice:a:ro", "alice:b:rw:/x"])), wrong);
    assert_eq!(
        twice(hashed(&[
            format!("alice:{}:ro", argon2_of("a")),
            format!("alice:{}:ro", bcrypt_of("a"))
        ])),
        wrong
    );
    let mut both = hashed(&[format!("alice:{}:ro", argon2_of("a"))]);
    both.rules = rules(&["alice:a:ro"]).rules;
    assert_eq!(twice(both), wrong);
    let line = |scope| format!("alice:{}:{scope}", argon2_of("a"));
    assert_eq!(twice(hashed(&[line("ro"), line("rw:/x")])), Ok(()));
}

/// Runs a pending login to its end.
async fn run(pending: PendingLogin) -> Checked {
    pending.turn().await.expect("a turn").run()
}

#[tokio::test]
async fn d15_hashed_passwords_are_hashed_once() {
    for hash in [argon2_of("pass"), bcrypt_of("pass")] {
        let access = access(hashed(&[format!("alice:{hash}:rw:/a")]));
        let right = || basic("alice", "pass");
        let checked = run(pending(&access, "GET /a", right())).await;
        assert_eq!(tally::taken().0, 1);
        let again = asked(&access, "GET /a", right(), Some(&checked));
        assert!(matches!(again, Judged::Granted(_)), "{again:?}");
        assert_eq!(
            granted(&access, "PUT /a/x", right()).user.as_deref(),
            Some("alice")
        );
        assert_eq!(status(&access, "PUT /b", right()), 403);
        // What was found out of one password says nothing of another, or of another's.
        assert!(matches!(
            asked(&access, "GET /a", basic("alice", "x"), Some(&checked)),
            Judged::NeedsHashing(_)
        ));
        assert!(matches!(
            asked(&access, "GET /a", basic("bob", "pass"), Some(&checked)),
            Judged::NeedsHashing(_)
        ));
        assert_eq!(tally::taken().0, 0);
    }
}

#[tokio::test]
async fn d15_wrong_passwords_are_remembered_too() {
    let access = access(hashed(&[format!("alice:{}:rw", argon2_of("pass"))]));
    let checked = run(pending(&access, "GET /", basic("alice", "x"))).await;
    let again = asked(&access, "GET /", basic("alice", "x"), Some(&checked));
    assert!(matches!(
        again,
        Judged::Refused(Refusal {
            why: Why::Wrong,
            ..
        })
    ));
    assert_eq!(status(&access, "GET /", basic("alice", "x")), 401);
    assert_eq!(tally::taken().0, 1);
}

#[tokio::test]
async fn d15_the_outcome_counts_even_when_it_was_forgotten() {
    let mut options = hashed(&[format!("alice:{}:rw", argon2_of("pass"))]);
    options.logins.lifetime = Duration::ZERO;
    options.logins.wrong_lifetime = Duration::ZERO;
    let access = access(options);
    for (password, wanted) in [("pass", true), ("x", false)] {
        let login = || basic("alice", password);
        let checked = run(pending(&access, "GET /", login())).await;
        let is_granted = matches!(
            asked(&access, "GET /", login(), Some(&checked)),
            Judged::Granted(_)
        );
        assert_eq!(is_granted, wanted);
        assert_eq!(status(&access, "GET /", login()), 0);
    }
}

/// Hashes and comparisons of a login that fails.
async fn cost(access: &Access, user: &str) -> (usize, usize) {
    tally::taken();
    if let Judged::NeedsHashing(pending) = asked(access, "GET /", basic(user, "wrong"), None) {
        let checked = run(pending).await;
        let again = asked(access, "GET /", basic(user, "wrong"), Some(&checked));
        assert!(matches!(
            again,
            Judged::Refused(Refusal {
                why: Why::Wrong,
                ..
            })
        ));
    }
    tally::taken()
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
    options.rules = rules(&["carol:pass:ro"]).rules;
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
    assert_eq!(tally::taken().0, 1);
    let again = asked(&access, "GET /", basic("mallory", "pass"), Some(&checked));
    assert!(matches!(again, Judged::Refused(_)));
    assert_eq!(status(&access, "GET /", basic("mallory", "pass")), 401);
}

#[tokio::test]
async fn d15_the_password_of_another_is_nobody_elses() {
    let mut options = hashed(&[format!("alice:{}:rw", argon2_of("pass"))]);
    options.rules = rules(&["carol:word:rw"]).rules;
    let access = access(options);
    // Carol's wrong password is held against the only hash there is, and fits.
    let checked = run(pending(&access, "GET /", basic("carol", "pass"))).await;
    assert_eq!(tally::taken().0, 1);
    let again = asked(&access, "GET /", basic("carol", "pass"), Some(&checked));
    assert!(matches!(
        again,
        Judged::Refused(Refusal {
            why: Why::Wrong,
            ..
        })
    ));
    assert_eq!(status(&access, "GET /", basic("carol", "pass")), 401);
    assert_eq!(status(&access, "GET /", basic("carol", "word")), 200);
}

#[tokio::test]
async fn d15_a_crowd_waits_within_bounds() {
    let mut options = hashed(&[format!("alice:{}:rw", argon2_of("pass"))]);
    options.logins.hashing = std::num::NonZeroUsize::MIN;
    options.logins.waiting = 2;
    let access = access(options);
    let wrong = |number: u32| basic("alice", &number.to_string());
    let first = pending(&access, "GET /", wrong(0))
        .turn()
        .await
        .expect("a turn");
    let second = pending(&access, "GET /", wrong(1));
    let third = pending(&access, "GET /", wrong(2));
    let Judged::Refused(refusal) = asked(&access, "GET /", wrong(3), None) else {
        panic!("a fourth place");
    };
    assert_eq!(
        (refusal.why, refusal.status()),
        (Why::Busy, StatusCode::SERVICE_UNAVAILABLE)
    );
    assert!(refusal.retry_after().is_some() && refusal.challenges.is_empty());
    // The second has no turn before the first is done, and a place that is given up is free.
    let mut turn = std::pin::pin!(second.turn());
    assert!(futures_util::poll!(turn.as_mut()).is_pending());
    drop(third);
    let fourth = pending(&access, "GET /", wrong(3));
    assert!(futures_util::poll!(turn.as_mut()).is_pending());
    let _ = first.run();
    let second = turn.await.expect("a turn");
    let _ = second.run();
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
    options.logins.of_one_address = std::num::NonZeroUsize::MIN;
    let access = access(options);
    let _held = pending(&access, "GET /", basic("alice", "x"));
    assert_eq!(status(&access, "GET /", basic("alice", "pass")), 503);
    let headers = HeaderMap::from_iter([(
        AUTHORIZATION,
        HeaderValue::from_str(&basic("alice", "pass").expect("one")).expect("a value"),
    )]);
    let ask = Ask {
        method: &Method::GET,
        named: &named("/"),
        query: None,
        headers: &headers,
        now: at(0),
        peer: Some([192, 0, 2, 2].into()),
    };
    assert!(matches!(access.judge(&ask), Judged::NeedsHashing(_)));
}

#[tokio::test]
async fn many_connections_with_one_login_cost_one_hash() {
    let access = access(hashed(&[format!("alice:{}:rw", argon2_of("pass"))]));
    let all: Vec<_> = (0..16)
        .map(|_| pending(&access, "GET /", basic("alice", "pass")))
        .collect();
    tally::taken();
    for pending in all {
        assert!(run(pending).await.is_right);
    }
    assert_eq!(tally::taken().0, 1);
}

#[test]
fn d15_a_signature_decides_alone() {
    let signing = SigningKey::new(b"0123456789abcdef").expect("a key");
    let mut options = rules(&["alice:pass:rw"]);
    options.signing = Some(signing.clone());
    let access = access(options);
    let signed = |method, path: &str, query| {
        format!(
            "{path}?{}",
            signing.sign(method, &named(path), query, at(60))
        )
    };
    let get = signed(Signable::Get, "/a/b", None);
    let grant = granted(&access, &format!("GET {get}"), None);
    assert_eq!((grant.how, grant.user.as_deref()), (How::Signature, None));
    assert!(grant.is_personal() && grant.may(Right::Read, &key("/a/b")));
    assert!(!grant.may(Right::Write, &key("/a/b")) && !grant.may(Right::Read, &key("/a/b/c")));
    assert!(!grant.may(Right::Read, &key("/a")) && !grant.may_list(&key("/a/b")));
    assert_eq!(status(&access, &format!("HEAD {get}"), None), 200);
    for method in ["PUT", "DELETE", "POST", "PATCH", "get"] {
        assert_eq!(
            status(&access, &format!("{method} {get}"), None),
            403,
            "{method}"
        );
    }
    // Not even with a login that would do, and not with anything added.
    assert_eq!(
        status(&access, &format!("PUT {get}"), basic("alice", "pass")),
        403
    );
    assert_eq!(status(&access, &format!("GET {get}&format=tar"), None), 403);
    let folder = signed(Signable::Get, "/a/", Some("format=tar"));
    let grant = granted(&access, &format!("GET {folder}"), None);
    assert!(
        grant.may_list(&key("/a"))
            && !grant.may_list(&key("/a/b"))
            && !grant.may_list(&Key::root())
    );
    let grant = granted(
        &access,
        &format!("PUT {}", signed(Signable::Put, "/a/b", None)),
        None,
    );
    assert!(grant.may(Right::Write, &key("/a/b")) && !grant.may(Right::Read, &key("/a/b")));
    let late = signing.sign(Signable::Get, &named("/a"), None, at(0));
    for (query, wanted) in [
        (late.as_str(), Why::Expired),
        ("haul-signature=x", Why::BadSignature),
    ] {
        match asked(&access, &format!("GET /a?{query}"), None, None) {
            Judged::Refused(refusal) => {
                assert_eq!((refusal.why, refusal.challenges.len()), (wanted, 0))
            }
            other => panic!("{other:?}"),
        }
    }
    // Without a key these parameters are anybody's.
    let keyless = self::access(rules(&["alice:pass:rw"]));
    assert_eq!(status(&keyless, &format!("GET {get}"), None), 401);
    assert_eq!(
        status(&keyless, &format!("GET {get}"), basic("alice", "pass")),
        200
    );
}

#[test]
fn nothing_that_is_printed_shows_a_secret() {
    let mut options = rules(&["alice:hunter2:rw"]);
    options.tokens = vec!["hunter2:ro".parse().expect("a rule")];
    options.signing = Some(SigningKey::new(b"hunter2hunter2hunter2").expect("a key"));
    options.files = hashed(&[format!("bob:{}:ro", argon2_of("hunter2"))]).files;
    let shown = format!("{options:?}");
    let access = access(options);
    let pending = asked(&access, "GET /", basic("bob", "hunter2"), None);
    let headers =
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer hunter2"))]);
    let ask = Ask {
        method: &Method::GET,
        named: &named("/"),
        query: Some("haul-signature=hunter2"),
        headers: &headers,
        now: at(0),
        peer: None,
    };
    let shown = format!("{shown}{access:?}{pending:?}{ask:?}");
    assert!(
        !shown.contains("hunter2") && !shown.contains("$argon2") && !shown.contains("104, 117"),
        "{shown}"
    );
}

proptest! {
    #[test]
    fn who_has_no_password_gets_nothing(
        method in "(GET|HEAD|PUT|DELETE|POST|BREW)",
        path in "(/[a-c]){1,3}/?",
        field in prop::option::of("((Basic|Bearer) )?[ -~]{0,40}"),
        query in prop::option::of("(haul-expires=|haul-signature=|&|[ -~&&[^#]]){0,8}"),
    ) {
        let mut options = rules(&["alice:correct horse battery staple:rw"]);
        options.tokens = vec!["Zm9yIG5vYm9keSBlbHNl:rw".parse().expect("a rule")];
        options.signing = Some(SigningKey::new(b"0123456789abcdef").expect("a key"));
        let access = access(options);
        let line = format!("{method} {path}?{}", query.unwrap_or_default());
        prop_assert!(matches!(status(&access, &line, field), 401 | 403));
    }

    #[test]
    fn rights_follow_the_scopes(
        scopes in prop::collection::vec(("(ro|rw)", "(/[ab]){0,3}"), 1..4),
        path in "(/[ab]){1,4}",
        is_write: bool,
    ) {
        let texts: Vec<_> = scopes.iter().map(|(right, prefix)| match prefix.as_str() {
            "" => format!("alice:pass:{right}"),
            prefix => format!("alice:pass:{right}:{prefix}"),
        }).collect();
        let access = access(rules(&texts.iter().map(String::as_str).collect::<Vec<_>>()));
        // The model: text, with a slash behind each segment.
        let is_allowed = scopes.iter().any(|(right, prefix)| {
            format!("{path}/").starts_with(&format!("{prefix}/")) && (right == "rw" || !is_write)
        });
        let method = if is_write { Method::PUT } else { Method::GET };
        let came = status(&access, &format!("{method} {path}"), basic("alice", "pass"));
        prop_assert_eq!(came, if is_allowed { 200 } else { 403 });
    }
}
