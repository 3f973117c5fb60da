//! D15: who may not is told so, on every road, before anything else is.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haul_serve::access::{
    AccessControl, AccessOptions, AnonymousAccess, LoginOptions, SignableMethod, SigningKey,
};
use haul_serve::{FileServerOptions, ObjectKey};

use crate::client::{RequestPathway, TestClient, request};
use crate::harness::{ServerSetup, TestServer};

fn basic(login: &str) -> String {
    format!("Basic {}", STANDARD.encode(login))
}

fn key() -> SigningKey {
    SigningKey::new(b"0123456789abcdef").unwrap()
}

/// `ann` may do everything, `bob` may read below `/bob`, a token may write below `/in`, and strangers may read below `/open`.
fn served() -> TestServer {
    let access = AccessControl::new(AccessOptions {
        users: vec![
            "ann:secret:rw".parse().unwrap(),
            "bob:pass:ro:/bob".parse().unwrap(),
        ],
        auth_files: Vec::new(),
        tokens: vec!["t0ken:rw:/in".parse().unwrap()],
        token_files: Vec::new(),
        anonymous: AnonymousAccess::Some(vec!["ro:/open".parse().unwrap()]),
        signing_key: Some(key()),
        logins: LoginOptions::default(),
    });
    let setup = ServerSetup {
        server: FileServerOptions {
            access: access.unwrap(),
            ..FileServerOptions::default()
        },
        ..ServerSetup::default()
    };
    let served = setup.start();
    for name in ["ann", "bob/f", "in/f", "open/f"] {
        served.file(name, "content");
    }
    served
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn d15_everybody_may_do_what_they_may() {
    let served = served();
    let [ann, bob] = ["ann:secret", "bob:pass"].map(basic);
    let token = "Bearer t0ken".to_owned();
    let wrong = [
        "ann:Secret",
        "ann:",
        "ann:secretx",
        "bob:secret",
        "nobody:secret",
        ":",
        "ann",
    ]
    .map(basic);
    let mut cases: Vec<(&str, &str, Option<&str>, &[u16])> = vec![
        ("GET", "/ann", None, &[401]),
        ("GET", "/nowhere", None, &[401]),
        ("GET", "/", None, &[401]),
        ("PUT", "/ann", None, &[401]),
        ("DELETE", "/open/f", None, &[401]),
        ("GET", "/open/f", None, &[200]),
        ("GET", "/opener", None, &[401]),
        ("GET", "/ann", Some(&ann), &[200]),
        ("GET", "/nowhere", Some(&ann), &[404]),
        ("GET", "/bob/f", Some(&bob), &[200]),
        ("GET", "/ann", Some(&bob), &[403]),
        ("GET", "/nowhere", Some(&bob), &[403]),
        ("PUT", "/bob/f", Some(&bob), &[403]),
        ("DELETE", "/bob/f", Some(&bob), &[403]),
        ("GET", "/bobby", Some(&bob), &[403]),
        ("GET", "/bob/../ann", Some(&bob), &[400]),
        ("GET", "/bob/%2e%2e/ann", Some(&bob), &[400]),
        ("PUT", "/in/f", Some(&token), &[204]),
        ("PUT", "/ann", Some(&token), &[403]),
        ("GET", "/ann", Some("Bearer t0kenx"), &[401]),
        ("GET", "/ann", Some("Bearer "), &[400, 401]),
        ("GET", "/ann", Some("Basic ?"), &[400, 401]),
        ("GET", "/ann", Some("Digest x"), &[400, 401]),
        ("GET", "/ann", Some("secret"), &[400, 401]),
    ];
    for wrong in &wrong {
        cases.push(("GET", "/ann", Some(wrong), &[401]));
        // Who mistypes is told, also where strangers may go.
        cases.push(("GET", "/open/f", Some(wrong), &[401]));
    }
    for road in RequestPathway::ALL {
        for (method, path, login, expected) in &cases {
            let fields: Vec<_> = login
                .iter()
                .map(|login| ("Authorization", *login))
                .collect();
            let answer = match *method {
                "PUT" => served.put(road, path, &fields, b"content"),
                _ => served.ask(road, method, path, &fields),
            };
            assert!(
                expected.contains(&answer.status),
                "{road:?} {method} {path} {login:?}: {answer:?}"
            );
            let challenges = answer
                .fields
                .iter()
                .filter(|(name, _)| name == "www-authenticate");
            assert_eq!(
                challenges.count() > 0,
                answer.status == 401,
                "{road:?} {method} {path}"
            );
            assert!(answer.status == 200 || !answer.text().contains("content"));
        }
        for name in ["ann", "bob/f", "in/f", "open/f"] {
            assert_eq!(served.holds(name).unwrap(), b"content", "{road:?}");
        }
    }
}

#[test]
fn d15_a_signed_url_is_good_for_what_it_was_signed_for() {
    let served = served();
    let named = ObjectKey::parse("/ann").unwrap();
    let soon = SystemTime::now() + Duration::from_secs(600);
    let past = SystemTime::now() - Duration::from_secs(600);
    let sign = |method, when| key().sign(method, &named, None, when);
    let (good, late) = (
        sign(SignableMethod::Get, soon),
        sign(SignableMethod::Get, past),
    );
    let file = ObjectKey::parse("/bob").unwrap();
    let file = key().sign(SignableMethod::Get, &file, None, soon);
    let put = sign(SignableMethod::Put, soon);
    for road in RequestPathway::ALL {
        let ask = |method: &str, target: &str| served.ask(road, method, target, &[]).status;
        assert_eq!(ask("GET", &format!("/ann?{good}")), 200, "{road:?}");
        assert_eq!(ask("HEAD", &format!("/ann?{good}")), 200, "{road:?}");
        for (method, target) in [
            ("GET", format!("/ann?{late}")),
            ("GET", format!("/ann?{put}")),
            ("GET", format!("/bob/f?{good}")),
            // A folder's names are not the file of its name.
            ("GET", format!("/bob/?{file}")),
            ("GET", format!("/ann?{good}x")),
            ("GET", format!("/ann?x=y&{good}")),
            ("DELETE", format!("/ann?{good}")),
            ("DELETE", format!("/ann?{put}")),
        ] {
            assert!(
                [401, 403].contains(&ask(method, &target)),
                "{road:?} {method} {target}"
            );
        }
        assert_eq!(
            served
                .put(road, &format!("/ann?{put}"), &[], b"content")
                .status,
            204,
            "{road:?}"
        );
    }
}

/// Who is refused hears so before the body is sent, and whoever sends it all the same.
#[test]
fn d15_a_body_of_somebody_who_may_not_is_not_asked_for() {
    let served = served();
    for road in RequestPathway::FIRST {
        let mut client = TestClient::on(&served, road);
        client.send(request(
            "PUT",
            "/ann",
            &[("Content-Length", "5"), ("Expect", "100-continue")],
        ));
        assert_eq!(client.answer_to("PUT").status, 401, "{road:?}");
        let body = vec![b'x'; 4 << 20];
        assert_eq!(served.put(road, "/ann", &[], &body).status, 401, "{road:?}");
        assert_eq!(served.holds("ann").unwrap(), b"content");
        assert_eq!(served.temporaries(), 0);
    }
}
