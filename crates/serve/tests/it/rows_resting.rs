//! Connections on which nothing happens for a while: what wakes them, and what does not.
//!
//! One that is woken for nothing rests again at once, and is woken again: that shows in how often connections came to rest.

use std::time::Duration;

use haul_plan::serving::TimeoutOptions;
use haul_serve::FileServerOptions;
use haul_serve::accept::AcceptStrategy;

use crate::client::{RequestPathway, TestClient, request};
use crate::harness::{LIMIT, ServerSetup, TestServer, eventually};

const SHORT: Duration = Duration::from_millis(500);

fn served(options: FileServerOptions) -> TestServer {
    let mut setup = ServerSetup::accept(AcceptStrategy::Single);
    setup.server = options;
    let served = setup.start();
    served.file("f", "here");
    served
}

/// Waits for the first rest and serves others for a while, in which nobody else rests.
#[track_caller]
fn rests_once(served: &TestServer, before: u64) {
    eventually("it rests", || served.rests() > before);
    let mut other = TestClient::plain(served);
    for _ in 0..100 {
        assert_eq!(other.ask("GET", "/f", &[]).text(), "here");
    }
    let rests = served.rests() - before;
    assert!(rests <= 2, "it rested {rests} times");
}

#[test]
fn d9_a_part_of_the_next_head_is_waited_for_as_one() {
    let served = served(FileServerOptions {
        timeouts: TimeoutOptions {
            request_head: SHORT,
            idle: LIMIT,
            ..TimeoutOptions::default()
        },
        ..FileServerOptions::default()
    });
    for road in RequestPathway::FIRST {
        let before = served.rests();
        let mut client = TestClient::on(&served, road);
        client.send(request("GET", "/f", &[]) + "G");
        assert_eq!(client.answer().text(), "here");
        eventually("it is given up", || client.has_ended());
        assert!(client.until_gone().starts_with(b"HTTP/1.1 408"), "{road:?}");
        assert_eq!(served.rests() - before, 0, "{road:?}");
    }
}

/// Of clients that end a body with an empty line, which is nobody's (RFC 9112 2.2).
#[test]
fn d9_empty_lines_between_requests_are_nothing() {
    let served = served(FileServerOptions {
        timeouts: TimeoutOptions {
            request_head: SHORT,
            idle: 2 * SHORT,
            ..TimeoutOptions::default()
        },
        ..FileServerOptions::default()
    });
    let body = request("PUT", "/new", &[("Content-Length", "4")]) + "body";
    for road in RequestPathway::FIRST {
        for (with, behind) in [("\r\n", ""), ("", "\r\n"), ("\r\n", "\r\n")] {
            let before = served.rests();
            let mut client = TestClient::on(&served, road);
            client.send(body.clone() + with);
            assert!([201, 204].contains(&client.answer_to("PUT").status));
            client.send(behind);
            rests_once(&served, before);
            assert_eq!(client.ask("GET", "/new", &[]).text(), "body", "{road:?}");
            client.send("\r\n");
            eventually("it is given up as one that is idle", || client.has_ended());
            assert_eq!(client.until_gone(), b"", "{road:?}");
            // After each request, and after what woke it for nothing.
            let rests = served.rests() - before;
            assert!(rests <= 4, "{road:?}: it rested {rests} times");
        }
    }
}

/// What it received at once is to be made up for by waiting, and not by looking again and again.
#[test]
fn d9_a_limit_of_rate_is_waited_out_at_rest() {
    let served = served(FileServerOptions {
        connection_rate: Some(100_000),
        ..FileServerOptions::default()
    });
    for road in RequestPathway::FIRST {
        let before = served.rests();
        let mut client = TestClient::on(&served, road);
        client.send(request("PUT", "/large", &[("Content-Length", "60000")]));
        client.send(vec![b'x'; 60_000]);
        assert!([201, 204].contains(&client.answer_to("PUT").status));
        client.send(request("GET", "/f", &[]));
        assert_eq!(client.answer().text(), "here");
        assert!(served.rests() - before <= 1, "{road:?}");
    }
}
