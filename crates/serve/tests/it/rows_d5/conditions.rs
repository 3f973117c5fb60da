//! D5: uploads and deletions under conditions, also where many want the same.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::client::{RequestPathway, TestClient, request};
use crate::harness::{TestServer, eventually};

const LONG_AGO: &str = "Mon, 01 Jan 2001 00:00:00 GMT";
const LATER: &str = "Fri, 01 Jan 2100 00:00:00 GMT";

/// What is asked, in which `TAG` stands for the version's; whether it lets a file be replaced, and whether it lets one be made.
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
    // No date is no condition (RFC 9110 13.1.4).
    ("If-Unmodified-Since", "yesterday", true, true),
];

#[test]
fn d5_conditions_decide_what_is_put_and_removed() {
    let served = TestServer::start();
    for road in RequestPathway::ALL {
        for (field, value, replaces, makes) in CONDITIONS {
            let put = |path| {
                let tag = served.get("/key").tag().to_owned();
                served
                    .put(road, path, &[(field, &value.replace("TAG", &tag))], b"new")
                    .status
            };
            served.file("key", "old");
            let (replaced, made) = (
                if replaces { 204 } else { 412 },
                if makes { 201 } else { 412 },
            );
            assert_eq!(put("/key"), replaced, "{road:?} {field}: {value}");
            let now: &[u8] = if replaces { b"new" } else { b"old" };
            assert_eq!(
                served.holds("key").unwrap(),
                now,
                "{road:?} {field}: {value}"
            );
            assert_eq!(put("/fresh"), made, "{road:?} {field}: {value}");
            assert_eq!(
                served.holds("fresh").is_some(),
                makes,
                "{road:?} {field}: {value}"
            );
            let _ = std::fs::remove_file(served.root().join("fresh"));
            let tag = served.get("/key").tag().to_owned();
            let removed = served.ask(
                road,
                "DELETE",
                "/key",
                &[(field, &value.replace("TAG", &tag))],
            );
            assert_eq!(removed.status, replaced, "{road:?} {field}: {value}");
            assert_eq!(
                served.holds("key").is_none(),
                replaces,
                "{road:?} {field}: {value}"
            );
        }
    }
}

#[test]
fn d5_of_many_that_make_a_file_one_does() {
    let served = TestServer::start();
    for round in 0..20 {
        let path = format!("/{round}");
        let made = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for road in [
                RequestPathway::Plain,
                RequestPathway::Tls,
                RequestPathway::Http2,
                RequestPathway::Plain,
            ] {
                let (served, path, made) = (&served, &path, &made);
                scope.spawn(move || {
                    match served
                        .put(road, path, &[("If-None-Match", "*")], b"x")
                        .status
                    {
                        201 => drop(made.fetch_add(1, Ordering::Relaxed)),
                        other => assert_eq!(other, 412),
                    }
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
    }
}

/// Compare and swap: no count is lost.
#[test]
fn d5_no_update_is_lost() {
    let served = TestServer::start();
    served.file("count", "0");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = TestClient::plain(&served);
                let mut done = 0;
                while done < 25 {
                    let before = client.ask("GET", "/count", &[]);
                    let count: usize = before.text().parse().unwrap();
                    let after = (count + 1).to_string();
                    let length = after.len().to_string();
                    let fields = [("If-Match", before.tag()), ("Content-Length", &length)];
                    client.send(request("PUT", "/count", &fields)).send(&after);
                    match client.answer_to("PUT").status {
                        204 => done += 1,
                        other => assert_eq!(other, 412),
                    }
                }
            });
        }
    });
    assert_eq!(served.get("/count").text(), "100");
}

#[test]
fn d5_a_condition_must_hold_when_all_has_come() {
    let served = TestServer::start();
    served.file("key", "old");
    let tag = served.get("/key").tag().to_owned();
    let mut client = TestClient::plain(&served);
    client.send(request(
        "PUT",
        "/key",
        &[("If-Match", &tag), ("Content-Length", "200000")],
    ));
    client.send(vec![b'x'; 100_000]);
    eventually("it is being written", || served.temporaries() == 1);
    assert_eq!(
        served
            .put(RequestPathway::Plain, "/key", &[], b"newer")
            .status,
        204
    );
    client.send(vec![b'x'; 100_000]);
    assert_eq!(client.answer_to("PUT").status, 412);
    assert_eq!(served.get("/key").text(), "newer");
    eventually("temporaries are gone", || served.temporaries() == 0);
}

#[test]
fn d5_tags_tell_versions_apart() {
    let served = TestServer::start();
    let mut tags = std::collections::HashSet::new();
    for road in RequestPathway::ALL {
        for _ in 0..10 {
            let put = served.put(road, "/key", &[], b"same length");
            assert!(put.field("last-modified").is_some());
            assert!(put.tag().starts_with('"'), "it is strong");
            assert_eq!(served.ask(road, "GET", "/key", &[]).tag(), put.tag());
            assert_eq!(served.ask(road, "HEAD", "/key", &[]).tag(), put.tag());
            assert!(tags.insert(put.tag().to_owned()), "{road:?}");
        }
    }
}
