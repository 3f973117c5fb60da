//! What pages of other sites are told: also when they are refused, so that they can say why.

use std::path::Path;

use http::Method;

use haul_serve::FileServerOptions;
use haul_serve::access::{
    AccessControl, AccessOptions, AllowedOrigins, AuthFile, CorsOptions, CorsPolicy,
};

use crate::client::RequestPathway;
use crate::harness::{ServerSetup, TestServer};

/// The page that is named.
const PAGE: &str = "https://page.test";

/// `ann:secret`.
const ANN: (&str, &str) = ("Authorization", "Basic YW5uOnNlY3JldA==");

/// A server of one file, for those who log in, that names a page which may write.
fn serving(access: AccessOptions, credentials: bool) -> TestServer {
    let cors = CorsPolicy::new(CorsOptions {
        origins: AllowedOrigins::List(vec![PAGE.parse().unwrap()]),
        allowed_methods: vec![Method::GET, Method::PUT],
        credentials,
        ..CorsOptions::default()
    });
    let setup = ServerSetup {
        server: FileServerOptions {
            access: AccessControl::new(access).unwrap(),
            cors: Some(cors.unwrap()),
            ..FileServerOptions::default()
        },
        ..ServerSetup::default()
    };
    let served = setup.start();
    served.file("f", "x");
    served
}

fn ann() -> AccessOptions {
    AccessOptions {
        users: vec!["ann:secret:rw".parse().unwrap()],
        tokens: vec!["token:rw".parse().unwrap()],
        ..AccessOptions::default()
    }
}

/// A page that may not read a 401 cannot ask for a login.
#[test]
fn pages_that_were_named_may_read_refusals() {
    // A login that must be hashed is refused on another path.
    let line = "bob:$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW:ro";
    let served = serving(
        AccessOptions {
            auth_files: vec![AuthFile::parse(Path::new("logins"), line).unwrap()],
            ..ann()
        },
        false,
    );
    let wrong = ("Authorization", "Basic Ym9iOndyb25n");
    for road in RequestPathway::ALL {
        for (origin, told) in [(PAGE, Some(PAGE)), ("https://other.test", None)] {
            let origin = ("Origin", origin);
            for (target, fields, status) in [
                ("/f", &[origin][..], 401),
                ("/f", &[origin, wrong], 401),
                ("/f", &[origin, ("Authorization", "nonsense")], 401),
                ("/a%2fb", &[origin, ANN], 400),
                ("/none", &[origin, ANN], 404),
            ] {
                let answer = served.ask(road, "GET", target, fields);
                let case = format!("{road:?} {target} {fields:?}");
                assert_eq!(answer.status, status, "{case}");
                let named = answer.field("access-control-allow-origin");
                assert_eq!(
                    (named, answer.field("vary")),
                    (told, Some("Origin")),
                    "{case}"
                );
            }
        }
    }
}

/// A login may be one that the browser keeps, and adds to what a page asks of its own accord; a token is none.
#[test]
fn a_page_that_writes_with_a_login_is_told_what_that_needs() {
    let bearer = ("Authorization", "Bearer token");
    for (credentials, login) in [(false, 403), (true, 204)] {
        let served = serving(ann(), credentials);
        for road in RequestPathway::ALL {
            let put = |fields: &[_]| served.put(road, "/f", fields, b"y");
            assert_eq!(put(&[("Origin", PAGE), bearer]).status, 204, "{road:?}");
            let answer = put(&[("Origin", PAGE), ANN]);
            assert_eq!(answer.status, login, "{road:?}");
            let says = answer.text().contains("--cors-credentials");
            assert_eq!(says, !credentials, "{road:?} {}", answer.text());
            // That of a stranger needs something else first.
            let answer = put(&[("Origin", "https://other.test"), ANN]);
            assert_eq!(answer.status, 403, "{road:?}");
            assert!(!answer.text().contains("--cors-credentials"), "{road:?}");
        }
    }
}
