//! What rules, tokens and signatures permit.

use std::path::Path;

use http::{Method, StatusCode};
use proptest::prelude::*;

use super::*;

#[test]
fn d15_without_rules_everybody_may_do_everything() {
    let access = access(AccessOptions::default());
    assert!(access.is_open());
    assert_eq!(status(&access, "DELETE /a", None), 200);
    assert_eq!(status(&access, "PUT /a", Some("nonsense".to_owned())), 200);
    assert!(!permissions_for(&access, "GET /", None).is_personal());
}

#[test]
fn d15_credentials_decide() {
    let access = access(rule_options(&[
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
        // Nothing above or beside her prefix, not even names.
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
    let permissions = permissions_for(&access, "GET /a/x", basic("alice", "pass"));
    assert_eq!(
        (permissions.user.as_deref(), permissions.source),
        (Some("alice"), PermissionSource::Login)
    );
    assert!(
        permissions.allows(AccessRight::Write, &key("/a/y"))
            && !permissions.allows(AccessRight::Write, &key("/b"))
    );
    assert!(
        permissions.allows_listing(&key("/b")) && !permissions.allows_listing(&ObjectKey::root())
    );
    let permissions = permissions_for(&access, "OPTIONS /a", None);
    assert!(!permissions.allows(AccessRight::Read, &key("/a")));
}

#[test]
fn d15_refusals_say_how_to_log_in_and_nothing_more() {
    let mut options = rule_options(&["alice:pass:rw:/a"]);
    options.tokens = vec!["secret:ro:/t".parse().expect("a rule")];
    let access = access(options);
    let refused = |authorization| match authorize(&access, "GET /b", authorization, None) {
        AccessDecision::Refused(refusal) => refusal,
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
fn d15_refusals_ask_only_for_credentials_that_exist() {
    let key = || Some("0123456789abcdef".parse().expect("a key"));
    let signed = AccessOptions {
        signing_key: key(),
        ..AccessOptions::default()
    };
    let both = AccessOptions {
        signing_key: key(),
        ..rule_options(&["alice:pass:ro"])
    };
    let common = AccessOptions {
        anonymous: AnonymousAccess::Some(vec![AccessScope::everywhere(AccessRight::Read)]),
        ..AccessOptions::default()
    };
    for (options, status, says) in [
        (signed, 403, "this needs a signed link"),
        (both, 401, "this needs a login"),
        (common, 403, "you may not do this here"),
    ] {
        let AccessDecision::Refused(refusal) = authorize(&access(options), "PUT /b", None, None)
        else {
            panic!("it is granted")
        };
        assert_eq!(refusal.to_string(), says);
        assert_eq!(refusal.status(), status, "{says}");
    }
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
    let permissions = permissions_for(&access, "GET /c", bearer("two"));
    assert_eq!(
        (permissions.user, permissions.source),
        (None, PermissionSource::Token)
    );
}

#[test]
fn d15_requests_without_credentials_have_the_anonymous_scopes() {
    let mut options = rule_options(&["alice:pass:rw:/a"]);
    options.anonymous = AnonymousAccess::Some(vec!["ro:/pub".parse().expect("a scope")]);
    let access = access(options);
    assert_eq!(status(&access, "GET /pub/x", None), 200);
    assert_eq!(status(&access, "PUT /pub/x", None), 401);
    assert_eq!(status(&access, "GET /a/x", None), 401);
    // A user with a login may do no less; a wrong login is refused.
    assert_eq!(status(&access, "GET /pub/x", basic("alice", "pass")), 200);
    assert_eq!(status(&access, "PUT /pub/x", basic("alice", "pass")), 403);
    assert_eq!(status(&access, "GET /pub/x", basic("alice", "x")), 401);
    assert!(!permissions_for(&access, "GET /pub/x", None).is_personal());
}

#[test]
fn d15_empty_credential_files_permit_nothing() {
    let file = hashed_options(&["# nobody yet".to_owned()]);
    let tokens = AccessOptions {
        token_files: vec![TokenFile::default()],
        ..AccessOptions::default()
    };
    let nobody = AccessOptions {
        anonymous: AnonymousAccess::Some(Vec::new()),
        ..AccessOptions::default()
    };
    let signed = AccessOptions {
        signing_key: Some(SigningKey::new(&[1; 16]).expect("a key")),
        ..AccessOptions::default()
    };
    for options in [file, tokens, nobody, signed] {
        let access = access(options);
        assert!(!access.is_open());
        // Without any login there is no challenge, and thus no 401.
        assert_eq!(status(&access, "GET /", None), 403);
        assert_eq!(status(&access, "GET /", basic("", "")), 403);
    }
}

#[test]
fn two_passwords_for_one_user_are_a_mistake() {
    let twice = |options| AccessControl::new(options).map(|_| ());
    let wrong = Err(AccessError::TwoPasswords {
        user: "alice".to_owned(),
    });
    assert_eq!(twice(rule_options(&["alice:a:ro", "alice:b:rw:/x"])), wrong);
    assert_eq!(
        twice(hashed_options(&[
            format!("alice:{}:ro", argon2_of("a")),
            format!("alice:{}:ro", bcrypt_of("a"))
        ])),
        wrong
    );
    let mut both = hashed_options(&[format!("alice:{}:ro", argon2_of("a"))]);
    both.users = rule_options(&["alice:a:ro"]).users;
    assert_eq!(twice(both), wrong);
    let line = |scope| format!("alice:{}:{scope}", argon2_of("a"));
    assert_eq!(twice(hashed_options(&[line("ro"), line("rw:/x")])), Ok(()));
}

#[test]
fn d15_a_signature_decides_alone() {
    use AccessRight::{Read, Write};
    use SignableMethod::{Get, Put};
    let signing = SigningKey::new(b"0123456789abcdef").expect("a key");
    let mut options = rule_options(&["alice:pass:rw"]);
    options.signing_key = Some(signing.clone());
    let access = access(options);
    let signed = |method, path: &str, query| {
        let query = signing.sign(method, &request_path(path), query, at(60));
        format!("{path}?{query}")
    };
    let get = signed(Get, "/a/b", None);
    let permissions = permissions_for(&access, &format!("GET {get}"), None);
    assert_eq!(
        (permissions.source, permissions.user.as_deref()),
        (PermissionSource::Signature, None)
    );
    assert!(permissions.is_personal() && permissions.allows(Read, &key("/a/b")));
    assert!(!permissions.allows(Write, &key("/a/b")) && !permissions.allows(Read, &key("/a/b/c")));
    assert!(!permissions.allows(Read, &key("/a")) && !permissions.allows_listing(&key("/a/b")));
    assert_eq!(status(&access, &format!("HEAD {get}"), None), 200);
    for method in ["PUT", "DELETE", "POST", "PATCH", "get"] {
        assert_eq!(
            status(&access, &format!("{method} {get}"), None),
            403,
            "{method}"
        );
    }
    // Not even with a login that would suffice, and not with anything added.
    assert_eq!(
        status(&access, &format!("PUT {get}"), basic("alice", "pass")),
        403
    );
    assert_eq!(status(&access, &format!("GET {get}&format=tar"), None), 403);
    let folder = signed(Get, "/a/", Some("format=tar"));
    let permissions = permissions_for(&access, &format!("GET {folder}"), None);
    assert!(
        permissions.allows_listing(&key("/a"))
            && !permissions.allows_listing(&key("/a/b"))
            && !permissions.allows_listing(&ObjectKey::root())
    );
    let permissions = permissions_for(&access, &format!("PUT {}", signed(Put, "/a/b", None)), None);
    assert!(permissions.allows(Write, &key("/a/b")) && !permissions.allows(Read, &key("/a/b")));
    let late = signing.sign(Get, &request_path("/a"), None, at(0));
    for (query, wanted) in [
        (late.as_str(), AccessRefusalReason::LinkExpired),
        ("haul-signature=x", AccessRefusalReason::BadSignature),
    ] {
        match authorize(&access, &format!("GET /a?{query}"), None, None) {
            AccessDecision::Refused(refusal) => {
                assert_eq!((refusal.reason, refusal.challenges.len()), (wanted, 0))
            }
            other => panic!("{other:?}"),
        }
    }
    // Without a key these parameters mean nothing.
    let keyless = self::access(rule_options(&["alice:pass:rw"]));
    assert_eq!(status(&keyless, &format!("GET {get}"), None), 401);
    assert_eq!(
        status(&keyless, &format!("GET {get}"), basic("alice", "pass")),
        200
    );
}

proptest! {
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
        let access = access(rule_options(&texts.iter().map(String::as_str).collect::<Vec<_>>()));
        // The model: text, with a slash after each segment.
        let is_allowed = scopes.iter().any(|(right, prefix)| {
            format!("{path}/").starts_with(&format!("{prefix}/")) && (right == "rw" || !is_write)
        });
        let method = if is_write { Method::PUT } else { Method::GET };
        let status_code = status(&access, &format!("{method} {path}"), basic("alice", "pass"));
        prop_assert_eq!(status_code, if is_allowed { 200 } else { 403 });
    }
}
