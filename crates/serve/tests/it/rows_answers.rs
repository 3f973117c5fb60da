//! What goes with answers: fields for browsers and caches, other sites' pages, what a connection holds afterwards.

use http::Method;

use haul_serve::FileServerOptions;
use haul_serve::access::{AccessControl, AccessOptions, AllowedOrigins, CorsOptions, CorsPolicy};
use haul_serve::store::FileStoreOptions;

use crate::client::{RequestPathway, TestClient, request};
use crate::harness::{NAME, ServerSetup, TestServer, eventually};

fn with(server: FileServerOptions) -> TestServer {
    let setup = ServerSetup {
        server,
        ..ServerSetup::default()
    };
    setup.start()
}

#[test]
fn browsers_guess_no_types_and_folders_are_asked_for_each_time() {
    let served = TestServer::start();
    served.file("folder/f", "x");
    for road in RequestPathway::ALL {
        let file = served.ask(road, "GET", "/folder/f", &[]);
        assert_eq!(file.field("x-content-type-options"), Some("nosniff"));
        assert_eq!(file.field("vary"), None, "{road:?}");
        for form in ["html", "json", "tar"] {
            let target = format!("/folder/?format={form}");
            let folder = served.ask(road, "GET", &target, &[]);
            assert_eq!(folder.field("x-content-type-options"), Some("nosniff"));
            assert_eq!(folder.field("cache-control"), Some("no-cache"), "{form}");
            assert_eq!(folder.field("vary"), Some("accept"), "{form}");
        }
    }
}

/// Where others may write, what a browser would run is nobody's.
#[test]
fn what_others_put_there_is_boxed() {
    for writable in [true, false] {
        let setup = ServerSetup {
            store: FileStoreOptions {
                writable,
                ..FileStoreOptions::default()
            },
            ..ServerSetup::default()
        };
        let served = setup.start();
        for (name, is_active) in [("x.html", true), ("x.svg", true), ("x.txt", false)] {
            served.file(name, "0123456789");
            for range in ["", "bytes=0-1", "bytes=0-1,4-5"] {
                let answer = served.ask(
                    RequestPathway::Plain,
                    "GET",
                    &format!("/{name}"),
                    &[("Range", range)],
                );
                let said = answer.field("content-security-policy");
                let expected = (writable && is_active).then_some("sandbox");
                assert_eq!(said, expected, "{writable} {name} {range}");
            }
        }
    }
}

#[test]
fn what_a_login_got_is_in_no_shared_cache() {
    let access = AccessControl::new(AccessOptions {
        users: vec!["ann:secret:ro".parse().unwrap()],
        ..AccessOptions::default()
    });
    let said = http::HeaderValue::from_static("public, max-age=60");
    let open = with(FileServerOptions {
        cache_control: Some(said.clone()),
        ..FileServerOptions::default()
    });
    let closed = with(FileServerOptions {
        access: access.unwrap(),
        cache_control: Some(said),
        ..FileServerOptions::default()
    });
    let login = [("Authorization", "Basic YW5uOnNlY3JldA==")];
    for (served, expected) in [
        (open, "public, max-age=60"),
        (closed, "private, max-age=60"),
    ] {
        served.file("f", "x");
        for road in RequestPathway::ALL {
            let answer = served.ask(road, "GET", "/f", &login);
            assert_eq!(answer.field("cache-control"), Some(expected), "{road:?}");
        }
    }
}

/// A date that lies ahead would make caches keep what they should not (RFC 9110 8.8.2.1).
#[test]
fn nothing_was_changed_in_the_future() {
    let served = TestServer::start();
    let path = served.file("f", "x");
    let now = std::time::SystemTime::now();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(now + std::time::Duration::from_secs(3600))
        .unwrap();
    let said = served.get("/f");
    let said = httpdate::parse_http_date(said.field("last-modified").unwrap()).unwrap();
    assert!(said <= std::time::SystemTime::now());
}

/// A visitor's browser does what other sites' pages ask it to; the store does not.
#[test]
fn pages_of_other_sites_change_nothing() {
    let served = TestServer::start();
    let own = [format!("http://{NAME}"), format!("https://{NAME}")];
    for road in RequestPathway::ALL {
        let is_tls = matches!(road, RequestPathway::Tls | RequestPathway::Http2Tls);
        for (field, value, is_own) in [
            ("Origin", "http://evil.test", false),
            ("Origin", "null", false),
            ("Origin", own[0].as_str(), !is_tls),
            ("Origin", own[1].as_str(), true),
            ("Sec-Fetch-Site", "cross-site", false),
            ("Sec-Fetch-Site", "same-site", false),
            ("Sec-Fetch-Site", "same-origin", true),
        ] {
            served.file("f", "old");
            let put = served.put(road, "/f", &[(field, value)], b"new").status;
            assert_eq!(
                put,
                if is_own { 204 } else { 403 },
                "{road:?} {field}: {value}"
            );
            let left: &[u8] = if is_own { b"new" } else { b"old" };
            assert_eq!(
                served.holds("f").unwrap(),
                left,
                "{road:?} {field}: {value}"
            );
            let deleted = served.ask(road, "DELETE", "/f", &[(field, value)]).status;
            assert_eq!(
                deleted,
                if is_own { 204 } else { 403 },
                "{road:?} {field}: {value}"
            );
        }
    }
}

#[test]
fn pages_that_were_named_may_do_what_they_were_let() {
    let page = "https://page.test";
    let cors = CorsPolicy::new(CorsOptions {
        origins: AllowedOrigins::List(vec![page.parse().unwrap()]),
        allowed_methods: vec![Method::GET, Method::PUT],
        ..CorsOptions::default()
    });
    let served = with(FileServerOptions {
        cors: Some(cors.unwrap()),
        ..FileServerOptions::default()
    });
    served.file("f", "x");
    for road in RequestPathway::ALL {
        for (origin, is_named) in [(page, true), ("https://other.test", false)] {
            let told = is_named.then_some(page);
            let get = served.ask(road, "GET", "/f", &[("Origin", origin)]);
            assert_eq!(
                (get.status, get.field("access-control-allow-origin")),
                (200, told)
            );
            let wanted = [("Origin", origin), ("Access-Control-Request-Method", "PUT")];
            let asked = served.ask(road, "OPTIONS", "/f", &wanted);
            assert_eq!(asked.status, 204, "{road:?}");
            assert_eq!(asked.field("access-control-allow-origin"), told, "{road:?}");
            let methods = asked.field("access-control-allow-methods");
            assert_eq!(methods.is_some_and(|all| all.contains("PUT")), is_named);
            let put = served.put(road, "/f", &[("Origin", origin)], b"y").status;
            assert_eq!(put, if is_named { 204 } else { 403 }, "{road:?} {origin}");
        }
    }
}

/// Descriptors of the process, and its mappings, that lead below a folder.
fn held(served: &TestServer) -> Vec<String> {
    let root = served.root().display().to_string();
    let links = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
    let links = links.map(|link| link.display().to_string());
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let maps = maps.lines().map(str::to_owned);
    let all = links.chain(maps);
    all.filter(|line| line.contains(&format!("{root}/f")))
        .collect()
}

/// A file that is gone gives its room back, though a connection that sent it is kept for later.
#[test]
fn a_connection_that_waits_holds_no_file() {
    let served = TestServer::start();
    let roads = RequestPathway::FIRST.map(|road| TestClient::on(&served, road));
    for mut client in roads {
        served.file("f", vec![b'x'; 1 << 20]);
        assert_eq!(client.ask("GET", "/f", &[]).body.len(), 1 << 20);
        assert_eq!(
            served
                .ask(RequestPathway::Plain, "DELETE", "/f", &[])
                .status,
            204
        );
        eventually("it is let go", || held(&served).is_empty());
        // It is kept all the same.
        assert_eq!(client.ask("GET", "/f", &[]).status, 404);
    }
}

/// Whoever says that nothing more will come still wants the answer.
#[test]
fn half_a_connection_is_answered() {
    let served = TestServer::start();
    served.file("f", vec![b'x'; 1 << 20]);
    for road in RequestPathway::FIRST {
        let mut client = TestClient::on(&served, road);
        client.send(request("GET", "/f", &[]));
        client.finish();
        assert_eq!(client.answer().body.len(), 1 << 20, "{road:?}");
        client.ends();
    }
}

/// What cannot be done says why, and what can.
#[test]
fn refusals_say_what_there_is() {
    let served = TestServer::start();
    served.file("f", "x");
    std::os::unix::fs::symlink("../secret", served.root().join("out")).unwrap();
    for road in RequestPathway::ALL {
        let form = served.ask(road, "POST", "/f", &[]);
        let allow = Some("GET, HEAD, PUT, DELETE, OPTIONS");
        assert_eq!((form.status, form.field("allow")), (405, allow), "{road:?}");
        let put = served.put(road, "/out/f", &[], b"x");
        assert_eq!(put.status, 404, "{road:?}");
        assert!(put.text().contains("a link"), "{road:?}: {}", put.text());
        let deleted = served.ask(road, "DELETE", "/f/", &[]);
        assert_eq!(deleted.status, 409, "{road:?}");
        assert!(
            deleted.text().contains("slash"),
            "{road:?}: {}",
            deleted.text()
        );
    }
}
