//! D5: what an upload may ask for, and what is said before its body comes.
//!
//! `conditions` decide whether it is taken, `digests` whether it is what was sent, `asked_for` whether its body is wanted. Here is the rest: how
//! bodies are framed, and what no upload can make.

mod asked_for;
mod conditions;
mod digests;

use haul_serve::store::FileStoreOptions;

use crate::client::{RequestPathway, TestClient, request};
use crate::harness::{ServerSetup, TestServer};

/// A digest of "hello", in base64.
const MD5: &str = "XUFAKrxLKna5cZ2REBfFkg==";

#[test]
fn d5_uploads_of_every_framing() {
    let served = TestServer::start();
    for road in RequestPathway::FIRST {
        let mut client = TestClient::on(&served, road);
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
    for road in RequestPathway::ALL {
        let long = haul_lab::ResourceContent::random(5, 3_000_001).to_vec();
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
fn d5_a_file_is_no_folder_and_a_folder_no_file() {
    let served = TestServer::start();
    served.file("folder/file", "inside");
    for road in RequestPathway::ALL {
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
    let setup = ServerSetup {
        store: FileStoreOptions::default(),
        ..ServerSetup::default()
    };
    let served = setup.start();
    served.file("key", "old");
    for road in RequestPathway::ALL {
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
