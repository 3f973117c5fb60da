//! What rules, tokens and signatures let whom do.

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
        (grant.user.as_deref(), grant.source),
        (Some("alice"), PermissionSource::Login)
    );
    assert!(
        grant.allows(AccessRight::Write, &key("/a/y"))
            && !grant.allows(AccessRight::Write, &key("/b"))
    );
    assert!(grant.allows_listing(&key("/b")) && !grant.allows_listing(&ObjectKey::root()));
    let grant = granted(&access, "OPTIONS /a", None);
    assert!(!grant.allows(AccessRight::Read, &key("/a")));
}

#[test]
fn d15_refusals_say_how_to_log_in_and_nothing_more() {
    let mut options = rules(&["alice:pass:rw:/a"]);
    options.tokens = vec!["secret:ro:/t".parse().expect("a rule")];
    let access = access(options);
    let refused = |authorization| match asked(&access, "GET /b", authorization, None) {
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

/// Nobody is asked for what cannot be given.
#[test]
fn d15_refusals_name_what_there_is() {
    let key = || Some("0123456789abcdef".parse().expect("a key"));
    let signed = AccessOptions {
        signing_key: key(),
        ..AccessOptions::default()
    };
    let both = AccessOptions {
        signing_key: key(),
        ..rules(&["alice:pass:ro"])
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
        let AccessDecision::Refused(refusal) = asked(&access(options), "PUT /b", None, None) else {
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
    let grant = granted(&access, "GET /c", bearer("two"));
    assert_eq!((grant.user, grant.source), (None, PermissionSource::Token));
}

#[test]
fn d15_strangers_may_what_was_granted_to_all() {
    let mut options = rules(&["alice:pass:rw:/a"]);
    options.anonymous = AnonymousAccess::Some(vec!["ro:/pub".parse().expect("a scope")]);
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
        // There is nobody to log in as, so there is no challenge, and thus no 401.
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
    assert_eq!(twice(rules(&["alice:a:ro", "alice:b:rw:/x"])), wrong);
    assert_eq!(
        twice(hashed(&[
            format!("alice:{}:ro", argon2_of("a")),
            format!("alice:{}:ro", bcrypt_of("a"))
        ])),
        wrong
    );
    let mut both = hashed(&[format!("alice:{}:ro", argon2_of("a"))]);
    both.users = rules(&["alice:a:ro"]).users;
    assert_eq!(twice(both), wrong);
    let line = |scope| format!("alice:{}:{scope}", argon2_of("a"));
    assert_eq!(twice(hashed(&[line("ro"), line("rw:/x")])), Ok(()));
}

#[test]
fn d15_a_signature_decides_alone() {
    use AccessRight::{Read, Write};
    use SignableMethod::{Get, Put};
    let signing = SigningKey::new(b"0123456789abcdef").expect("a key");
    let mut options = rules(&["alice:pass:rw"]);
    options.signing_key = Some(signing.clone());
    let access = access(options);
    let signed = |method, path: &str, query| {
        let query = signing.sign(method, &named(path), query, at(60));
        format!("{path}?{query}")
    };
    let get = signed(Get, "/a/b", None);
    let grant = granted(&access, &format!("GET {get}"), None);
    assert_eq!(
        (grant.source, grant.user.as_deref()),
        (PermissionSource::Signature, None)
    );
    assert!(grant.is_personal() && grant.allows(Read, &key("/a/b")));
    assert!(!grant.allows(Write, &key("/a/b")) && !grant.allows(Read, &key("/a/b/c")));
    assert!(!grant.allows(Read, &key("/a")) && !grant.allows_listing(&key("/a/b")));
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
    let folder = signed(Get, "/a/", Some("format=tar"));
    let grant = granted(&access, &format!("GET {folder}"), None);
    assert!(
        grant.allows_listing(&key("/a"))
            && !grant.allows_listing(&key("/a/b"))
            && !grant.allows_listing(&ObjectKey::root())
    );
    let grant = granted(&access, &format!("PUT {}", signed(Put, "/a/b", None)), None);
    assert!(grant.allows(Write, &key("/a/b")) && !grant.allows(Read, &key("/a/b")));
    let late = signing.sign(Get, &named("/a"), None, at(0));
    for (query, wanted) in [
        (late.as_str(), AccessRefusalReason::LinkExpired),
        ("haul-signature=x", AccessRefusalReason::BadSignature),
    ] {
        match asked(&access, &format!("GET /a?{query}"), None, None) {
            AccessDecision::Refused(refusal) => {
                assert_eq!((refusal.reason, refusal.challenges.len()), (wanted, 0))
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
