//! D15: permissions are checked before everything else, over every transport.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haul_serve::access::{
    AccessControl, AccessOptions, AnonymousAccess, LoginOptions, SignableMethod, SigningKey,
};
use haul_serve::{FileServerOptions, ObjectKey};

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{ServerSetup, TestServer};

fn basic(login: &str) -> String {
    format!("Basic {}", STANDARD.encode(login))
}

fn key() -> SigningKey {
    SigningKey::new(b"0123456789abcdef").unwrap()
}

/// `ann` may do everything, `bob` may read below `/bob`, a token may write below `/in`, and `/open`
/// may be read without a login.
fn start_server() -> TestServer {
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
    let server = setup.start();
    for name in ["ann", "bob/f", "in/f", "open/f"] {
        server.write_file(name, "content");
    }
    server
}

/// The page can be read without a login. `bob` may not read the root, to which the request of the
/// button is sent.
#[test]
fn the_login_button_gets_a_401_and_then_redirects_to_its_folder() {
    let server = start_server();
    let [bob, wrong] = ["bob:pass", "bob:wrong"].map(basic);
    for transport in TestTransport::ALL {
        let get = |path: &str, login: Option<&str>| {
            let fields = login.map(|login| ("Authorization", login));
            server.request(transport, "GET", path, fields.as_slice())
        };
        let page = get("/open/", None).text();
        let button = "<form action=\"../\"><button name=\"login\" value=\"/open\">Log in</button>";
        assert!(page.contains(button), "{page}");
        let page = get("/open/", Some(&bob)).text();
        assert!(page.contains("Logged in as <bdi>bob</bdi>") && !page.contains("Log in<"));

        for (login, status) in [(None, 401), (Some(&wrong), 401), (Some(&bob), 303)] {
            let response = get("/?login=%2Fopen", login.map(String::as_str));
            assert_eq!(response.status, status, "{transport:?} {login:?}");
            let is_challenge = |(name, _): &&(String, String)| name == "www-authenticate";
            let challenges = response.fields.iter().filter(is_challenge);
            assert_eq!(challenges.count() > 0, status == 401);
            let location = (status == 303).then_some("./open/");
            assert_eq!(response.header("location"), location);
            if login != Some(&wrong) {
                assert_eq!(response.header("cache-control"), Some("no-store"));
            }
        }
        // No value redirects to another server, or to a folder that the user may not read.
        let ann = basic("ann:secret");
        for (value, location) in [
            ("/", "./"),
            ("/a%2520b/", "./a%20b/"),
            ("//evil.test/", "./"),
            ("https://evil.test/", "./"),
            ("/%5Cevil.test/", "./%5Cevil.test/"),
            ("/../", "./"),
            ("%0d%0aX:y", "./"),
        ] {
            let response = get(&format!("/?login={value}"), Some(&ann));
            assert_eq!(response.status, 303, "{value}");
            assert_eq!(response.header("location"), Some(location), "{value}");
        }
        assert_eq!(get("/?login=/ann/", Some(&bob)).status, 403);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn d15_users_may_do_exactly_what_their_scopes_permit() {
    let server = start_server();
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
        // A wrong login is refused even for paths that need no login.
        cases.push(("GET", "/open/f", Some(wrong), &[401]));
    }
    for transport in TestTransport::ALL {
        for (method, path, login, expected) in &cases {
            let fields: Vec<_> = login
                .iter()
                .map(|login| ("Authorization", *login))
                .collect();
            let response = match *method {
                "PUT" => server.put(transport, path, &fields, b"content"),
                _ => server.request(transport, method, path, &fields),
            };
            assert!(
                expected.contains(&response.status),
                "{transport:?} {method} {path} {login:?}: {response:?}"
            );
            let challenges = response
                .fields
                .iter()
                .filter(|(name, _)| name == "www-authenticate");
            assert_eq!(
                challenges.count() > 0,
                response.status == 401,
                "{transport:?} {method} {path}"
            );
            assert!(response.status == 200 || !response.text().contains("content"));
        }
        for name in ["ann", "bob/f", "in/f", "open/f"] {
            assert_eq!(server.read_file(name).unwrap(), b"content", "{transport:?}");
        }
    }
}

#[test]
fn d15_a_signed_url_permits_only_its_method_and_path() {
    let server = start_server();
    let signed_key = ObjectKey::parse("/ann").unwrap();
    let future_expiry = SystemTime::now() + Duration::from_secs(600);
    let past_expiry = SystemTime::now() - Duration::from_secs(600);
    let sign = |method, when| key().sign(method, &signed_key, None, when);
    let (good, late) = (
        sign(SignableMethod::Get, future_expiry),
        sign(SignableMethod::Get, past_expiry),
    );
    let file = ObjectKey::parse("/bob").unwrap();
    let file = key().sign(SignableMethod::Get, &file, None, future_expiry);
    let put = sign(SignableMethod::Put, future_expiry);
    for transport in TestTransport::ALL {
        let status_of =
            |method: &str, target: &str| server.request(transport, method, target, &[]).status;
        assert_eq!(
            status_of("GET", &format!("/ann?{good}")),
            200,
            "{transport:?}"
        );
        assert_eq!(
            status_of("HEAD", &format!("/ann?{good}")),
            200,
            "{transport:?}"
        );
        for (method, target) in [
            ("GET", format!("/ann?{late}")),
            ("GET", format!("/ann?{put}")),
            ("GET", format!("/bob/f?{good}")),
            // The listing of a folder is not the file with that name.
            ("GET", format!("/bob/?{file}")),
            ("GET", format!("/ann?{good}x")),
            ("GET", format!("/ann?x=y&{good}")),
            ("DELETE", format!("/ann?{good}")),
            ("DELETE", format!("/ann?{put}")),
        ] {
            assert!(
                [401, 403].contains(&status_of(method, &target)),
                "{transport:?} {method} {target}"
            );
        }
        assert_eq!(
            server
                .put(transport, &format!("/ann?{put}"), &[], b"content")
                .status,
            204,
            "{transport:?}"
        );
    }
}

/// A client without permission gets the refusal before it sends the body, and also if it sends the body anyway.
#[test]
fn d15_a_client_without_permission_gets_no_100_continue() {
    let server = start_server();
    for transport in TestTransport::HTTP1 {
        let mut client = TestClient::connect(&server, transport);
        client.send(request_head(
            "PUT",
            "/ann",
            &[("Content-Length", "5"), ("Expect", "100-continue")],
        ));
        assert_eq!(client.read_response_to("PUT").status, 401, "{transport:?}");
        let body = vec![b'x'; 4 << 20];
        assert_eq!(
            server.put(transport, "/ann", &[], &body).status,
            401,
            "{transport:?}"
        );
        assert_eq!(server.read_file("ann").unwrap(), b"content");
        assert_eq!(server.temporary_files(), 0);
    }
}
