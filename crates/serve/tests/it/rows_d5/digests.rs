//! D5: digests that come with an upload are compared, and kept.

use super::MD5;
use crate::client::RequestPathway;
use crate::harness::{TestServer, eventually};

/// A digest of "hello", in base64.
const SHA_256: &str = "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=";

#[test]
fn d5_digests_are_compared() {
    let served = TestServer::start();
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
    for road in RequestPathway::ALL {
        for (field, value, is_right) in cases {
            served.file("key", "old");
            let answer = served.put(road, "/key", &[(field, value)], b"hello");
            assert_eq!(
                answer.status,
                if *is_right { 204 } else { 400 },
                "{road:?} {field}: {value}"
            );
            let now: &[u8] = if *is_right { b"hello" } else { b"old" };
            assert_eq!(
                served.holds("key").unwrap(),
                now,
                "{road:?} {field}: {value}"
            );
        }
    }
    // Two of which one is wrong.
    let fields = [("Content-MD5", MD5), ("Content-Digest", &wrong)];
    assert_eq!(
        served
            .put(RequestPathway::Plain, "/fresh", &fields, b"hello")
            .status,
        400
    );
    assert!(served.holds("fresh").is_none());
    // A large body is hashed piece by piece.
    let zeros = "sha-256=:MOFJVevOHSv34R7+Trk9RpoMM51xyuEWLjSwdBwyCKg=:";
    let answer = served.put(
        RequestPathway::Plain,
        "/fresh",
        &[("Content-Digest", zeros)],
        &vec![0; 1 << 20],
    );
    assert_eq!(answer.status, 400);
    assert!(served.holds("fresh").is_none());
    eventually("temporaries are gone", || served.temporaries() == 0);
}

#[test]
fn d5_a_digest_that_was_compared_is_kept_and_told() {
    let served = TestServer::start();
    let digest = format!("sha-256=:{SHA_256}:");
    let put = served.put(
        RequestPathway::Plain,
        "/key",
        &[("Content-Digest", &digest)],
        b"hello",
    );
    for road in RequestPathway::ALL {
        let answer = served.ask(road, "GET", "/key", &[]);
        assert_eq!(answer.field("etag"), put.field("etag"), "{road:?}");
        assert_eq!(
            answer.field("repr-digest"),
            put.field("repr-digest"),
            "{road:?}"
        );
    }
    // Where files can have attributes, and only there.
    let keeps = rustix::fs::setxattr(
        served.file("other", ""),
        "user.haul-test",
        b"x",
        rustix::fs::XattrFlags::empty(),
    );
    let kept = put.field("repr-digest");
    assert_eq!(kept, keeps.is_ok().then_some(&*digest));
    if kept.is_some() {
        let again = served.put(
            RequestPathway::Tls,
            "/key",
            &[("Content-Digest", &digest)],
            b"hello",
        );
        assert_eq!((again.status, again.tag()), (204, put.tag()));
        // Somebody else writes to it: it is of those bytes no longer.
        served.file("key", "HELLO");
        let changed = served.get("/key");
        assert_eq!(changed.field("repr-digest"), None);
        assert_ne!(changed.tag(), put.tag());
    }
}
