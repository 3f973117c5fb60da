//! D5: conditional uploads and deletions, also concurrent ones.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{TestServer, wait_until};

const LONG_AGO: &str = "Mon, 01 Jan 2001 00:00:00 GMT";
const LATER: &str = "Fri, 01 Jan 2100 00:00:00 GMT";

/// A header, with `TAG` for the ETag of the file; whether it allows replacing a file, and whether it
/// allows creating one.
const CONDITIONS: [(&str, &str, bool, bool); 12] = [
    ("If-None-Match", "*", false, true),
    ("If-None-Match", "TAG", false, true),
    ("If-None-Match", "W/TAG", false, true),
    ("If-None-Match", "\"x\"", true, true),
    ("If-Match", "*", true, false),
    ("If-Match", "TAG", true, false),
    ("If-Match", "\"x\", TAG", true, false),
    ("If-Match", "W/TAG", false, false),
    ("If-Match", "\"x\"", false, false),
    ("If-Unmodified-Since", LATER, true, true),
    ("If-Unmodified-Since", LONG_AGO, false, true),
    // An invalid date is ignored (RFC 9110 13.1.4).
    ("If-Unmodified-Since", "yesterday", true, true),
];

#[test]
fn d5_conditions_decide_uploads_and_deletions() {
    let server = TestServer::start();
    for transport in TestTransport::ALL {
        for (field, value, replaces, makes) in CONDITIONS {
            let put = |path| {
                let tag = server.get("/key").etag().to_owned();
                server
                    .put(
                        transport,
                        path,
                        &[(field, &value.replace("TAG", &tag))],
                        b"new",
                    )
                    .status
            };
            server.write_file("key", "old");
            let (replaced, created) = (
                if replaces { 204 } else { 412 },
                if makes { 201 } else { 412 },
            );
            assert_eq!(put("/key"), replaced, "{transport:?} {field}: {value}");
            let now: &[u8] = if replaces { b"new" } else { b"old" };
            assert_eq!(
                server.read_file("key").unwrap(),
                now,
                "{transport:?} {field}: {value}"
            );
            assert_eq!(put("/fresh"), created, "{transport:?} {field}: {value}");
            assert_eq!(
                server.read_file("fresh").is_some(),
                makes,
                "{transport:?} {field}: {value}"
            );
            let _ = std::fs::remove_file(server.root().join("fresh"));
            let tag = server.get("/key").etag().to_owned();
            let removed = server.request(
                transport,
                "DELETE",
                "/key",
                &[(field, &value.replace("TAG", &tag))],
            );
            assert_eq!(removed.status, replaced, "{transport:?} {field}: {value}");
            assert_eq!(
                server.read_file("key").is_none(),
                replaces,
                "{transport:?} {field}: {value}"
            );
        }
    }
}

#[test]
fn d5_only_one_of_many_concurrent_uploads_creates_a_file() {
    let server = TestServer::start();
    for attempt in 0..20 {
        let path = format!("/{attempt}");
        let created = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for transport in [
                TestTransport::Plain,
                TestTransport::Tls,
                TestTransport::Http2,
                TestTransport::Plain,
            ] {
                let (server, path, created) = (&server, &path, &created);
                scope.spawn(move || {
                    match server
                        .put(transport, path, &[("If-None-Match", "*")], b"x")
                        .status
                    {
                        201 => drop(created.fetch_add(1, Ordering::Relaxed)),
                        other => assert_eq!(other, 412),
                    }
                });
            }
        });
        assert_eq!(created.into_inner(), 1);
    }
}

/// Concurrent compare-and-swap updates with If-Match.
#[test]
fn d5_no_concurrent_update_is_lost() {
    let server = TestServer::start();
    server.write_file("count", "0");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = TestClient::connect_plain(&server);
                let mut update_count = 0;
                while update_count < 25 {
                    let before = client.request("GET", "/count", &[]);
                    let count: usize = before.text().parse().unwrap();
                    let after = (count + 1).to_string();
                    let length = after.len().to_string();
                    let fields = [("If-Match", before.etag()), ("Content-Length", &length)];
                    client
                        .send(request_head("PUT", "/count", &fields))
                        .send(&after);
                    match client.read_response_to("PUT").status {
                        204 => update_count += 1,
                        other => assert_eq!(other, 412),
                    }
                }
            });
        }
    });
    assert_eq!(server.get("/count").text(), "100");
}

#[test]
fn d5_a_condition_is_checked_again_when_the_upload_is_committed() {
    let server = TestServer::start();
    server.write_file("key", "old");
    let tag = server.get("/key").etag().to_owned();
    let mut client = TestClient::connect_plain(&server);
    client.send(request_head(
        "PUT",
        "/key",
        &[("If-Match", &tag), ("Content-Length", "200000")],
    ));
    client.send(vec![b'x'; 100_000]);
    wait_until("the upload has a temporary file", || {
        server.temporary_files() == 1
    });
    assert_eq!(
        server
            .put(TestTransport::Plain, "/key", &[], b"newer")
            .status,
        204
    );
    client.send(vec![b'x'; 100_000]);
    assert_eq!(client.read_response_to("PUT").status, 412);
    assert_eq!(server.get("/key").text(), "newer");
    wait_until("the temporary files are removed", || {
        server.temporary_files() == 0
    });
}

#[test]
fn d5_each_version_has_another_strong_etag() {
    let server = TestServer::start();
    let mut tags = std::collections::HashSet::new();
    for transport in TestTransport::ALL {
        for _ in 0..10 {
            let put = server.put(transport, "/key", &[], b"same length");
            assert!(put.header("last-modified").is_some());
            assert!(put.etag().starts_with('"'), "the ETag is strong");
            assert_eq!(
                server.request(transport, "GET", "/key", &[]).etag(),
                put.etag()
            );
            assert_eq!(
                server.request(transport, "HEAD", "/key", &[]).etag(),
                put.etag()
            );
            assert!(tags.insert(put.etag().to_owned()), "{transport:?}");
        }
    }
}
