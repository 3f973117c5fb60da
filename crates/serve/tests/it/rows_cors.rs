//! CORS headers for pages of other sites, also on error responses, so that a page can show the reason.

use std::path::Path;

use http::Method;

use haul_serve::FileServerOptions;
use haul_serve::access::{
    AccessControl, AccessOptions, AllowedOrigins, AuthFile, CorsOptions, CorsPolicy,
};

use crate::client::TestTransport;
use crate::harness::{ServerSetup, TestServer};

/// The allowed origin.
const PAGE: &str = "https://page.test";

/// `ann:secret`.
const ANN: (&str, &str) = ("Authorization", "Basic YW5uOnNlY3JldA==");

/// A server with one file that requires a login and allows writes of one other origin.
fn start_server(access: AccessOptions, credentials: bool) -> TestServer {
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
    let server = setup.start();
    server.write_file("f", "x");
    server
}

fn ann() -> AccessOptions {
    AccessOptions {
        users: vec!["ann:secret:rw".parse().unwrap()],
        tokens: vec!["token:rw".parse().unwrap()],
        ..AccessOptions::default()
    }
}

/// A page that cannot read a 401 cannot ask for a login.
#[test]
fn allowed_origins_may_read_error_responses() {
    // A login that must be hashed is refused on another code path.
    let line = "bob:$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW:ro";
    let server = start_server(
        AccessOptions {
            auth_files: vec![AuthFile::parse(Path::new("logins"), line).unwrap()],
            ..ann()
        },
        false,
    );
    let wrong = ("Authorization", "Basic Ym9iOndyb25n");
    for transport in TestTransport::ALL {
        for (origin, events) in [(PAGE, Some(PAGE)), ("https://other.test", None)] {
            let origin = ("Origin", origin);
            for (target, fields, status) in [
                ("/f", &[origin][..], 401),
                ("/f", &[origin, wrong], 401),
                ("/f", &[origin, ("Authorization", "nonsense")], 401),
                ("/a%2fb", &[origin, ANN], 400),
                ("/none", &[origin, ANN], 404),
            ] {
                let response = server.request(transport, "GET", target, fields);
                let case = format!("{transport:?} {target} {fields:?}");
                assert_eq!(response.status, status, "{case}");
                let allowed_origin = response.header("access-control-allow-origin");
                assert_eq!(
                    (allowed_origin, response.header("vary")),
                    (events, Some("Origin")),
                    "{case}"
                );
            }
        }
    }
}

/// A browser may add a stored login to cross-site requests by itself, but never a token.
#[test]
fn a_refused_cross_site_write_says_what_it_needs() {
    let bearer = ("Authorization", "Bearer token");
    for (credentials, login) in [(false, 403), (true, 204)] {
        let server = start_server(ann(), credentials);
        for transport in TestTransport::ALL {
            let put = |fields: &[_]| server.put(transport, "/f", fields, b"y");
            assert_eq!(
                put(&[("Origin", PAGE), bearer]).status,
                204,
                "{transport:?}"
            );
            let response = put(&[("Origin", PAGE), ANN]);
            assert_eq!(response.status, login, "{transport:?}");
            let says_why = response.text().contains("CORS settings");
            assert_eq!(says_why, !credentials, "{transport:?} {}", response.text());
            // An origin that is not on the list is refused before that.
            let response = put(&[("Origin", "https://other.test"), ANN]);
            assert_eq!(response.status, 403, "{transport:?}");
            assert!(!response.text().contains("CORS settings"), "{transport:?}");
        }
    }
}
