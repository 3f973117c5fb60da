//! A store whose disk is slow: whoever waits for it, nobody else does.

use std::time::Duration;

use haul_plan::serving::TimeoutOptions;
use haul_serve::accept::AcceptStrategy;
use tokio::time::Instant;

use crate::client::{RequestPathway, TestClient, request};
use crate::harness::{ServerSetup, eventually, sample};
use crate::http2::frames::{BEGINNING, Http2Frame};
use crate::slow_disk::{CONTENT, SlowFilesystem};

#[test]
fn disk_work_never_blocks_a_reactor() {
    for accept in AcceptStrategy::ALL {
        let mut setup = ServerSetup::accept(accept);
        // So that there is nobody else to do the work.
        setup.crew.threads = 1;
        let served = setup.start();
        served.file("f", "here");
        served.file("large", vec![b'x'; 300_000]);
        let folder = served.root().join("slow");
        std::fs::create_dir(&folder).unwrap();
        let Some(disk) = SlowFilesystem::mount(&folder) else {
            return skipped();
        };
        let mut waiting = Vec::new();
        for road in RequestPathway::FIRST {
            for path in ["/slow/read", "/slow/found", "/slow/?format=json"] {
                let mut client = TestClient::on(&served, road);
                client.send(request("GET", path, &[]));
                waiting.push((client, path));
            }
        }
        // A file's pages and a folder's names are waited for by one for all.
        eventually("they wait for the disk", || disk.waiting() >= 3);
        for road in RequestPathway::ALL {
            for _ in 0..20 {
                assert_eq!(
                    served.ask(road, "GET", "/f", &[]).text(),
                    "here",
                    "{accept} {road:?}"
                );
            }
            assert_eq!(
                served.ask(road, "GET", "/large", &[]).body.len(),
                300_000,
                "{accept} {road:?}"
            );
            assert!([201, 204].contains(&served.put(road, "/put", &[], b"new").status));
            assert_eq!(served.ask(road, "GET", "/nowhere", &[]).status, 404);
        }
        for (client, path) in &mut waiting {
            // A file's head is known before its bytes.
            assert!(
                path.ends_with("read") || client.has_nothing(),
                "{accept} {path}"
            );
        }
        disk.open();
        for (client, path) in &mut waiting {
            let answer = client.answer();
            assert_eq!(answer.status, 200, "{accept} {path}");
            if !path.ends_with("json") {
                assert_eq!(answer.body, CONTENT, "{accept} {path}");
            }
        }
    }
}

/// Who waits for the disk is not a reader that is slow.
#[test]
fn d9_what_the_disk_takes_is_not_the_peers_time() {
    const GRACE: Duration = Duration::from_millis(100);
    let mut setup = ServerSetup::accept(AcceptStrategy::Single);
    setup.server.timeouts = TimeoutOptions {
        grace: GRACE,
        ..TimeoutOptions::default()
    };
    let served = setup.start();
    served.file("f", "here");
    let folder = served.root().join("slow");
    std::fs::create_dir(&folder).unwrap();
    let Some(disk) = SlowFilesystem::mount(&folder) else {
        return skipped();
    };
    let mut waiting: Vec<_> = RequestPathway::FIRST
        .map(|road| TestClient::on(&served, road))
        .into();
    for client in &mut waiting {
        client.send(request("GET", "/slow/read", &[]));
    }
    eventually("they wait for the disk", || disk.waiting() > 0);
    let began = Instant::now();
    while began.elapsed() < 5 * GRACE {
        assert_eq!(served.get("/f").text(), "here");
    }
    disk.open();
    for client in &mut waiting {
        assert_eq!(client.answer().body, CONTENT);
    }
}

/// Nobody is left to be answered, and still there was a request.
#[test]
fn who_leaves_while_the_disk_works_is_counted() {
    let (served, metrics) = ServerSetup::accept(AcceptStrategy::Single).counted();
    let folder = served.root().join("slow");
    std::fs::create_dir(&folder).unwrap();
    let Some(disk) = SlowFilesystem::mount(&folder) else {
        return skipped();
    };
    let gone = || {
        sample(
            &metrics,
            "haul_http_requests_total{method=\"GET\",code=\"4xx\"}",
        )
    };
    let mut client = TestClient::plain(&served);
    client
        .send(BEGINNING)
        .send(Http2Frame::get(1, "/slow/found").bytes());
    eventually("it waits for the disk", || disk.waiting() > 0);
    client.send(Http2Frame::reset(1).bytes());
    eventually("it is counted", || gone() == 1);
    assert!(disk.waiting() > 0, "it was not answered");
}

/// Said once, where the row has nothing to stand on.
#[expect(clippy::print_stderr, reason = "a test that shows nothing must say so")]
fn skipped() {
    eprintln!("no file system can be mounted here: the slow disk is not shown");
}
