//! Idle connections: which events wake their tasks.
//!
//! A connection that wakes needlessly releases its buffers again at once, so the number of releases
//! shows needless wake-ups.

use std::time::Duration;

use haul_serve::accept::AcceptStrategy;
use haul_serve::{FileServerOptions, TimeoutOptions};

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{LIMIT, ServerSetup, TestServer, wait_until};

const SHORT: Duration = Duration::from_millis(500);

fn start_server(options: FileServerOptions) -> TestServer {
    let mut setup = ServerSetup::with_strategy(AcceptStrategy::Single);
    setup.server = options;
    let server = setup.start();
    server.write_file("f", "here");
    server
}

/// Waits for the first release and serves other clients for a while, in which no further release
/// may happen.
#[track_caller]
fn assert_one_release(server: &TestServer, before: u64) {
    wait_until("the idle connection has released its buffers", || {
        server.idle_releases() > before
    });
    let mut other = TestClient::connect_plain(server);
    for _ in 0..100 {
        assert_eq!(other.request("GET", "/f", &[]).text(), "here");
    }
    let releases = server.idle_releases() - before;
    assert!(releases <= 2, "the buffers were released {releases} times");
}

#[test]
fn d9_the_head_timeout_applies_to_an_incomplete_second_head() {
    let server = start_server(FileServerOptions {
        timeouts: TimeoutOptions {
            request_head: SHORT,
            idle: LIMIT,
            ..TimeoutOptions::default()
        },
        ..FileServerOptions::default()
    });
    for transport in TestTransport::HTTP1 {
        let before = server.idle_releases();
        let mut client = TestClient::connect(&server, transport);
        client.send(request_head("GET", "/f", &[]) + "G");
        assert_eq!(client.read_response().text(), "here");
        wait_until("the connection times out", || client.has_ended());
        assert!(
            client.read_until_closed().starts_with(b"HTTP/1.1 408"),
            "{transport:?}"
        );
        assert_eq!(server.idle_releases() - before, 0, "{transport:?}");
    }
}

/// Some clients send an extra empty line after a body (RFC 9112 2.2).
#[test]
fn d9_empty_lines_between_requests_are_ignored() {
    let server = start_server(FileServerOptions {
        timeouts: TimeoutOptions {
            request_head: SHORT,
            idle: 2 * SHORT,
            ..TimeoutOptions::default()
        },
        ..FileServerOptions::default()
    });
    let body = request_head("PUT", "/new", &[("Content-Length", "4")]) + "body";
    for transport in TestTransport::HTTP1 {
        for (with_body, after_body) in [("\r\n", ""), ("", "\r\n"), ("\r\n", "\r\n")] {
            let before = server.idle_releases();
            let mut client = TestClient::connect(&server, transport);
            client.send(body.clone() + with_body);
            assert!([201, 204].contains(&client.read_response_to("PUT").status));
            client.send(after_body);
            assert_one_release(&server, before);
            assert_eq!(
                client.request("GET", "/new", &[]).text(),
                "body",
                "{transport:?}"
            );
            client.send("\r\n");
            wait_until("the idle connection times out", || client.has_ended());
            assert_eq!(client.read_until_closed(), b"", "{transport:?}");
            // The buffers are released after each request, and after each empty line that woke the connection.
            let releases = server.idle_releases() - before;
            assert!(
                releases <= 4,
                "{transport:?}: the buffers were released {releases} times"
            );
        }
    }
}

/// A connection over its rate limit waits on a timer instead of polling.
#[test]
fn d9_an_idle_connection_waits_for_its_rate_limit_on_a_timer() {
    let server = start_server(FileServerOptions {
        connection_rate: Some(100_000),
        ..FileServerOptions::default()
    });
    for transport in TestTransport::HTTP1 {
        let before = server.idle_releases();
        let mut client = TestClient::connect(&server, transport);
        client.send(request_head(
            "PUT",
            "/large",
            &[("Content-Length", "60000")],
        ));
        client.send(vec![b'x'; 60_000]);
        assert!([201, 204].contains(&client.read_response_to("PUT").status));
        client.send(request_head("GET", "/f", &[]));
        assert_eq!(client.read_response().text(), "here");
        assert!(server.idle_releases() - before <= 1, "{transport:?}");
    }
}
