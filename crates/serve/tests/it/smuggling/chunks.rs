//! D10: chunks are read by the letter, what follows them is none of them, and a body stays one, whatever it says.

use std::io::Write as _;

use super::ExpectedResponse::{Either, Refused};
use super::{LAST, SECOND, chunks, judge};
use crate::client::{TestClient, find};
use crate::harness::TestServer;

#[test]
fn d10_chunks_are_read_by_the_letter() {
    let end = "0\r\n\r\n";
    let bodies = [
        ("0x", format!("0x3\r\nabc\r\n{end}")),
        ("a sign", format!("+3\r\nabc\r\n{end}")),
        ("less than none", format!("-3\r\nabc\r\n{end}")),
        ("no digits", format!("\r\nabc\r\n{end}")),
        ("no digits, an extension", format!(";a\r\nabc\r\n{end}")),
        ("no hexadecimal", format!("g\r\nabc\r\n{end}")),
        (
            "2 to the 64th and 3",
            format!("10000000000000003\r\nabc\r\n{end}"),
        ),
        ("many digits", format!("fffffffffffffffff\r\nabc\r\n{end}")),
        ("space before", format!(" 3\r\nabc\r\n{end}")),
        ("space within", format!("3 3\r\nabc\r\n{end}")),
        ("bare LF after the length", format!("3\nabc\r\n{end}")),
        ("bare LF after the data", format!("3\r\nabc\n{end}")),
        ("bare LF at the end", "3\r\nabc\r\n0\n\n".to_owned()),
        ("bare LF in an extension", format!("3;a\nb\r\nabc\r\n{end}")),
        ("bare CR after the length", format!("3\rabc\r\n{end}")),
        ("bare CR in an extension", format!("3;a\rb\r\nabc\r\n{end}")),
        ("no line's end after the data", format!("3\r\nabc{end}")),
        ("more data than told", format!("3\r\nabcd\r\n{end}")),
        ("less data than told", format!("4\r\nabc\r\n{end}")),
        (
            "an extension without end",
            format!("3;{}\r\nabc\r\n{end}", "a".repeat(100_000)),
        ),
        (
            "trailers without end",
            format!("3\r\nabc\r\n0\r\n{}\r\n", "X: y\r\n".repeat(20_000)),
        ),
        (
            "trailers that are none",
            "3\r\nabc\r\n0\r\nnone\r\n\r\n".to_owned(),
        ),
        (
            "trailers with bare LF",
            "3\r\nabc\r\n0\r\nX: y\nZ: a\r\n\r\n".to_owned(),
        ),
    ];
    let cases = bodies.map(|(name, body)| (name, chunks(&body), Refused(400)));
    judge(&cases);
}

#[test]
fn d10_trailers_are_no_fields() {
    let trailers = [
        "Content-Length: 99",
        "Transfer-Encoding: chunked",
        "Host: other",
        "Content-Range: bytes 0-1/2",
        "If-None-Match: *",
    ];
    let cases = trailers.map(|line| {
        (
            "a trailer",
            chunks(&format!("3\r\nabc\r\n0\r\n{line}\r\n\r\n")),
            Either(201),
        )
    });
    judge(&cases);
}

/// Where the next head begins, only whoever has read the chunks knows.
#[test]
fn d10_after_chunks_nothing_is_taken() {
    for (name, second) in [
        ("sound", SECOND.to_owned()),
        (
            "a length and chunks",
            SECOND.replace("\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n")
                + "\r\n0\r\n\r\n",
        ),
        ("bare LF", SECOND.replace("\r\n", "\n")),
    ] {
        let served = TestServer::start();
        let mut client = TestClient::plain(&served);
        client.send(chunks("3\r\nabc\r\n0\r\n\r\n") + &second);
        assert_eq!(
            client.answer_to("PUT").field("connection"),
            Some("close"),
            "{name}"
        );
        client.ends();
        assert!(served.holds("smuggled").is_none(), "{name}");
    }
}

/// A body that says that it is a request stays a body.
#[test]
fn d10_a_body_is_no_request() {
    let served = TestServer::start();
    let mut client = TestClient::plain(&served);
    let mut all = Vec::new();
    for index in 0..50 {
        write!(
            all,
            "PUT /{index} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{SECOND}",
            SECOND.len()
        )
        .unwrap();
    }
    client.send(&all);
    for _ in 0..50 {
        assert_eq!(client.answer_to("PUT").status, 201);
    }
    assert!(served.holds("smuggled").is_none());
    for index in 0..50 {
        let held = served.holds(&index.to_string()).unwrap();
        assert!(find(&held, SECOND.as_bytes()) == Some(0) && held.len() == SECOND.len());
    }
}

/// A GET's body is read past, not answered (RFC 9110 9.3.1).
#[test]
fn d10_a_body_that_nobody_asked_for_is_no_request() {
    for (method, path, fine) in [
        ("GET", "/there", 200),
        ("HEAD", "/there", 200),
        ("DELETE", "/nowhere", 404),
        ("OPTIONS", "/", 204),
        ("POST", "/x", 405),
    ] {
        let served = TestServer::start();
        served.file("there", "there");
        let mut client = TestClient::plain(&served);
        client.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{SECOND}",
            SECOND.len()
        ));
        let answer = client.answer_to(method);
        assert!(
            answer.status == fine || method == "POST" && answer.status >= 400,
            "{method}: {answer:?}"
        );
        // It is read past, or the connection ends.
        if client.try_send(LAST).is_ok() {
            let rest = client.rest();
            assert!(
                rest.is_empty() || rest.starts_with(b"HTTP/1.1 404"),
                "{method}"
            );
        }
        assert!(served.holds("smuggled").is_none(), "{method}");
    }
}
