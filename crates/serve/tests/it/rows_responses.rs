//! Response headers for browsers and caches, requests from pages of other sites, and files that an
//! idle connection keeps open.

use http::Method;

use haul_serve::FileServerOptions;
use haul_serve::access::{AccessControl, AccessOptions, AllowedOrigins, CorsOptions, CorsPolicy};
use haul_serve::store::FileStoreOptions;

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{NAME, ServerSetup, TestServer, wait_until};

fn start_server(server: FileServerOptions) -> TestServer {
    let setup = ServerSetup {
        server,
        ..ServerSetup::default()
    };
    setup.start()
}

#[test]
fn responses_forbid_type_sniffing_and_listings_are_revalidated() {
    let server = TestServer::start();
    server.write_file("folder/f", "x");
    for transport in TestTransport::ALL {
        let file = server.request(transport, "GET", "/folder/f", &[]);
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(file.header("vary"), None, "{transport:?}");
        for form in ["html", "json", "tar"] {
            let target = format!("/folder/?format={form}");
            let folder = server.request(transport, "GET", &target, &[]);
            assert_eq!(folder.header("x-content-type-options"), Some("nosniff"));
            assert_eq!(folder.header("cache-control"), Some("no-cache"), "{form}");
            assert_eq!(folder.header("vary"), Some("accept"), "{form}");
        }
    }
}

/// The listing can be used as a list for `haul get -i`.
#[test]
fn listings_for_programs_have_absolute_urls_of_files() {
    let server = TestServer::start();
    server.write_file("folder/f g", "x");
    server.write_file("folder/sub/f", "x");
    for transport in TestTransport::ALL {
        let is_tls = matches!(transport, TestTransport::Tls | TestTransport::Http2Tls);
        for (proxy_scheme, is_https) in [("", is_tls), ("http", is_tls), ("https", true)] {
            let fields = [("X-Forwarded-Proto", proxy_scheme)];
            let list = server.request(transport, "GET", "/folder/?format=jsonl", &fields);
            let mut urls: Vec<_> = list
                .text()
                .lines()
                .map(serde_json::from_str::<serde_json::Value>)
                .map(|row| row.unwrap()["url"].clone())
                .collect();
            urls.sort_by_key(serde_json::Value::is_null);
            let scheme = if is_https { "https" } else { "http" };
            let url = format!("{scheme}://{NAME}/folder/f%20g");
            assert_eq!(urls, [url.into(), serde_json::Value::Null], "{transport:?}");
        }
    }
}

/// On a writable server, files that a browser would run are sandboxed.
#[test]
fn uploaded_active_content_is_sandboxed() {
    for writable in [true, false] {
        let setup = ServerSetup {
            store: FileStoreOptions {
                writable,
                ..FileStoreOptions::default()
            },
            ..ServerSetup::default()
        };
        let server = setup.start();
        for (name, is_active) in [("x.html", true), ("x.svg", true), ("x.txt", false)] {
            server.write_file(name, "0123456789");
            for range in ["", "bytes=0-1", "bytes=0-1,4-5"] {
                let response = server.request(
                    TestTransport::Plain,
                    "GET",
                    &format!("/{name}"),
                    &[("Range", range)],
                );
                let received = response.header("content-security-policy");
                let expected = (writable && is_active).then_some("sandbox");
                assert_eq!(received, expected, "{writable} {name} {range}");
            }
        }
    }
}

#[test]
fn personal_responses_are_kept_out_of_shared_caches() {
    let access = AccessControl::new(AccessOptions {
        users: vec!["ann:secret:ro".parse().unwrap()],
        ..AccessOptions::default()
    });
    let received = http::HeaderValue::from_static("public, max-age=60");
    let open = start_server(FileServerOptions {
        cache_control: Some(received.clone()),
        ..FileServerOptions::default()
    });
    let closed = start_server(FileServerOptions {
        access: access.unwrap(),
        cache_control: Some(received),
        ..FileServerOptions::default()
    });
    let login = [("Authorization", "Basic YW5uOnNlY3JldA==")];
    for (server, expected) in [
        (open, "public, max-age=60"),
        (closed, "private, max-age=60"),
    ] {
        server.write_file("f", "x");
        for transport in TestTransport::ALL {
            let response = server.request(transport, "GET", "/f", &login);
            assert_eq!(
                response.header("cache-control"),
                Some(expected),
                "{transport:?}"
            );
        }
    }
}

/// A future date would make caches keep a file too long (RFC 9110 8.8.2.1).
#[test]
fn last_modified_is_never_in_the_future() {
    let server = TestServer::start();
    let path = server.write_file("f", "x");
    let now = std::time::SystemTime::now();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(now + std::time::Duration::from_secs(3600))
        .unwrap();
    let received = server.get("/f");
    let received = httpdate::parse_http_date(received.header("last-modified").unwrap()).unwrap();
    assert!(received <= std::time::SystemTime::now());
}

/// The browser of a visitor sends requests for pages of other sites. The server refuses writes among them.
#[test]
fn pages_of_other_sites_cannot_write() {
    let server = TestServer::start();
    let own = [format!("http://{NAME}"), format!("https://{NAME}")];
    for transport in TestTransport::ALL {
        let is_tls = matches!(transport, TestTransport::Tls | TestTransport::Http2Tls);
        for (field, value, is_own) in [
            ("Origin", "http://evil.test", false),
            ("Origin", "null", false),
            ("Origin", own[0].as_str(), !is_tls),
            ("Origin", own[1].as_str(), true),
            ("Sec-Fetch-Site", "cross-site", false),
            ("Sec-Fetch-Site", "same-site", false),
            ("Sec-Fetch-Site", "same-origin", true),
        ] {
            server.write_file("f", "old");
            let put = server
                .put(transport, "/f", &[(field, value)], b"new")
                .status;
            assert_eq!(
                put,
                if is_own { 204 } else { 403 },
                "{transport:?} {field}: {value}"
            );
            let left: &[u8] = if is_own { b"new" } else { b"old" };
            assert_eq!(
                server.read_file("f").unwrap(),
                left,
                "{transport:?} {field}: {value}"
            );
            let deleted = server
                .request(transport, "DELETE", "/f", &[(field, value)])
                .status;
            assert_eq!(
                deleted,
                if is_own { 204 } else { 403 },
                "{transport:?} {field}: {value}"
            );
        }
    }
}

#[test]
fn pages_of_allowed_origins_may_use_the_allowed_methods() {
    let page = "https://page.test";
    let cors = CorsPolicy::new(CorsOptions {
        origins: AllowedOrigins::List(vec![page.parse().unwrap()]),
        allowed_methods: vec![Method::GET, Method::PUT],
        ..CorsOptions::default()
    });
    let server = start_server(FileServerOptions {
        cors: Some(cors.unwrap()),
        ..FileServerOptions::default()
    });
    server.write_file("f", "x");
    for transport in TestTransport::ALL {
        for (origin, is_named) in [(page, true), ("https://other.test", false)] {
            let events = is_named.then_some(page);
            let get = server.request(transport, "GET", "/f", &[("Origin", origin)]);
            assert_eq!(
                (get.status, get.header("access-control-allow-origin")),
                (200, events)
            );
            let wanted = [("Origin", origin), ("Access-Control-Request-Method", "PUT")];
            let request = server.request(transport, "OPTIONS", "/f", &wanted);
            assert_eq!(request.status, 204, "{transport:?}");
            assert_eq!(
                request.header("access-control-allow-origin"),
                events,
                "{transport:?}"
            );
            let methods = request.header("access-control-allow-methods");
            assert_eq!(methods.is_some_and(|all| all.contains("PUT")), is_named);
            let put = server
                .put(transport, "/f", &[("Origin", origin)], b"y")
                .status;
            assert_eq!(
                put,
                if is_named { 204 } else { 403 },
                "{transport:?} {origin}"
            );
        }
    }
}

/// The open descriptors and mappings of this process below the root of a server.
fn open_descriptors(server: &TestServer) -> Vec<String> {
    let root = server.root().display().to_string();
    let mappings = std::fs::read_to_string("/proc/self/maps").unwrap();
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|link| std::fs::read_link(link.ok()?.path()).ok())
        .map(|link| link.display().to_string())
        .chain(mappings.lines().map(str::to_owned))
        .filter(|line| line.contains(&format!("{root}/f")))
        .collect()
}

/// A deleted file frees its space even if a connection that sent it stays open.
#[test]
fn an_idle_connection_holds_no_file() {
    let server = TestServer::start();
    let clients = TestTransport::HTTP1.map(|transport| TestClient::connect(&server, transport));
    for mut client in clients {
        server.write_file("f", vec![b'x'; 1 << 20]);
        assert_eq!(client.request("GET", "/f", &[]).body.len(), 1 << 20);
        assert_eq!(
            server
                .request(TestTransport::Plain, "DELETE", "/f", &[])
                .status,
            204
        );
        wait_until("it is let go", || open_descriptors(&server).is_empty());
        // The connection is still open.
        assert_eq!(client.request("GET", "/f", &[]).status, 404);
    }
}

/// A client that closes its sending half still gets the response.
#[test]
fn a_half_closed_connection_gets_its_response() {
    let server = TestServer::start();
    server.write_file("f", vec![b'x'; 1 << 20]);
    for transport in TestTransport::HTTP1 {
        let mut client = TestClient::connect(&server, transport);
        client.send(request_head("GET", "/f", &[]));
        client.finish();
        assert_eq!(client.read_response().body.len(), 1 << 20, "{transport:?}");
        client.assert_closed();
    }
}

/// Error responses have the reason, and what is possible instead.
#[test]
fn error_responses_explain_the_refusal() {
    let server = TestServer::start();
    server.write_file("f", "x");
    std::os::unix::fs::symlink("../secret", server.root().join("out")).unwrap();
    for transport in TestTransport::ALL {
        let form = server.request(transport, "POST", "/f", &[]);
        let allow = Some("GET, HEAD, PUT, DELETE, OPTIONS");
        assert_eq!(
            (form.status, form.header("allow")),
            (405, allow),
            "{transport:?}"
        );
        let put = server.put(transport, "/out/f", &[], b"x");
        assert_eq!(put.status, 404, "{transport:?}");
        assert!(
            put.text().contains("a symbolic link"),
            "{transport:?}: {}",
            put.text()
        );
        let deleted = server.request(transport, "DELETE", "/f/", &[]);
        assert_eq!(deleted.status, 409, "{transport:?}");
        assert!(
            deleted.text().contains("slash"),
            "{transport:?}: {}",
            deleted.text()
        );
    }
}
