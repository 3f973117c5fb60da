//! A slow disk delays only the requests that need it.

use std::time::Duration;

use haul_serve::TimeoutOptions;
use haul_serve::accept::AcceptStrategy;
use tokio::time::Instant;

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{ServerSetup, metric, wait_until};
use crate::http2::frames::{Http2Frame, PREFACE};
use crate::slow_filesystem::{CONTENT, SlowFilesystem};

#[test]
fn a_slow_disk_never_blocks_a_reactor() {
    for accept in AcceptStrategy::ALL {
        let mut setup = ServerSetup::with_strategy(accept);
        // With one thread, a blocked reactor would block all connections.
        setup.workers.threads = 1;
        let server = setup.start();
        server.write_file("f", "here");
        server.write_file("large", vec![b'x'; 300_000]);
        let folder = server.root().join("slow");
        std::fs::create_dir(&folder).unwrap();
        let Some(disk) = SlowFilesystem::mount(&folder) else {
            return print_skipped();
        };
        let mut waiting = Vec::new();
        for transport in TestTransport::HTTP1 {
            for path in ["/slow/read", "/slow/found", "/slow/?format=json"] {
                let mut client = TestClient::connect(&server, transport);
                client.send(request_head("GET", path, &[]));
                waiting.push((client, path));
            }
        }
        // One thread reads the pages of a file, and one the names of a folder, for all requests.
        wait_until("they wait for the disk", || disk.waiting() >= 3);
        for transport in TestTransport::ALL {
            for _ in 0..20 {
                assert_eq!(
                    server.request(transport, "GET", "/f", &[]).text(),
                    "here",
                    "{accept} {transport:?}"
                );
            }
            assert_eq!(
                server.request(transport, "GET", "/large", &[]).body.len(),
                300_000,
                "{accept} {transport:?}"
            );
            assert!([201, 204].contains(&server.put(transport, "/put", &[], b"new").status));
            assert_eq!(
                server.request(transport, "GET", "/nowhere", &[]).status,
                404
            );
        }
        for (client, path) in &mut waiting {
            // The response head is sent before the file is read.
            assert!(
                path.ends_with("read") || client.has_nothing(),
                "{accept} {path}"
            );
        }
        disk.open();
        for (client, path) in &mut waiting {
            let response = client.read_response();
            assert_eq!(response.status, 200, "{accept} {path}");
            if !path.ends_with("json") {
                assert_eq!(response.body, CONTENT, "{accept} {path}");
            }
        }
    }
}

#[test]
fn d9_waiting_for_the_disk_does_not_count_as_a_slow_client() {
    const GRACE: Duration = Duration::from_millis(100);
    let mut setup = ServerSetup::with_strategy(AcceptStrategy::Single);
    setup.server.timeouts = TimeoutOptions {
        grace: GRACE,
        ..TimeoutOptions::default()
    };
    let server = setup.start();
    server.write_file("f", "here");
    let folder = server.root().join("slow");
    std::fs::create_dir(&folder).unwrap();
    let Some(disk) = SlowFilesystem::mount(&folder) else {
        return print_skipped();
    };
    let mut waiting: Vec<_> = TestTransport::HTTP1
        .map(|transport| TestClient::connect(&server, transport))
        .into();
    for client in &mut waiting {
        client.send(request_head("GET", "/slow/read", &[]));
    }
    wait_until("they wait for the disk", || disk.waiting() > 0);
    let started = Instant::now();
    while started.elapsed() < 5 * GRACE {
        assert_eq!(server.get("/f").text(), "here");
    }
    disk.open();
    for client in &mut waiting {
        assert_eq!(client.read_response().body, CONTENT);
    }
}

/// A request is counted even if its client has disconnected.
#[test]
fn a_client_that_disconnects_during_a_disk_read_is_counted() {
    let (server, metrics) = ServerSetup::with_strategy(AcceptStrategy::Single).start_with_metrics();
    let folder = server.root().join("slow");
    std::fs::create_dir(&folder).unwrap();
    let Some(disk) = SlowFilesystem::mount(&folder) else {
        return print_skipped();
    };
    let client_errors = || {
        metric(
            &metrics,
            "haul_http_requests_total{method=\"GET\",code=\"4xx\"}",
        )
    };
    let mut client = TestClient::connect_plain(&server);
    client
        .send(PREFACE)
        .send(Http2Frame::get(1, "/slow/found").bytes());
    wait_until("it waits for the disk", || disk.waiting() > 0);
    client.send(Http2Frame::reset(1).bytes());
    wait_until("the metric is updated", || client_errors() == 1);
    assert!(disk.waiting() > 0, "it was not answered");
}

/// Prints, once, that the test was skipped because it may not mount a file system.
#[expect(clippy::print_stderr, reason = "a skipped test must be visible")]
fn print_skipped() {
    eprintln!("no file system can be mounted here: the slow disk is not shown");
}
