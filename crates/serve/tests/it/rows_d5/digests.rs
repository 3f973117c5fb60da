//! D5: digests of an upload are compared, and stored.

use super::MD5;
use crate::client::TestTransport;
use crate::harness::{TestServer, wait_until};

/// The SHA-256 of "hello", in base64.
const SHA_256: &str = "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=";

#[test]
fn d5_uploads_with_a_wrong_digest_are_refused() {
    let server = TestServer::start();
    let (right, wrong) = (
        format!("sha-256=:{SHA_256}:"),
        format!("sha-256=:{}:", SHA_256.replace('L', "M")),
    );
    let cases: &[(&str, &str, bool)] = &[
        ("Content-MD5", MD5, true),
        ("Content-MD5", "XUFAKrxLKna5cZ2REBfFkQ==", false),
        ("Content-MD5", "short", false),
        ("Content-MD5", "", false),
        ("Content-Digest", &right, true),
        ("Content-Digest", &wrong, false),
        ("Content-Digest", "sha-256=:YQ==:", false),
        ("Content-Digest", "sha-256", false),
        ("Content-Digest", "no-such=:YQ==:", true),
        ("Repr-Digest", &right, true),
        ("Repr-Digest", &wrong, false),
    ];
    for transport in TestTransport::ALL {
        for (field, value, is_right) in cases {
            server.write_file("key", "old");
            let response = server.put(transport, "/key", &[(field, value)], b"hello");
            assert_eq!(
                response.status,
                if *is_right { 204 } else { 400 },
                "{transport:?} {field}: {value}"
            );
            let now: &[u8] = if *is_right { b"hello" } else { b"old" };
            assert_eq!(
                server.read_file("key").unwrap(),
                now,
                "{transport:?} {field}: {value}"
            );
        }
    }
    // Two digests, one of which is wrong.
    let fields = [("Content-MD5", MD5), ("Content-Digest", &wrong)];
    assert_eq!(
        server
            .put(TestTransport::Plain, "/fresh", &fields, b"hello")
            .status,
        400
    );
    assert!(server.read_file("fresh").is_none());
    // A large body is hashed chunk by chunk.
    let zeros = "sha-256=:MOFJVevOHSv34R7+Trk9RpoMM51xyuEWLjSwdBwyCKg=:";
    let response = server.put(
        TestTransport::Plain,
        "/fresh",
        &[("Content-Digest", zeros)],
        &vec![0; 1 << 20],
    );
    assert_eq!(response.status, 400);
    assert!(server.read_file("fresh").is_none());
    wait_until("the temporary files are removed", || {
        server.temporary_files() == 0
    });
}

#[test]
fn d5_a_matching_digest_is_stored_and_sent() {
    let server = TestServer::start();
    let digest = format!("sha-256=:{SHA_256}:");
    let put = server.put(
        TestTransport::Plain,
        "/key",
        &[("Content-Digest", &digest)],
        b"hello",
    );
    for transport in TestTransport::ALL {
        let response = server.request(transport, "GET", "/key", &[]);
        assert_eq!(response.header("etag"), put.header("etag"), "{transport:?}");
        assert_eq!(
            response.header("repr-digest"),
            put.header("repr-digest"),
            "{transport:?}"
        );
    }
    // Digests are stored only if the file system has extended attributes.
    let xattr_result = rustix::fs::setxattr(
        server.write_file("other", ""),
        "user.haul-test",
        b"x",
        rustix::fs::XattrFlags::empty(),
    );
    let stored_digest = put.header("repr-digest");
    assert_eq!(stored_digest, xattr_result.is_ok().then_some(&*digest));
    if stored_digest.is_some() {
        let again = server.put(
            TestTransport::Tls,
            "/key",
            &[("Content-Digest", &digest)],
            b"hello",
        );
        assert_eq!((again.status, again.etag()), (204, put.etag()));
        // Another program writes to the file, so the digest is no longer valid.
        server.write_file("key", "HELLO");
        let changed = server.get("/key");
        assert_eq!(changed.header("repr-digest"), None);
        assert_ne!(changed.etag(), put.etag());
    }
}
