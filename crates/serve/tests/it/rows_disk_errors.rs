//! Disk errors: a partial response never looks complete, and the error is logged.

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{ServerSetup, TestServer, metric};
use crate::http2;
use crate::log_capture;
use crate::slow_filesystem::{BROKEN, SlowFilesystem};

/// The status of a response, and its body if that is complete.
fn request(server: &TestServer, transport: TestTransport, path: &str) -> (u16, Option<Vec<u8>>) {
    if TestTransport::HTTP1.contains(&transport) {
        let mut client = TestClient::connect(server, transport);
        client.send(request_head("GET", path, &[]));
        let head = client.read_head();
        return (head.status, client.read_body(&head, "GET").ok());
    }
    let (method, fields, body) = ("GET", &[][..], None);
    let request = http2::TestHttp2Request {
        method,
        path,
        fields,
        body,
    };
    match http2::request(server, transport, &request) {
        Ok(response) => (response.status, Some(response.body)),
        Err(_) => (200, None),
    }
}

/// Mounts a file system with broken files at the folder `name`. `None` if the test may not mount one.
fn mount_broken(name: &str, server: &TestServer) -> Option<SlowFilesystem> {
    let folder = server.root().join(name);
    std::fs::create_dir(&folder).unwrap();
    SlowFilesystem::mount(&folder)
}

#[test]
fn an_incomplete_archive_has_no_end_marker() {
    log_capture::install();
    let (server, metrics) = ServerSetup::default().start_with_metrics();
    let Some(_disk) = mount_broken("archived", &server) else {
        return print_skipped();
    };
    for (folder, name, errno) in BROKEN {
        let key = format!("/archived/{folder}");
        for transport in TestTransport::ALL {
            let (status, body) = request(&server, transport, &format!("{key}/?format=tar"));
            match folder {
                // The missing bytes come after those that were sent.
                "torn" => assert_eq!((status, body), (200, None), "{transport:?}"),
                "shut" | "barred" => assert_eq!(status, 403, "{transport:?} {folder}"),
                _ => assert_eq!(status, 500, "{transport:?} {folder}"),
            }
        }
        let events = log_capture::events_containing(&format!("folder={key} "));
        assert_eq!(events.len(), TestTransport::ALL.len(), "{events:?}");
        // The error of a listing is logged with the path of the folder, not of an entry.
        let path = match folder {
            "cut" => format!("{folder}/"),
            _ => format!("{folder}/{name}"),
        };
        let reason = match errno {
            13 => "permission denied",
            _ => "Input/output error",
        };
        for events in events {
            let message = format!("error={path} cannot be read: {reason}");
            assert!(
                events.starts_with("WARN ") && events.contains(&message),
                "{events}"
            );
        }
    }
    let faults = metric(&metrics, "haul_errors_total{kind=\"disk\"}");
    assert_eq!(faults, 3 * TestTransport::ALL.len() as u64);
}

#[test]
fn an_incomplete_listing_ends_with_an_error() {
    log_capture::install();
    let server = TestServer::start();
    let Some(_disk) = mount_broken("listed", &server) else {
        return print_skipped();
    };
    for (folder, is_listed) in [
        ("lost", false),
        ("cut", false),
        ("shut", true),
        ("barred", true),
    ] {
        for transport in TestTransport::ALL {
            for query in [
                "",
                "?format=json",
                "?format=json&sort=size",
                "?format=jsonl",
            ] {
                let path = format!("/listed/{folder}/{query}");
                let response = request(&server, transport, &path);
                let is_whole = response.0 == 200 && response.1.is_some();
                assert_eq!(is_whole, is_listed, "{transport:?} {path}: {response:?}");
            }
        }
        let events = log_capture::events_containing(&format!("=/listed/{folder} "));
        let expected = if is_listed {
            0
        } else {
            4 * TestTransport::ALL.len()
        };
        assert_eq!(events.len(), expected, "{events:?}");
        for events in events {
            assert!(events.contains("Input/output error"), "{events}");
        }
    }
}

/// Prints, once, that the test was skipped because it may not mount a file system.
#[expect(clippy::print_stderr, reason = "a skipped test must be visible")]
fn print_skipped() {
    eprintln!("no file system can be mounted here: the broken disk is not shown");
}
