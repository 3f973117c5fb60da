//! A disk that fails: nobody takes a part of something for all of it, and whoever runs the server learns why.

use crate::client::{RequestPathway, TestClient, request};
use crate::harness::{ServerSetup, TestServer, sample};
use crate::http2;
use crate::slow_disk::{BROKEN, SlowFilesystem};
use crate::told;

/// The status of an answer, and its body if that is whole.
fn asked(served: &TestServer, road: RequestPathway, path: &str) -> (u16, Option<Vec<u8>>) {
    if RequestPathway::FIRST.contains(&road) {
        let mut client = TestClient::on(served, road);
        client.send(request("GET", path, &[]));
        let head = client.head();
        return (head.status, client.body(&head, "GET").ok());
    }
    let (method, fields, body) = ("GET", &[][..], None);
    let asked = http2::TestHttp2Request {
        method,
        path,
        fields,
        body,
    };
    match http2::ask(served, road, &asked) {
        Ok(answer) => (answer.status, Some(answer.body)),
        Err(_) => (200, None),
    }
}

/// Serves a folder with things that fail in it, called `name`; none where nothing can be mounted.
fn with_broken(name: &str, served: &TestServer) -> Option<SlowFilesystem> {
    let folder = served.root().join(name);
    std::fs::create_dir(&folder).unwrap();
    SlowFilesystem::mount(&folder)
}

#[test]
fn an_archive_that_lacks_something_ends_without_an_end() {
    told::listen();
    let (served, metrics) = ServerSetup::default().counted();
    let Some(_disk) = with_broken("archived", &served) else {
        return skipped();
    };
    for (folder, name, errno) in BROKEN {
        let key = format!("/archived/{folder}");
        for road in RequestPathway::ALL {
            let (status, body) = asked(&served, road, &format!("{key}/?format=tar"));
            match folder {
                // What is missing lies behind what was sent.
                "torn" => assert_eq!((status, body), (200, None), "{road:?}"),
                "shut" | "barred" => assert_eq!(status, 403, "{road:?} {folder}"),
                _ => assert_eq!(status, 500, "{road:?} {folder}"),
            }
        }
        let told = told::of(&format!("folder={key} "));
        assert_eq!(told.len(), RequestPathway::ALL.len(), "{told:?}");
        // What the list had before it broke off is no part of the error.
        let path = match folder {
            "cut" => format!("{folder}/"),
            _ => format!("{folder}/{name}"),
        };
        let why = match errno {
            13 => "permission denied",
            _ => "Input/output error",
        };
        for told in told {
            let says = format!("error={path} cannot be read: {why}");
            assert!(told.starts_with("WARN ") && told.contains(&says), "{told}");
        }
    }
    let faults = sample(&metrics, "haul_errors_total{kind=\"disk\"}");
    assert_eq!(faults, 3 * RequestPathway::ALL.len() as u64);
}

#[test]
fn a_list_that_lacks_something_is_none() {
    told::listen();
    let served = TestServer::start();
    let Some(_disk) = with_broken("listed", &served) else {
        return skipped();
    };
    for (folder, is_listed) in [
        ("lost", false),
        ("cut", false),
        ("shut", true),
        ("barred", true),
    ] {
        for road in RequestPathway::ALL {
            for query in [
                "",
                "?format=json",
                "?format=json&sort=size",
                "?format=jsonl",
            ] {
                let path = format!("/listed/{folder}/{query}");
                let answer = asked(&served, road, &path);
                let is_whole = answer.0 == 200 && answer.1.is_some();
                assert_eq!(is_whole, is_listed, "{road:?} {path}: {answer:?}");
            }
        }
        let told = told::of(&format!("=/listed/{folder} "));
        let expected = if is_listed {
            0
        } else {
            4 * RequestPathway::ALL.len()
        };
        assert_eq!(told.len(), expected, "{told:?}");
        for told in told {
            assert!(told.contains("Input/output error"), "{told}");
        }
    }
}

/// Said once, where nothing can be shown.
#[expect(clippy::print_stderr, reason = "a test that shows nothing must say so")]
fn skipped() {
    eprintln!("no file system can be mounted here: the broken disk is not shown");
}
