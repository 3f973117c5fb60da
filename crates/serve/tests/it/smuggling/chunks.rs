//! D10: chunks are parsed strictly, nothing after a chunked body is accepted, and a body is never
//! taken for a request.

use std::io::Write as _;

use super::ExpectedResponse::{Refused, ResponseOrClose};
use super::{LAST, SECOND, check_all, chunks};
use crate::client::{TestClient, find};
use crate::harness::TestServer;

#[test]
fn d10_chunks_are_parsed_strictly() {
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
    check_all(&cases);
}

#[test]
fn d10_trailers_are_ignored() {
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
            ResponseOrClose(201),
        )
    });
    check_all(&cases);
}

/// Another program may see the end of the chunked body elsewhere, so the connection is closed after it.
#[test]
fn d10_nothing_is_accepted_after_a_chunked_body() {
    for (name, second) in [
        ("sound", SECOND.to_owned()),
        (
            "a length and chunks",
            SECOND.replace("\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n")
                + "\r\n0\r\n\r\n",
        ),
        ("bare LF", SECOND.replace("\r\n", "\n")),
    ] {
        let server = TestServer::start();
        let mut client = TestClient::connect_plain(&server);
        client.send(chunks("3\r\nabc\r\n0\r\n\r\n") + &second);
        assert_eq!(
            client.read_response_to("PUT").header("connection"),
            Some("close"),
            "{name}"
        );
        client.assert_closed();
        assert!(server.read_file("smuggled").is_none(), "{name}");
    }
}

/// A body that looks like a request stays a body.
#[test]
fn d10_a_body_is_not_taken_for_a_request() {
    let server = TestServer::start();
    let mut client = TestClient::connect_plain(&server);
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
        assert_eq!(client.read_response_to("PUT").status, 201);
    }
    assert!(server.read_file("smuggled").is_none());
    for index in 0..50 {
        let held = server.read_file(&index.to_string()).unwrap();
        assert!(find(&held, SECOND.as_bytes()) == Some(0) && held.len() == SECOND.len());
    }
}

/// The body of a GET is skipped, not executed (RFC 9110 9.3.1).
#[test]
fn d10_the_body_of_a_get_is_not_taken_for_a_request() {
    for (method, path, fine) in [
        ("GET", "/there", 200),
        ("HEAD", "/there", 200),
        ("DELETE", "/nowhere", 404),
        ("OPTIONS", "/", 204),
        ("POST", "/x", 405),
    ] {
        let server = TestServer::start();
        server.write_file("there", "there");
        let mut client = TestClient::connect_plain(&server);
        client.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{SECOND}",
            SECOND.len()
        ));
        let response = client.read_response_to(method);
        assert!(
            response.status == fine || method == "POST" && response.status >= 400,
            "{method}: {response:?}"
        );
        // The body is skipped, or the connection is closed.
        if client.try_send(LAST).is_ok() {
            let rest = client.read_to_end();
            assert!(
                rest.is_empty() || rest.starts_with(b"HTTP/1.1 404"),
                "{method}"
            );
        }
        assert!(server.read_file("smuggled").is_none(), "{method}");
    }
}
