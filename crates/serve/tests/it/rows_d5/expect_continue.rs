//! D5: a client gets 100 Continue only if the upload is allowed, and a client that sends a refused
//! body anyway gets the refusal.

use std::io::ErrorKind;

use haul_serve::FileServerOptions;

use super::MD5;
use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{ServerSetup, TestServer, wait_until};

/// Sends a head with `Expect: 100-continue`, and then the body if a 100 is received. Returns whether
/// a 100 was received, and the final status.
fn send_expecting_continue(
    client: &mut TestClient,
    fields: &[(&str, &str)],
    body: &[u8],
) -> (bool, u16) {
    let mut fields = fields.to_vec();
    fields.push(("Expect", "100-continue"));
    client.send(request_head("PUT", "/key", &fields));
    let first = client.read_head();
    if first.status != 100 {
        let status = first.status;
        client.read_body(&first, "PUT").unwrap();
        return (false, status);
    }
    client.send(body);
    (true, client.read_response_to("PUT").status)
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn d5_a_100_continue_is_sent_only_if_the_upload_is_allowed() {
    let setup = ServerSetup {
        server: FileServerOptions {
            max_body: Some(10),
            ..FileServerOptions::default()
        },
        ..ServerSetup::default()
    };
    let server = setup.start();
    for transport in TestTransport::HTTP1 {
        for (fields, body, expected) in [
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
            // The length exceeds the limit before any byte of the body is sent.
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
            let mut client = TestClient::connect(&server, transport);
            assert_eq!(
                send_expecting_continue(&mut client, fields, body),
                expected,
                "{transport:?} {fields:?}"
            );
        }
        std::fs::remove_file(server.root().join("key")).unwrap();
    }
}

/// Sends the head of an upload, and returns the status of the response before its body.
fn first_status(
    server: &TestServer,
    transport: TestTransport,
    path: &str,
    fields: &[(&str, &str)],
) -> u16 {
    let mut client = TestClient::connect(server, transport);
    client.send(request_head("PUT", path, fields));
    client.read_head().status
}

#[test]
fn d5_an_upload_to_the_path_of_a_folder_gets_no_100_continue() {
    let server = TestServer::start();
    server.write_file("folder/file", "inside");
    let length = ("Content-Length", "1000000");
    let expect = ("Expect", "100-continue");
    for transport in TestTransport::HTTP1 {
        for (path, status) in [
            ("/folder", 409),
            ("/folder/file/below", 409),
            ("/fresh", 100),
            ("/folder/file", 100),
        ] {
            let found = first_status(&server, transport, path, &[length, expect]);
            assert_eq!(found, status, "{transport:?} {path}");
        }
        // Without `Expect`, but the store has the folder in its cache.
        assert_eq!(
            server.request(transport, "GET", "/folder/", &[]).status,
            200
        );
        assert_eq!(first_status(&server, transport, "/folder", &[length]), 409);
    }
    wait_until("the temporary files are removed", || {
        server.temporary_files() == 0
    });
}

/// The server must not fill the file system with a body that cannot be stored.
#[test]
fn d6_an_upload_larger_than_the_disk_gets_no_100_continue() {
    let server = TestServer::start();
    let (length, expect) = (
        ("Content-Length", "4611686018427387904"),
        ("Expect", "100-continue"),
    );
    for transport in TestTransport::HTTP1 {
        for path in ["/f", "/a/b/c"] {
            assert_eq!(
                first_status(&server, transport, path, &[length, expect]),
                507
            );
            assert_eq!(first_status(&server, transport, path, &[length]), 507);
        }
    }
    assert!(!server.root().join("a").exists());
}

#[test]
fn d5_encoded_bodies_are_refused() {
    let server = TestServer::start();
    for transport in TestTransport::ALL {
        for (coding, status) in [
            ("gzip", 415),
            ("identity, br", 415),
            ("GZIP", 415),
            ("identity", 201),
            ("Identity,", 201),
        ] {
            let response = server.put(transport, "/key", &[("Content-Encoding", coding)], b"x");
            assert_eq!(response.status, status, "{transport:?} {coding}");
            assert_eq!(server.read_file("key").is_some(), status == 201);
            if status == 415 {
                assert!(response.text().contains("without Content-Encoding"));
            } else {
                std::fs::remove_file(server.root().join("key")).unwrap();
            }
        }
    }
}

#[test]
fn d5_the_served_folder_itself_is_not_deleted() {
    let server = TestServer::start();
    for transport in TestTransport::ALL {
        let response = server.request(transport, "DELETE", "/", &[]);
        assert_eq!(response.status, 403, "{transport:?}");
        assert!(response.text().contains("the served folder itself"));
    }
    assert!(server.root().exists());
}

#[test]
fn d5_after_a_refusal_the_connection_closes_unless_the_body_was_read() {
    let server = TestServer::start();
    server.write_file("key", "old");
    let mut client = TestClient::connect_plain(&server);
    let fields = [
        ("Content-Length", "5"),
        ("If-None-Match", "*"),
        ("Expect", "100-continue"),
    ];
    client.send(request_head("PUT", "/key", &fields));
    let response = client.read_response_to("PUT");
    assert_eq!(response.status, 412);
    // The next bytes of the client may be the body, so the connection is closed.
    assert_eq!(response.header("connection"), Some("close"));
    assert!(
        client.try_send(request_head("GET", "/key", &[])).is_err()
            || client.read_until_closed().is_empty()
    );
    // After a body that was read, the connection stays open.
    let mut client = TestClient::connect_plain(&server);
    client
        .send(request_head(
            "PUT",
            "/key",
            &[("Content-Length", "5"), ("Content-MD5", MD5)],
        ))
        .send("HELLO");
    let response = client.read_response_to("PUT");
    assert_eq!(
        (response.status, response.header("connection")),
        (400, None)
    );
    assert_eq!(client.request("GET", "/key", &[]).text(), "old");
}

#[test]
fn d5_a_body_that_is_too_long_gets_413_even_while_it_is_sent() {
    let setup = ServerSetup {
        server: FileServerOptions {
            max_body: Some(1000),
            ..FileServerOptions::default()
        },
        ..ServerSetup::default()
    };
    let server = setup.start();
    server.write_file("key", "old");
    let body = vec![b'x'; 8 << 20];
    for transport in TestTransport::HTTP1 {
        let length = body.len().to_string();
        for (fields, body) in [
            (("Content-Length", &*length), body.clone()),
            (
                ("Transfer-Encoding", "chunked"),
                [b"800000\r\n", &body[..], b"\r\n0\r\n\r\n"].concat(),
            ),
        ] {
            let mut client = TestClient::connect(&server, transport);
            client.send(request_head("PUT", "/key", &[fields]));
            // The client sends the whole body although the server has refused it.
            if let Err(error) = client.try_send(&body) {
                assert!(
                    matches!(
                        error.kind(),
                        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
                    ),
                    "{error}"
                );
            }
            assert_eq!(
                client.read_response_to("PUT").status,
                413,
                "{transport:?} {fields:?}"
            );
            assert_eq!(server.read_file("key").unwrap(), b"old");
        }
    }
    for transport in [TestTransport::Http2, TestTransport::Http2Tls] {
        assert_eq!(
            server.put(transport, "/key", &[], &body).status,
            413,
            "{transport:?}"
        );
    }
    // A body of exactly the maximum length is accepted.
    assert_eq!(
        server
            .put(TestTransport::Plain, "/key", &[], &body[..1000])
            .status,
        204
    );
    assert_eq!(
        server
            .put(TestTransport::Plain, "/key", &[], &body[..1001])
            .status,
        413
    );
    wait_until("the temporary files are removed", || {
        server.temporary_files() == 0
    });
}
