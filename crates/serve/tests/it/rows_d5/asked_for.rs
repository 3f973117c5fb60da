//! D5: a body is asked for when it is wanted, and whoever sends one that is not hears so.

use std::io::ErrorKind;

use haul_serve::FileServerOptions;

use super::MD5;
use crate::client::{RequestPathway, TestClient, request};
use crate::harness::{ServerSetup, TestServer, eventually};

/// Sends a head that waits for a 100, and says whether one came; if so, sends the body.
fn expecting(client: &mut TestClient, fields: &[(&str, &str)], body: &[u8]) -> (bool, u16) {
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
    let setup = ServerSetup {
        server: FileServerOptions {
            max_body: Some(10),
            ..FileServerOptions::default()
        },
        ..ServerSetup::default()
    };
    let served = setup.start();
    for road in RequestPathway::FIRST {
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
            let mut client = TestClient::on(&served, road);
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
fn first_word(
    served: &TestServer,
    road: RequestPathway,
    path: &str,
    fields: &[(&str, &str)],
) -> u16 {
    let mut client = TestClient::on(served, road);
    client.send(request("PUT", path, fields));
    client.head().status
}

#[test]
fn d5_a_body_for_a_folders_name_is_not_asked_for() {
    let served = TestServer::start();
    served.file("folder/file", "inside");
    let length = ("Content-Length", "1000000");
    let expect = ("Expect", "100-continue");
    for road in RequestPathway::FIRST {
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

/// A file system that is full to the last byte serves nobody.
#[test]
fn d6_a_body_that_the_disk_has_no_room_for_is_not_asked_for() {
    let served = TestServer::start();
    let (length, expect) = (
        ("Content-Length", "4611686018427387904"),
        ("Expect", "100-continue"),
    );
    for road in RequestPathway::FIRST {
        for path in ["/f", "/a/b/c"] {
            assert_eq!(first_word(&served, road, path, &[length, expect]), 507);
            assert_eq!(first_word(&served, road, path, &[length]), 507);
        }
    }
    assert!(!served.root().join("a").exists());
}

#[test]
fn d5_what_is_encoded_is_not_taken() {
    let served = TestServer::start();
    for road in RequestPathway::ALL {
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
    let served = TestServer::start();
    for road in RequestPathway::ALL {
        let answer = served.ask(road, "DELETE", "/", &[]);
        assert_eq!(answer.status, 403, "{road:?}");
        assert!(answer.text().contains("the folder that is served itself"));
    }
    assert!(served.root().exists());
}

#[test]
fn d5_after_a_refusal_the_connection_says_whether_the_body_may_still_come() {
    let served = TestServer::start();
    served.file("key", "old");
    let mut client = TestClient::plain(&served);
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
    let mut client = TestClient::plain(&served);
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
fn d5_a_body_that_is_too_long_is_refused_and_whoever_sends_it_hears_so() {
    let setup = || ServerSetup {
        server: FileServerOptions {
            max_body: Some(1000),
            ..FileServerOptions::default()
        },
        ..ServerSetup::default()
    };
    let served = setup().start();
    served.file("key", "old");
    let body = vec![b'x'; 8 << 20];
    for road in RequestPathway::FIRST {
        let length = body.len().to_string();
        for (fields, body) in [
            (("Content-Length", &*length), body.clone()),
            (
                ("Transfer-Encoding", "chunked"),
                [b"800000\r\n", &body[..], b"\r\n0\r\n\r\n"].concat(),
            ),
        ] {
            let mut client = TestClient::on(&served, road);
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
    for road in [RequestPathway::Http2, RequestPathway::Http2Tls] {
        assert_eq!(served.put(road, "/key", &[], &body).status, 413, "{road:?}");
    }
    // To the byte.
    assert_eq!(
        served
            .put(RequestPathway::Plain, "/key", &[], &body[..1000])
            .status,
        204
    );
    assert_eq!(
        served
            .put(RequestPathway::Plain, "/key", &[], &body[..1001])
            .status,
        413
    );
    eventually("temporaries are gone", || served.temporaries() == 0);
}
