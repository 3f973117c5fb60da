//! D5: conditions, digests and framing of uploads, and responses before the body is sent.
//!
//! `conditions` has conditional uploads, `digests` checks of the body, and `expect_continue`
//! responses before the body. This file covers framing, and paths to which no upload is possible.

mod conditions;
mod digests;
mod expect_continue;

use haul_serve::store::FileStoreOptions;

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{ServerSetup, TestServer};

/// The MD5 of "hello", in base64.
const MD5: &str = "XUFAKrxLKna5cZ2REBfFkg==";

#[test]
fn d5_uploads_of_every_framing() {
    let server = TestServer::start();
    for transport in TestTransport::HTTP1 {
        let mut client = TestClient::connect(&server, transport);
        client.send(request_head("PUT", "/none", &[]));
        assert!([201, 204, 411].contains(&client.read_response_to("PUT").status));
        client.send(request_head("PUT", "/empty", &[("Content-Length", "0")]));
        assert!([201, 204].contains(&client.read_response_to("PUT").status));
        assert_eq!(server.get("/empty").body, b"");
        client.send(request_head(
            "PUT",
            "/chunks",
            &[("Transfer-Encoding", "chunked")],
        ));
        for chunk in ["1\r\na\r\n", "a\r\n0123456789\r\n", "0\r\n\r\n"] {
            client.send(chunk);
        }
        assert!([201, 204].contains(&client.read_response_to("PUT").status));
        assert_eq!(server.get("/chunks").body, b"a0123456789");
    }
    for transport in TestTransport::ALL {
        let long = haul_lab::ResourceContent::random(5, 3_000_001).to_vec();
        assert!([201, 204].contains(&server.put(transport, "/long", &[], &long).status));
        assert!(server.read_file("long").unwrap() == long, "{transport:?}");
        assert!(
            server.request(transport, "GET", "/long", &[]).body == long,
            "{transport:?}"
        );
        let part = server.put(
            transport,
            "/part",
            &[("Content-Range", "bytes 0-1/5")],
            b"ab",
        );
        assert_eq!(part.status, 400, "{transport:?}");
        assert!(server.read_file("part").is_none());
    }
}

#[test]
fn d5_files_and_folders_do_not_replace_each_other() {
    let server = TestServer::start();
    server.write_file("folder/file", "inside");
    for transport in TestTransport::ALL {
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
            let status = server.put(transport, path, &[], b"x").status;
            assert!(expected.contains(&status), "{transport:?} {path}: {status}");
        }
        let response = server.request(transport, "DELETE", "/folder/", &[]);
        assert_eq!(
            response.status, 409,
            "{transport:?}: the folder is not empty"
        );
        assert_eq!(server.put(transport, "/a/b/c/d", &[], b"deep").status, 201);
        assert_eq!(
            server.request(transport, "GET", "/a/b/c/d", &[]).text(),
            "deep"
        );
        for path in ["/a/b/c/d", "/a/b/c/", "/a/b/", "/a/"] {
            assert_eq!(
                server.request(transport, "DELETE", path, &[]).status,
                204,
                "{transport:?} {path}"
            );
        }
        assert_eq!(server.request(transport, "DELETE", "/a", &[]).status, 404);
    }
    assert_eq!(server.read_file("folder/file").unwrap(), b"inside");
}

#[test]
fn d5_a_read_only_store_refuses_writes() {
    let setup = ServerSetup {
        store: FileStoreOptions::default(),
        ..ServerSetup::default()
    };
    let server = setup.start();
    server.write_file("key", "old");
    for transport in TestTransport::ALL {
        for method in ["PUT", "DELETE", "POST", "PATCH"] {
            for path in ["/key", "/fresh"] {
                let response = server.request(transport, method, path, &[]);
                assert_eq!(response.status, 405, "{transport:?} {method} {path}");
                assert_eq!(response.header("allow"), Some("GET, HEAD, OPTIONS"));
            }
        }
        assert_eq!(
            server.put(transport, "/key", &[], b"new").status,
            405,
            "{transport:?}"
        );
    }
    assert_eq!(server.read_file("key").unwrap(), b"old");
    assert!(!server.root().join(".haul").exists());
}
