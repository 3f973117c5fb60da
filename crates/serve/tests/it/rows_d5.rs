//! D5: what an upload may ask for, and what is said before its body comes.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};

use haul_serve::ServerOptions;
use haul_serve::store::StoreOptions;

use crate::client::{Client, Road, request};
use crate::harness::{Served, Setup, eventually};

/// Digests of "hello", in base64.
const MD5: &str = "XUFAKrxLKna5cZ2REBfFkg==";
const SHA_256: &str = "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=";

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
    let served = Served::start();
    for road in Road::ALL {
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
    let served = Served::start();
    for round in 0..20 {
        let path = format!("/{round}");
        let made = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for road in [Road::Plain, Road::Tls, Road::Http2, Road::Plain] {
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
    let served = Served::start();
    served.file("count", "0");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = Client::plain(&served);
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
    let served = Served::start();
    served.file("key", "old");
    let tag = served.get("/key").tag().to_owned();
    let mut client = Client::plain(&served);
    client.send(request(
        "PUT",
        "/key",
        &[("If-Match", &tag), ("Content-Length", "200000")],
    ));
    client.send(vec![b'x'; 100_000]);
    eventually("it is being written", || served.temporaries() == 1);
    assert_eq!(served.put(Road::Plain, "/key", &[], b"newer").status, 204);
    client.send(vec![b'x'; 100_000]);
    assert_eq!(client.answer_to("PUT").status, 412);
    assert_eq!(served.get("/key").text(), "newer");
    eventually("temporaries are gone", || served.temporaries() == 0);
}

#[test]
fn d5_digests_are_compared() {
    let served = Served::start();
    let (right, wrong) = (
        format!("sha-256=:{SHA_256}:"),
        format!("sha-256=:{}:", SHA_256.replace('L', "M")),
    );
    let cases: &[(&str, &str, bool)] = &[
        ("Content-MD5", MD5, true),
        ("Content-MD5", "XUFAKrxLKna5cZ2REBfFkQ==", false),
        ("Content-MD5", "short", false),
        ("Content-MD5", "", false),
        ("Content-Digest", &right, true),
        ("Content-Digest", &wrong, false),
        ("Content-Digest", "sha-256=:YQ==:", false),
        ("Content-Digest", "sha-256", false),
        ("Content-Digest", "no-such=:YQ==:", true),
        ("Repr-Digest", &right, true),
        ("Repr-Digest", &wrong, false),
    ];
    for road in Road::ALL {
        for (field, value, is_right) in cases {
            served.file("key", "old");
            let answer = served.put(road, "/key", &[(field, value)], b"hello");
            assert_eq!(
                answer.status,
                if *is_right { 204 } else { 400 },
                "{road:?} {field}: {value}"
            );
            let now: &[u8] = if *is_right { b"hello" } else { b"old" };
            assert_eq!(
                served.holds("key").unwrap(),
                now,
                "{road:?} {field}: {value}"
            );
        }
    }
    // Two of which one is wrong.
    let fields = [("Content-MD5", MD5), ("Content-Digest", &wrong)];
    assert_eq!(
        served.put(Road::Plain, "/fresh", &fields, b"hello").status,
        400
    );
    assert!(served.holds("fresh").is_none());
    // A large body is hashed piece by piece.
    let zeros = "sha-256=:MOFJVevOHSv34R7+Trk9RpoMM51xyuEWLjSwdBwyCKg=:";
    let answer = served.put(
        Road::Plain,
        "/fresh",
        &[("Content-Digest", zeros)],
        &vec![0; 1 << 20],
    );
    assert_eq!(answer.status, 400);
    assert!(served.holds("fresh").is_none());
    eventually("temporaries are gone", || served.temporaries() == 0);
}

#[test]
fn d5_a_digest_that_was_compared_is_kept_and_told() {
    let served = Served::start();
    let digest = format!("sha-256=:{SHA_256}:");
    let put = served.put(
        Road::Plain,
        "/key",
        &[("Content-Digest", &digest)],
        b"hello",
    );
    for road in Road::ALL {
        let answer = served.ask(road, "GET", "/key", &[]);
        assert_eq!(answer.field("etag"), put.field("etag"), "{road:?}");
        assert_eq!(
            answer.field("repr-digest"),
            put.field("repr-digest"),
            "{road:?}"
        );
    }
    if put.field("repr-digest").is_some() {
        assert_eq!(put.field("repr-digest"), Some(&*digest));
        let again = served.put(Road::Tls, "/key", &[("Content-Digest", &digest)], b"hello");
        assert_eq!((again.status, again.tag()), (204, put.tag()));
        // Somebody else writes to it: it is of those bytes no longer.
        served.file("key", "HELLO");
        let changed = served.get("/key");
        assert_eq!(changed.field("repr-digest"), None);
        assert_ne!(changed.tag(), put.tag());
    }
}

#[test]
fn d5_tags_tell_versions_apart() {
    let served = Served::start();
    let mut tags = std::collections::HashSet::new();
    for road in Road::ALL {
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

/// Sends a head that waits for a 100, and says whether one came; if so, sends the body.
fn expecting(client: &mut Client, fields: &[(&str, &str)], body: &[u8]) -> (bool, u16) {
    let mut fields = fields.to_vec();
    fields.push(("Expect", "100-continue"));
    client.send(request("PUT", "/key", &fields));
    let first = client.head();
    if first.status != 100 {
        let status = first.status;
        client.body(&first, "PUT").unwrap();
        return (false, status);
    }
    client.send(body);
    (true, client.answer_to("PUT").status)
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn d5_a_body_is_asked_for_when_it_is_wanted() {
    let setup = Setup {
        server: ServerOptions {
            max_body: Some(10),
            ..ServerOptions::default()
        },
        ..Setup::default()
    };
    let served = setup.start();
    for road in Road::FIRST {
        for (fields, body, comes) in [
            (&[("Content-Length", "5")][..], &b"hello"[..], (true, 201)),
            (&[("Content-Length", "5")], b"HELLO", (true, 204)),
            (
                &[("Transfer-Encoding", "chunked")],
                b"5\r\nhello\r\n0\r\n\r\n",
                (true, 204),
            ),
            (
                &[("Content-Length", "5"), ("Content-MD5", MD5)],
                b"hello",
                (true, 204),
            ),
            (
                &[("Content-Length", "5"), ("Content-MD5", MD5)],
                b"HELLO",
                (true, 400),
            ),
            // Known before a byte of it is sent.
            (&[("Content-Length", "11")], b"", (false, 413)),
            (
                &[("Content-Length", "5"), ("If-None-Match", "*")],
                b"",
                (false, 412),
            ),
            (
                &[("Content-Length", "5"), ("If-Match", "\"x\"")],
                b"",
                (false, 412),
            ),
            (
                &[("Content-Length", "5"), ("Content-Range", "bytes 0-4/10")],
                b"",
                (false, 400),
            ),
            (
                &[("Content-Length", "5"), ("Content-MD5", "?")],
                b"",
                (false, 400),
            ),
            (
                &[("Transfer-Encoding", "chunked"), ("If-None-Match", "*")],
                b"",
                (false, 412),
            ),
        ] {
            let mut client = Client::on(&served, road);
            assert_eq!(
                expecting(&mut client, fields, body),
                comes,
                "{road:?} {fields:?}"
            );
        }
        std::fs::remove_file(served.root().join("key")).unwrap();
    }
}

/// Sends the head of an upload, and gives the status of what comes before its body.
fn first_word(served: &Served, road: Road, path: &str, fields: &[(&str, &str)]) -> u16 {
    let mut client = Client::on(served, road);
    client.send(request("PUT", path, fields));
    client.head().status
}

#[test]
fn d5_a_body_for_a_folders_name_is_not_asked_for() {
    let served = Served::start();
    served.file("folder/file", "inside");
    let length = ("Content-Length", "1000000");
    let expect = ("Expect", "100-continue");
    for road in Road::FIRST {
        for (path, status) in [
            ("/folder", 409),
            ("/folder/file/below", 409),
            ("/fresh", 100),
            ("/folder/file", 100),
        ] {
            let got = first_word(&served, road, path, &[length, expect]);
            assert_eq!(got, status, "{road:?} {path}");
        }
        // Nobody waits for a word; but that there is a folder is known, as it was just looked at.
        assert_eq!(served.ask(road, "GET", "/folder/", &[]).status, 200);
        assert_eq!(first_word(&served, road, "/folder", &[length]), 409);
    }
    eventually("temporaries are gone", || served.temporaries() == 0);
}

#[test]
fn d5_what_is_encoded_is_not_taken() {
    let served = Served::start();
    for road in Road::ALL {
        for (coding, status) in [
            ("gzip", 415),
            ("identity, br", 415),
            ("GZIP", 415),
            ("identity", 201),
            ("Identity,", 201),
        ] {
            let answer = served.put(road, "/key", &[("Content-Encoding", coding)], b"x");
            assert_eq!(answer.status, status, "{road:?} {coding}");
            assert_eq!(served.holds("key").is_some(), status == 201);
            if status == 415 {
                assert!(answer.text().contains("without Content-Encoding"));
            } else {
                std::fs::remove_file(served.root().join("key")).unwrap();
            }
        }
    }
}

#[test]
fn d5_what_is_served_itself_is_not_deleted() {
    let served = Served::start();
    for road in Road::ALL {
        let answer = served.ask(road, "DELETE", "/", &[]);
        assert_eq!(answer.status, 403, "{road:?}");
        assert!(answer.text().contains("the folder that is served itself"));
    }
    assert!(served.root().exists());
}

#[test]
fn d5_after_a_refusal_the_connection_says_whether_the_body_may_still_come() {
    let served = Served::start();
    served.file("key", "old");
    let mut client = Client::plain(&served);
    let fields = [
        ("Content-Length", "5"),
        ("If-None-Match", "*"),
        ("Expect", "100-continue"),
    ];
    client.send(request("PUT", "/key", &fields));
    let answer = client.answer_to("PUT");
    assert_eq!(answer.status, 412);
    // What the client sends next might be taken for the body, so nothing is.
    assert_eq!(answer.field("connection"), Some("close"));
    assert!(
        client.try_send(request("GET", "/key", &[])).is_err() || client.until_gone().is_empty()
    );
    // One whose body was read goes on.
    let mut client = Client::plain(&served);
    client
        .send(request(
            "PUT",
            "/key",
            &[("Content-Length", "5"), ("Content-MD5", MD5)],
        ))
        .send("HELLO");
    let answer = client.answer_to("PUT");
    assert_eq!((answer.status, answer.field("connection")), (400, None));
    assert_eq!(client.ask("GET", "/key", &[]).text(), "old");
}

#[test]
fn d5_uploads_of_every_framing() {
    let served = Served::start();
    for road in Road::FIRST {
        let mut client = Client::on(&served, road);
        client.send(request("PUT", "/none", &[]));
        assert!([201, 204, 411].contains(&client.answer_to("PUT").status));
        client.send(request("PUT", "/empty", &[("Content-Length", "0")]));
        assert!([201, 204].contains(&client.answer_to("PUT").status));
        assert_eq!(served.get("/empty").body, b"");
        client.send(request(
            "PUT",
            "/chunks",
            &[("Transfer-Encoding", "chunked")],
        ));
        for chunk in ["1\r\na\r\n", "a\r\n0123456789\r\n", "0\r\n\r\n"] {
            client.send(chunk);
        }
        assert!([201, 204].contains(&client.answer_to("PUT").status));
        assert_eq!(served.get("/chunks").body, b"a0123456789");
    }
    for road in Road::ALL {
        let long = haul_lab::Content::random(5, 3_000_001).to_vec();
        assert!([201, 204].contains(&served.put(road, "/long", &[], &long).status));
        assert!(served.holds("long").unwrap() == long, "{road:?}");
        assert!(
            served.ask(road, "GET", "/long", &[]).body == long,
            "{road:?}"
        );
        let part = served.put(road, "/part", &[("Content-Range", "bytes 0-1/5")], b"ab");
        assert_eq!(part.status, 400, "{road:?}");
        assert!(served.holds("part").is_none());
    }
}

#[test]
fn d5_a_body_that_is_too_long_is_refused_and_whoever_sends_it_hears_so() {
    let setup = || Setup {
        server: ServerOptions {
            max_body: Some(1000),
            ..ServerOptions::default()
        },
        ..Setup::default()
    };
    let served = setup().start();
    served.file("key", "old");
    let body = vec![b'x'; 8 << 20];
    for road in Road::FIRST {
        let length = body.len().to_string();
        for (fields, body) in [
            (("Content-Length", &*length), body.clone()),
            (
                ("Transfer-Encoding", "chunked"),
                [b"800000\r\n", &body[..], b"\r\n0\r\n\r\n"].concat(),
            ),
        ] {
            let mut client = Client::on(&served, road);
            client.send(request("PUT", "/key", &[fields]));
            // All of it, to a server that has long said no.
            match client.try_send(&body) {
                Ok(()) => {}
                Err(error) => assert!(
                    matches!(
                        error.kind(),
                        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
                    ),
                    "{error}"
                ),
            }
            assert_eq!(client.answer_to("PUT").status, 413, "{road:?} {fields:?}");
            assert_eq!(served.holds("key").unwrap(), b"old");
        }
    }
    for road in [Road::Http2, Road::Http2Tls] {
        assert_eq!(served.put(road, "/key", &[], &body).status, 413, "{road:?}");
    }
    // To the byte.
    assert_eq!(
        served.put(Road::Plain, "/key", &[], &body[..1000]).status,
        204
    );
    assert_eq!(
        served.put(Road::Plain, "/key", &[], &body[..1001]).status,
        413
    );
    eventually("temporaries are gone", || served.temporaries() == 0);
}

#[test]
fn d5_a_file_is_no_folder_and_a_folder_no_file() {
    let served = Served::start();
    served.file("folder/file", "inside");
    for road in Road::ALL {
        for (path, expected) in [
            ("/folder", &[409][..]),
            ("/folder/", &[400, 409]),
            ("/fresh/", &[400, 409]),
            ("/", &[400, 405, 409]),
            ("/folder/file/below", &[409]),
            ("/folder/file/far/below", &[409]),
            ("/.haul/x", &[404]),
            ("/.haul", &[404]),
        ] {
            let status = served.put(road, path, &[], b"x").status;
            assert!(expected.contains(&status), "{road:?} {path}: {status}");
        }
        let answer = served.ask(road, "DELETE", "/folder/", &[]);
        assert_eq!(answer.status, 409, "{road:?}: it is not empty");
        assert_eq!(served.put(road, "/a/b/c/d", &[], b"deep").status, 201);
        assert_eq!(served.ask(road, "GET", "/a/b/c/d", &[]).text(), "deep");
        for path in ["/a/b/c/d", "/a/b/c/", "/a/b/", "/a/"] {
            assert_eq!(
                served.ask(road, "DELETE", path, &[]).status,
                204,
                "{road:?} {path}"
            );
        }
        assert_eq!(served.ask(road, "DELETE", "/a", &[]).status, 404);
    }
    assert_eq!(served.holds("folder/file").unwrap(), b"inside");
}

#[test]
fn d5_a_store_for_reading_is_not_written_to() {
    let setup = Setup {
        store: StoreOptions::default(),
        ..Setup::default()
    };
    let served = setup.start();
    served.file("key", "old");
    for road in Road::ALL {
        for method in ["PUT", "DELETE", "POST", "PATCH"] {
            for path in ["/key", "/fresh"] {
                let answer = served.ask(road, method, path, &[]);
                assert_eq!(answer.status, 405, "{road:?} {method} {path}");
                assert_eq!(answer.field("allow"), Some("GET, HEAD, OPTIONS"));
            }
        }
        assert_eq!(
            served.put(road, "/key", &[], b"new").status,
            405,
            "{road:?}"
        );
    }
    assert_eq!(served.holds("key").unwrap(), b"old");
    assert!(!served.root().join(".haul").exists());
}
