//! Heads that others could read otherwise, and where they begin and end, however the bytes are cut.

use proptest::prelude::*;

use super::*;

fn judged(head: &str) -> Result<(), Ambiguous> {
    let mut watch = HeadWatch::default();
    watch.came(head.as_bytes());
    watch.head(Follows::Length(0))
}

#[test]
fn d10_what_could_be_read_otherwise_is_refused() {
    use Ambiguous::{BareLineFeed, BareReturn, Encoding, Host, Length, Lengths, Lost};
    let request = |fields: &str| format!("PUT / HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
    let cases = [
        (request("Content-Length: 1\r\n"), Ok(())),
        (request("Transfer-Encoding: chunked\r\n"), Ok(())),
        (
            request("X-Content-Length: 1\r\nContent-Length: 1\r\n"),
            Ok(()),
        ),
        (
            request("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
            Err(Lengths),
        ),
        (
            request("transfer-encoding: chunked\r\ncontent-length: 1\r\n"),
            Err(Lengths),
        ),
        (
            request("Content-Length: 1\r\nContent-Length: 1\r\n"),
            Err(Lengths),
        ),
        (request("Content-Length: 1, 1\r\n"), Err(Length)),
        (request("Content-Length: +1\r\n"), Err(Length)),
        (request("Content-Length:\r\n"), Err(Length)),
        (
            request("Transfer-Encoding: chunked\r\nTransfer-Encoding: Chunked\r\n"),
            Err(Lengths),
        ),
        (request("X: 1\nY: 2\r\n"), Err(BareLineFeed)),
        (request("X: 1\rY: 2\r\n"), Err(BareReturn)),
        ("GET / HTTP/1.1\n\n".to_owned(), Err(BareLineFeed)),
        (
            "GET / HTTP/1.1\r\nHost: x\r\n\n".to_owned(),
            Err(BareLineFeed),
        ),
        ("GET / HTTP/1.1\r\nHost".to_owned(), Err(Lost)),
        (
            request("Transfer-Encoding: gzip, chunked\r\n"),
            Err(Encoding),
        ),
        (request("Transfer-Encoding: ,chunked\r\n"), Err(Encoding)),
        (request("Transfer-Encoding:\tCHUNKED \r\n"), Ok(())),
        (request("Host: x\r\n"), Err(Host)),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), Err(Host)),
        ("\r\nGET / HTTP/1.0\r\n\r\n".to_owned(), Ok(())),
        (
            "GET / HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n".to_owned(),
            Err(Host),
        ),
    ];
    for (head, expected) in cases {
        assert_eq!(judged(&head), expected, "{head:?}");
    }
}

#[test]
fn d10_a_host_is_a_host() {
    for host in [
        "",
        "x",
        "a-b.example",
        "127.0.0.1:80",
        "[::1]",
        "[::1]:80",
        "a_b",
        "x:",
        "%41",
    ] {
        assert!(is_host(host.as_bytes()), "{host}");
    }
    for host in [
        "a b", "a/b", "u@h", "x:y", "x:1:2", "[::1", "[::1]x", "::1", "a\0", "\u{e4}", "a?b",
        "a, b",
    ] {
        assert!(!is_host(host.as_bytes()), "{host}");
    }
}

#[test]
fn d10_nothing_is_looked_at_after_chunks() {
    let mut watch = HeadWatch::default();
    watch.came(b"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab");
    assert_eq!(watch.head(Follows::Chunks), Ok(()));
    watch.came(b"cde\n\n");
    assert!(!watch.has_begun());
}

#[test]
fn a_connection_begins_once() {
    let mut watch = HeadWatch::default();
    assert!(watch.is_at_beginning());
    watch.came(b"PRI * HTTP/2.0\r\n\r\n");
    assert!(watch.is_at_beginning());
    for follows in [Follows::Length(0), Follows::Chunks] {
        let mut watch = HeadWatch::default();
        watch.came(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(watch.head(follows), Ok(()));
        assert!(!watch.is_at_beginning());
    }
}

proptest! {
    /// However the bytes are cut, each head is found after the body before it, and a bad one is the one that is refused.
    #[test]
    fn heads_are_found_between_bodies(
        bodies in prop::collection::vec(0_usize..300, 1..8),
        cuts in prop::collection::vec(1_usize..200, 1..60),
        bad in 0_usize..8,
    ) {
        let mut stream = Vec::new();
        // Where each head ends: hyper asks when it has all of it.
        let mut ends = Vec::new();
        for (index, body) in bodies.iter().enumerate() {
            let end = if index == bad { "\n" } else { "\r\n" };
            stream.extend(format!("PUT /{index} HTTP/1.1\r\nHost: x\r\nX: 1{end}Content-Length: {body}\r\n\r\n").into_bytes());
            ends.push(stream.len());
            // Bodies that look like heads.
            stream.extend(b"\r\n\r\nGET / HTTP/1.1\n\n".iter().cycle().take(*body));
        }
        let (mut watch, mut came, mut asked) = (HeadWatch::default(), 0, 0);
        for cut in cuts.iter().cycle() {
            let next = (came + cut).min(stream.len());
            watch.came(&stream[came..next]);
            came = next;
            while asked < ends.len() && ends[asked] <= came {
                let judged = watch.head(Follows::Length(bodies[asked] as u64));
                prop_assert_eq!(judged.is_err(), asked == bad);
                asked += 1;
            }
            if came == stream.len() {
                break;
            }
        }
        prop_assert_eq!(asked, ends.len());
        prop_assert!(!watch.has_begun());
    }
}
