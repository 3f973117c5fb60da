//! Idle connections: what wakes them, and what does not.
//!
//! A connection that wakes in vain releases its buffers again at once, and wakes again: the count
//! of releases shows that.

use std::time::Duration;

use haul_plan::serving::TimeoutOptions;
use haul_serve::FileServerOptions;
use haul_serve::accept::AcceptStrategy;

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{LIMIT, ServerSetup, TestServer, eventually};

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
    eventually("it rests", || server.idle_releases() > before);
    let mut other = TestClient::connect_plain(server);
    for _ in 0..100 {
        assert_eq!(other.request("GET", "/f", &[]).text(), "here");
    }
    let rests = server.idle_releases() - before;
    assert!(rests <= 2, "it rested {rests} times");
}

#[test]
fn d9_a_partial_next_head_has_the_head_timeout() {
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
        eventually("it is given up", || client.has_ended());
        assert!(
            client.read_until_closed().starts_with(b"HTTP/1.1 408"),
            "{transport:?}"
        );
        assert_eq!(server.idle_releases() - before, 0, "{transport:?}");
    }
}

/// For clients that end a body with an extra empty line (RFC 9112 2.2).
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
        for (with, behind) in [("\r\n", ""), ("", "\r\n"), ("\r\n", "\r\n")] {
            let before = server.idle_releases();
            let mut client = TestClient::connect(&server, transport);
            client.send(body.clone() + with);
            assert!([201, 204].contains(&client.read_response_to("PUT").status));
            client.send(behind);
            assert_one_release(&server, before);
            assert_eq!(
                client.request("GET", "/new", &[]).text(),
                "body",
                "{transport:?}"
            );
            client.send("\r\n");
            eventually("it is given up as one that is idle", || client.has_ended());
            assert_eq!(client.read_until_closed(), b"", "{transport:?}");
            // After each request, and after each empty line that woke it.
            let rests = server.idle_releases() - before;
            assert!(rests <= 4, "{transport:?}: it rested {rests} times");
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
