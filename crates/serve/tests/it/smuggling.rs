//! D10: request smuggling: requests that two programs could parse differently.
//!
//! A second request, `PUT /smuggled`, follows each of them on the same connection. A proxy that
//! sees the end of the first request elsewhere would not see the second one. So an ambiguous request
//! gets one response, 400, and then the connection is closed; the second request gets no response
//! and is not executed. After an unambiguous request both get responses, which shows that
//! `/smuggled` would be created.
//!
//! This file has the check and the unambiguous requests. The others are in `framing` (lengths and
//! encodings), `chunks` (their syntax, and bodies that look like requests) and `heads` (lines,
//! fields, hosts).

mod chunks;
mod framing;
mod heads;

use crate::client::{TestClient, TestTransport};
use crate::harness::TestServer;

/// The second request, which must not be executed.
const SECOND: &str = "PUT /smuggled HTTP/1.1\r\nHost: store.test\r\nContent-Length: 1\r\n\r\nx";

/// The last request, which closes a connection that is still open.
const LAST: &str = "GET /last HTTP/1.1\r\nHost: store.test\r\nConnection: close\r\n\r\n";

/// The expected result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedResponse {
    /// A response with this status, and then the connection is closed.
    Refused(u16),
    /// A response with one of these statuses, and then the connection is closed.
    RefusedBy(&'static [u16]),
    /// A successful response, and then the second and the last request get theirs.
    Both,
    /// Like `Refused`, but the first request may be executed.
    ResponseThenClose(u16),
    /// A response, after which the connection may be closed or not: the request is unambiguous.
    ResponseOrClose(u16),
}

use ExpectedResponse::{Both, Refused, RefusedBy, ResponseOrClose, ResponseThenClose};

/// A PUT with these raw headers and this body.
fn put(fields: &str, body: &str) -> String {
    format!("PUT /f HTTP/1.1\r\nHost: store.test\r\n{fields}\r\n{body}")
}

/// The same in chunks.
fn chunks(body: &str) -> String {
    put("Transfer-Encoding: chunked\r\n", body)
}

/// A GET with these raw headers.
fn get(fields: &str) -> String {
    format!("GET /there HTTP/1.1\r\n{fields}\r\n")
}

/// Sends each request and the second one after it, at once and byte by byte.
#[track_caller]
fn check_all(cases: &[(&str, String, ExpectedResponse)]) {
    let mut wrong = Vec::new();
    for (name, first, expected) in cases {
        for (transport, step) in [
            (TestTransport::Plain, usize::MAX),
            (TestTransport::Plain, 1),
            (TestTransport::Tls, usize::MAX),
        ] {
            // Long requests are not sent byte by byte.
            if step == 1 && first.len() > 1000 {
                continue;
            }
            let server = TestServer::start();
            server.write_file("there", "there");
            if let Err(what) = check_one(&server, transport, first, step, *expected) {
                wrong.push(format!("{name} ({transport:?}, {step}): {what}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn check_one(
    server: &TestServer,
    transport: TestTransport,
    first: &str,
    step: usize,
    expected: ExpectedResponse,
) -> Result<(), String> {
    let mut client = TestClient::connect(server, transport);
    let all = format!("{first}{SECOND}{LAST}");
    for chunk in all.as_bytes().chunks(step.min(all.len())) {
        // The server may have refused the request and closed the connection.
        if client.try_send(chunk).is_err() {
            break;
        }
    }
    let responses = client.read_to_end();
    let text = String::from_utf8_lossy(&responses).into_owned();
    let statuses: Vec<u16> = text
        .match_indices("HTTP/1.")
        .map(|(at, _)| text[at + 9..at + 12].parse().unwrap())
        .collect();
    let is_smuggled = server.read_file("smuggled").is_some();
    let is_right = match expected {
        Refused(status) => statuses == [status] && !is_smuggled,
        RefusedBy(allowed) => statuses.len() == 1 && allowed.contains(&statuses[0]) && !is_smuggled,
        Both => {
            statuses.len() == 3 && statuses[0] < 300 && statuses[1..] == [201, 404] && is_smuggled
        }
        ResponseThenClose(status) => statuses == [status] && !is_smuggled,
        ResponseOrClose(status) if is_smuggled => statuses == [status, 201, 404],
        ResponseOrClose(status) => statuses == [status],
    };
    // A refused request has changed nothing.
    let is_clean =
        !matches!(expected, Refused(_) | RefusedBy(_)) || server.read_file("f").is_none();
    if is_right && is_clean {
        Ok(())
    } else {
        Err(format!(
            "{expected:?}, but {statuses:?}, smuggled: {is_smuggled}, put: {:?}",
            server.read_file("f")
        ))
    }
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
#[test]
fn d10_two_unambiguous_requests_both_get_responses() {
    check_all(&[
        ("a length", put("Content-Length: 3\r\n", "abc"), Both),
        (
            "a length with zeros",
            put("Content-Length: 003\r\n", "abc"),
            ResponseOrClose(201),
        ),
        ("no body", get("Host: x\r\n"), Both),
        (
            "empty lines before",
            format!("\r\n\r\n{}", get("Host: x\r\n")),
            Both,
        ),
        (
            "chunks",
            chunks("3\r\nabc\r\n0\r\n\r\n"),
            ResponseOrClose(201),
        ),
        (
            "chunks in capitals",
            chunks("A\r\n0123456789\r\n0\r\n\r\n"),
            ResponseOrClose(201),
        ),
        (
            "chunks with zeros",
            chunks("0003\r\nabc\r\n000\r\n\r\n"),
            ResponseOrClose(201),
        ),
        (
            "an extension",
            chunks("3;a=b;c=\"d e\"\r\nabc\r\n0\r\n\r\n"),
            ResponseOrClose(201),
        ),
        (
            "trailers",
            chunks("3\r\nabc\r\n0\r\nX: y\r\n\r\n"),
            ResponseOrClose(201),
        ),
        (
            "the encoding in capitals",
            put("TRANSFER-ENCODING: CHUNKED\r\n", "0\r\n\r\n"),
            ResponseOrClose(201),
        ),
        (
            "another host in the target",
            "GET http://other.test/there HTTP/1.1\r\nHost: store.test\r\n\r\n".into(),
            Both,
        ),
        (
            "close",
            get("Host: x\r\nConnection: close\r\n"),
            ResponseThenClose(200),
        ),
        (
            "close in a list",
            get("Host: x\r\nConnection: x, Close\r\n"),
            ResponseThenClose(200),
        ),
        (
            "HTTP/1.0",
            "GET /there HTTP/1.0\r\n\r\n".into(),
            ResponseThenClose(200),
        ),
    ]);
}
